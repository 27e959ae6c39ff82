package native

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// account is what happened on one side in a step.
type account struct {
	Trace []line
	// LeastReady and MostStaying are the minimum and maximum of the counts, including those at the beginning.
	LeastReady, MostStaying int
}

// since returns the account of everything after a write.
func (w *world) since(version uint64) account {
	var a account
	for _, l := range w.Trace {
		if l.Version > version {
			a.Trace = append(a.Trace, l)
		}
	}
	first := true
	var before count
	for _, c := range w.Counts {
		if c.Version <= version {
			before = c
			continue
		}
		if first {
			a.LeastReady, a.MostStaying, first = before.Ready, before.Staying, false
		}
		a.LeastReady, a.MostStaying = min(a.LeastReady, c.Ready), max(a.MostStaying, c.Staying)
	}
	if first {
		a.LeastReady, a.MostStaying = before.Ready, before.Staying
	}
	return a
}

// anyOrder is more than any number of pods.
const anyOrder = 1 << 20

// order says how far the order of events is determined.
type order struct {
	// AtOnce is how many pods may be changed at a time, in any order among themselves. With up to 1, everything except the revisions is in
	// order. With anyOrder nothing is.
	AtOnce int
	// Anywhere is true if it isn't determined either which pods these are.
	Anywhere bool
	// Ready is how many pods the spec keeps ready. 0 means as many as in the first account. Kubernetes' DaemonSet controller (1.36) counts only
	// nodes that have a pod as unavailable, so it goes below that if it looks between the end of an old pod and the creation of the new one.
	Ready int
}

// differences returns how two accounts of a step differ, or "" if they are equal. The first one is Kubernetes'.
func differences(a, b account, o order) string {
	if d := cmp.Diff(o.subjects(a), o.subjects(b)); d != "" {
		return d
	}
	if o.AtOnce <= 1 && !o.Anywhere {
		return cmp.Diff(texts(a.Trace, sequential), texts(b.Trace, sequential))
	}
	if o.AtOnce >= anyOrder {
		return ""
	}
	if max(a.LeastReady, o.Ready) != b.LeastReady || a.MostStaying != b.MostStaying {
		return fmt.Sprintf("pods: at least %d ready, at most %d there; or at least %d and at most %d",
			a.LeastReady, a.MostStaying, b.LeastReady, b.MostStaying)
	}
	if o.Anywhere {
		return ""
	}
	for _, verb := range []string{" created", " deleted"} {
		matches := func(l line) bool { return sequential(l) && strings.HasSuffix(l.Text, verb) }
		if one, other := texts(a.Trace, matches), texts(b.Trace, matches); !sameOrder(one, other, o.AtOnce) {
			return cmp.Diff(one, other)
		}
	}
	return ""
}

// sequential excludes revisions: it doesn't matter when an unused revision is deleted.
func sequential(l line) bool { return !strings.HasPrefix(l.Who, "revision") }

// sameOrder reports whether the index of each text differs by less than slack from its index in the other list. Both lists contain the same texts.
func sameOrder(a, b []string, slack int) bool {
	b = slices.Clone(b)
	for i, text := range a {
		j := slices.Index(b, text)
		if j < 0 || max(i-j, j-i) >= slack {
			return false
		}
		b[j] = "" // Found; the same text may occur again.
	}
	return true
}

// subjects returns the traces of each pod, PVC and revision.
func (o order) subjects(a account) []string {
	each := map[string][]string{}
	for _, l := range a.Trace {
		if o.AtOnce >= anyOrder && !sequential(l) {
			continue // The native controller recreates it while the garbage collector deletes it.
		}
		each[l.Who] = append(each[l.Who], l.Text)
	}
	out := make([]string, 0, len(each))
	for _, who := range slices.Sorted(maps.Keys(each)) {
		trace := strings.Join(each[who], ", ")
		if o.Anywhere && !strings.HasPrefix(who, "revision") {
			trace = strings.ReplaceAll(trace, who+"@", "*@")
		}
		out = append(out, trace)
	}
	slices.Sort(out)
	return out
}

func texts(trace []line, which func(line) bool) []string {
	var out []string
	for _, l := range trace {
		if which == nil || which(l) {
			out = append(out, l.Text)
		}
	}
	return out
}
