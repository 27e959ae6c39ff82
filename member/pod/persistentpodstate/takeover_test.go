package persistentpodstate

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// readTakeover reads what OpenKruise stores: the manifest, the object in v1beta1, and how it reads in v1alpha1.
func readTakeover(t *testing.T) (manifest, former *appsv1alpha1.PersistentPodState, stored *appsv1beta1.PersistentPodState) {
	t.Helper()
	text, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	parts := bytes.Split(bytes.TrimPrefix(text, []byte("---\n")), []byte("\n---\n"))
	require.Len(t, parts, 3)
	manifest, former, stored = &appsv1alpha1.PersistentPodState{}, &appsv1alpha1.PersistentPodState{}, &appsv1beta1.PersistentPodState{}
	for i, into := range []any{manifest, stored, former} {
		require.NoError(t, yaml.UnmarshalStrict(parts[i], into))
	}
	return manifest, former, stored
}

func TestObjectsOfOpenKruiseConvertAsTheyAre(t *testing.T) {
	t.Parallel()
	manifest, former, stored := readTakeover(t)
	var seen appsv1alpha1.PersistentPodState
	require.NoError(t, appsv1alpha1.PersistentPodStateFromHub(t.Context(), stored, &seen))
	seen.TypeMeta = former.TypeMeta
	require.Empty(t, cmp.Diff(former, &seen))
	var applied appsv1beta1.PersistentPodState
	require.NoError(t, appsv1alpha1.PersistentPodStateToHub(t.Context(), manifest, &applied))
	require.Empty(t, cmp.Diff(stored.Spec, applied.Spec), "the same manifest again changes nothing")
	warnings, err := newWebhook(cached(t)).ValidateUpdate(t.Context(), stored, stored)
	require.NoError(t, err)
	require.Empty(t, warnings)
}

// What OpenKruise recorded stays. Only generation and condition are written.
func TestPlanOfATakeOver(t *testing.T) {
	t.Parallel()
	_, _, stored := readTakeover(t)
	set := advanced(2)
	set.Name, set.Namespace = stored.Spec.TargetRef.Name, stored.Namespace
	o := observed{
		key: key, pps: stored, target: set, sent: true, wanted: &wanted{replicas: 2}, pods: map[string]*corev1.Pod{},
		nodes: map[string]*corev1.Node{"kwok-1": sim.Node("kwok-1", zone, "zone-a"), "kwok-2": sim.Node("kwok-2", zone, "zone-b")},
	}
	for pod, state := range stored.Status.PodStates {
		o.pods[pod] = testkit.Pod(pod).Node(state.NodeName).Ready(noon).Obj()
	}
	p := plan(o)
	require.Empty(t, p.recorded)
	require.Empty(t, p.forgotten)
	s, events := status(o, p, noon)
	require.Empty(t, events)
	s.Conditions = nil
	require.Empty(t, cmp.Diff(stored.Status, s))

	pod := testkit.Pod("sts-a1-1").Obj()
	pod.Namespace = stored.Namespace
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "sts-a1", UID: "set", Controller: new(true),
	}}
	f, err := step("flotilla-system").Observe(t.Context(), cached(t, stored), pod)
	require.NoError(t, err)
	require.Contains(t, f.Change(pod), "pps-a1 restores it")
	require.Equal(t, map[string]string{zone: "zone-b"}, pod.Spec.NodeSelector)
}
