//go:build e2e

package suite

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// sidecars waits until a SidecarSet has acted on its spec and counts that many ready pods with its sidecars, and that many of them with the
// current ones.
func (s *scene) sidecars(set client.Object, matched, updated int32) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		current := &appsv1beta1.SidecarSet{}
		if err := env.East.Client.Get(ctx, client.ObjectKeyFromObject(set), current); err != nil {
			return err.Error()
		}
		st := current.Status
		if st.ObservedGeneration != current.Generation || st.MatchedPods != matched || st.ReadyPods != matched || st.UpdatedPods != updated ||
			st.UpdatedReadyPods != updated {
			return fmt.Sprintf("SidecarSet of generation %d: %+v, not %d matched and %d updated", current.Generation, st, matched, updated)
		}
		return ""
	})
}

// addSidecar creates a SidecarSet in east, and deletes it when the test ends.
func (s *scene) addSidecar(set client.Object) {
	s.Helper()
	require.NoError(s, env.East.Client.Create(s.ctx, set))
	s.Cleanup(func() {
		require.NoError(s, client.IgnoreNotFound(env.East.Client.Delete(context.WithoutCancel(s.ctx), set)))
	})
	s.sidecars(set, 0, 0)
}

func TestSidecarSetIsInjectedAndUpdatedInBothVersions(t *testing.T) {
	s := parallel(t)
	const pods = 5
	shops := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}
	log := &appsv1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: appsv1beta1.SidecarSetSpec{
			Selector: shops, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			Containers: []appsv1beta1.SidecarContainer{{Container: corev1.Container{Name: "log", Image: "registry.example/log:1.0"}}},
			UpdateStrategy: appsv1beta1.SidecarSetUpdateStrategy{
				Partition: new(intstr.FromString("60%")), MaxUnavailable: new(intstr.FromInt32(2)),
			},
		},
	}
	former := &appsv1alpha1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-former"},
		Spec: appsv1alpha1.SidecarSetSpec{
			Selector: shops, Namespace: s.namespace,
			Containers: []appsv1beta1.SidecarContainer{{
				Container:       corev1.Container{Name: "proxy", Image: "registry.example/proxy:1.0"},
				PodInjectPolicy: appsv1beta1.AfterAppContainer,
			}},
		},
	}
	s.addSidecar(log)
	s.addSidecar(former)
	also := log.DeepCopy()
	also.ResourceVersion, also.Name = "", s.namespace+"-also"
	err := env.East.Client.Create(t.Context(), also)
	require.ErrorContains(t, err, "spec.containers[0].name")
	require.ErrorContains(t, err, "SidecarSet "+log.Name+" has a container with this name")

	s.apply(env.East, "cloneset.yaml")
	s.cloneSet("shop", pods)
	s.sidecars(log, pods, pods)
	s.sidecars(former, pods, pods)
	names := func(p corev1.Pod) []string {
		var out []string
		for _, c := range p.Spec.Containers {
			out = append(out, c.Name)
		}
		return out
	}
	before := s.pods(env.East, "shop")
	for _, p := range before {
		require.Equal(t, []string{"log", "app", "proxy"}, names(p))
	}
	said := s.plugin("explain", "pod", before[0].Name)
	require.Regexp(t, "(?m)^SidecarSet: .*"+log.Name+" adds log .*; "+former.Name+" adds proxy", said)

	edit := func(change func(*appsv1beta1.SidecarSet)) {
		t.Helper()
		require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := env.East.Client.Get(t.Context(), client.ObjectKeyFromObject(log), log); err != nil {
				return err
			}
			change(log)
			return env.East.Client.Update(t.Context(), log)
		}))
	}
	const fresh = "registry.example/log:2.0"
	edit(func(set *appsv1beta1.SidecarSet) { set.Spec.Containers[0].Image = fresh })
	s.sidecars(log, pods, 2)
	edit(func(set *appsv1beta1.SidecarSet) { set.Spec.UpdateStrategy.Partition = nil })
	s.sidecars(log, pods, pods)
	s.sidecars(former, pods, pods)
	for _, p := range s.pods(env.East, "shop") {
		i := slices.IndexFunc(before, func(old corev1.Pod) bool { return old.UID == p.UID })
		require.GreaterOrEqual(t, i, 0, "the pods are the same")
		for _, c := range p.Status.ContainerStatuses {
			old := slices.IndexFunc(before[i].Status.ContainerStatuses, func(o corev1.ContainerStatus) bool { return o.Name == c.Name })
			switch c.Name {
			case "log":
				require.Equal(t, fresh, c.Image)
			default:
				require.Equal(t, before[i].Status.ContainerStatuses[old].State, c.State, c.Name)
			}
		}
	}
	require.NoError(t, env.East.Client.Delete(t.Context(), log))
	s.cloneSet("shop", pods)
	require.Equal(t, []string{"log", "app", "proxy"}, names(s.pods(env.East, "shop")[0]), "a SidecarSet that is deleted leaves its sidecars")
}
