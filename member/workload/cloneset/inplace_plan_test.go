package cloneset

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
)

// sized sets the cpu request of the template's container.
func sized(cpu string) func(*appsv1beta1.CloneSetSpec) {
	return func(s *appsv1beta1.CloneSetSpec) {
		s.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

// reading makes the container read the annotation config by env.
func reading(config string) func(*appsv1beta1.CloneSetSpec) {
	return func(s *appsv1beta1.CloneSetSpec) {
		s.Template.Annotations = map[string]string{"config": config}
		s.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CONFIG", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['config']"},
		}}}
	}
}

func TestPlanOfInPlaceUpdates(t *testing.T) {
	t.Parallel()
	plain := func(*appsv1beta1.CloneSetSpec) {}
	for _, tc := range []struct {
		name     string
		from, to func(*appsv1beta1.CloneSetSpec)
		policy   appsv1beta1.PodUpdatePolicy
		gates    gates
		edits    inplace.Options
		daemons  map[string]bool
		// history changes the old and the new revision.
		history func(from, to *appsv1.ControllerRevision)
		why     string
		quiet   bool
		gated   bool
	}{
		{
			name: "an image is updated with the gate closed", from: plain, gated: true,
			to: func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = "app:2" },
		},
		{
			name: "metadata restarts no container", from: plain, quiet: true,
			to: func(s *appsv1beta1.CloneSetSpec) { s.Template.Annotations = map[string]string{"note": "two"} },
		},
		{
			name: "resources are not changed in place unless the gate says so", from: sized("1"), to: sized("2"),
			why: "container app: resources changed", gated: true,
		},
		{
			name: "a resize restarts nothing, so the pod stays in service", from: sized("1"), to: sized("2"),
			edits: inplace.Options{Resources: true},
		},
		{
			name: "without pods/resize in the apiserver the pod is re-created, and the reason says so", from: sized("1"), to: sized("2"),
			edits: inplace.Options{Resources: true, NoResize: true}, gated: true,
			why: "container app: resources changed, and the apiserver doesn't serve pods/resize (Kubernetes 1.33 or later)",
		},
		{
			name: "without pods/resize other changes are still made in place", from: sized("1"), gated: true,
			to: func(s *appsv1beta1.CloneSetSpec) {
				sized("1")(s)
				s.Template.Spec.Containers[0].Image = "app:2"
			},
			edits: inplace.Options{Resources: true, NoResize: true},
		},
		{
			name: "B 29: env from metadata is not changed in place where no node daemon is alive", from: reading("one"), to: reading("two"),
			edits: inplace.Options{Env: true}, gated: true,
			why: "container app reads annotation config by env CONFIG, and its node has no daemon that could restart it",
		},
		{
			name: "B 29: env from metadata is changed in place where a node daemon is alive, and the pod is not ready meanwhile", from: reading("one"), to: reading("two"),
			edits: inplace.Options{Env: true}, daemons: map[string]bool{"node-1": true}, gated: true,
		},
		{
			name: "B 29: env from metadata is not changed in place where only another node has a node daemon", from: reading("one"), to: reading("two"),
			edits: inplace.Options{Env: true}, daemons: map[string]bool{"node-2": true}, gated: true,
			why: "container app reads annotation config by env CONFIG, and its node has no daemon that could restart it",
		},
		{
			name: "without the gate for env, metadata that env reads is changed like any other", from: reading("one"), to: reading("two"), quiet: true,
		},
		{
			name: "changed volumeClaimTemplates matter to new pods only", from: withTemplates("data"), to: withTemplates("data", "more"), quiet: true,
		},
		{
			name: "with the gate, changed volumeClaimTemplates re-create pods", from: withTemplates("data"), to: withTemplates("data", "more"),
			gates: gates{RecreateOnPVCChange: true}, why: "volumeClaimTemplates changed", gated: true,
		},
		{
			name: "with the gate, the first volumeClaimTemplates re-create pods", from: plain, to: withTemplates("data"),
			gates: gates{RecreateOnPVCChange: true}, why: "volumeClaimTemplates changed", gated: true,
		},
		{
			name: "with the gate and InPlaceOnly, changed volumeClaimTemplates re-create no pods", from: withTemplates("data"), to: withTemplates("data", "more"), quiet: true,
			gates: gates{RecreateOnPVCChange: true}, policy: appsv1beta1.PodInPlaceOnly,
		},
		{
			name: "with the gate, volumeClaimTemplates that changed before the template re-create pods, by the hash in the pods' revision",
			from: withTemplates("data"), to: withTemplates("data"), gates: gates{RecreateOnPVCChange: true},
			history: func(from, _ *appsv1.ControllerRevision) { from.Annotations[keys.VolumeClaimTemplateHash] = "1" },
			why:     "volumeClaimTemplates changed", gated: true,
		},
		{
			name: "with the gate, volumeClaimTemplates that were changed back re-create no pods",
			from: withTemplates("data"), to: withTemplates("data"), gates: gates{RecreateOnPVCChange: true}, quiet: true,
			history: func(_, to *appsv1.ControllerRevision) { to.Annotations[keys.VolumeClaimTemplateHash] = "1" },
		},
		{
			name: "revisions without the hash are not compared", from: withTemplates("data"), to: withTemplates("more"), quiet: true,
			gates:   gates{RecreateOnPVCChange: true},
			history: func(from, _ *appsv1.ControllerRevision) { delete(from.Annotations, keys.VolumeClaimTemplateHash) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.policy == "" {
				tc.policy = appsv1beta1.PodInPlaceIfPossible
			}
			// The note makes the revisions differ even if only volumeClaimTemplates differ.
			from := web(1).Spec(tc.from).Spec(func(s *appsv1beta1.CloneSetSpec) { withAnnotation(s, "one") })
			o, revs := observedOf(t, web(1).Policy(tc.policy).Spec(tc.to).Spec(func(s *appsv1beta1.CloneSetSpec) { withAnnotation(s, "two") }), from)
			o.gates, o.inPlace, o.daemons = tc.gates, tc.edits, tc.daemons
			if tc.history != nil {
				tc.history(o.history[0], o.history[1])
			}
			m := podset.Pod{Pod: rollout.Pod{Gated: true}, Revision: revs[0], Object: pod("a").Rev(revs[0]).Node("node-1").Serving(start).Obj()}
			m.Object.Spec.Containers = from.Obj().Spec.Template.Spec.Containers
			viewOptions(o, false).Differ.Compare(&m, o.history[1])
			require.Equal(t, tc.why, m.NotInPlace)
			require.Equal(t, tc.gated, m.Gated)
			if tc.why == "" {
				require.Equal(t, tc.quiet, m.NoRestart)
			}
		})
	}
}

func withAnnotation(s *appsv1beta1.CloneSetSpec, value string) {
	if s.Template.Labels == nil {
		s.Template.Labels = map[string]string{}
	}
	s.Template.Labels["note"] = value
}

// withTemplates sets volumeClaimTemplates.
func withTemplates(names ...string) func(*appsv1beta1.CloneSetSpec) {
	return func(s *appsv1beta1.CloneSetSpec) {
		s.VolumeClaimTemplates = testkit.CloneSet("x").PVCs(names...).Obj().Spec.VolumeClaimTemplates
	}
}

func TestPVCTemplateHash(t *testing.T) {
	t.Parallel()
	hash := func(change func([]corev1.PersistentVolumeClaim)) string {
		pvcs := testkit.CloneSet("x").PVCs("data", "logs").Obj().Spec.VolumeClaimTemplates
		change(pvcs)
		hash, err := pvcTemplateHash(pvcs)
		require.NoError(t, err)
		return hash
	}
	same := hash(func([]corev1.PersistentVolumeClaim) {})
	require.Regexp(t, `^\d+$`, same)
	require.Equal(t, same, hash(func(c []corev1.PersistentVolumeClaim) { c[0], c[1] = c[1], c[0] }), "the order does not matter")
	require.Equal(t, same, hash(func(c []corev1.PersistentVolumeClaim) { c[0].Labels = map[string]string{"a": "b"} }), "labels do not matter")
	require.NotEqual(t, same, hash(func(c []corev1.PersistentVolumeClaim) { c[0].Spec.StorageClassName = new("fast") }))
	none, err := pvcTemplateHash(nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

// An apiserver older than Kubernetes 1.33 can't resize pods. They are re-created, or a condition says why they can't be updated.
func TestNewResourcesWhereThereIsNoResize(t *testing.T) {
	t.Parallel()
	type policy = appsv1beta1.PodUpdatePolicy
	from := func(p policy) *testkit.CloneSetBuilder { return web(2).Policy(p).Spec(sized("1")) }
	to := func(p policy) *testkit.CloneSetBuilder { return web(2).Policy(p).Spec(sized("2")) }
	planWith := func(p policy) (observed, planned) {
		o, revs := observedOf(t, to(p), from(p))
		o.inPlace = inplace.Options{Resources: true, NoResize: true}
		o.with(revs[0], "a", "b")
		return o, plan(o, now)
	}

	_, p := planWith(appsv1beta1.PodInPlaceIfPossible)
	require.Empty(t, p.Of(rollout.StepUpdateInPlace))
	require.Empty(t, p.Of(rollout.StepMarkUnready))
	require.Equal(t, []string{"web-a"}, keysOf(p.Of(rollout.StepDelete)))

	const why = "the apiserver doesn't serve pods/resize"
	o, p := planWith(appsv1beta1.PodInPlaceOnly)
	require.Empty(t, p.Steps, text(p))
	got, events := status(o, p, applied{}, now)
	c := find(got.Conditions, appsv1beta1.CloneSetFailedUpdate)
	require.NotNil(t, c)
	require.Equal(t, string(rollout.ReasonNotInPlace), c.Reason)
	require.Contains(t, c.Message, why)
	require.Len(t, events, 1)

	faults := validateInPlaceOnly(from(appsv1beta1.PodInPlaceOnly).Obj(), to(appsv1beta1.PodInPlaceOnly).Obj(), o.inPlace)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0].Error(), why)
}
