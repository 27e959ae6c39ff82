package spread

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Subset is the input of Divide for one subset.
type Subset struct {
	// Name is unique within the list; it breaks ties.
	Name string
	// Replicas is the requested number, or percentage of the total. Nil requests a share of the rest.
	Replicas *intstr.IntOrString
	// Min and Max bound an elastic subset. Nil means no bound: 0 and unlimited. A Min above Max counts as Max.
	Min, Max *intstr.IntOrString
	// Current is the subset's current number of replicas. It only decides where the remainder goes.
	Current int

	// Floor is how many replicas stay in the subset in any case, because they can't be moved now. They count towards its share. Usually 0.
	Floor int
	// Ceiling is the most that the subset can have in any case; nil means unlimited. Floor takes precedence.
	Ceiling *int
}

// Division is the result of Divide.
type Division struct {
	// Targets holds the replicas of each subset, by position.
	Targets []int
	// Unallocated is how many replicas of the total exceed the limits of all subsets.
	Unallocated int
	// Ineffective: the subsets' numbers contradict the total or are invalid, so Targets repeats the current numbers. It should be reported as a
	// Warning event with Why as its message.
	Ineffective bool
	// Why is a sentence with the numbers if Ineffective is true or Unallocated is not 0; otherwise it is empty.
	Why string
}

// Divide gives each subset its part of total. A negative total counts as 0.
//
// By number, when no subset has Min or Max: 10 over a: 60%, b, c gives 6, 2, 2. With 11 it gives 7, 2, 2, and with 12 it gives 7, 3, 2 if b
// currently has more replicas than c, else 7, 2, 3 (c comes after b by name, as in OpenKruise). Percentages that add up to at most 100 % never
// contradict the total: if rounding each of them separately would, the largest remainders are rounded up instead, so that 50 % and 50 % of 7 are
// 4 and 3. If the numbers add up to more than total, or every subset has one and they add up to less, nothing changes anywhere and Ineffective
// is set.
//
// Elastic, when any subset has Min or Max: 10 over a: 2 to 4, b: 3 and more gives 4, 6; 4 replicas give 2, 2; 6 give 3, 3, because a is filled
// before b. If another subset has Min or Max, Replicas counts as both Min and Max. If the sum of all Max is less than total, the rest is
// Unallocated.
func Divide(total int, subsets []Subset) Division {
	total = max(total, 0)
	requests := make([]request, len(subsets))
	elastic := false
	for i, s := range subsets {
		a, err := s.resolve(total)
		if err != nil {
			return keep(subsets, fmt.Sprintf("subset %s: %s", s.Name, err))
		}
		requests[i] = a
		elastic = elastic || s.Min != nil || s.Max != nil
	}

	var targets []int
	if elastic {
		targets = fill(total, requests)
	} else {
		if contradiction(total, requests) != "" {
			share(total, requests, subsets)
		}
		if why := contradiction(total, requests); why != "" {
			return keep(subsets, why)
		}
		targets = byNumber(total, requests, subsets)
	}

	d := Division{Targets: targets, Unallocated: max(total-sum(targets), 0)}
	if d.Unallocated > 0 {
		d.Why = fmt.Sprintf("%d of %d replicas are unallocated: no subset may take more", d.Unallocated, total)
	}
	return d
}

// request is a subset's request in plain numbers.
type request struct {
	named    bool // Replicas is set; min and max are both that number
	percent  int  // the value of Replicas, if it is a percentage
	min, max int
	hold     Bounds // Floor and Ceiling
}

func (s Subset) resolve(total int) (request, error) {
	a := request{max: Unlimited, hold: Bounds{Min: max(s.Floor, 0), Max: Unlimited}}
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

// contradiction returns why the requested numbers can't all be met with this total; empty if they can.
func contradiction(total int, requests []request) string {
	named, all := 0, len(requests) > 0
	for _, a := range requests {
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

// share rounds percentages together if rounding each separately doesn't add up: all down, then those with the largest remainders up. Ties go to
// the subset with the most replicas now, then to the first in the list. It changes nothing if a request is not a percentage, if the percentages
// exceed 100, or if they add up to less with no subset for the rest.
func share(total int, requests []request, subsets []Subset) {
	var named []int
	percents := 0
	for i, a := range requests {
		switch {
		case !a.named:
			continue
		case subsets[i].Replicas.Type == intstr.Int:
			return
		}
		named = append(named, i)
		percents += a.percent
	}
	if percents > 100 || percents < 100 && len(named) == len(requests) {
		return
	}
	left := (percents*total + 50) / 100
	for _, i := range named {
		requests[i].min = requests[i].percent * total / 100
		left -= requests[i].min
	}
	slices.SortStableFunc(named, func(i, j int) int {
		return cmp.Or(
			cmp.Compare(requests[j].percent*total%100, requests[i].percent*total%100),
			cmp.Compare(subsets[j].Current, subsets[i].Current),
		)
	})
	for _, i := range named[:left] {
		requests[i].min++
	}
	for _, i := range named {
		requests[i].max = requests[i].min
	}
}

// byNumber gives subsets their requested number and the others an even share of the rest.
func byNumber(total int, requests []request, subsets []Subset) []int {
	targets := make([]int, len(requests))
	var others []int
	var bounds []Bounds
	left := total
	for i, a := range requests {
		if !a.named {
			others, bounds = append(others, i), append(bounds, a.hold)
			continue
		}
		targets[i] = a.hold.level(a.min)
		left -= targets[i]
	}
	// The largest subset keeps the most: giving the remainder to a smaller one would move a replica for nothing. Among equals the last name comes
	// first.
	prefer := func(i, j int) int {
		a, b := subsets[others[i]], subsets[others[j]]
		return cmp.Or(cmp.Compare(b.Current, a.Current), cmp.Compare(b.Name, a.Name))
	}
	for i, n := range Even(left, bounds, prefer) {
		targets[others[i]] = n
	}
	return targets
}

// fill iterates over the list twice, first filling to every Min and then to every Max, while replicas last.
func fill(total int, requests []request) []int {
	targets := make([]int, len(requests))
	left := total
	for i, a := range requests {
		targets[i] = a.hold.Min
		left -= targets[i]
	}
	raise := func(i, to int) {
		if more := min(to-targets[i], left); more > 0 {
			targets[i] += more
			left -= more
		}
	}
	for i, a := range requests {
		raise(i, min(a.min, a.hold.Max))
	}
	for i, a := range requests {
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
