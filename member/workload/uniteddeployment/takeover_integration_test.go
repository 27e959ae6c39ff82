//go:build integration

package uniteddeployment_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestTakeOverInCluster starts both managers on what OpenKruise has left: a UnitedDeployment, its two CloneSets, their revisions
// and their pods.
func TestTakeOverInCluster(t *testing.T) {
	t.Parallel()
	// The subsets select nodes by zones that only this cluster has.
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme, Own: &lab.Config{Nodes: "kwok:2", Audit: true}})
	g := &fixture{testenv.New(t, s, agent, &object{})}
	g.inZones(t, "z0", "z1")
	g.restore(t)
	sets, pods, history := g.cloneSets(t), g.Pods(t), g.revisions(t)
	require.Len(t, sets, 2)
	require.Len(t, pods, 3)
	require.Len(t, history, 3)
	began := clock.RealClock{}.Now()
	manage(t, s)

	// Both managers have reconciled: Ready has replaced the condition of an earlier conflict, and the new counts are there.
	g.awaitOrFail(t, "reconcile the sets", func() bool {
		for _, set := range g.cloneSets(t) {
			conditions := set.(*appsv1beta1.CloneSet).Status.Conditions
			if len(conditions) != 1 || string(conditions[0].Type) != keys.ConditionReady {
				return false
			}
		}
		return g.united(t).Status.AvailableReplicas == 3
	})
	g.Rests(t)
	writes := g.writesOfAll(t, began)
	for _, what := range writes {
		require.True(t, strings.HasSuffix(what, "/status") && !strings.Contains(what, " pods"), "only statuses are written: %v", writes)
	}
	require.Empty(t, cmp.Diff(pods, g.Pods(t)), "no pod is touched")
	require.Empty(t, cmp.Diff(history, g.revisions(t)), "no revision is written")
	require.Empty(t, cmp.Diff(sets, g.cloneSets(t), cmpopts.IgnoreTypes(appsv1beta1.CloneSetStatus{}),
		cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "ManagedFields")), "no CloneSet is rewritten")
	ud := g.united(t)
	require.Equal(t, "take-ud-67cc46bdf9", ud.Status.UpdatedRevision)
	require.Equal(t, int32(3), ud.Status.UpdatedReadyReplicas)

	// The next update is an update of the existing CloneSets.
	require.NoError(t, g.Patch(t.Context(), ud, client.RawPatch(types.JSONPatchType, []byte(
		`[{"op":"replace","path":"/spec/template/cloneSetTemplate/spec/template/spec/containers/0/image","value":"nginx:2"}]`))))
	g.awaitOrFail(t, "update all pods", func() bool {
		ud := g.united(t)
		return ud.Status.UpdatedRevision != "take-ud-67cc46bdf9" && rolledOut(ud)
	})
	for name, set := range g.cloneSets(t) {
		require.Equal(t, sets[name].GetUID(), set.GetUID())
	}
	for _, p := range g.Pods(t) {
		require.Equal(t, "nginx:2", p.Spec.Containers[0].Image)
	}
}

func (g *fixture) united(t *testing.T) *object {
	t.Helper()
	var ud object
	require.NoError(t, g.Get(t.Context(), types.NamespacedName{Namespace: g.Namespace, Name: "take-ud"}, &ud))
	return &ud
}

func (g *fixture) awaitOrFail(t *testing.T, what string, done func() bool) {
	t.Helper()
	if !assert.Eventually(t, done, testenv.Long, testenv.Poll) {
		require.FailNow(t, "the managers did not "+what, "status: %+v\npods: %v", g.united(t).Status, g.Describe(t))
	}
}

func (g *fixture) revisions(t *testing.T) map[string]*appsv1.ControllerRevision {
	t.Helper()
	var list appsv1.ControllerRevisionList
	require.NoError(t, g.List(t.Context(), &list, client.InNamespace(g.Namespace)))
	out := map[string]*appsv1.ControllerRevision{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// writesOfAll returns the writes of both managers in the namespace, without events.
func (g *fixture) writesOfAll(t *testing.T, since time.Time) []string {
	t.Helper()
	var out []string
	for _, w := range g.Requests(t, since) {
		if slices.Contains([]string{agent, "cloneset"}, w.Agent) && w.Resource != "events" {
			out = append(out, w.Verb+" "+w.Resource)
		}
	}
	return out
}

// inZones renames the zones of the cluster's nodes.
func (g *fixture) inZones(t *testing.T, zones ...string) {
	t.Helper()
	var nodes corev1.NodeList
	require.NoError(t, g.List(t.Context(), &nodes))
	for i := range nodes.Items {
		node := &nodes.Items[i]
		patch := client.MergeFrom(node.DeepCopy())
		node.Labels[corev1.LabelTopologyZone] = zones[i%len(zones)]
		require.NoError(t, g.Patch(t.Context(), node, patch))
	}
}

// restore creates the objects that OpenKruise has left in the namespace. Owners come first in the file.
func (g *fixture) restore(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	uids := map[types.UID]types.UID{}
	for {
		o := &unstructured.Unstructured{}
		if err := docs.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		oldUID := o.GetUID()
		refs := o.GetOwnerReferences()
		for i := range refs {
			require.NotEmpty(t, uids[refs[i].UID], "the owner of %s", o.GetName())
			refs[i].UID = uids[refs[i].UID]
		}
		o.SetOwnerReferences(refs)
		o.SetNamespace(g.Namespace)
		o.SetUID("")
		o.SetResourceVersion("")
		if o.GetKind() == "Pod" {
			g.restorePod(t, o)
			continue
		}
		status, ok := o.Object["status"]
		require.NoError(t, g.Create(t.Context(), o))
		uids[oldUID] = o.GetUID()
		if ok {
			o.Object["status"] = status
			require.NoError(t, g.Status().Update(t.Context(), o))
		}
	}
}

// restorePod creates a pod and sets the conditions that managers had set, so that it becomes ready.
func (g *fixture) restorePod(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	delete(o.Object, "status")
	spec := o.Object["spec"].(map[string]any)
	delete(spec, "nodeName")
	delete(spec, "volumes")
	for _, c := range spec["containers"].([]any) {
		delete(c.(map[string]any), "volumeMounts")
	}
	require.NoError(t, g.Create(t.Context(), o))
	p := &corev1.Pod{}
	require.Eventually(t, func() bool {
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(o), p))
		if p.Status.Phase != corev1.PodRunning {
			return false
		}
		patch := client.StrategicMergeFrom(p.DeepCopy())
		for _, c := range []corev1.PodConditionType{keys.InPlaceUpdateReady, keys.KruisePodReady} {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue})
		}
		return g.Status().Patch(t.Context(), p, patch) == nil
	}, testenv.Long, testenv.Poll)
	require.Eventually(t, func() bool {
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(o), p))
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	}, testenv.Long, testenv.Poll)
}
