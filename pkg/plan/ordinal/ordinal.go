package ordinal

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Set is a set of ordinals to leave out, as sorted intervals that don't overlap: "0-2000000000" may be one of them.
type Set []interval

// interval includes first and last.
type interval struct {
	first, last int64
	entry       int // its index in the list
}

// Reserve parses spec.reserveOrdinals, which is at path. An entry that can't be parsed is a fault and reserves nothing; the others apply.
// duplicate is a warning about two entries with the same ordinal; empty if there are none.
func Reserve(list []intstr.IntOrString, path *field.Path) (r Set, duplicate string, faults field.ErrorList) {
	for i := range list {
		first, last, why := ordinalsOf(&list[i])
		if why != "" {
			faults = append(faults, field.Invalid(path.Index(i), list[i].String(), why))
			continue
		}
		r = append(r, interval{first: first, last: last, entry: i})
	}
	slices.SortStableFunc(r, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
	merged := r[:0]
	for _, next := range r {
		end := len(merged) - 1
		if end < 0 || next.first > merged[end].last {
			merged = append(merged, next)
			continue
		}
		if duplicate == "" {
			a, b := min(merged[end].entry, next.entry), max(merged[end].entry, next.entry)
			duplicate = fmt.Sprintf("%s (%s) and %s (%s) reserve the same ordinals: list them once",
				path.Index(a), list[a].String(), path.Index(b), list[b].String())
		}
		merged[end].last = max(merged[end].last, next.last)
	}
	return merged, duplicate, faults
}

// ordinalsOf parses one entry; why says what is wrong with it.
func ordinalsOf(v *intstr.IntOrString) (first, last int64, why string) {
	if v.Type == intstr.Int {
		if v.IntVal < 0 {
			return 0, 0, "an ordinal must be 0 or more: remove it"
		}
		return int64(v.IntVal), int64(v.IntVal), ""
	}
	from, to, isRange := strings.Cut(v.StrVal, "-")
	if !isRange || !digits(from) || !digits(to) {
		return 0, 0, `must be a number such as 3, without quotes, or a range such as "3-7" with both ends included`
	}
	first, errFirst := strconv.ParseInt(from, 10, 32)
	last, errLast := strconv.ParseInt(to, 10, 32)
	switch {
	case errFirst != nil || errLast != nil:
		return 0, 0, fmt.Sprintf("ordinals end at %d: use smaller ones", math.MaxInt32)
	case first > last:
		return 0, 0, fmt.Sprintf("the range runs backwards: write %q", to+"-"+from)
	}
	return first, last, ""
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// Has reports whether an ordinal is in the set.
func (r Set) Has(ordinal int64) bool {
	return slices.ContainsFunc(r, func(i interval) bool { return i.first <= ordinal && ordinal <= i.last })
}

// gaps yields the intervals that are not reserved, beginning at start; the last one has no end.
func (r Set) gaps(start int64) iter.Seq2[int64, int64] {
	return func(yield func(int64, int64) bool) {
		for _, i := range r {
			if i.last < start {
				continue
			}
			if i.first > start && !yield(start, i.first-1) {
				return
			}
			start = i.last + 1
		}
		yield(start, math.MaxInt64)
	}
}

// Last returns the ordinal of the last of n pods; start-1 if n is 0. It may exceed an int32.
func (r Set) Last(start int64, n int32) int64 {
	if n <= 0 {
		return start - 1
	}
	left := int64(n)
	for first, end := range r.gaps(start) {
		if left <= end-first+1 || end == math.MaxInt64 {
			return first + left - 1
		}
		left -= end - first + 1
	}
	return start - 1
}

// Count returns how many ordinals from first to last are not reserved by a list of reserveOrdinals. An entry that can't be parsed reserves
// nothing.
func Count(list []intstr.IntOrString, first, last int64) int64 {
	r, _, _ := Reserve(list, nil)
	var n int64
	for from, to := range r.gaps(first) {
		if from > last {
			break
		}
		n += min(to, last) - from + 1
	}
	return n
}

// First returns the ordinals of n pods, in order: with start 2 and with 1 and 3 reserved, four pods have 2, 4, 5 and 6. Since n may be very
// large, it returns at most free ordinals that are not in used, the lowest ones; the pods' ordinals that are in used are always included.
// Ordinals beyond an int32 are left out.
func (r Set) First(start int64, n int32, used map[int64]bool, free int) []int64 {
	var out []int64
	last, next := min(r.Last(start, n), math.MaxInt32), start
	for first, end := range r.gaps(start) {
		for next = first; free > 0 && next <= min(end, last); next++ {
			if !used[next] {
				free--
			}
			out = append(out, next)
		}
		if free == 0 || end >= last {
			break
		}
	}
	for _, o := range slices.Sorted(maps.Keys(used)) {
		if next <= o && o <= last && !r.Has(o) {
			out = append(out, o)
		}
	}
	return out
}

// Wants reports whether an ordinal belongs to one of n pods.
func (r Set) Wants(ordinal, start int64, n int32) bool {
	return start <= ordinal && ordinal <= r.Last(start, n) && !r.Has(ordinal)
}

// Number returns the ordinal in the name of a workload's pod, which consists of the workload's name, a dash and the number; false if the name
// isn't of that form.
func Number(workload, pod string) (int64, bool) {
	text, ok := strings.CutPrefix(pod, workload+"-")
	n, err := strconv.ParseInt(text, 10, 32)
	return n, ok && err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

// In returns that ordinal as text; empty if the name isn't of that form.
func In(workload, pod string) string {
	if n, ok := Number(workload, pod); ok {
		return strconv.FormatInt(n, 10)
	}
	return ""
}
