package testenv

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// Name is the name of the object under test in a Fixture.
const Name = "web"

// Fixture is the namespace of one test, with one object of type T named Name.
type Fixture[T client.Object] struct {
	*Env
	// Namespace is the name of the namespace.
	Namespace string

	agent string
	empty T
}

// New creates a namespace for a test of the controller with that user agent.
func New[T client.Object](t *testing.T, s *Env, agent string, empty T) *Fixture[T] {
	t.Helper()
	return &Fixture[T]{Env: s, Namespace: s.Namespace(t), agent: agent, empty: empty}
}

// Object reads the object under test.
func (g *Fixture[T]) Object(t *testing.T) T {
	t.Helper()
	o := g.empty.DeepCopyObject().(T)
	require.NoError(t, g.Get(t.Context(), types.NamespacedName{Namespace: g.Namespace, Name: Name}, o))
	return o
}

// Await waits until reached returns true for the object under test, and returns the object.
func (g *Fixture[T]) Await(t *testing.T, reached func(T) bool) T {
	t.Helper()
	var o T
	if !assert.Eventually(t, func() bool {
		o = g.Object(t)
		return reached(o)
	}, Long, Poll) { // The last call may still be running. Nothing reads what it writes.
		require.FailNow(t, "the object did not come to it", "%+v\npods: %v", g.Object(t), g.Describe(t))
	}
	return o
}

// Change changes and writes the object under test.
func (g *Fixture[T]) Change(t *testing.T, change func(T)) {
	t.Helper()
	o := g.empty.DeepCopyObject().(T)
	o.SetNamespace(g.Namespace)
	o.SetName(Name)
	testkit.Change(t, g, o, change)
}

// Pods returns the pods that are not terminating, by name.
func (g *Fixture[T]) Pods(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	var list corev1.PodList
	require.NoError(t, g.List(t.Context(), &list, client.InNamespace(g.Namespace)))
	out := map[string]*corev1.Pod{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			out[list.Items[i].Name] = &list.Items[i]
		}
	}
	return out
}

// Describe describes each pod, for the output of a failed test.
func (g *Fixture[T]) Describe(t *testing.T) []string {
	t.Helper()
	pods := g.Pods(t)
	out := make([]string, 0, len(pods))
	for name, p := range pods {
		out = append(out, fmt.Sprintf("%s %s %v %+v", name, p.Status.Phase, p.Labels, p.Status.Conditions))
	}
	return out
}

// Requests returns all writes in the namespace since the given time, by any client. The audit log may lag a little.
func (g *Fixture[T]) Requests(t *testing.T, since time.Time) []lab.Write {
	t.Helper()
	all, err := g.Cluster.Writes(since)
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(w lab.Write) bool { return w.Namespace != g.Namespace })
}

// Writes counts the controller's successful writes in the namespace since the given time, as "verb resource", and its conflicts.
func (g *Fixture[T]) Writes(t *testing.T, since time.Time) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, w := range g.Requests(t, since) {
		// The webhook's dry runs store nothing.
		if w.Agent != g.agent || w.Resource == "podtemplates" || strings.HasPrefix(w.Resource, "events") {
			continue
		}
		if w.Code == http.StatusConflict {
			out["conflict"]++
			continue
		}
		require.Less(t, w.Code, 300, "%+v", w)
		out[w.Verb+" "+w.Resource]++
	}
	return out
}

// PodWrites waits until the controller's writes to pods since the given time are as wanted: the log may lag, and reading it may take time on
// a busy machine.
func (g *Fixture[T]) PodWrites(t *testing.T, since time.Time, want map[string]int) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got := g.Writes(t, since)
		maps.DeleteFunc(got, func(what string, _ int) bool { return !strings.Contains(what, " pods") })
		assert.Equal(c, want, got)
	}, Long, Poll)
}

// Rests waits until the controller has written nothing for a while, and requires that this stays so.
func (g *Fixture[T]) Rests(t *testing.T) {
	t.Helper()
	const while = 3 * time.Second // The audit log shows a write shortly after its response.
	require.Eventually(t, func() bool { return len(g.Writes(t, clock.RealClock{}.Now().Add(-while))) == 0 }, Long, Poll)
	quiet := clock.RealClock{}.Now()
	require.Never(t, func() bool { return len(g.Writes(t, quiet)) > 0 }, while, Poll)
}
