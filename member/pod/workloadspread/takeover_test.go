package workloadspread

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// readTakeover reads what OpenKruise stores: the manifest, the object in v1beta1, how it reads in v1alpha1, and a pod of its target.
func readTakeover(t *testing.T) (manifest, former *appsv1alpha1.WorkloadSpread, stored *appsv1beta1.WorkloadSpread, pod *corev1.Pod) {
	t.Helper()
	text, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	parts := bytes.Split(bytes.TrimPrefix(text, []byte("---\n")), []byte("\n---\n"))
	require.GreaterOrEqual(t, len(parts), 4)
	manifest, former, stored, pod = &appsv1alpha1.WorkloadSpread{}, &appsv1alpha1.WorkloadSpread{}, &appsv1beta1.WorkloadSpread{}, &corev1.Pod{}
	for i, into := range []any{manifest, stored, former, pod} {
		require.NoError(t, yaml.UnmarshalStrict(parts[i], into))
	}
	return manifest, former, stored, pod
}

func TestObjectsOfOpenKruiseConvertAsTheyAre(t *testing.T) {
	t.Parallel()
	manifest, former, stored, _ := readTakeover(t)
	var seen appsv1alpha1.WorkloadSpread
	require.NoError(t, appsv1alpha1.WorkloadSpreadFromHub(t.Context(), stored, &seen))
	seen.TypeMeta = former.TypeMeta
	require.Empty(t, cmp.Diff(former, &seen))
	var applied appsv1beta1.WorkloadSpread
	require.NoError(t, appsv1alpha1.WorkloadSpreadToHub(t.Context(), manifest, &applied))
	require.Empty(t, cmp.Diff(stored.Spec, applied.Spec), "the same manifest again changes nothing")
	warnings, err := newWebhook(store(t)).ValidateUpdate(t.Context(), stored, stored)
	require.NoError(t, err)
	require.Empty(t, warnings)
}

// What OpenKruise counted stays, no pod is written, and only the condition in the status.
func TestPlanOfATakeOver(t *testing.T) {
	t.Parallel()
	_, _, ws, one := readTakeover(t)
	pods := []*corev1.Pod{one}
	for _, name := range []string{"spread-b", "spread-c"} {
		pod := one.DeepCopy()
		pod.Name, pod.UID = name, "uid-"+one.UID
		pod.Annotations[keys.MatchedWorkloadSpread] = `{"name":"ws-a1","subset":"two"}`
		pod.Annotations[keys.PodDeletionCost] = "100"
		pods = append(pods, pod)
	}
	set := cloneSetOf(3)
	set.Status.UpdateRevision = "spread-9c669ddcd"
	o := observed{ws: ws, versions: versions{"deployment", "replicaset"}, target: set, sent: true, pods: pods, newest: newestVersion(set, nil)}
	p := plan(o, noon)
	require.Nil(t, p.inactive)
	require.Empty(t, p.patches)
	require.Empty(t, p.deletes)
	s, events := status(o, p, noon)
	require.Empty(t, events)
	s.Conditions = nil
	require.Empty(t, cmp.Diff(ws.Status, s))

	next := newPodOf("apps.kruise.io/v1beta1", "CloneSet", "spread", "4c68ba41-b768-4f33-a99a-6adfec87e82d")
	next.Namespace = ws.Namespace
	c := store(t, ws)
	f, err := spreaderOf(c, c).observe(t.Context(), c, next)
	require.NoError(t, err)
	require.Equal(t, "ws-a1 assigns it to subset two", f.Change(next))
	require.Equal(t, "100", next.Annotations[keys.PodDeletionCost])
}
