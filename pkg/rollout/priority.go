package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// Preference is the order in which users want pods to be updated. The zero value has none and leaves the default order.
type Preference struct {
	// Priority orders pods by their labels; nil for none.
	Priority *pods.UpdatePriorityStrategy
	// Scatter spreads pods that have a certain label over the sequence that Priority gives.
	Scatter []pods.UpdateScatterTerm
	// KeepOrder lets Rank.Order decide where the preference leaves a choice: ordinals.
	KeepOrder bool
}

// Traits are what the place of a pod in a Preference is made from.
type Traits struct{ Labels, Annotations map[string]string }

// Apply sets Rank.Order of list, which has one of traits for each pod, so that an update goes by the preference and, where
// that leaves a choice, by the default order. Old pods make one sequence; new ones make another, for the case that they
// have to go back. Where a pod stands in the list does not matter. Apply fails on a selector that is none and changes
// nothing then.
func (p Preference) Apply(list []Pod, traits []Traits) error {
	if p.Priority == nil && len(p.Scatter) == 0 {
		return nil
	}
	weigh, err := weights(p.Priority)
	if err != nil {
		return err
	}
	var all, old, young []*candidate
	for i := range list {
		if list[i].Inactive {
			continue
		}
		c := &candidate{member: member{Pod: &list[i]}, labels: traits[i].Labels, weight: weigh(traits[i].Labels)}
		c.level, c.number = level(p.Priority, traits[i])
		if !p.KeepOrder {
			c.Rank.Order = 0 // What the caller had there must not count as the default order.
		}
		all = append(all, c)
		if c.Old {
			old = append(old, c)
		} else {
			young = append(young, c)
		}
	}
	terms := byMatches(p.Scatter, all)
	for _, sequence := range [][]*candidate{old, young} {
		slices.SortFunc(sequence, firstByPriority)
		for _, t := range terms {
			sequence = scatter(sequence, t, all)
		}
		for i, c := range sequence {
			c.Rank.Order = i
		}
	}
	return nil
}

// candidate is a pod within one call of Apply.
type candidate struct {
	member
	labels map[string]string
	// weight is the sum of the weights that select the pod.
	weight int32
	// level is the index of the first ordered key that the pod has, -1 if it has none, and number the digits at the end
	// of its value, without leading zeros.
	level  int
	number string
}

func (c *candidate) matches(t pods.UpdateScatterTerm) bool {
	v, ok := c.labels[t.Key]
	return ok && v == t.Value
}

// firstByPriority orders by larger weight, lower level and larger number, then as firstToUpdate.
func firstByPriority(a, b *candidate) int {
	return cmp.Or(
		cmp.Compare(b.weight, a.weight),
		cmp.Compare(a.level, b.level),
		cmp.Compare(len(b.number), len(a.number)),
		strings.Compare(b.number, a.number),
		firstToUpdate(&a.member, &b.member),
	)
}

// weights returns what adds up the weights that select a pod.
func weights(s *pods.UpdatePriorityStrategy) (func(map[string]string) int32, error) {
	if s == nil {
		s = &pods.UpdatePriorityStrategy{}
	}
	selectors := make([]labels.Selector, len(s.WeightPriority))
	for i := range s.WeightPriority {
		var err error
		if selectors[i], err = metav1.LabelSelectorAsSelector(&s.WeightPriority[i].MatchSelector); err != nil {
			return nil, fmt.Errorf("weightPriority[%d].matchSelector: %w", i, err)
		}
	}
	return func(of map[string]string) int32 {
		var sum int32
		for i, selector := range selectors {
			if selector.Matches(labels.Set(of)) {
				sum += s.WeightPriority[i].Weight
			}
		}
		return sum
	}, nil
}

// level finds the first ordered key that the pod has as a label or, if not so, as an annotation, and the number at the
// end of its value: "db-010" gives "10". Numbers stay digits, so that none is too large.
func level(s *pods.UpdatePriorityStrategy, of Traits) (int, string) {
	if s == nil {
		return 0, ""
	}
	for i, t := range s.OrderPriority {
		v, ok := of.Labels[t.OrderedKey]
		if !ok {
			v, ok = of.Annotations[t.OrderedKey]
		}
		if ok {
			head := strings.TrimRight(v, "0123456789")
			return i, strings.TrimLeft(v[len(head):], "0")
		}
	}
	return -1, ""
}

// byMatches sorts terms so that the one that most pods match comes first: the last one applied is kept best.
func byMatches(terms []pods.UpdateScatterTerm, all []*candidate) []pods.UpdateScatterTerm {
	type counted struct {
		pods.UpdateScatterTerm
		n int
	}
	list := make([]counted, len(terms))
	for i, t := range terms {
		list[i] = counted{t, count(all, t)}
	}
	slices.SortStableFunc(list, func(a, b counted) int { return cmp.Compare(b.n, a.n) })
	out := make([]pods.UpdateScatterTerm, len(list))
	for i := range list {
		out[i] = list[i].UpdateScatterTerm
	}
	return out
}

func count(list []*candidate, t pods.UpdateScatterTerm) int {
	n := 0
	for _, c := range list {
		if c.matches(t) {
			n++
		}
	}
	return n
}

// scatter spreads the pods that match a term evenly over the sequence and keeps the order among them and among the
// others. The last of them goes last, so that the sequence is spread to its end: of 3 that match, M, and 6 others
// the 1st, 5th and 9th are M.
//
// Distances are those of all pods and are counted from the end. So what is left after a part was updated comes in the
// same order as it would have before: the sequence does not start anew with each batch.
func scatter(sequence []*candidate, t pods.UpdateScatterTerm, all []*candidate) []*candidate {
	var matched, others []*candidate
	for _, c := range sequence {
		if c.matches(t) {
			matched = append(matched, c)
		} else {
			others = append(others, c)
		}
	}
	total := count(all, t)
	gaps, fill := total-1, len(all)-total
	behind := func(j int) int { // how many others come behind the match that j matches come behind
		if gaps == 0 {
			return 0
		}
		return (2*j*fill + gaps) / (2 * gaps) // rounded
	}
	if len(matched) > 0 && behind(len(matched)-1) > len(others) {
		// More of the others were updated before than an even sequence has: spread what is left.
		gaps, fill = len(matched)-1, len(others)
	}
	out := make([]*candidate, 0, len(sequence))
	for i, m := range matched {
		n := len(others) - behind(len(matched)-1-i)
		out = append(out, others[:n]...)
		out, others = append(out, m), others[n:]
	}
	return append(out, others...)
}
