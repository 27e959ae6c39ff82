package placement

import (
	"slices"

	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// Readiness returns the readiness of an object whose writes have failed or that has problems, or false if it has neither. Some problems need
// no user: they end when a cluster answers, or when replicas have moved away. With such a problem the object is reconciling, with the
// problem's reason. The same applies to the reasons in ends, which are specific to a kind.
func Readiness(err error, problems []Problem, ends ...string) (report.Readiness, bool) {
	if err != nil {
		return report.Retrying(report.WriteFailure(err)), true
	}
	for i, p := range problems {
		if !resolvesItself(p.Reason) && !slices.Contains(ends, p.Reason) {
			return report.Stalled(report.Failure{Reason: p.Reason, Message: Describe(problems[i:])}), true
		}
	}
	if len(problems) > 0 {
		return report.Reconciling(problems[0].Reason, Describe(problems)), true
	}
	return report.Readiness{}, false
}

// resolvesItself reports whether a problem with this reason goes away by itself.
func resolvesItself(reason string) bool {
	switch reason {
	case ReasonNotJoined, ReasonUnreachable, reasonUnsteady, ReasonTainted, reasonLeaving, ReasonPaced:
		return true
	}
	return false
}
