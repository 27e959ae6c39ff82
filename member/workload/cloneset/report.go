package cloneset

import (
	"context"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// countsEvery is how often a status is written that differs in counters of pods only. While many pods start, each pass
// would count one more, and the status would cost as many writes as the pods.
const countsEvery = time.Second

// pace remembers when the status of a CloneSet was last written. The zero value is ready.
type pace struct {
	last sync.Map // time.Time by types.NamespacedName
}

// left is how long a write of counters alone has to wait; 0 means that it may be done.
func (p *pace) left(key types.NamespacedName, now time.Time) time.Duration {
	wrote, _ := p.last.Load(key)
	last, ok := wrote.(time.Time)
	if !ok {
		return 0
	}
	return max(last.Add(countsEvery).Sub(now), 0)
}

func (p *pace) wrote(key types.NamespacedName, now time.Time) { p.last.Store(key, now) }

func (p *pace) forget(key types.NamespacedName) { p.last.Delete(key) }

// report writes the status, if it changed, and then sends the events. If it leaves the write for later, it says for how
// long.
func (r *Reconciler) report(
	ctx context.Context, o observed, s appsv1beta1.CloneSetStatus, events []event.Event,
) (later time.Duration, err error) {
	key, now := client.ObjectKeyFromObject(o.set), r.Clock.Now()
	if !apiequality.Semantic.DeepEqual(o.set.Status, s) && countsOnly(o.set, s) {
		if later = r.pace.left(key, now); later > 0 {
			s = o.set.Status
		}
	}
	wrote, err := report.Writer{Client: r.Client, Expect: r.Expect, Events: r.Events}.Write(ctx, o.set, o.set.Status, s, events)
	if wrote {
		r.pace.wrote(key, now)
	}
	return later, err
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
		s.Conditions = withProgress(s.Conditions, p)
	}
	return apiequality.Semantic.DeepEqual(*was, s)
}

// sooner is the shorter of two times to wait, of which 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
