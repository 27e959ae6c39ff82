package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/link"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// rows is the controller of rows.
type rows struct {
	link    link.Link
	binding *binding
	ledger  *ledger
	writer  writer
	find    finder
	watches *watches
	// served says whether a watch tells of kinds that are served. Nil: it does.
	served  *servedKinds
	memory  *memory
	breaker *breaker
	// started is when this process began.
	started time.Time
	// throttle delays reports that may wait.
	throttle report.Throttle
	// distrust stores that the hub asks for something older than what was applied here.
	distrust func(ctx context.Context, row *fleetv1alpha1.MemberWork, epoch int64) error
	// unclaimed tells the binding that a row is gone whose object is still in the ledger.
	unclaimed func()
}

// Reconcile reconciles one row. The cache is enough to see that the object is up to date; anything else is planned again from
// what the apiserver returns.
func (r *rows) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName, false)
	if err == nil && !o.fresh && !plan(o, r.link.Clock.Now()).atRest() {
		o, err = r.observe(ctx, req.NamespacedName, true)
	}
	if errors.Is(err, errGone) {
		r.forget(req.NamespacedName) //nolint:contextcheck // A watch lasts as long as the controller runs.
		return ctrl.Result{}, nil
	}
	now := r.link.Clock.Now()
	if err != nil {
		return ctrl.Result{}, r.failed(ctx, o, planned{}, applied{unknown: true}, err, now)
	}
	p := plan(o, now)
	if o.permission.waits(o.row) != "" {
		return ctrl.Result{}, nil // A change of the binding enqueues all rows.
	}
	if p.distrust > 0 {
		return ctrl.Result{RequeueAfter: time.Second}, client.IgnoreNotFound(r.checkBackup(ctx, o))
	}
	a, err := r.apply(ctx, o, p)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil // A concurrent write.
	}
	if err != nil {
		if p.act == actApply {
			r.doubt(o.row, now)
		}
		return ctrl.Result{}, r.failed(ctx, o, p, a, err, now)
	}
	r.succeeded(o.row)
	recheck := p.recheck
	if p.act == actApply && a.stopped == nil {
		recheck = r.countApply(o, a, now)
	}
	if a.stopped != nil {
		recheck = recheckBlocked
	}
	after, err := r.report(ctx, o, p, a, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: report.Sooner(recheck, after)}, nil
}

// failed counts an attempt that has failed, and reports the failure once several in a row have. It returns the error, so that the row is
// tried again.
func (r *rows) failed(ctx context.Context, o observed, p planned, a applied, err error, now time.Time) error {
	if o.row == nil || !answered(err) {
		return err
	}
	mem := r.memory.get(o.row)
	mem.attempts = mem.attempts.next(err, now)
	r.memory.set(o.row, mem)
	if mem.attempts.failed < reportedFailures {
		return err
	}
	a.stopped = mem.attempts.problem()
	_, unreported := r.report(ctx, o, p, a, now)
	return errors.Join(err, unreported)
}

// succeeded forgets failed attempts.
func (r *rows) succeeded(row *fleetv1alpha1.MemberWork) {
	if mem := r.memory.get(row); mem.attempts != (attempts{}) {
		mem.attempts = attempts{}
		r.memory.set(row, mem)
	}
}

// answered reports whether an error is about the row: that a server is not reached, or that the agent ends, is not.
func answered(err error) bool {
	unreached := net.Error(nil)
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &unreached)
}

// checkBackup reads the row from the hub's apiserver, because a cache may lag behind what was applied, and stops trusting the hub
// if the row is really older. The change of the binding enqueues all rows.
func (r *rows) checkBackup(ctx context.Context, o observed) error {
	live := &fleetv1alpha1.MemberWork{}
	if err := r.link.Hub.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(o.row), live); err != nil {
		return fmt.Errorf("get row %s: %w", o.row.Name, err)
	}
	o.row = live
	if epoch := o.fromBackup(); epoch > 0 {
		return r.distrust(ctx, live, epoch)
	}
	return nil
}

// doubt remembers that an apply failed, and may be carried out nevertheless.
func (r *rows) doubt(row *fleetv1alpha1.MemberWork, now time.Time) {
	mem := r.memory.get(row)
	mem.doubted = now
	r.memory.set(row, mem)
}

// underWay returns for how long an object may still come into being that was not there: by an apply whose answer this process, or one
// before it, has not got.
func (r *rows) underWay(row *fleetv1alpha1.MemberWork) time.Duration {
	since := r.memory.get(row).doubted
	if r.ledger.isInherited(row.Name) && r.started.After(since) {
		since = r.started
	}
	return max(applyLasts-r.link.Clock.Since(since), 0)
}

// countApply counts an apply and returns after how long to check it. Where even the response differs from what was applied (a
// mutating webhook), there may be no watch event.
func (r *rows) countApply(o observed, a applied, now time.Time) time.Duration {
	mem := r.memory.get(o.row)
	mem.contention = mem.contention.next(o.want.hash, now)
	r.memory.set(o.row, mem)
	if upToDate(a.line, o.want, a.live) {
		return 0
	}
	return max(mem.contention.wait(o.want.hash, now), time.Second)
}

// report writes the row's status if that is due and records events; otherwise it returns after how long it will be due.
func (r *rows) report(ctx context.Context, o observed, p planned, a applied, now time.Time) (time.Duration, error) {
	mem := r.memory.get(o.row)
	last := o.row.Status
	switch {
	case mem.reported == nil:
	case equality.Semantic.DeepEqual(last, *mem.reported):
		mem.reported = nil // The cache has caught up.
	default:
		last = *mem.reported
	}
	next := status(o, p, a, last)
	if len(a.drift) > 0 {
		drifts.WithLabelValues(r.link.Cluster, a.live.GetKind()).Inc()
		mem.drift = next.Drift // Kept until it is reported, which may take another reconcile.
		r.memory.set(o.row, mem)
		r.link.Events.Record(a.live, driftEvent(next.Drift))
	}
	if p.adopts && a.stopped == nil {
		r.link.Events.Record(a.live, adoptedEvent(adoption(o.row)))
	}
	next.Drift = mem.drift
	next = fit(next)
	if write, after := r.due(o.row, last, next, now); !write {
		countPhase(r.link.Cluster, mem.counted, last.Phase)
		mem.counted = last.Phase
		r.memory.set(o.row, mem)
		return after, nil
	}
	if wrote, err := r.write(ctx, o.row, next); err != nil || !wrote {
		return 0, err
	}
	if p.stopped != nil && p.stopped.reason == reasonContended && last.Reason != reasonContended {
		r.link.Events.Record(a.live, contendedEvent(p.stopped))
	}
	countPhase(r.link.Cluster, mem.counted, next.Phase)
	mem.reported, mem.drift, mem.counted = &next, nil, next.Phase
	r.memory.set(o.row, mem)
	r.throttle.Wrote(client.ObjectKeyFromObject(o.row), now)
	return 0, nil
}

// due returns whether to report a row's new status now, and otherwise after how long; 0 means that it says nothing new.
func (r *rows) due(
	row *fleetv1alpha1.MemberWork, last, next fleetv1alpha1.MemberWorkStatus, now time.Time,
) (write bool, after time.Duration) {
	key := client.ObjectKeyFromObject(row)
	switch urgencyOf(row, last, next) {
	case atOnce:
		return true, 0
	case soon:
		return r.throttle.DueIn(key, true, 0, now)
	case begun:
		return r.throttle.DueIn(key, true, begunDelay, now)
	case unchanged:
	}
	return r.throttle.DueIn(key, false, 0, now)
}

// write writes the status of a row as it was observed, and reports whether it did: after a conflict the row has changed, or is gone,
// and its watch event starts the next reconcile. So the status never ends up in another row of that name.
func (r *rows) write(ctx context.Context, row *fleetv1alpha1.MemberWork, s fleetv1alpha1.MemberWorkStatus) (wrote bool, err error) {
	next := row.DeepCopy()
	next.Status = s
	err = r.link.Hub.GetClient().Status().Patch(ctx, next,
		client.MergeFromWithOptions(row, client.MergeFromWithOptimisticLock{}), client.FieldOwner(link.AgentManager))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("report row %s: %w", row.Name, err)
	}
	reports.WithLabelValues(r.link.Cluster).Inc()
	return true, nil
}

func (r *rows) forget(key client.ObjectKey) {
	countPhase(r.link.Cluster, r.memory.drop(key), "")
	r.watches.forget(key)
	r.throttle.Forget(key)
	r.breaker.release(key)
	if r.ledger.get(key.Name) != nil {
		r.unclaimed()
	}
}

// rowState is kept in memory only; losing it costs a request or two.
type rowState struct {
	// want was rendered for generation.
	want       *rendered
	generation int64
	contention contention
	attempts   attempts
	// doubted is when an apply failed last whose outcome is not known.
	doubted time.Time
	// reported is the status that was written last; nil once the cache shows it.
	reported *fleetv1alpha1.MemberWorkStatus
	// drift lists fields that were reverted and are not reported yet.
	drift []string
	// counted is the phase that the metrics count the row under.
	counted fleetv1alpha1.WorkPhase
}

// memory holds the state of rows by key and UID. It may be used concurrently.
type memory struct {
	mu   sync.Mutex
	rows map[client.ObjectKey]rowEntry
}

type rowEntry struct {
	uid types.UID
	rowState
}

func newMemory() *memory { return &memory{rows: map[client.ObjectKey]rowEntry{}} }

// get returns the state of the row, not that of a former row of that name.
func (m *memory) get(row *fleetv1alpha1.MemberWork) rowState {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.rows[client.ObjectKeyFromObject(row)]
	if known.uid != row.UID {
		return rowState{counted: known.counted}
	}
	return known.rowState
}

func (m *memory) set(row *fleetv1alpha1.MemberWork, r rowState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[client.ObjectKeyFromObject(row)] = rowEntry{uid: row.UID, rowState: r}
}

// drop deletes a row's state and returns the phase that it was counted under.
func (m *memory) drop(key client.ObjectKey) fleetv1alpha1.WorkPhase {
	m.mu.Lock()
	defer m.mu.Unlock()
	counted := m.rows[key].counted
	delete(m.rows, key)
	return counted
}
