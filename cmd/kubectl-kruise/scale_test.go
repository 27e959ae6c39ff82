package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// scalable returns a cluster that serves the scale of demo, and creates follow pods when it is set.
func scalable(t *testing.T, follow int32) client.WithWatch {
	t.Helper()
	return clusterBuilder(t, demo()).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceGet: func(ctx context.Context, c client.Client, _ string, o, size client.Object, _ ...client.SubResourceGetOption) error {
			set := &appsv1beta1.CloneSet{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), set); err != nil {
				return err
			}
			size.(*unstructured.Unstructured).Object["spec"] = map[string]any{"replicas": int64(*set.Spec.Replicas)}
			size.(*unstructured.Unstructured).Object["status"] = map[string]any{"replicas": int64(set.Status.Replicas)}
			return nil
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			asked := &client.SubResourceUpdateOptions{}
			asked.ApplyOptions(opts)
			n, _, err := unstructured.NestedInt64(asked.SubResourceBody.(*unstructured.Unstructured).Object, "spec", "replicas")
			if err != nil || len(asked.DryRun) > 0 {
				return err
			}
			set := &appsv1beta1.CloneSet{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), set); err != nil {
				return err
			}
			set.Spec.Replicas, set.Status.Replicas = new(int32(n)), follow
			return c.Update(ctx, set)
		},
	}).Build()
}

func TestScale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, args string
		follow     int32
		out, err   string
		want       int32
	}{
		{"the size is set without waiting", "--replicas 7", 5, "cloneset.apps.kruise.io/demo scaled\n", "", 7},
		{"the printed object has the new size", "--replicas 7 -o yaml", 5, "\n  replicas: 7\n", "", 7},
		{"a dry run on the client shows the size and does not change it", "--replicas 7 -o yaml --dry-run=client", 5, "\n  replicas: 7\n", "", 5},
		{"a dry run on the server does not change it", "--replicas 7 --dry-run=server", 5, "demo scaled (server dry run)\n", "", 5},
		{"a dry run does not wait for pods", "--replicas 7 --dry-run=server --timeout 1m", 5, "demo scaled", "", 5},
		{"the command waits for the pods if asked to", "--replicas 7 --timeout 1m", 7, "demo scaled\n", "", 7},
		{"a wait has a timeout", "--replicas 7 --timeout 10ms", 6, "", "clonesets/demo was scaled, but after 10ms it has 6 of 7 pods", 7},
		{"the current size may be a condition", "--replicas 7 --current-replicas 5", 5, "demo scaled\n", "", 7},
		{"another size than the condition is refused", "--replicas 7 --current-replicas 4", 5, "", "has 5 replicas, not 4 as --current-replicas says", 5},
		{"a negative size is refused", "--replicas -1", 5, "", "--replicas=-1: must be 0 or more", 5},
		{"a negative condition is refused", "--replicas 1 --current-replicas -2", 5, "", "--current-replicas=-2", 5},
		{"a size is required", "", 5, "", `required flag(s) "replicas" not set`, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scalable(t, c.follow)
			out, err := run(t, s, append([]string{"scale", "clone/demo"}, strings.Fields(c.args)...)...)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
				require.Contains(t, out, c.out)
			}
			require.Equal(t, c.want, *storedCloneSet(t, s).Spec.Replicas)
		})
	}
}
