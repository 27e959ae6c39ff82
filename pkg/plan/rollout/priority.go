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

// Preference is the order in which users want pods to be updated. The zero value keeps the default order.
type Preference struct {
	// Priority orders pods by their labels; nil means no priority.
	Priority *pods.UpdatePriorityStrategy
	// Scatter spreads pods that have a certain label over the sequence that Priority produces.
	Scatter []pods.UpdateScatterTerm
	// KeepOrder lets Rank.Order (ordinals) decide among pods that the preference ranks equal.
	KeepOrder bool
}

// PodMetadata is the part of a pod that a Preference reads.
type PodMetadata struct{ Labels, Annotations map[string]string }

// Apply sets the Rank.Order of each pod in list, so that an update follows the preference and, among equal pods, the default order. metadata has
// one entry for each pod. Old pods form one sequence; updated pods form another, in case they have to be rolled back. The order of list doesn't
// matter. On an invalid selector, Apply returns an error and changes nothing.
func (p Preference) Apply(list []Pod, metadata []PodMetadata) error {
	if p.Priority == nil && len(p.Scatter) == 0 {
		return nil
	}
	weigh, err := weights(p.Priority)
	if err != nil {
		return err
	}
	var all, old, updated []*candidate
	for i := range list {
		if list[i].Inactive {
			continue
		}
		c := &candidate{podState: podState{Pod: &list[i]}, labels: metadata[i].Labels, weight: weigh(metadata[i].Labels)}
		c.level, c.number = level(p.Priority, metadata[i])
		if !p.KeepOrder {
			c.Rank.Order = 0 // The caller's value must not count as the default order.
		}
		all = append(all, c)
		if c.Old {
			old = append(old, c)
		} else {
			updated = append(updated, c)
		}
	}
	terms := byMatches(p.Scatter, all)
	for _, sequence := range [][]*candidate{old, updated} {
		slices.SortFunc(sequence, priorityOrder)
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
	podState
	labels map[string]string
	// weight is the sum of the weights whose selectors match the pod.
	weight int32
	// level is the index of the first ordered key that the pod has, -1 if it has none. number is the digits at the end of its value, without
	// leading zeros.
	level  int
	number string
}

func (c *candidate) matches(t pods.UpdateScatterTerm) bool {
	v, ok := c.labels[t.Key]
	return ok && v == t.Value
}

// priorityOrder orders by larger weight, lower level and larger number, then like updateOrder.
func priorityOrder(a, b *candidate) int {
	return cmp.Or(
		cmp.Compare(b.weight, a.weight),
		cmp.Compare(a.level, b.level),
		cmp.Compare(len(b.number), len(a.number)),
		strings.Compare(b.number, a.number),
		updateOrder(&a.podState, &b.podState),
	)
}

// weights returns a function that sums the weights whose selectors match a pod's labels.
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
	return func(metadata map[string]string) int32 {
		var sum int32
		for i, selector := range selectors {
			if selector.Matches(labels.Set(metadata)) {
				sum += s.WeightPriority[i].Weight
			}
		}
		return sum
	}, nil
}

// level returns the index of the first ordered key that the pod has as a label or else as an annotation, and the number at the end of its value:
// "db-010" gives "10". The number stays a string of digits, so that it can't overflow.
func level(s *pods.UpdatePriorityStrategy, metadata PodMetadata) (int, string) {
	if s == nil {
		return 0, ""
	}
	for i, t := range s.OrderPriority {
		v, ok := metadata.Labels[t.OrderedKey]
		if !ok {
			v, ok = metadata.Annotations[t.OrderedKey]
		}
		if ok {
			head := strings.TrimRight(v, "0123456789")
			return i, strings.TrimLeft(v[len(head):], "0")
		}
	}
	return -1, ""
}

// byMatches sorts terms by the number of pods they match, highest first: the term applied last is spread best.
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

// scatter spreads the pods that match a term evenly over the sequence, and keeps the order among them and among the others. The last match comes
// last in the sequence: of 3 matches and 6 others, the 1st, 5th and 9th are matches.
//
// Distances are computed over all pods and counted from the end. So the pods that remain after a batch keep their order: the sequence doesn't
// start over with each batch.
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
	behind := func(j int) int { // how many others follow the match that is followed by j matches
		if gaps == 0 {
			return 0
		}
		return (2*j*fill + gaps) / (2 * gaps) // rounded
	}
	if len(matched) > 0 && behind(len(matched)-1) > len(others) {
		// More of the others are updated than in an even sequence: spread what is left.
		gaps, fill = len(matched)-1, len(others)
	}
	out := make([]*candidate, 0, len(sequence))
	for i, p := range matched {
		n := len(others) - behind(len(matched)-1-i)
		out = append(out, others[:n]...)
		out, others = append(out, p), others[n:]
	}
	return append(out, others...)
}
