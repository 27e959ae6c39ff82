package persistentpodstate

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit"
)

// remembering returns a PersistentPodState that remembers db-0.
func remembering(change ...func(*appsv1beta1.PersistentPodStateSpec)) *appsv1beta1.PersistentPodState {
	pps := states(advanced(1), change...)
	pps.Status.PodStates = map[string]appsv1beta1.PodState{"db-0": {
		NodeName: "node-1", NodeTopologyLabels: map[string]string{zone: "a", corev1.LabelHostname: "node-1"}, Annotations: map[string]string{"ip": "10.0.0.1"},
	}}
	return pps
}

// statefulPod returns the pod db-0 as its StatefulSet creates it.
func statefulPod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := testkit.Pod("db-0").Obj()
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "db", UID: "set", Controller: new(true),
	}}
	for _, c := range change {
		c(p)
	}
	return p
}

func preferring(weight int32, labels ...string) func(*appsv1beta1.PersistentPodStateSpec) {
	return func(s *appsv1beta1.PersistentPodStateSpec) {
		s.PreferredPersistentTopology = append(s.PreferredPersistentTopology, appsv1beta1.PreferredTopologyTerm{
			Weight: weight, Preference: appsv1beta1.NodeTopologyTerm{Keys: labels},
		})
	}
}

func reapplies(s *appsv1beta1.PersistentPodStateSpec) {
	s.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: "ip", Reapply: true}, {Key: "mac", Reapply: true}}
}

func onlyPreferring(s *appsv1beta1.PersistentPodStateSpec) { s.RequiredPersistentTopology = nil }

func term(weight int32, pairs ...string) corev1.PreferredSchedulingTerm {
	out := corev1.PreferredSchedulingTerm{Weight: weight}
	for i := 0; i+1 < len(pairs); i += 2 {
		out.Preference.MatchExpressions = append(out.Preference.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: pairs[i], Operator: corev1.NodeSelectorOpIn, Values: []string{pairs[i+1]},
		})
	}
	return out
}

func TestStep(t *testing.T) {
	t.Parallel()
	injected := map[string]string{keys.InjectedPersistentPodState: "db"}
	with := func(more map[string]string) map[string]string {
		out := maps.Clone(injected)
		maps.Copy(out, more)
		return out
	}
	older := withName("a", remembering())
	older.CreationTimestamp, older.Status.PodStates = metav1.NewTime(noon.Add(-time.Hour)), nil
	younger := remembering()
	younger.CreationTimestamp = metav1.NewTime(noon)
	for _, tc := range []struct {
		name        string
		known       []client.Object
		pod         *corev1.Pod
		why         string
		selector    map[string]string
		preferred   []corev1.PreferredSchedulingTerm
		annotations map[string]string
	}{
		{
			name: "a remembered pod gets the labels of its last node", known: []client.Object{remembering()}, pod: statefulPod(),
			selector: map[string]string{zone: "a"}, annotations: injected, why: "db restores it: only on nodes with topology.kubernetes.io/zone=a",
		},
		{
			name: "the pod's own node selector stays, except for the same label", known: []client.Object{remembering()},
			pod: statefulPod(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd", zone: "b"} }), annotations: injected,
			selector: map[string]string{"disk": "ssd", zone: "a"}, why: "only on nodes with",
		},
		{
			name:  "preferred labels become affinity beside what there is",
			known: []client.Object{remembering(onlyPreferring, preferring(7, zone, corev1.LabelHostname), preferring(1, "rack"), preferring(0, zone))},
			pod: statefulPod(func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}, NodeAffinity: &corev1.NodeAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{term(3, "disk", "ssd")},
				}}
			}),
			preferred:   []corev1.PreferredSchedulingTerm{term(3, "disk", "ssd"), term(7, corev1.LabelHostname, "node-1", zone, "a")},
			annotations: injected, why: "preferably on nodes with kubernetes.io/hostname=node-1, topology.kubernetes.io/zone=a",
		},
		{
			name: "annotations are restored if requested", known: []client.Object{remembering(reapplies)}, pod: statefulPod(),
			selector: map[string]string{zone: "a"}, annotations: with(map[string]string{"ip": "10.0.0.1"}), why: "with annotations ip=10.0.0.1",
		},
		{
			name: "annotations in the template are not overwritten", known: []client.Object{remembering(reapplies)},
			pod:      statefulPod(func(p *corev1.Pod) { p.Annotations["ip"] = "none" }),
			selector: map[string]string{zone: "a"}, annotations: with(map[string]string{"ip": "none"}), why: "restores it",
		},
		{
			name: "annotations are not restored by default", known: []client.Object{remembering(recordsIP)}, pod: statefulPod(),
			selector: map[string]string{zone: "a"}, annotations: injected, why: "restores it",
		},
		{
			name: "a label that was not recorded changes nothing",
			known: []client.Object{remembering(func(s *appsv1beta1.PersistentPodStateSpec) {
				s.RequiredPersistentTopology.Keys = []string{"rack"}
			})}, pod: statefulPod(), annotations: map[string]string{}, why: "db has recorded no label of the pod's node and no annotation to restore",
		},
		{name: "a pod that is not remembered", known: []client.Object{remembering()}, pod: statefulPod(func(p *corev1.Pod) { p.Name = "db-1" }), annotations: map[string]string{}, why: "db has recorded no pod with this name"},
		{
			name: "a pod of another workload", known: []client.Object{remembering()}, pod: statefulPod(func(p *corev1.Pod) { p.OwnerReferences[0].Name = "web" }),
			annotations: map[string]string{}, why: "no PersistentPodState has StatefulSet.apps.kruise.io web as its target",
		},
		{
			name: "a pod of a workload of the same name and another group", known: []client.Object{remembering()},
			pod:         statefulPod(func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps/v1" }),
			annotations: map[string]string{}, why: "no PersistentPodState has StatefulSet.apps db as its target",
		},
		{
			name: "a pod of another namespace", known: []client.Object{remembering()}, pod: statefulPod(func(p *corev1.Pod) { p.Namespace = "other" }),
			annotations: map[string]string{}, why: "no PersistentPodState has",
		},
		{
			name: "a pod of an older version of the kind", known: []client.Object{remembering()},
			pod:      statefulPod(func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1" }),
			selector: map[string]string{zone: "a"}, annotations: injected, why: "restores it",
		},
		{name: "a pod without a controller", pod: testkit.Pod("db-0").Obj(), annotations: map[string]string{}, why: "the pod has no controller, or no stable name"},
		{name: "a pod with a generated name", known: []client.Object{remembering()}, pod: statefulPod(func(p *corev1.Pod) { p.Name = "" }), annotations: map[string]string{}, why: "no stable name"},
		{
			name: "the older one of two with the same target counts", known: []client.Object{younger, older}, pod: statefulPod(),
			annotations: map[string]string{}, why: "a has recorded no pod with this name",
		},
		{
			name: "a kind that is no longer listed", known: []client.Object{remembering(games)},
			pod: statefulPod(func(p *corev1.Pod) {
				p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "game.kruise.io/v1", "GameServerSet"
			}), annotations: map[string]string{}, why: "GameServerSet.game.kruise.io is not listed in ConfigMap kruise-configuration",
		},
		{
			name: "a kind that is listed", known: []client.Object{remembering(games), listing(gameServers)},
			pod: statefulPod(func(p *corev1.Pod) {
				p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "game.kruise.io/v1", "GameServerSet"
			}), selector: map[string]string{zone: "a"}, annotations: injected, why: "restores it",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := tc.pod.DeepCopy()
			f, err := step("flotilla-system").Observe(t.Context(), cached(t, tc.known...), tc.pod)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(before, tc.pod), "observing changes nothing")
			require.Contains(t, f.Change(tc.pod), tc.why)
			require.Equal(t, tc.selector, tc.pod.Spec.NodeSelector)
			var preferred []corev1.PreferredSchedulingTerm
			if a := tc.pod.Spec.Affinity; a != nil {
				preferred = a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			}
			require.Equal(t, tc.preferred, preferred)
			require.Equal(t, tc.annotations, tc.pod.Annotations)
		})
	}
}

func TestAListThatCantBeReadFailsTheStep(t *testing.T) {
	t.Parallel()
	pod := statefulPod(func(p *corev1.Pod) {
		p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "game.kruise.io/v1", "GameServerSet"
	})
	_, err := step("flotilla-system").Observe(t.Context(), cached(t, remembering(games), listing("{")), pod)
	require.ErrorContains(t, err, "kruise-configuration")
}
