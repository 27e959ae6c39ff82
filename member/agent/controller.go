package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// rowReconciler is the controller of rows.
type rowReconciler struct {
	link    link.Link
	binding *binding
	ledger  *ledger
	writer  writer
	find    finder
	watches *watches
	// served reports whether CRDs are watched; nil means that they are.
	served  *servedKinds
	memory  *memory
	breaker *breaker
	// started is when this run of the agent began.
	started time.Time
	// throttle delays reports that may wait.
	throttle report.Throttle
	// distrust stores epoch as the one from which the hub is trusted again, because row is older than what was applied for it.
	distrust func(ctx context.Context, row *fleetv1alpha1.MemberWork, epoch int64) error
	// enqueueBinding enqueues the binding controller after a row whose object is still in the ledger is gone.
	enqueueBinding func()
	// hubLacksAvailable means that the hub has dropped updatedAvailable from a report, because it is of the previous version.
	hubLacksAvailable atomic.Bool
}

// Reconcile reconciles one row. The cache is enough to see that the object is up to date; anything else is planned again from what the
// apiserver returns.
func (r *rowReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName, false)
	if err == nil && !o.fresh && !plan(o, r.link.Clock.Now()).safeFromCache() {
		o, err = r.observe(ctx, req.NamespacedName, true)
	}
	if errors.Is(err, errGone) {
		r.forget(req.NamespacedName) //nolint:contextcheck // A watch lasts as long as the controller runs.
		return ctrl.Result{}, nil
	}
	now := r.link.Clock.Now()
	if err != nil {
		return ctrl.Result{}, r.recordFailure(ctx, o, planned{}, applied{unknown: true}, err, now)
	}
	p := plan(o, now)
	if o.permission.waitReason(o.row) != "" {
		return ctrl.Result{}, nil // A change of the binding enqueues all rows.
	}
	if p.distrustEpoch > 0 {
		return ctrl.Result{RequeueAfter: time.Second}, client.IgnoreNotFound(r.confirmDistrust(ctx, o))
	}
	a, err := r.apply(ctx, o, p)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil // A concurrent write.
	}
	if err != nil {
		if p.action == actApply {
			r.rememberUnknownApply(o.row, now)
		}
		return ctrl.Result{}, r.recordFailure(ctx, o, p, a, err, now)
	}
	r.forgetFailures(o.row)
	recheck := p.recheck
	if p.action == actApply && a.problem == nil {
		recheck = r.countApply(o, a, now)
	}
	if a.problem != nil {
		recheck = recheckBlocked
	}
	after, err := r.report(ctx, o, p, a, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: timing.Sooner(recheck, after)}, nil
}

// recordFailure counts a failed attempt, and reports the failure once several in a row have failed. It returns the error, so that the row is retried.
func (r *rowReconciler) recordFailure(ctx context.Context, o observed, p planned, a applied, err error, now time.Time) error {
	if o.row == nil || !isAboutRow(err) {
		return err
	}
	mem := r.memory.get(o.row)
	mem.attempts = mem.attempts.afterFailure(err, now)
	r.memory.set(o.row, mem)
	if mem.attempts.failed < reportAfterFailures {
		return err
	}
	a.problem = mem.attempts.problem()
	_, unreported := r.report(ctx, o, p, a, now)
	return errors.Join(err, unreported)
}

// forgetFailures ends a series of failed attempts.
func (r *rowReconciler) forgetFailures(row *fleetv1alpha1.MemberWork) {
	if mem := r.memory.get(row); mem.attempts != (attempts{}) {
		mem.attempts = attempts{}
		r.memory.set(row, mem)
	}
}

// isAboutRow reports whether an error is about this row. An unreachable server or the end of the agent is about all rows.
func isAboutRow(err error) bool {
	unreached := net.Error(nil)
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &unreached)
}

// confirmDistrust reads the row from the hub's apiserver, because a cache may lag behind what was applied, and stops trusting the hub if the
// row is really older. The change of the binding enqueues all rows.
func (r *rowReconciler) confirmDistrust(ctx context.Context, o observed) error {
	live := &fleetv1alpha1.MemberWork{}
	if err := r.link.Hub.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(o.row), live); err != nil {
		return fmt.Errorf("get row %s: %w", o.row.Name, err)
	}
	o.row = live
	if epoch := o.distrustEpoch(); epoch > 0 {
		return r.distrust(ctx, live, epoch)
	}
	return nil
}

// rememberUnknownApply records an apply that failed and that the apiserver may carry out nevertheless.
func (r *rowReconciler) rememberUnknownApply(row *fleetv1alpha1.MemberWork, now time.Time) {
	mem := r.memory.get(row)
	mem.unknownApply = now
	r.memory.set(row, mem)
}

// pendingApply returns for how long an object that does not exist may still be created by an apply whose response this run of the agent, or an
// earlier one, did not receive.
func (r *rowReconciler) pendingApply(row *fleetv1alpha1.MemberWork) time.Duration {
	since := r.memory.get(row).unknownApply
	if r.ledger.isInherited(row.Name) && r.started.After(since) {
		since = r.started
	}
	return max(maxApplyDuration-r.link.Clock.Since(since), 0)
}

// countApply counts an apply and returns how soon to check it. If even the response differs from what was applied, because of a mutating webhook,
// there may be no watch event.
func (r *rowReconciler) countApply(o observed, a applied, now time.Time) time.Duration {
	mem := r.memory.get(o.row)
	mem.contention = mem.contention.afterApply(o.want.hash, now)
	r.memory.set(o.row, mem)
	if upToDate(a.line, o.want, a.live) {
		return 0
	}
	return max(mem.contention.waitBefore(o.want.hash, now), time.Second)
}

// report writes the row's status if that is due and records events; otherwise it returns how long until it is due.
func (r *rowReconciler) report(ctx context.Context, o observed, p planned, a applied, now time.Time) (time.Duration, error) {
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
	if p.adopts && a.problem == nil {
		r.link.Events.Record(a.live, adoptedEvent(adoption(o.row)))
	}
	next.Drift = mem.drift
	next = fitToLimit(next)
	stored := next // as the hub is expected to store it
	if r.hubLacksAvailable.Load() {
		stored = withoutUpdatedAvailable(next)
	}
	if write, after := r.due(o.row, last, stored, now); !write {
		countPhase(r.link.Cluster, mem.countedPhase, last.Phase)
		mem.countedPhase = last.Phase
		r.memory.set(o.row, mem)
		return after, nil
	}
	stored, wrote, err := r.writeStatus(ctx, o.row, next)
	if err != nil || !wrote {
		return 0, err
	}
	if !equality.Semantic.DeepEqual(next, withoutUpdatedAvailable(next)) { // The hub may be upgraded while the agent runs.
		r.hubLacksAvailable.Store(equality.Semantic.DeepEqual(stored, withoutUpdatedAvailable(next)))
	}
	if p.problem != nil && p.problem.reason == reasonContended && last.Reason != reasonContended {
		r.link.Events.Record(a.live, contendedEvent(p.problem))
	}
	countPhase(r.link.Cluster, mem.countedPhase, next.Phase)
	mem.reported, mem.drift, mem.countedPhase = &stored, nil, next.Phase
	r.memory.set(o.row, mem)
	r.throttle.Wrote(client.ObjectKeyFromObject(o.row), now)
	return 0, nil
}

// due returns whether to report a row's new status now, and if not, after how long; 0 means that there is nothing new to report.
func (r *rowReconciler) due(
	row *fleetv1alpha1.MemberWork, last, next fleetv1alpha1.MemberWorkStatus, now time.Time,
) (write bool, after time.Duration) {
	key := client.ObjectKeyFromObject(row)
	switch urgencyOf(row, last, next) {
	case reportAtOnce:
		return true, 0
	case reportSoon:
		return r.throttle.DueIn(key, true, 0, now)
	case reportBegun:
		return r.throttle.DueIn(key, true, begunDelay, now)
	case reportNothing:
	}
	return r.throttle.DueIn(key, false, 0, now)
}

// writeStatus writes the status of a row at the version that was observed, and reports whether it did: after a conflict the row has changed, or is
// gone, and its watch event starts the next reconcile. Thus the status never ends up in a later row of the same name. stored is the status
// that the hub answers with, without fields that its version doesn't have.
func (r *rowReconciler) writeStatus(
	ctx context.Context, row *fleetv1alpha1.MemberWork, s fleetv1alpha1.MemberWorkStatus,
) (stored fleetv1alpha1.MemberWorkStatus, wrote bool, err error) {
	next := row.DeepCopy()
	next.Status = s
	err = r.link.Hub.GetClient().Status().Patch(ctx, next,
		client.MergeFromWithOptions(row, client.MergeFromWithOptimisticLock{}), client.FieldOwner(link.AgentManager))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return stored, false, nil
	}
	if err != nil {
		return stored, false, fmt.Errorf("report row %s: %w", row.Name, err)
	}
	reports.WithLabelValues(r.link.Cluster).Inc()
	return next.Status, true, nil
}

func (r *rowReconciler) forget(key client.ObjectKey) {
	countPhase(r.link.Cluster, r.memory.drop(key), "")
	r.watches.forget(key)
	r.throttle.Forget(key)
	r.breaker.release(key)
	if r.ledger.get(key.Name) != nil {
		r.enqueueBinding()
	}
}

// rowState is kept in memory only; losing it costs a request or two.
type rowState struct {
	// want was rendered for generation.
	want       *rendered
	generation int64
	contention contention
	attempts   attempts
	// unknownApply is when an apply whose outcome is not known last failed.
	unknownApply time.Time
	// reported is the status that was written last; nil once the cache shows it.
	reported *fleetv1alpha1.MemberWorkStatus
	// drift lists fields that were reverted and are not reported yet.
	drift []string
	// countedPhase is the phase that the metrics count the row under.
	countedPhase fleetv1alpha1.WorkPhase
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

// get returns the state of the row, not the state of an earlier row with the same name.
func (m *memory) get(row *fleetv1alpha1.MemberWork) rowState {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.rows[client.ObjectKeyFromObject(row)]
	if known.uid != row.UID {
		return rowState{countedPhase: known.countedPhase}
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
	countedPhase := m.rows[key].countedPhase
	delete(m.rows, key)
	return countedPhase
}
