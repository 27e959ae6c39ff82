package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FaultKind is a kind of fault.
type FaultKind string

// Faults at writes of the controller. They are numbered by its writes.
const (
	// CrashBefore: the process dies before it sends the write.
	CrashBefore FaultKind = "crash-before"
	// CrashAfter: the process dies after the write was executed, before it gets the response.
	CrashAfter FaultKind = "crash-after"
	// LateWrite: the process loses its leadership while the write is in flight. The next leader starts, and the write arrives some steps later.
	LateWrite FaultKind = "late-write"
	// Stale: starting just before the write, no watch delivers anything for some steps.
	Stale FaultKind = "stale"
	// Relist: with the write, all watches break. What they had not delivered is lost, and each cache lists again, each at its own time.
	Relist FaultKind = "relist"
	// Duplicate: after the write, each watch delivers its next event twice.
	Duplicate FaultKind = "duplicate"
)

// Responses of the apiserver. They are numbered by the controller's calls: writes, and reads that bypass the cache.
const (
	// Conflict: 409, because another writer has just changed the object. Only updates and patches get it.
	Conflict FaultKind = "conflict"
	// TooMany: 429, and nothing was done.
	TooMany FaultKind = "too-many"
	// Refused: 429 because of a disruption budget, and nothing was done. Only deletions of pods get it.
	Refused FaultKind = "refused"
	// Internal: 500, and nothing was done.
	Internal FaultKind = "internal"
	// InternalDone: 500, although the request was executed.
	InternalDone FaultKind = "internal-done"
	// Timeout: no response, and nothing was done.
	Timeout FaultKind = "timeout"
	// TimeoutDone: no response, although the request was executed.
	TimeoutDone FaultKind = "timeout-done"
)

// AllFaults returns all kinds of faults.
func AllFaults() []FaultKind {
	return []FaultKind{
		CrashBefore, CrashAfter, LateWrite, Stale, Relist, Duplicate,
		Conflict, TooMany, Refused, Internal, InternalDone, Timeout, TimeoutDone,
	}
}

// ofCalls reports whether faults of the kind are numbered by calls instead of writes.
func (k FaultKind) ofCalls() bool {
	return slices.Contains([]FaultKind{Conflict, TooMany, Refused, Internal, InternalDone, Timeout, TimeoutDone}, k)
}

// hasLength reports whether faults of the kind have a length.
func (k FaultKind) hasLength() bool { return k == Stale || k == LateWrite }

// Fault is one thing that goes wrong in a run.
type Fault struct {
	Kind FaultKind
	// At is the number of the write or call, counted from 1.
	At int
	// Steps is how long Stale and LateWrite last, in steps of the run.
	Steps int
}

// String returns the form that ParseSchedule parses.
func (f Fault) String() string {
	if f.Kind.hasLength() {
		return fmt.Sprintf("%s@%d+%d", f.Kind, f.At, f.Steps)
	}
	return fmt.Sprintf("%s@%d", f.Kind, f.At)
}

// Schedule determines a run: the same schedule gives the same run.
type Schedule struct {
	// Seed chooses among the possible steps. 0 chooses watch events first, then the controller's steps, then the others.
	Seed int64
	// Faults are the faults to inject.
	Faults []Fault
}

// String returns the form that ParseSchedule parses, such as "7:crash-after@5,stale@9+20".
func (s Schedule) String() string {
	faults := make([]string, 0, len(s.Faults))
	for _, f := range s.Faults {
		faults = append(faults, f.String())
	}
	return fmt.Sprintf("%d:%s", s.Seed, strings.Join(faults, ","))
}

// ParseSchedule parses the result of Schedule.String.
func ParseSchedule(text string) (Schedule, error) {
	seed, faults, _ := strings.Cut(text, ":")
	var s Schedule
	var err error
	if s.Seed, err = strconv.ParseInt(seed, 10, 64); err != nil {
		return Schedule{}, fmt.Errorf("read seed of schedule %q: %w", text, err)
	}
	if faults == "" {
		return s, nil
	}
	for one := range strings.SplitSeq(faults, ",") {
		kind, at, _ := strings.Cut(one, "@")
		f := Fault{Kind: FaultKind(kind)}
		at, steps, lasts := strings.Cut(at, "+")
		if !slices.Contains(AllFaults(), f.Kind) || lasts != f.Kind.hasLength() {
			return Schedule{}, fmt.Errorf("read schedule %q: %q is no fault", text, one)
		}
		if f.At, err = strconv.Atoi(at); err != nil {
			return Schedule{}, fmt.Errorf("read fault %q: %w", one, err)
		}
		if lasts {
			if f.Steps, err = strconv.Atoi(steps); err != nil {
				return Schedule{}, fmt.Errorf("read fault %q: %w", one, err)
			}
		}
		s.Faults = append(s.Faults, f)
	}
	return s, nil
}

// without returns the schedule without one of its faults.
func (s Schedule) without(i int) Schedule {
	return Schedule{Seed: s.Seed, Faults: slices.Delete(slices.Clone(s.Faults), i, i+1)}
}

// answer returns the error for a fault of a call, and whether the call is executed anyway.
func (k FaultKind) answer(name string, c call) (done bool, err error) {
	switch k { //nolint:exhaustive // The others are no answers.
	case Conflict:
		if c.verb != Update && c.verb != Patch && c.verb != Apply {
			return true, nil
		}
		return false, apierrors.NewConflict(resourceOf(c.kind), name, errors.New("the object has been modified"))
	case TooMany:
		return false, apierrors.NewTooManyRequests("the server is busy", 1)
	case Refused:
		if c.verb != Delete || c.kind.Kind != "Pod" {
			return true, nil
		}
		err := apierrors.NewTooManyRequests("the disruption budget needs this pod", 0)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
		return false, err
	case Internal, InternalDone:
		return k == InternalDone, apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	case Timeout, TimeoutDone:
		return k == TimeoutDone, apierrors.NewTimeoutError("the server did not answer", 1)
	default:
		return true, nil
	}
}
