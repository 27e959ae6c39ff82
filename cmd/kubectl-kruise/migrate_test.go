package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// deployment returns a Deployment with 4 pods.
func deployment(change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: "demo", Namespace: "default", Labels: map[string]string{"team": "a"}, Finalizers: []string{"example.com/wait"},
			Annotations: map[string]string{
				"deployment.kubernetes.io/revision": "3", "kubectl.kubernetes.io/last-applied-configuration": "{}", "meta.helm.sh/release-name": "shop",
				"argocd.argoproj.io/tracking-id": "shop", "example.com/owner": "joe",
			},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(4)), Selector: demo().Spec.Selector, Template: pod("nginx:1"), MinReadySeconds: 5,
			RevisionHistoryLimit: new(int32(7)), ProgressDeadlineSeconds: new(int32(600)), Paused: true,
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromString("25%")), MaxSurge: new(intstr.FromInt32(1))},
			},
		},
	}
	for _, c := range change {
		c(d)
	}
	return d
}

func TestMigrateCreates(t *testing.T) {
	t.Parallel()
	k := newCluster(t, deployment())
	out, err := run(t, k, "migrate", "CloneSet", "--from", "Deployment", "--src-name", "demo", "--create")
	require.NoError(t, err)
	require.Equal(t, "cloneset.apps.kruise.io/demo created\n", out)
	set := storedCloneSet(t, k)
	require.Empty(t, cmp.Diff(appsv1beta1.CloneSetSpec{
		Replicas: new(int32(0)), Selector: demo().Spec.Selector, Template: pod("nginx:1"), MinReadySeconds: 5,
		RevisionHistoryLimit: new(int32(7)), ProgressDeadlineSeconds: new(int32(600)),
		UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{
			Type: appsv1beta1.CloneSetRollingUpdate,
			RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
				PodUpdatePolicy: appsv1beta1.PodReCreate, Paused: true, MaxUnavailable: new(intstr.FromString("25%")), MaxSurge: new(intstr.FromInt32(1)),
			},
		},
	}, set.Spec))
	require.Equal(t, map[string]string{"team": "a"}, set.Labels)
	require.Equal(t, map[string]string{"example.com/owner": "joe"}, set.Annotations, "annotations of tools are not copied")
	require.Empty(t, set.Finalizers, "finalizers are not copied")

	_, err = run(t, k, "migrate", "CloneSet", "--from", "Deployment", "--src-name", "demo", "--create")
	require.ErrorContains(t, err, "already exists; without --create, pods are moved to it")
	_, err = run(t, k, "migrate", "CloneSet", "--from", "Deployment", "--src-name", "other", "--create")
	require.ErrorContains(t, err, "get Deployment other")
}

func TestMigrateCopiesReplicas(t *testing.T) {
	t.Parallel()
	k := newCluster(t, deployment(func(d *appsv1.Deployment) {
		d.Name, d.Spec.Strategy = "old", appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}))
	out, err := run(t, k, "migrate", "cloneset", "--from", "deployment", "--src-name", "old", "--dst-name", "demo", "--create", "--copy")
	require.NoError(t, err)
	require.Equal(t, "cloneset.apps.kruise.io/demo created\n", out)
	require.Equal(t, int32(4), *storedCloneSet(t, k).Spec.Replicas)
	require.Equal(t, "100%", storedCloneSet(t, k).Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String(), "all old pods are deleted at once, as by Recreate")
}

func TestMigrateTakes(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"--from Deployment":                                  "--src-name: name the Deployment",
		"--from Deployment --src-name demo --copy":           "--copy requires --create",
		"--from Deployment --src-name demo --dry-run=client": "--dry-run requires --create",
		"--from Deployment --src-name demo --max-surge 0":    "--max-surge=0",
		"--from Deployment --src-name demo --replicas 0":     "--replicas=0",
		"--from Deployment --src-name demo --replicas 5":     "--replicas=5: Deployment demo has 4",
		"--from Deployment --src-name demo --dst-name none":  "get CloneSet none",
	} {
		_, err := run(t, migratable(t, deployment(), demo()), append([]string{"migrate", "CloneSet"}, strings.Fields(args)...)...)
		require.ErrorContains(t, err, says, args)
	}
}

// migratable returns a cluster whose controllers create and delete pods at once.
func migratable(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return clusterBuilder(t, objects...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceGet: func(ctx context.Context, c client.Client, _ string, o, size client.Object, _ ...client.SubResourceGetOption) error {
			now := &unstructured.Unstructured{}
			now.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
				return err
			}
			replicas, _, err := unstructured.NestedInt64(now.Object, "spec", "replicas")
			size.(*unstructured.Unstructured).Object["spec"] = map[string]any{"replicas": replicas}
			return err
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			asked := &client.SubResourceUpdateOptions{}
			asked.ApplyOptions(opts)
			n, _, err := unstructured.NestedInt64(asked.SubResourceBody.(*unstructured.Unstructured).Object, "spec", "replicas")
			if err != nil {
				return err
			}
			now := &unstructured.Unstructured{}
			now.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
				return err
			}
			for _, at := range [][]string{{"spec", "replicas"}, {"status", "replicas"}, {"status", "availableReplicas"}} {
				if err := unstructured.SetNestedField(now.Object, n, at...); err != nil {
					return err
				}
			}
			return c.Update(ctx, now)
		},
	}).Build()
}

func TestMigrateMoves(t *testing.T) {
	t.Parallel()
	k := migratable(t, deployment(), demo())
	out, err := run(t, k, "migrate", "CloneSet", "--from", "Deployment", "--src-name", "demo", "--replicas", "3", "--max-surge", "2")
	require.NoError(t, err)
	require.Equal(t, "CloneSet demo +2, Deployment demo -0\nCloneSet demo +2, Deployment demo -2\nCloneSet demo +3, Deployment demo -2\n"+
		"CloneSet demo +3, Deployment demo -3\npods migrated: 3, from Deployment demo to CloneSet demo\n", out)
	require.Equal(t, int32(8), *storedCloneSet(t, k).Spec.Replicas)
	d := &appsv1.Deployment{}
	require.NoError(t, k.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, d))
	require.Equal(t, int32(1), *d.Spec.Replicas)
}

// The move continues if a controller writes a status between the read and the write of a size.
func TestMigrateGoesOnAfterConflicts(t *testing.T) {
	t.Parallel()
	conflicts := map[string]int{}
	k := interceptor.NewClient(migratable(t, deployment(), demo()), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			kind := o.GetObjectKind().GroupVersionKind().Kind
			if conflicts[kind]++; conflicts[kind] == 1 {
				return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("the object has been modified"))
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	})
	out, err := run(t, k, "migrate", "CloneSet", "--from", "Deployment", "--src-name", "demo", "--replicas", "1")
	require.NoError(t, err)
	require.Equal(t, "CloneSet demo +1, Deployment demo -0\nCloneSet demo +1, Deployment demo -1\n"+
		"pods migrated: 1, from Deployment demo to CloneSet demo\n", out)
	require.Equal(t, map[string]int{"CloneSet": 2, "Deployment": 2}, conflicts)
}

func TestMigrateEnds(t *testing.T) {
	t.Parallel()
	waiting := demo(func(set *appsv1beta1.CloneSet) { set.Status.AvailableReplicas = 0; set.Generation = 9 })
	_, err := run(t, migratable(t, deployment(), waiting), "migrate", "CloneSet", "--from", "Deployment", "--src-name", "demo", "--timeout-seconds", "0")
	require.ErrorContains(t, err, "stopped: CloneSet demo has grown by 0 pods and Deployment demo shrunk by 0, of 4; to continue, scale Deployment demo to 4")

	meddled := interceptor.NewClient(migratable(t, deployment(), demo()), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if err := c.SubResource(sub).Update(ctx, o, opts...); err != nil {
				return err
			}
			d := &appsv1.Deployment{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "demo"}, d); err != nil {
				return err
			}
			d.Spec.Replicas = new(int32(9))
			return c.Update(ctx, d)
		},
	})
	_, err = run(t, meddled, "migrate", "CloneSet", "--from", "Deployment", "--src-name", "demo")
	require.ErrorContains(t, err, "Deployment demo has 9 replicas, not 4 as this command left it")
}

func TestNextStepOfAMove(t *testing.T) {
	t.Parallel()
	at := func(replicas, available int32) size {
		return size{replicas: replicas, available: available, current: true}
	}
	for _, c := range []struct {
		name                string
		done                progress
		want, surge         int32
		source, destination size
		next                step
	}{
		{"the destination grows first", progress{}, 4, 1, at(4, 4), at(0, 0), step{out: 1}},
		{"the destination does not grow beyond the desired replicas", progress{}, 2, 9, at(4, 4), at(0, 0), step{out: 2}},
		{"the source waits for pods of the destination", progress{out: 1}, 4, 1, at(4, 4), at(1, 0), step{}},
		{"the source shrinks when they are available", progress{out: 1}, 4, 1, at(4, 4), at(1, 1), step{in: 1}},
		{"then the destination grows again", progress{out: 1, in: 1}, 4, 1, at(3, 3), at(1, 1), step{out: 1}},
		{"with room left the destination grows first", progress{out: 1}, 4, 2, at(4, 4), at(1, 1), step{out: 1}},
		{"the last pods leave the source", progress{out: 4, in: 3}, 4, 1, at(1, 1), at(4, 4), step{in: 1}},
		{"waits until the controller has seen the source's size", progress{}, 4, 1, size{replicas: 4}, at(0, 0), step{}},
		{"waits until the controller has seen the destination's size", progress{out: 1}, 4, 1, at(4, 4), size{replicas: 1, available: 1}, step{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.next, c.done.next(c.want, c.surge, c.source, c.destination))
		})
	}
}
