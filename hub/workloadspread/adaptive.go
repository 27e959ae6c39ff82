package workloadspread

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// recovery is how long a cluster gets no new pods after some could not be scheduled there. It is the same as for a subset in a member.
const recovery = 5 * time.Minute

// Reasons of the condition Schedulable of a subset.
const (
	// reasonSufficient means that there is no known problem with the cluster.
	reasonSufficient = "Sufficient"
	// reasonRecovered means that the cluster gets new pods again. What has moved in the meantime stays where it is.
	reasonRecovered = "Recovered"
	// reasonUnschedulable means that pods could not be scheduled for too long.
	reasonUnschedulable = "PodUnschedulable"
)

// openness says whether a cluster gets new pods. The zero value means that there is no known problem.
type openness struct {
	// reason is one of the reasons above. It is empty for clusters that are always open.
	reason string
	// since is when the cluster was closed.
	since time.Time
	// most is the maximum number of replicas that the cluster gets; nil means no limit.
	most *int
}

// adapt finds clusters that can't schedule their pods. They keep what is scheduled, and get no more for a while. After that they get new
// pods, but nothing is moved back to them, since it would end up unscheduled there as before. The clusters of the last subset take what
// doesn't fit elsewhere, and stay open.
//
// A member reports as unschedulable only pods of its last subset, because it sends the pods of the other subsets there itself. Pods that it
// has not created yet go there too and would wait as well, so only scheduled pods stay.
func (d *division) adapt(o *observed, now time.Time) {
	if o.ws.Spec.ScheduleStrategy.Type != appsv1beta1.AdaptiveWorkloadSpread || len(o.ws.Spec.Subsets) == 0 {
		return
	}
	last, granted := o.ws.Spec.Subsets[len(o.ws.Spec.Subsets)-1].Name, 0
	for _, s := range d.sites {
		granted += int(s.grant.Replicas)
	}
	for _, s := range d.sites {
		if len(s.parts) == 0 {
			continue
		}
		s.open = openness{reason: reasonSufficient}
		if s.parts[len(s.parts)-1].Subset == last {
			continue
		}
		before := s.previousOpenness(o.ws)
		waiting, scheduled := s.scheduled()
		grant := int(s.grant.Replicas)
		switch {
		case s.state != allot.Frozen && waiting > 0:
			s.open = openness{reason: reasonUnschedulable, since: now, most: new(min(scheduled, grant))}
			if before.reason == reasonUnschedulable {
				s.open.since = before.since
			}
			d.recheckIn(recovery)
		case before.reason == reasonUnschedulable && now.Sub(before.since) < recovery:
			s.open = openness{reason: reasonUnschedulable, since: before.since, most: &grant}
			d.recheckIn(recovery - now.Sub(before.since))
		case before.reason != reasonSufficient && before.reason != "":
			s.open = openness{reason: reasonRecovered, most: new(grant + max(d.total-granted, 0))}
		}
	}
}

func (d *division) recheckIn(in time.Duration) { d.recheck = timing.Sooner(d.recheck, in) }

// scheduled splits the pods that a cluster reports into those that could not be scheduled for too long, and the others. Both numbers come
// from the same report, so that pods that have left since are not counted twice.
func (s *site) scheduled() (waiting, scheduled int) {
	for _, p := range s.parts {
		all, _ := allot.Clamp(int(p.counts.Replicas))
		late, _ := allot.Clamp(int(p.counts.Unschedulable))
		late = min(late, all)
		waiting += late
		scheduled += all - late
	}
	return waiting, scheduled
}

// previousOpenness returns the openness of a cluster according to the status.
func (s *site) previousOpenness(ws *appsv1beta1.WorkloadSpread) openness {
	for i := range ws.Status.SubsetStatuses {
		line := &ws.Status.SubsetStatuses[i]
		if line.Cluster != s.cluster {
			continue
		}
		if c := report.GetCondition(line.Conditions, appsv1beta1.WorkloadSpreadSubsetSchedulable); c != nil {
			out := openness{reason: c.Reason}
			if c.Status == metav1.ConditionFalse {
				out.since = c.LastTransitionTime.Time
			}
			return out
		}
	}
	return openness{}
}

// condition returns the condition of a cluster's subsets, or nil if the strategy is not Adaptive.
func (s *site) condition(generation int64) *metav1.Condition {
	c := &metav1.Condition{
		Type: appsv1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionTrue, Reason: s.open.reason,
		Message: "new pods are sent here", ObservedGeneration: generation,
	}
	switch s.open.reason {
	case "":
		return nil
	case reasonUnschedulable:
		c.Status, c.Message = metav1.ConditionFalse, "pods could not be scheduled: they and new pods go to the next cluster"
	case reasonRecovered:
		c.Message = "new pods are sent here again; replicas that have moved stay where they are"
	}
	return c
}
