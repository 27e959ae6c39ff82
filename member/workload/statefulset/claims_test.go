package statefulset

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
)

// claiming makes the only container mount claims of these templates.
func claiming(names ...string) func(*appsv1beta1.StatefulSetSpec) {
	return func(s *appsv1beta1.StatefulSetSpec) {
		s.VolumeClaimTemplates = nil
		for _, name := range names {
			s.VolumeClaimTemplates = append(s.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
			c := &s.Template.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
		}
	}
}

func TestPodsBelowThePartitionHaveTheClaimsOfTheirRevision(t *testing.T) {
	t.Parallel()
	set := func(image string, claims ...string) *testkit.StatefulSetBuilder {
		return testkit.StatefulSet("web").Replicas(2).Image(image).Partition(2).Spec(claiming(claims...))
	}
	observe := func() *stage { return observedOf(t, set("app:2", "data"), set("app:1", "data", "logs")).pod(0, "0") }
	creates := func(p planned) []podset.Step {
		return slices.DeleteFunc(slices.Clone(p.Steps), func(s podset.Step) bool { return s.Kind != rollout.StepCreate })
	}

	s := observe()
	p := plan(s.observed, now)
	require.Len(t, creates(p), 1)
	require.True(t, creates(p)[0].Old)
	template, err := revision.PodTemplate(p.Current)
	require.NoError(t, err)
	made := podCreates(s.observed, &p.Plan, now)(creates(p)[0], p.Current.Name, template)
	require.Len(t, made.Pod.Spec.Volumes, 2)
	require.Equal(t, "logs-web-1", made.Pod.Spec.Volumes[1].PersistentVolumeClaim.ClaimName)
	require.Len(t, made.PVCs, 2)
	require.Equal(t, "logs-web-1", made.PVCs[1].Name)

	pvc := made.PVCs[1].DeepCopy()
	pvc.DeletionTimestamp = new(metav1.NewTime(start))
	pvc.Finalizers = []string{"example.com/hold"}
	s.pvcs[pvc.Name] = pvc
	p = plan(s.observed, now)
	require.Empty(t, creates(p), "it waits for a PVC that is being deleted, whose template the spec no longer has")
	require.Contains(t, p.stalledPVC.Message, "pod web-1 is waiting for the deletion of PVC logs-web-1")

	s = observe()
	delete(s.history[0].Annotations, keys.VolumeClaimTemplates)
	p = plan(s.observed, now)
	require.Empty(t, creates(p))
	require.Equal(t, podset.ReasonClaimTemplateGone, p.Stalled.Reason)
	require.True(t, p.Stalled.Scale)
}
