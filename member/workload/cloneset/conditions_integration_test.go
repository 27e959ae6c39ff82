//go:build integration

package cloneset

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

func TestConditionsInCluster(t *testing.T) {
	t.Parallel()
	s := begin(t)
	manage(t, s, Options{Gates: gates{ShortHash: true}})
	for name, test := range map[string]func(*testing.T, *fixture){
		"examples are accepted, refused or warned about as their comments say":     testExamples,
		"#463: a stalled in-place update is reported at the deadline and recovers": testStalled,
		"priorities and the partition decide which pods are updated":               testPriority,
		"an overlap is reported, and the other pods are left alone":                testOverlap,
		"with CloneSetShortHash pods are labelled with the hash alone":             testShortHash,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, s))
		})
	}
}

func testExamples(t *testing.T, g *fixture) {
	t.Helper()
	webhooktest.DryRun(t, g, g.Namespace, examples, "cloneset")
}

// hasCondition reports whether a set has a condition with that status and reason.
func hasCondition(s *appsv1beta1.CloneSet, kind appsv1beta1.CloneSetConditionType, status corev1.ConditionStatus, reason string) bool {
	c := find(s.Status.Conditions, kind)
	return c != nil && c.Status == status && c.Reason == reason
}

func testStalled(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, web(3).Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "1", "0").
		Spec(func(s *appsv1beta1.CloneSetSpec) { s.ProgressDeadlineSeconds = ptr.To[int32](4) }))
	g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		return hasCondition(s, appsv1beta1.CloneSetProgressing, corev1.ConditionTrue, appsv1beta1.CloneSetReasonAvailable)
	})
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = "app:bad" })
	set := g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		return hasCondition(s, appsv1beta1.CloneSetFailedUpdate, corev1.ConditionTrue, appsv1beta1.CloneSetReasonUpdateStalled) &&
			hasCondition(s, appsv1beta1.CloneSetProgressing, corev1.ConditionFalse, appsv1beta1.CloneSetReasonDeadlineExceeded)
	})
	require.Contains(t, find(set.Status.Conditions, appsv1beta1.CloneSetFailedUpdate).Message, "hasn't completed its in-place update since 20")
	began := clock.RealClock{}.Now()
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = "app:2" })
	set = g.Await(t, rolledOut)
	require.Nil(t, find(set.Status.Conditions, appsv1beta1.CloneSetFailedUpdate))
	set = g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		return hasCondition(s, appsv1beta1.CloneSetProgressing, corev1.ConditionTrue, appsv1beta1.CloneSetReasonAvailable)
	})
	require.False(t, find(set.Status.Conditions, appsv1beta1.CloneSetProgressing).LastTransitionTime.Time.Before(began.Add(-2*time.Second)))
	var events eventsv1.EventList
	require.Eventually(t, func() bool {
		require.NoError(t, g.List(t.Context(), &events, client.InNamespace(g.Namespace)))
		return slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == podcontrol.ReasonFailedUpdate })
	}, testenv.Long, testenv.Poll)
	for _, e := range events.Items {
		require.Nil(t, e.Related)
		require.True(t, e.Reason != podcontrol.ReasonFailedUpdate || e.Series == nil, "%+v", e)
	}
}

func testPriority(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, web(4).Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("3", "1", "0").Spec(func(s *appsv1beta1.CloneSetSpec) {
		s.UpdateStrategy.RollingUpdate.PriorityStrategy = &pods.UpdatePriorityStrategy{
			OrderPriority: []pods.UpdatePriorityOrderTerm{{OrderedKey: "example.com/turn"}},
		}
		s.ProgressDeadlineSeconds = ptr.To[int32](600)
	}))
	first, turn := "", 0
	for name, p := range g.Pods(t) {
		patch := client.MergeFrom(p.DeepCopy())
		turn++
		first = name
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations["example.com/turn"] = "slot-" + string(rune('0'+turn))
		require.NoError(t, g.Patch(t.Context(), p, patch))
	}
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = "app:2" })
	g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		return s.Status.UpdatedAvailableReplicas == 1 &&
			hasCondition(s, appsv1beta1.CloneSetProgressing, corev1.ConditionTrue, appsv1beta1.CloneSetReasonPartitionAvailable)
	})
	for name, p := range g.Pods(t) {
		require.Equal(t, name == first, p.Spec.Containers[0].Image == "app:2", name)
	}
}

func testOverlap(t *testing.T, g *fixture) {
	t.Helper()
	unowned := testkit.Pod("unowned").Label("app", "web").Obj()
	unowned.ObjectMeta = metav1.ObjectMeta{Name: unowned.Name, Namespace: g.Namespace, Labels: map[string]string{"app": "web"}}
	unowned.Status = corev1.PodStatus{}
	require.NoError(t, g.Create(t.Context(), unowned))
	g.make(t, web(2))
	set := g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		return hasCondition(s, appsv1beta1.CloneSetSelectorOverlap, corev1.ConditionTrue, appsv1beta1.CloneSetReasonPodsOfOthers)
	})
	require.Contains(t, find(set.Status.Conditions, appsv1beta1.CloneSetSelectorOverlap).Message, "1 pod(s), such as unowned without controller")
	after := g.Pods(t)
	require.Len(t, after, 3)
	require.Equal(t, unowned.UID, after["unowned"].UID)
	require.Empty(t, after["unowned"].OwnerReferences)
	require.EqualValues(t, 2, set.Status.Replicas)
}

func testShortHash(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, web(2).Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "2", "0"))
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = "app:2" })
	set := g.Await(t, rolledOut)
	for name, p := range g.Pods(t) {
		require.Equal(t, revision.Short(set.Status.UpdateRevision), p.Labels[keys.ControllerRevisionHash], name)
		require.Equal(t, "app:2", p.Spec.Containers[0].Image)
	}
}
