//go:build integration

package persistentpodstate

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/admission"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const underTest = "persistentpodstate-under-test"

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is the namespace of one test, with a native StatefulSet and one PersistentPodState with the same name.
type fixture struct {
	*testenv.Fixture[*appsv1beta1.PersistentPodState]

	configuration string
}

// createSet creates the StatefulSet with two pods.
func (g *fixture) createSet(t *testing.T, annotations map[string]string) {
	t.Helper()
	labels := map[string]string{"app": testenv.Name}
	require.NoError(t, g.Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: testenv.Name, Annotations: annotations},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: testenv.Name,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"address": "10.0.0.1"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
			},
		},
	}))
}

// createState creates the PersistentPodState.
func (g *fixture) createState(t *testing.T) {
	t.Helper()
	pps := states(native(1), preferring(5, corev1.LabelHostname))
	pps.Namespace, pps.Name, pps.Spec.TargetRef.Name = g.Namespace, testenv.Name, testenv.Name
	require.NoError(t, g.Create(t.Context(), pps))
}

// awaitRecorded waits until these pods are remembered.
func (g *fixture) awaitRecorded(t *testing.T, pods ...string) *appsv1beta1.PersistentPodState {
	t.Helper()
	return g.Await(t, func(pps *appsv1beta1.PersistentPodState) bool {
		return slices.Equal(slices.Sorted(maps.Keys(pps.Status.PodStates)), pods)
	})
}

// recreatePod deletes a pod and waits for the next one with the same name.
func (g *fixture) recreatePod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	before := g.Pods(t)[name]
	require.NoError(t, g.Delete(t.Context(), before, client.GracePeriodSeconds(0)))
	var current *corev1.Pod
	require.Eventually(t, func() bool {
		current = g.Pods(t)[name]
		return current != nil && current.UID != before.UID && current.Spec.NodeName != ""
	}, testenv.Long, testenv.Poll)
	return current
}

// sent reports whether pods of the namespace are sent to the pod webhook.
func (g *fixture) sent(t *testing.T) bool {
	t.Helper()
	var c admissionv1.MutatingWebhookConfiguration
	require.NoError(t, g.Get(t.Context(), client.ObjectKey{Name: g.configuration}, &c))
	return slices.ContainsFunc(c.Webhooks, func(w admissionv1.MutatingWebhook) bool {
		return w.Name == admission.EntryFail && slices.Contains(w.NamespaceSelector.MatchExpressions[0].Values, g.Namespace)
	})
}

// warnings holds the warnings from an apiserver.
type warnings struct{ lines []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.lines = append(w.lines, text) }

func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	own := s.Namespace(t)
	site, _, _ := strings.Cut(own, "-")
	configuration := "mutate-persistentpodstate-" + site
	s.Run(t, underTest, gvk(), func(mgr ctrl.Manager) {
		steps := []podwebhook.Step{step(own)}
		entries := &admission.Entries{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Configuration: configuration, Steps: steps, Exempt: []string{own},
		}
		require.NoError(t, entries.Setup(t.Context(), mgr))
		require.NoError(t, setUp(t.Context(), mgr, options{Options: control.Options{Clock: clock.RealClock{}}, Namespace: own, Opening: entries}))
		pods := &admission.Webhook{Cache: mgr.GetClient(), Steps: steps, Decoder: webhook.NewDecoder(mgr.GetScheme()), Clock: clock.RealClock{}}
		require.NoError(t, admit.Handle(mgr, admission.Path, pods))
		// The Env has a mutating webhook for each kind; this kind has none.
		require.NoError(t, admit.Handle(mgr, admit.MutatePath(gvk()), pods))
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.PersistentPodState]{
			Object: &appsv1beta1.PersistentPodState{}, Validator: &Webhook{Client: mgr.GetClient(), Namespace: own, Exempt: []string{own}},
		}))
	})
	for name, test := range map[string]func(*testing.T, *fixture){
		"a pod returns to the zone of its predecessor": returns, "pods are sent to the webhook only while an object needs it": opensAndCloses,
		"one is generated and deleted by annotations": generates, "examples are answered as their first lines say": examplesAreAnswered,
		"what is forgotten is gone from the status": forgetsInCluster,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &fixture{testenv.New(t, s, underTest, &appsv1beta1.PersistentPodState{}), configuration})
		})
	}
}

func returns(t *testing.T, g *fixture) {
	t.Helper()
	g.createSet(t, nil)
	g.createState(t)
	pps := g.awaitRecorded(t, "web-0", "web-1")
	require.Equal(t, reasonRecording, pps.Status.Conditions[0].Reason)
	heard := &warnings{}
	cfg := g.REST()
	cfg.WarningHandler = heard
	asks, err := client.New(cfg, client.Options{Scheme: g.Scheme()})
	require.NoError(t, err)
	next := statefulPod(func(p *corev1.Pod) {
		p.Namespace, p.Name, p.UID, p.ResourceVersion = g.Namespace, "web-0", "", ""
		p.Annotations[keys.ExplainSteps] = ""
		p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Name = "apps/v1", testenv.Name
	})
	require.True(t, apierrors.IsAlreadyExists(asks.Create(t.Context(), next, client.DryRunAll)))
	require.Len(t, heard.lines, 1)
	require.Contains(t, heard.lines[0], "PersistentPodState: changed: web restores it", "a dry run is explained")
	for range 3 {
		before := pps.Status.PodStates["web-0"]
		current := g.recreatePod(t, "web-0")
		require.Equal(t, before.NodeTopologyLabels[zone], current.Spec.NodeSelector[zone])
		require.Equal(t, testenv.Name, current.Annotations[keys.InjectedPersistentPodState])
		preferred := current.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		require.Equal(t, []string{before.NodeTopologyLabels[corev1.LabelHostname]}, preferred[0].Preference.MatchExpressions[0].Values)
		var node corev1.Node
		require.NoError(t, g.Get(t.Context(), client.ObjectKey{Name: current.Spec.NodeName}, &node))
		require.Equal(t, before.NodeTopologyLabels[zone], node.Labels[zone])
		pps = g.Await(t, func(pps *appsv1beta1.PersistentPodState) bool {
			return pps.Status.PodStates["web-0"].NodeName == current.Spec.NodeName
		})
	}
}

func opensAndCloses(t *testing.T, g *fixture) {
	t.Helper()
	require.False(t, g.sent(t))
	g.createSet(t, nil)
	g.createState(t)
	g.awaitRecorded(t, "web-0", "web-1")
	require.True(t, g.sent(t), "nothing is recorded before")
	require.NoError(t, g.Delete(t.Context(), g.Object(t)))
	require.Eventually(t, func() bool { return !g.sent(t) }, testenv.Long, testenv.Poll)
	require.Empty(t, g.recreatePod(t, "web-1").Spec.NodeSelector)
}

func generates(t *testing.T, g *fixture) {
	t.Helper()
	g.createSet(t, map[string]string{keys.AutoGeneratePersistentPodState: "true", keys.RequiredPersistentTopology: zone, keys.PersistentPodAnnotations: "address"})
	require.Eventually(t, func() bool {
		return g.Get(t.Context(), client.ObjectKey{Namespace: g.Namespace, Name: testenv.Name}, &appsv1beta1.PersistentPodState{}) == nil
	}, testenv.Long, testenv.Poll)
	pps := g.awaitRecorded(t, "web-0", "web-1")
	require.Equal(t, map[string]string{"address": "10.0.0.1"}, pps.Status.PodStates["web-1"].Annotations)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: testenv.Name}}
	testkit.Change(t, g, set, func(s *appsv1.StatefulSet) { s.Annotations[keys.RequiredPersistentTopology] = corev1.LabelHostname })
	g.Await(t, func(pps *appsv1beta1.PersistentPodState) bool {
		_, recorded := pps.Status.PodStates["web-0"].NodeTopologyLabels[corev1.LabelHostname]
		_, former := pps.Status.PodStates["web-0"].NodeTopologyLabels[zone]
		return recorded && !former
	})
	testkit.Change(t, g, set, func(s *appsv1.StatefulSet) { delete(s.Annotations, keys.AutoGeneratePersistentPodState) })
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(g.Get(t.Context(), client.ObjectKeyFromObject(pps), &appsv1beta1.PersistentPodState{}))
	}, testenv.Long, testenv.Poll)
}

func forgetsInCluster(t *testing.T, g *fixture) {
	t.Helper()
	g.createSet(t, nil)
	g.createState(t)
	g.awaitRecorded(t, "web-0", "web-1")
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: testenv.Name}}
	testkit.Change(t, g, set, func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(1)) })
	g.awaitRecorded(t, "web-0")
	require.NoError(t, g.Delete(t.Context(), set))
	g.Await(t, func(pps *appsv1beta1.PersistentPodState) bool {
		return len(pps.Status.PodStates) == 0 && pps.Status.Conditions[0].Reason == reasonTargetGone
	})
}

func examplesAreAnswered(t *testing.T, g *fixture) {
	t.Helper()
	webhooktest.DryRun(t, g, g.Namespace, examples, "persistentpodstate")
}
