//go:build e2e

package native

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	native = "native"
	ours   = "ours"

	statefulSet = "StatefulSet"
	daemonSet   = "DaemonSet"
)

// scenario is a line in the table: the steps for both kinds.
type scenario struct {
	// name is a sentence.
	name string
	// body is merged into the plain body of the kind.
	body string
	// nodes are the nodes for a DaemonSet, by name.
	nodes string
	// anywhere means that it isn't determined which nodes come first.
	anywhere bool
	// waits marks lines that came some time after a pod was ready, for scenarios with minReadySeconds.
	waits time.Duration
	steps []step
}

// step is a change and its result.
type step struct {
	name string
	do   func(*side)
	// until describes the pods at the end: "0@1 1@2(unready)" is pod 0 at the first revision and pod 1 at the second, not ready.
	until string
	// atOnce is how many pods may be changed at a time, in any order among themselves. anyOrder means that there is no order at all.
	atOnce int
	// ready is how many pods the spec keeps ready, if the native controller may go below that. Otherwise 0.
	ready int
	// meant is an intended difference, or nil.
	meant *intendedDifference
}

// intendedDifference is an intended difference and what happens instead, so that it doesn't change unnoticed.
type intendedDifference struct {
	because string
	// native and ours are the traces, with ", " between the lines.
	native, ours string
	// until describes our pods at the end if they differ. Then views are not compared.
	until string
	// status is true if the statuses differ.
	status bool
}

func runScenarios(t *testing.T, kind string, base string, table []scenario) {
	t.Helper()
	for _, sc := range table {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			sides := []*side{newSide(t, native, kind), newSide(t, ours, kind)}
			body := func() map[string]any { return overlay(parse(t, base), parse(t, sc.body)) }
			onBothSides(sides, func(s *side) {
				s.body = body
				s.addNodes(sc.nodes)
			})
			for _, st := range sc.steps {
				playStep(t, sc, st, sides)
				if t.Failed() {
					return
				}
			}
		})
	}
}

func playStep(t *testing.T, sc scenario, st step, sides []*side) {
	t.Helper()
	onBothSides(sides, func(s *side) {
		s.next()
		st.do(s)
	})
	until := []string{st.until, st.until}
	if st.meant != nil && st.meant.until != "" {
		until[1] = st.meant.until
	}
	onBothSides(sides, func(s *side) { s.await(map[string]string{native: until[0], ours: until[1]}[s.side], sc.anywhere) })
	if t.Failed() {
		return
	}
	o := order{AtOnce: st.atOnce, Anywhere: sc.anywhere, Ready: st.ready}
	var problem string
	// Wait for late effects, such as a status update.
	if !sides[0].eventually(20*time.Second, func() bool { problem = compare(t, sc, st, o, sides); return problem == "" }) {
		t.Errorf("%s: step %q: %s\nnative:\n%s\nours:\n%s", sc.name, st.name, problem,
			formatTrace(sides[0].account().Trace), formatTrace(sides[1].account().Trace))
		return
	}
	t.Logf("step %q: %s\nnative:\n%s\nours:\n%s", st.name, until[0], formatTrace(sides[0].account().Trace), formatTrace(sides[1].account().Trace))
}

// compare returns how the two sides differ where they should not.
func compare(t *testing.T, sc scenario, st step, o order, sides []*side) string {
	t.Helper()
	var accounts []account
	var views []view
	for _, s := range sides {
		w, _ := s.world()
		a := w.since(s.mark)
		a.Trace = markWaits(a.Trace, sc.waits)
		v, err := w.view(sc.anywhere)
		require.NoError(t, err)
		accounts, views = append(accounts, a), append(views, v)
	}
	if m := st.meant; m != nil {
		for i, want := range []string{m.native, m.ours} {
			got := strings.Join(texts(accounts[i].Trace, sequential), ", ")
			if m.native+m.ours != "" && got != want {
				return sides[i].side + ": want " + want + "\ngot " + got
			}
		}
		if m.until != "" {
			return ""
		}
		if m.status {
			if cmp.Equal(views[0].Status, views[1].Status) {
				return "the statuses are equal, and should not be"
			}
			views[0].Status, views[1].Status = nil, nil
		}
	} else if d := differences(accounts[0], accounts[1], o); d != "" {
		return "the traces differ (-native +ours):\n" + d
	}
	if d := cmp.Diff(views[0], views[1]); d != "" {
		return "what is left differs (-native +ours):\n" + d
	}
	return ""
}

// markWaits marks lines that came some time after a pod was ready.
func markWaits(trace []line, least time.Duration) []line {
	if least == 0 {
		return trace
	}
	out := make([]line, len(trace))
	for i, l := range trace {
		if i > 0 && strings.HasSuffix(trace[i-1].Text, " ready") && l.At.Sub(trace[i-1].At) > least {
			l.Text += " after a wait"
		}
		out[i] = l
	}
	return out
}

func formatTrace(trace []line) string {
	var b strings.Builder
	for _, l := range trace {
		b.WriteString("    " + l.Text + "\n")
	}
	return b.String()
}

// onBothSides runs do on both sides in parallel. A failed requirement ends the test once both have finished.
func onBothSides(sides []*side, do func(*side)) {
	var wg sync.WaitGroup
	for _, s := range sides {
		wg.Go(func() { do(s) })
	}
	wg.Wait()
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &out))
	return out
}

// overlay merges values into a tree. Null removes a value.
func overlay(onto, values map[string]any) map[string]any {
	onto = runtime.DeepCopyJSON(onto)
	for k, v := range values {
		below, isMap := v.(map[string]any)
		under, wasMap := onto[k].(map[string]any)
		switch {
		case v == nil:
			delete(onto, k)
		case isMap && wasMap:
			onto[k] = overlay(under, below)
		default:
			onto[k] = v
		}
	}
	return onto
}
