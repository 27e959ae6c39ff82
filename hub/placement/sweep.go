package placement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

const (
	// sweepAfter is how long a row without a source is kept, so that an administrator can save what runs.
	sweepAfter = 10 * time.Minute
	// sweepAgain is how soon a withdrawal that the breaker has paused is retried. No watch reports that it may continue.
	sweepAgain = time.Minute
)

// eventSourceGone is the reason of the event on a row whose source is gone.
const eventSourceGone = "SourceGone"

// Sweeper withdraws rows whose object is gone without having withdrawn them, because somebody removed its finalizer. Otherwise the workloads
// would run on, and nobody would notice. The Sweeper reports such a row first, and withdraws it later, subject to the breaker. If the object's
// namespace is gone too, what runs in the member is kept, as in Withdraw.
type Sweeper struct {
	// Client writes, and reads from the cache. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	Events event.Recorder
	// Clock is the real clock, except in tests.
	Clock clock.PassiveClock

	kinds map[string]swept
	mu    sync.Mutex
	// gone is the time since when rows have been without a source. A restart starts over.
	gone map[types.UID]time.Time
}

// swept is a kind whose rows are swept.
type swept struct {
	empty func() client.Object
	rows  *row.Store
}

// Add has the rows of a kind swept. empty returns an empty object of the kind. Add must be called before Setup.
func (s *Sweeper) Add(kind string, empty func() client.Object, rows *row.Store) {
	if s.kinds == nil {
		s.kinds = map[string]swept{}
	}
	s.kinds[kind] = swept{empty: empty, rows: rows}
}

// Setup starts the controller in mgr. It begins once the cache has all objects and rows.
func (s *Sweeper) Setup(mgr ctrl.Manager, fresh *Fresh) error {
	deleted := predicate.Funcs{
		CreateFunc: func(ctrlevent.CreateEvent) bool { return false },
		UpdateFunc: func(ctrlevent.UpdateEvent) bool { return false },
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("sweep").
		For(&fleetv1alpha1.MemberWork{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(fresh.Source(nil, &fleetv1alpha1.MemberWorkList{}))
	for _, kind := range s.kinds {
		b = b.Watches(kind.empty(), handler.EnqueueRequestsFromMapFunc(s.rowsOf), builder.WithPredicates(deleted))
	}
	if err := b.Complete(s); err != nil {
		return fmt.Errorf("set up the sweep of rows: %w", err)
	}
	return nil
}

// rowsOf enqueues the rows of an object.
func (s *Sweeper) rowsOf(ctx context.Context, o client.Object) []reconcile.Request {
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := s.Client.List(ctx, rows, row.Of(o.GetUID(), false)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not enqueue the rows of an object that is gone")
		return nil
	}
	out := make([]reconcile.Request, 0, len(rows.Items))
	for i := range rows.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&rows.Items[i])})
	}
	return out
}

// Reconcile reconciles one row.
func (s *Sweeper) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	live := &fleetv1alpha1.MemberWork{}
	if err := s.Client.Get(ctx, req.NamespacedName, live); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	kind, known := s.kinds[live.Spec.Source.Kind]
	if !known {
		return ctrl.Result{}, nil
	}
	gone := live.DeletionTimestamp.IsZero()
	if gone {
		var err error
		if gone, err = s.sourceGone(ctx, kind, live.Spec.Source); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !gone {
		s.forget(live.UID)
		return ctrl.Result{}, nil
	}
	left, first := s.since(live.UID)
	if first {
		source := live.Spec.Source
		ctrl.LoggerFrom(ctx).Info("Found a row without its source", "row", req, "kind", source.Kind, "namespace", source.Namespace, "name", source.Name)
		s.Events.Record(live, event.Warning(eventSourceGone, "Sweep",
			"%s %s is gone and has left this row behind. It will be withdrawn in %s. To keep the object in the cluster, set the row's deletionPolicy to Orphan.",
			source.Kind, strings.TrimPrefix(source.Namespace+"/"+source.Name, "/"), left))
	}
	if left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return s.withdraw(ctx, kind, live)
}

// withdraw withdraws a row with its own policy, or with Orphan if the namespace of its source is gone too.
func (s *Sweeper) withdraw(ctx context.Context, kind swept, live *fleetv1alpha1.MemberWork) (ctrl.Result, error) {
	policy := live.Spec.DeletionPolicy
	if name := live.Spec.Source.Namespace; name != "" {
		namespace := &corev1.Namespace{}
		err := s.Live.Get(ctx, client.ObjectKey{Name: name}, namespace)
		switch {
		case apierrors.IsNotFound(err), err == nil && !namespace.DeletionTimestamp.IsZero():
			policy = fleetv1alpha1.LeaveOrphan
		case err != nil:
			return ctrl.Result{}, fmt.Errorf("get namespace %s: %w", name, err)
		}
	}
	paced := row.PacedError{}
	switch err := kind.rows.Withdraw(ctx, live, policy, true); {
	case errors.As(err, &paced):
		return ctrl.Result{RequeueAfter: paced.Wait}, nil
	case errors.Is(err, row.ErrPaused):
		return ctrl.Result{RequeueAfter: sweepAgain}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: time.Second}, nil
	default:
		return ctrl.Result{}, err
	}
}

// sourceGone reports whether the source of a row doesn't exist. The cache can prove that it exists, but not that it doesn't.
func (s *Sweeper) sourceGone(ctx context.Context, kind swept, source fleetv1alpha1.WorkSource) (bool, error) {
	for _, reader := range []client.Reader{s.Client, s.Live} {
		o := kind.empty()
		err := reader.Get(ctx, client.ObjectKey{Namespace: source.Namespace, Name: source.Name}, o)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get %s %s/%s: %w", source.Kind, source.Namespace, source.Name, err)
		}
		if err == nil && string(o.GetUID()) == source.UID {
			return false, nil
		}
	}
	return true, nil
}

// since returns how much longer a row is kept, and whether this is the first time it was found.
func (s *Sweeper) since(uid types.UID) (left time.Duration, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock.Now()
	since, known := s.gone[uid]
	if !known {
		if s.gone == nil {
			s.gone = map[types.UID]time.Time{}
		}
		s.gone[uid] = now
		return sweepAfter, true
	}
	return max(sweepAfter-now.Sub(since), 0), false
}

func (s *Sweeper) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.gone, uid)
}
