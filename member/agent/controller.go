package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/link"
)

// rows is the controller of rows: one reconcile per row at a time.
type rows struct {
	link   link.Link
	claim  *claimed
	ledger *ledger
	hands  hands
	kinds  *kinds
	memory *memory
}

// Reconcile makes one reconcile over a row. What a cache shows is enough to see that all is well; anything else is planned
// again on what the apiserver says.
func (r *rows) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName, false)
	if err == nil && !o.fresh && !plan(o, r.link.Clock.Now()).atRest() {
		o, err = r.observe(ctx, req.NamespacedName, true)
	}
	if errors.Is(err, errGone) {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.link.Clock.Now()
	p := plan(o, now)
	if !o.view.act || (o.view.leaving && o.row.DeletionTimestamp.IsZero()) {
		return ctrl.Result{}, nil
	}
	d, err := r.apply(ctx, o, p)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil // Somebody wrote at the same time: look again.
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	recheck := p.recheck
	if p.act == actApply && d.stopped == nil {
		recheck = r.remember(o, d, now)
	}
	if d.stopped != nil {
		recheck = recheckBlocked
	}
	after, err := r.report(ctx, o, p, d, now)
	return ctrl.Result{RequeueAfter: soonest(recheck, after)}, err
}

// remember counts an apply. Where the object is not as applied even in the answer, no watch may tell of it, so it is
// looked at again before long.
func (r *rows) remember(o observed, d done, now time.Time) time.Duration {
	mem := r.memory.get(o.row)
	mem.contention = mem.contention.next(o.want.hash, now)
	r.memory.set(o.row, mem)
	if inPlace(d.line, o.want, d.live) {
		return 0
	}
	return max(mem.contention.wait(o.want.hash, now), time.Second)
}

// report writes the row's status if that is due, then sends events; else it says after how long it will be.
func (r *rows) report(ctx context.Context, o observed, p planned, d done, now time.Time) (time.Duration, error) {
	mem := r.memory.get(o.row)
	last := o.row.Status
	switch {
	case mem.reported == nil:
	case equality.Semantic.DeepEqual(last, *mem.reported):
		mem.reported = nil // From here on the cache knows.
	default:
		last = *mem.reported
	}
	next := status(o, p, d, last)
	if len(d.drift) > 0 {
		drifts.WithLabelValues(r.link.Cluster, d.live.GetKind()).Inc()
		mem.drift = next.Drift // Until it is told, also by a later reconcile.
		r.memory.set(o.row, mem)
		r.link.Events.Record(d.live, driftEvent(next.Drift))
	}
	next.Drift = mem.drift
	next = fit(next)
	write, after := due(last, next, now.Sub(mem.reportedAt))
	if !write {
		countPhase(r.link.Cluster, mem.counted, last.Phase)
		mem.counted = last.Phase
		r.memory.set(o.row, mem)
		return after, nil
	}
	if err := r.write(ctx, o.row, next); err != nil {
		return 0, err
	}
	if p.stopped != nil && p.stopped.reason == reasonContended && last.Reason != reasonContended {
		r.link.Events.Record(d.live, contendedEvent(p.stopped))
	}
	countPhase(r.link.Cluster, mem.counted, next.Phase)
	mem.reported, mem.reportedAt, mem.drift, mem.counted = &next, now, nil, next.Phase
	r.memory.set(o.row, mem)
	return 0, nil
}

// write sends the whole status, so that what is left out goes. The row's UID is a precondition: a report never lands on
// another row of that name.
func (r *rows) write(ctx context.Context, row *fleetv1alpha1.MemberWork, s fleetv1alpha1.MemberWorkStatus) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	if err != nil {
		return fmt.Errorf("write the status of row %s: %w", row.Name, err)
	}
	content["counts"] = allCounts(s.Counts)
	u := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	u.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("MemberWork"))
	u.SetNamespace(row.Namespace)
	u.SetName(row.Name)
	u.SetUID(row.UID)
	err = r.link.Hub.GetClient().Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner(link.AgentManager), client.ForceOwnership)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // The row went; the watch says so soon.
	}
	if err != nil {
		return fmt.Errorf("report row %s: %w", row.Name, err)
	}
	reports.WithLabelValues(r.link.Cluster).Inc()
	return nil
}

// allCounts spells zeros out. As an empty object, counts that were reported before would become null, which the schema
// refuses (server-side apply of Kubernetes 1.36).
func allCounts(c fleetv1alpha1.WorkCounts) map[string]any {
	return map[string]any{
		"desired": int64(c.Desired), "replicas": int64(c.Replicas), "ready": int64(c.Ready), "available": int64(c.Available),
		"updated": int64(c.Updated), "updatedReady": int64(c.UpdatedReady),
	}
}

func (r *rows) forget(key client.ObjectKey) {
	countPhase(r.link.Cluster, r.memory.drop(key), "")
	r.kinds.forget(key)
}

// soonest is the shorter of two waits, where 0 means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// recalled is what is known of one row and stored nowhere: losing it costs a request or two.
type recalled struct {
	// want is what was rendered for generation.
	want       *rendered
	generation int64
	contention contention
	// reported is the status that was written last, at reportedAt; nil once the cache shows it.
	reported   *fleetv1alpha1.MemberWorkStatus
	reportedAt time.Time
	// drift is what was put back and not told yet.
	drift []string
	// counted is the phase that the metrics count the row under.
	counted fleetv1alpha1.WorkPhase
}

// memory holds what is recalled, by row and its UID. It may be used concurrently; one row is used by one reconcile at a time.
type memory struct {
	mu   sync.Mutex
	rows map[client.ObjectKey]recalledRow
}

type recalledRow struct {
	uid types.UID
	recalled
}

func newMemory() *memory { return &memory{rows: map[client.ObjectKey]recalledRow{}} }

// get returns what is recalled of the row; nothing of another row of its name.
func (m *memory) get(row *fleetv1alpha1.MemberWork) recalled {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.rows[client.ObjectKeyFromObject(row)]
	if known.uid != row.UID {
		return recalled{counted: known.counted}
	}
	return known.recalled
}

func (m *memory) set(row *fleetv1alpha1.MemberWork, r recalled) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[client.ObjectKeyFromObject(row)] = recalledRow{uid: row.UID, recalled: r}
}

// drop forgets a row and returns the phase that it was counted under.
func (m *memory) drop(key client.ObjectKey) fleetv1alpha1.WorkPhase {
	m.mu.Lock()
	defer m.mu.Unlock()
	counted := m.rows[key].counted
	delete(m.rows, key)
	return counted
}
