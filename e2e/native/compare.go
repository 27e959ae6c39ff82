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
	Story []line
	// LeastReady and MostStaying are the extremes of the counts, the one at the beginning among them.
	LeastReady, MostStaying int
}

// since is the account of all that came after a write.
func (w *world) since(version uint64) account {
	var a account
	for _, l := range w.Story {
		if l.Version > version {
			a.Story = append(a.Story, l)
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

// order says what of the order is determined.
type order struct {
	// InPass is how many pods may be worked on at a time, among which there is no order: up to 1, everything but the
	// revisions is in order; with anyOrder nothing is.
	InPass int
	// Anywhere says that it is not determined either which pods these are.
	Anywhere bool
}

// differ shows how two accounts of a step differ; "" is not at all.
func differ(a, b account, o order) string {
	if d := cmp.Diff(o.subjects(a), o.subjects(b)); d != "" {
		return d
	}
	if o.InPass <= 1 && !o.Anywhere {
		return cmp.Diff(texts(a.Story, sequential), texts(b.Story, sequential))
	}
	if o.InPass >= anyOrder {
		return ""
	}
	if a.LeastReady != b.LeastReady || a.MostStaying != b.MostStaying {
		return fmt.Sprintf("pods: at least %d ready, at most %d there; or at least %d and at most %d",
			a.LeastReady, a.MostStaying, b.LeastReady, b.MostStaying)
	}
	if o.Anywhere {
		return ""
	}
	for _, verb := range []string{" made", " deleted"} {
		is := func(l line) bool { return sequential(l) && strings.HasSuffix(l.Text, verb) }
		if one, other := texts(a.Story, is), texts(b.Story, is); !near(one, other, o.InPass) {
			return cmp.Diff(one, other)
		}
	}
	return ""
}

// sequential leaves out revisions: when one that is no longer used goes is of no account.
func sequential(l line) bool { return !strings.HasPrefix(l.Who, "revision") }

// near says whether each text is less than slack places away from where it is in the other list. Both hold the same texts.
func near(a, b []string, slack int) bool {
	b = slices.Clone(b)
	for i, text := range a {
		j := slices.Index(b, text)
		if j < 0 || max(i-j, j-i) >= slack {
			return false
		}
		b[j] = "" // Found; the same text may come again.
	}
	return true
}

// subjects are the stories of each pod, claim and revision alone.
func (o order) subjects(a account) []string {
	each := map[string][]string{}
	for _, l := range a.Story {
		if o.InPass >= anyOrder && !sequential(l) {
			continue // Native makes one anew while the collector is at its work.
		}
		each[l.Who] = append(each[l.Who], l.Text)
	}
	out := make([]string, 0, len(each))
	for _, who := range slices.Sorted(maps.Keys(each)) {
		story := strings.Join(each[who], ", ")
		if o.Anywhere && !strings.HasPrefix(who, "revision") {
			story = strings.ReplaceAll(story, who+"@", "*@")
		}
		out = append(out, story)
	}
	slices.Sort(out)
	return out
}

func texts(story []line, which func(line) bool) []string {
	var out []string
	for _, l := range story {
		if which == nil || which(l) {
			out = append(out, l.Text)
		}
	}
	return out
}
