package cloneset

import (
	"context"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// report writes the status, if it changed, and then sends the events. If it leaves the write for later, it says for how
// long.
func (r *Reconciler) report(
	ctx context.Context, o observed, s appsv1beta1.CloneSetStatus, events []event.Event,
) (later time.Duration, err error) {
	w := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events}
	return r.throttle.Write(ctx, w, o.set, o.set.Status, s, countsOnly(o.set, s), r.Clock.Now(), events)
}

// countsOnly tells whether s differs from the set's status in counters only, and what Progressing says of them, and is not
// the end of what others wait for: all pods updated and available.
func countsOnly(set *appsv1beta1.CloneSet, s appsv1beta1.CloneSetStatus) bool {
	if int(s.UpdatedAvailableReplicas) == replicas(&set.Spec) {
		return false
	}
	was := &set.Status
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas = was.Replicas, was.ReadyReplicas, was.AvailableReplicas
	s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas =
		was.UpdatedReplicas, was.UpdatedReadyReplicas, was.UpdatedAvailableReplicas
	p, now := find(was.Conditions, appsv1beta1.CloneSetProgressing), find(s.Conditions, appsv1beta1.CloneSetProgressing)
	if p != nil && now != nil && p.Status == now.Status && p.Reason == now.Reason {
		s.Conditions = report.PutCondition(s.Conditions, ofType(appsv1beta1.CloneSetProgressing), p)
	}
	return apiequality.Semantic.DeepEqual(*was, s)
}
