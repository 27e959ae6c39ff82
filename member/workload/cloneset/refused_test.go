package cloneset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

// sets returns the CloneSets of a file in testdata, in order.
func sets(t *testing.T, file string) []*appsv1beta1.CloneSet {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	var out []*appsv1beta1.CloneSet
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 1<<12); ; {
		set := &appsv1beta1.CloneSet{}
		err := d.Decode(set)
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		if set.Kind == Kind().Kind {
			set.UID = owner
			out = append(out, set)
		}
	}
}

// A refused pod is retried with the same name. With a different name, each attempt would have a different message. Writing it to the status
// would immediately trigger the next attempt and another event, and would create and remove other PVCs.
func TestRefusedPodIsTriedAgainUnderItsName(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]*testkit.CloneSetBuilder{
		"without PVCs": nil, "with PVCs": web(4).PVCs("data"), "with PVCs that are reused": web(4).PVCs("data").Reuse(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := sets(t, "quota.yaml")[0]
			if set != nil {
				object = set.Obj()
			}
			limit, created, statuses, pvcs, deleted := 2, 0, 0, 0, 0
			s := newStage(t, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					switch o.(type) {
					case *corev1.Pod:
						if created == limit {
							return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), fmt.Errorf(
								"exceeded quota: few, requested: pods=1, used: pods=%d, limited: pods=%d", created, limit))
						}
						created++
					case *corev1.PersistentVolumeClaim:
						pvcs++
					}
					return c.Create(ctx, o, opts...)
				},
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					deleted++
					return c.Delete(ctx, o, opts...)
				},
				SubResourcePatch: func(
					ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
				) error {
					if _, ok := o.(*appsv1beta1.CloneSet); ok {
						statuses++
					}
					return c.SubResource(sub).Patch(ctx, o, p, opts...)
				},
			}, object)
			for range 3 {
				_, err := s.reconcile(t)
				require.ErrorContains(t, err, "exceeded quota")
			}
			before, made := statuses, pvcs
			events := map[string]bool{}
			for range 5 {
				_, err := s.reconcile(t)
				require.ErrorContains(t, err, "exceeded quota")
				lines := s.sent.Lines()
				events[lines[len(lines)-1]] = true
			}
			require.Equal(t, before, statuses, "the condition stays as it is")
			require.Len(t, events, 1, "one event, which is sent again")
			require.Equal(t, made, pvcs, "no other PVC is created")
			require.Zero(t, deleted, "no PVC is deleted")

			limit = 4
			_, err := s.reconcile(t)
			require.NoError(t, err)
			require.Len(t, s.pods(t), 4)
			_, err = s.reconcile(t)
			require.NoError(t, err)
			var claims corev1.PersistentVolumeClaimList
			require.NoError(t, s.api.List(t.Context(), &claims))
			require.Len(t, claims.Items, len(object.Spec.VolumeClaimTemplates)*4, "one PVC for each pod and no others")
		})
	}
}

// A webhook may refuse a pod with a different text each time, for example with a time in it. If each text were written, the write would
// immediately trigger the next attempt.
func TestARefusalWithAnotherTextEachTimeIsWrittenOnceInAWhile(t *testing.T) {
	t.Parallel()
	attempts, statuses := 0, 0
	s := newStage(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*corev1.Pod); !ok {
				return c.Create(ctx, o, opts...)
			}
			attempts++
			return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), fmt.Errorf("refused by request %d", attempts))
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			statuses++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}, web(4).Obj())
	message := func() string {
		for _, c := range s.get(t).Status.Conditions {
			if c.Type == appsv1beta1.CloneSetFailedScale {
				return c.Message
			}
		}
		return ""
	}
	for range 5 {
		_, err := s.reconcile(t)
		require.ErrorContains(t, err, "refused by request")
	}
	require.Equal(t, 5, attempts)
	require.Equal(t, 1, statuses, "the failure is written once, not each new message")
	require.Contains(t, message(), "refused by request 1")

	s.clock.SetTime(now.Add(time.Minute))
	_, err := s.reconcile(t)
	require.Error(t, err)
	require.Contains(t, message(), "refused by request 6", "the message is updated after a while")
	require.Equal(t, 2, statuses)
}

// The PVCs of a refused pod are removed once the pod is no longer wanted.
func TestPVCsOfARefusedPodGoIfItIsNotWanted(t *testing.T) {
	t.Parallel()
	s := newStage(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*corev1.Pod); ok {
				return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New("exceeded quota"))
			}
			return c.Create(ctx, o, opts...)
		},
	}, web(1).PVCs("data").Obj())
	_, err := s.reconcile(t)
	require.Error(t, err)
	set := s.get(t)
	set.Spec.Replicas = new(int32(0))
	require.NoError(t, s.api.Update(t.Context(), set))
	_, err = s.reconcile(t)
	require.NoError(t, err)
	var claims corev1.PersistentVolumeClaimList
	require.NoError(t, s.api.List(t.Context(), &claims))
	require.Empty(t, claims.Items)
}
