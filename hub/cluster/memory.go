package cluster

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// A member whose reports have changed more than unsteadyChanges times within unsteadyWindow is ignored until they have stayed the same for
// unsteadyWindow. Otherwise one member could make the hub plan the whole fleet over and over.
const (
	unsteadyChanges = 6
	unsteadyWindow  = 10 * time.Minute
)

// serialsKept is how many certificates of a member are remembered. With the shortest lifetime they cover two hours.
const serialsKept = 16

// history is derived from earlier observations of a MemberCluster.
type history struct {
	// leavingFor is how long the cluster has been leaving. This process measures it, because the deletion timestamp is based on the apiserver's
	// clock. A restart of the hub therefore starts over.
	leavingFor time.Duration
	// unsteadyFor is how much longer its member is ignored because its reports changed too often, or 0 if it is not ignored.
	unsteadyFor time.Duration
	// twice: the member reports a certificate that it had already replaced.
	twice bool
}

// memory holds what this process remembers about MemberClusters, by name. It is safe for concurrent use.
type memory struct {
	mu sync.Mutex
	by map[string]*remembered
}

type remembered struct {
	uid     types.UID
	leaving time.Time
	well    bool
	changes []time.Time
	held    time.Time // the member is ignored until then
	serials []string  // the latest is the last
}

func newMemory() *memory { return &memory{by: map[string]*remembered{}} }

// observe takes the current state of a MemberCluster, and returns the history that follows from it and from earlier states.
func (m *memory) observe(mc *fleetv1alpha1.MemberCluster, now time.Time) history {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, well := m.by[mc.Name], reportsWell(mc)
	if r == nil || r.uid != mc.UID {
		r = &remembered{uid: mc.UID, well: well}
		m.by[mc.Name] = r
	}
	var h history
	if !mc.DeletionTimestamp.IsZero() {
		if r.leaving.IsZero() {
			r.leaving = now
		}
		h.leavingFor = now.Sub(r.leaving)
	}
	if well != r.well {
		r.well = well
		r.changed(now)
	}
	h.unsteadyFor = max(r.held.Sub(now), 0)
	if mc.Status.Credential != nil {
		h.twice = r.reports(mc.Status.Credential.Serial)
	}
	return h
}

// forget drops a MemberCluster that is gone.
func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.by, name)
}

// changed counts a change of the member's reports.
func (r *remembered) changed(now time.Time) {
	r.changes = append(slices.DeleteFunc(r.changes, func(t time.Time) bool { return now.Sub(t) > unsteadyWindow }), now)
	if len(r.changes) > unsteadyChanges {
		r.changes = r.changes[1:]
		r.held = now.Add(unsteadyWindow)
	}
}

// reports takes the serial of the certificate that the member reports. It returns whether the member reported that one before, and another
// one since. An agent that has renewed its certificate doesn't use an older one, so two agents must be using credentials of the cluster.
func (r *remembered) reports(serial string) bool {
	at := slices.Index(r.serials, serial)
	if serial == "" || at >= 0 && at == len(r.serials)-1 {
		return false
	}
	if at >= 0 {
		r.serials = slices.Delete(r.serials, at, at+1)
	}
	r.serials = append(r.serials, serial)
	r.serials = r.serials[max(len(r.serials)-serialsKept, 0):]
	return at >= 0
}

// reportsWell reports whether the member itself says that it may be used. The hub's own findings, such as the Lease, have their own
// hysteresis.
func reportsWell(mc *fleetv1alpha1.MemberCluster) bool {
	healthy := report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionAPIHealthy)
	return report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionOwnedByThisHub) &&
		(healthy == nil || healthy.Status != metav1.ConditionFalse) && rightIdentity(mc)
}
