package native

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tape holds the events of watches, one write after the other.
type tape []watchEvent

func (t *tape) add(kind watch.EventType, o client.Object) {
	*t = append(*t, watchEvent{Type: kind, Object: o, Version: uint64(len(*t) + 1)})
}

// revision returns a revision of set web with a hash.
func revision(hash string, number int64) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-" + hash}, Revision: number}
}

// pod returns a pod of set web in a state: "", ready, failed or leaving.
func pod(name, uid, hash, state string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web-" + name, UID: types.UID(uid), Labels: map[string]string{"controller-revision-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{UID: "set", Controller: new(true)}},
	}}
	switch state {
	case "ready":
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	case "failed":
		p.Status.Phase = corev1.PodFailed
	case "leaving":
		p.DeletionTimestamp = &metav1.Time{}
	}
	return p
}

func TestATraceHasEachTransitionOnceInTheOrderOfWrites(t *testing.T) {
	t.Parallel()
	var all tape
	all.add(watch.Added, revision("aaaaaa", 1))
	all.add(watch.Added, pod("0", "u0", "web-aaaaaa", ""))
	all.add(watch.Modified, pod("0", "u0", "web-aaaaaa", "ready"))
	all.add(watch.Modified, pod("0", "u0", "web-aaaaaa", "ready"))
	all.add(watch.Added, revision("bbbbbb", 2))
	all.add(watch.Modified, pod("0", "u0", "web-aaaaaa", "leaving"))
	all.add(watch.Deleted, pod("0", "u0", "web-aaaaaa", "leaving"))
	all.add(watch.Added, pod("0", "u1", "web-bbbbbb", ""))
	all.add(watch.Modified, pod("0", "u1", "web-bbbbbb", "failed"))
	all.add(watch.Deleted, pod("0", "u1", "web-bbbbbb", "failed"))
	all.add(watch.Added, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-0", UID: "c"}})
	all.add(watch.Modified, revision("aaaaaa", 3))
	all.add(watch.Deleted, revision("bbbbbb", 2))
	all[0], all[12] = all[12], all[0] // Events from several watches have no common order.

	w := replay(naming{Set: "web"}, all)
	require.Equal(t, []string{
		"revision 1 created", "0@1 created", "0@1 ready", "revision 2 created", "0@1 deleted", "0@1 gone", "0@2 created", "0@2 failed",
		"0@2 deleted", "0@2 gone", "PVC data-0 created", "revision 1 renewed", "revision 2 gone",
	}, texts(w.Trace, func(line) bool { return true }))
	require.Empty(t, w.podStates(false))
	require.Equal(t, account{Trace: w.Trace[6:], LeastReady: 0, MostStaying: 1}, w.since(7))
	require.Equal(t, 1, w.since(3).LeastReady+w.since(3).MostStaying, "the state before the event counts, too")
}

func TestPodsAreNamedByOrdinalOrNodeAndTheirState(t *testing.T) {
	t.Parallel()
	var all tape
	all.add(watch.Added, revision("aaaaaa", 1))
	all.add(watch.Added, pod("10", "u1", "web-aaaaaa", "ready"))
	all.add(watch.Added, pod("2", "u2", "aaaaaa", "leaving"))
	free := pod("1", "u3", "", "failed")
	free.OwnerReferences = nil
	all.add(watch.Added, free)
	require.Equal(t, "1@none(failed)(orphan) 2@1(terminating) 10@1", replay(naming{Set: "web"}, all).podStates(false))

	all = all[:1]
	on, meantFor := pod("x7k2p", "u1", "aaaaaa", "ready"), pod("9zz4d", "u2", "aaaaaa", "")
	on.Spec.NodeName = "b-here"
	meantFor.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Values: []string{"a-here"}}},
		}}},
	}}
	all.add(watch.Added, on)
	all.add(watch.Added, meantFor)
	w := replay(naming{Set: "web", Namespace: "here", ByNode: true}, all)
	require.Equal(t, "a@1(unready) b@1", w.podStates(false))
	require.Equal(t, "*@1 *@1(unready)", w.podStates(true))
}

func TestAViewHasNoNamesAndLabelsOfOneSide(t *testing.T) {
	t.Parallel()
	var views []view
	for _, side := range []struct{ hash, namespace, mark string }{
		{"aaaaaa", "native-1", "pod-template-generation"}, {"bbbbbb", "ours-2", "lifecycle.apps.kruise.io/state"},
	} {
		var all tape
		p := pod("x", "u", side.hash, "ready")
		p.Labels[side.mark] = "1"
		p.Spec.NodeName = "a-" + side.namespace
		p.Spec.NodeSelector = map[string]string{"ground": side.namespace}
		set := &unstructured.Unstructured{Object: map[string]any{
			"kind": "DaemonSet", "metadata": map[string]any{"uid": "set", "generation": int64(2)},
			"status": map[string]any{"observedGeneration": int64(2), "numberReady": int64(1)},
		}}
		for _, o := range []client.Object{revision(side.hash, 1), p, set} {
			all.add(watch.Added, o)
		}
		v, err := replay(naming{Set: "web", Namespace: side.namespace, ByNode: true}, all).view(false)
		require.NoError(t, err)
		views = append(views, v)
	}
	require.Equal(t, views[0], views[1])
	require.Equal(t, int64(1), views[0].Status["numberReady"])
	require.Equal(t, int64(0), views[0].Status["numberUnavailable"])
	require.Equal(t, true, views[0].Status["seen"])
	require.Contains(t, views[0].Pods, "a@1")
}

func TestTracesAreEqualAsFarAsTheirOrderIsDetermined(t *testing.T) {
	t.Parallel()
	trace := func(texts ...string) account {
		a := account{LeastReady: 2, MostStaying: 3}
		for i, text := range texts {
			who, _, _ := strings.Cut(text, "@")
			a.Trace = append(a.Trace, line{Who: who, Text: text, At: time.Unix(int64(i), 0)})
		}
		return a
	}
	oneByOne := trace("1@1 deleted", "1@1 gone", "1@2 created", "0@1 deleted", "0@1 gone", "0@2 created")
	atOnce := trace("1@1 deleted", "0@1 deleted", "0@1 gone", "1@1 gone", "0@2 created", "1@2 created")
	otherWay := trace("0@1 deleted", "0@1 gone", "0@2 created", "1@1 deleted", "1@1 gone", "1@2 created")
	twice := trace("1@1 deleted", "1@1 gone", "1@2 created", "1@2 deleted", "0@1 deleted", "0@1 gone", "0@2 created")
	greedy := oneByOne
	greedy.LeastReady = 1
	one, other := trace("0@1 deleted", "0@1 gone", "0@2 created"), trace("2@1 deleted", "2@1 gone", "2@2 created")
	for _, c := range []struct {
		name  string
		a, b  account
		order order
		alike bool
	}{
		{"the same", oneByOne, oneByOne, order{}, true},
		{"one at a time, and at once", oneByOne, atOnce, order{}, false},
		{"at once is allowed", oneByOne, atOnce, order{AtOnce: 2}, true},
		{"the reverse order is not in order", oneByOne, otherWay, order{}, false},
		{"one deletion too many", oneByOne, twice, order{AtOnce: anyOrder}, false},
		{"one unready pod too many", oneByOne, greedy, order{AtOnce: 2}, false},
		{"one unready pod too many, in any order", oneByOne, greedy, order{AtOnce: anyOrder}, true},
		{"the first one below the number that the spec keeps ready", greedy, oneByOne, order{AtOnce: 2, Ready: 2}, true},
		{"the second one below that number", oneByOne, greedy, order{AtOnce: 2, Ready: 2}, false},
		{"both", greedy, greedy, order{AtOnce: 2, Ready: 2}, false},
		{"the second one above that number", greedy, oneByOne, order{AtOnce: 2, Ready: 1}, false},
		{"another node", one, other, order{AtOnce: 3}, false},
		{"any node", one, other, order{Anywhere: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.alike, differences(c.a, c.b, c.order) == "", differences(c.a, c.b, c.order))
		})
	}
}
