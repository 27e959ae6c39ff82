package spread

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Subset is what Divide needs to know of one subset.
type Subset struct {
	// Name is unique within the list; it breaks ties.
	Name string
	// Replicas is what the subset asks for: a number, or a percentage of the total. Nil asks for a share of the rest.
	Replicas *intstr.IntOrString
	// Min and Max bound an elastic subset. Nil is no bound: 0 and unlimited. A Min above Max counts as Max.
	Min, Max *intstr.IntOrString
	// Current is what the subset has been given until now. It decides only where odd replicas go.
	Current int

	// Floor is how many replicas stay in the subset whatever the rules say, because nobody can move them now. They
	// count as part of its share. 0 is the usual value.
	Floor int
	// Ceiling is the most that the subset can hold whatever the rules say; nil is unlimited. Floor wins over it.
	Ceiling *int
}

// Division is the answer of Divide.
type Division struct {
	// Targets has the replicas of each subset, by its position.
	Targets []int
	// Unallocated is how many replicas of the total no subset could take.
	Unallocated int
	// Ineffective says that the subsets' numbers contradict the total or cannot be read, so that Targets repeats what
	// each subset has now. It calls for a Warning event with Why as its message.
	Ineffective bool
	// Why is a sentence with the numbers when Ineffective is true or Unallocated is not 0; else it is empty.
	Why string
}

// Divide gives each subset its part of total. A negative total counts as 0.
//
// By number, when no subset has Min or Max: 10 over a: 60%, b, c gives 6, 2, 2. With 11 it gives 7, 2, 2, and with 12
// it gives 7, 3, 2 if b has more replicas than c now, else 7, 2, 3 (c is behind b by name, as users of
// UnitedDeployment know it). Percentages that add up to no more than 100 % never contradict the total: where rounding
// each by itself would, the largest remainders are rounded up instead, so that 50 % and 50 % of 7 are 4 and 3. When the
// numbers add up to more than total, or every subset has one and they add up to less, nothing changes anywhere and
// Ineffective is set.
//
// Elastic, when any subset has Min or Max: 10 over a: 2 to 4, b: 3 and more gives 4, 6; 4 replicas give 2, 2; 6 give
// 3, 3, since a is filled before b. Replicas beside another subset's Min or Max read as both Min and Max. When all Max
// together are less than total, the rest is Unallocated.
func Divide(total int, subsets []Subset) Division {
	total = max(total, 0)
	asks := make([]ask, len(subsets))
	elastic := false
	for i, s := range subsets {
		a, err := s.resolve(total)
		if err != nil {
			return keep(subsets, fmt.Sprintf("subset %s: %s", s.Name, err))
		}
		asks[i] = a
		elastic = elastic || s.Min != nil || s.Max != nil
	}

	var targets []int
	if elastic {
		targets = fill(total, asks)
	} else {
		if contradiction(total, asks) != "" {
			share(total, asks, subsets)
		}
		if why := contradiction(total, asks); why != "" {
			return keep(subsets, why)
		}
		targets = byNumber(total, asks, subsets)
	}

	d := Division{Targets: targets, Unallocated: max(total-sum(targets), 0)}
	if d.Unallocated > 0 {
		d.Why = fmt.Sprintf("%d of %d replicas have no place: no subset may take more", d.Unallocated, total)
	}
	return d
}

// ask is a subset's wishes as plain numbers.
type ask struct {
	named    bool // Replicas is set; min and max are both that number
	percent  int  // what Replicas says, if it is a percentage
	min, max int
	hold     Bounds // Floor and Ceiling
}

func (s Subset) resolve(total int) (ask, error) {
	a := ask{max: Unlimited, hold: Bounds{Min: max(s.Floor, 0), Max: Unlimited}}
	if s.Ceiling != nil {
		a.hold.Max = max(*s.Ceiling, a.hold.Min)
	}
	read := func(field string, v *intstr.IntOrString, to ...*int) error {
		if v == nil {
			return nil
		}
		n, err := Resolve(*v, total)
		if err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		for _, p := range to {
			*p = n
		}
		return nil
	}
	if s.Replicas != nil {
		a.named = true
		a.percent, _ = percentage(*s.Replicas)
		return a, read("replicas", s.Replicas, &a.min, &a.max)
	}
	if err := read("minReplicas", s.Min, &a.min); err != nil {
		return a, err
	}
	err := read("maxReplicas", s.Max, &a.max)
	a.min = min(a.min, a.max)
	return a, err
}

// contradiction says why named numbers cannot all come true with this total; it is empty when they can.
func contradiction(total int, asks []ask) string {
	named, all := 0, len(asks) > 0
	for _, a := range asks {
		if a.named {
			named += a.min
		}
		all = all && a.named
	}
	switch {
	case named > total:
		return fmt.Sprintf("subsets ask for %d replicas, more than the %d there are", named, total)
	case all && named < total:
		return fmt.Sprintf("subsets ask for %d of %d replicas, and none is left to take the rest", named, total)
	}
	return ""
}

// share rounds named percentages together where rounding each by itself does not add up: all down, then those with the
// largest remainders up, of equal ones those that have most now, then the first in the list. It changes nothing if
// one of the named numbers is no percentage, if the percentages come to more than 100, or to less with no subset that
// takes the rest.
func share(total int, asks []ask, subsets []Subset) {
	var named []int
	percents := 0
	for i, a := range asks {
		switch {
		case !a.named:
			continue
		case subsets[i].Replicas.Type == intstr.Int:
			return
		}
		named = append(named, i)
		percents += a.percent
	}
	if percents > 100 || percents < 100 && len(named) == len(asks) {
		return
	}
	left := (percents*total + 50) / 100
	for _, i := range named {
		asks[i].min = asks[i].percent * total / 100
		left -= asks[i].min
	}
	slices.SortStableFunc(named, func(i, j int) int {
		return cmp.Or(
			cmp.Compare(asks[j].percent*total%100, asks[i].percent*total%100),
			cmp.Compare(subsets[j].Current, subsets[i].Current),
		)
	})
	for _, i := range named[:left] {
		asks[i].min++
	}
	for _, i := range named {
		asks[i].max = asks[i].min
	}
}

// byNumber gives named subsets their number and the others an even share of what is left.
func byNumber(total int, asks []ask, subsets []Subset) []int {
	targets := make([]int, len(asks))
	var others []int
	var bounds []Bounds
	left := total
	for i, a := range asks {
		if !a.named {
			others, bounds = append(others, i), append(bounds, a.hold)
			continue
		}
		targets[i] = a.hold.level(a.min)
		left -= targets[i]
	}
	// Who has most keeps most: an odd replica given to a smaller subset would be one that moved for nothing. Among
	// equals the last name goes first.
	prefer := func(i, j int) int {
		a, b := subsets[others[i]], subsets[others[j]]
		return cmp.Or(cmp.Compare(b.Current, a.Current), cmp.Compare(b.Name, a.Name))
	}
	for i, n := range Even(left, bounds, prefer) {
		targets[others[i]] = n
	}
	return targets
}

// fill walks the list twice, to every Min and then to every Max, while replicas last.
func fill(total int, asks []ask) []int {
	targets := make([]int, len(asks))
	left := total
	for i, a := range asks {
		targets[i] = a.hold.Min
		left -= targets[i]
	}
	raise := func(i, to int) {
		if more := min(to-targets[i], left); more > 0 {
			targets[i] += more
			left -= more
		}
	}
	for i, a := range asks {
		raise(i, min(a.min, a.hold.Max))
	}
	for i, a := range asks {
		raise(i, min(a.max, a.hold.Max))
	}
	return targets
}

// keep leaves every subset as it is.
func keep(subsets []Subset, why string) Division {
	d := Division{Targets: make([]int, len(subsets)), Ineffective: true, Why: why}
	for i, s := range subsets {
		d.Targets[i] = max(s.Current, 0)
	}
	return d
}

func sum(numbers []int) int {
	s := 0
	for _, n := range numbers {
		s += n
	}
	return s
}
