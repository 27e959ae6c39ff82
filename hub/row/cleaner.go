package row

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// contentGrace is how long a content without a row is kept: a rollback finds it again, and there is no race with a row that is
// being written.
const contentGrace = time.Hour

// contentIndex is the field index of rows by the content that they refer to.
const contentIndex = "spec.content.ref"

// Options are what Setup needs.
type Options struct {
	// Clock is the real clock outside tests.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberworks,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=workcontents,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberclusters,verbs=get;list;watch;patch

// Setup starts two controllers: one removes the finalizer of withdrawn rows, one deletes unused contents.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &fleetv1alpha1.MemberWork{}, contentIndex, func(o client.Object) []string {
		return []string{o.(*fleetv1alpha1.MemberWork).Spec.Content.Ref}
	})
	if err != nil {
		return fmt.Errorf("index rows by content: %w", err)
	}
	finisher := &finisher{Client: mgr.GetClient()}
	if err := ctrl.NewControllerManagedBy(mgr).Named("row").For(&fleetv1alpha1.MemberWork{}).Complete(finisher); err != nil {
		return fmt.Errorf("set up rows: %w", err)
	}
	collector := &collector{Client: mgr.GetClient(), reader: mgr.GetAPIReader(), clock: o.Clock, unused: map[string]time.Time{}}
	err = ctrl.NewControllerManagedBy(mgr).Named("workcontent").
		For(&fleetv1alpha1.WorkContent{}).
		Watches(&fleetv1alpha1.MemberWork{}, handler.EnqueueRequestsFromMapFunc(contentOf)).
		Complete(collector)
	if err != nil {
		return fmt.Errorf("set up contents: %w", err)
	}
	return nil
}

// finisher removes the finalizer of rows that the member has withdrawn.
type finisher struct{ client.Client }

func (f *finisher) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	row := &fleetv1alpha1.MemberWork{}
	if err := f.Get(ctx, req.NamespacedName, row); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !finished(row) || !controllerutil.ContainsFinalizer(row, keys.FleetRow) {
		return ctrl.Result{}, nil
	}
	next := row.DeepCopy()
	controllerutil.RemoveFinalizer(next, keys.FleetRow)
	patch := client.MergeFromWithOptions(row, client.MergeFromWithOptimisticLock{})
	if err := f.Patch(ctx, next, patch); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove the finalizer of row %s: %w", req, err)
	}
	return ctrl.Result{}, nil
}

// finished reports whether the member has reported that nothing is left of a row that is being deleted. The report must be of the
// present generation: the deletion raises it, so that an earlier report does not count.
func finished(row *fleetv1alpha1.MemberWork) bool {
	return !row.DeletionTimestamp.IsZero() &&
		row.Status.Phase == fleetv1alpha1.WorkWithdrawn &&
		row.Status.ObservedGeneration == row.Generation
}

func contentOf(_ context.Context, o client.Object) []reconcile.Request {
	ref := o.(*fleetv1alpha1.MemberWork).Spec.Content.Ref
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: ref}}}
}

// collector deletes contents that no row refers to. Since when is stored in memory, so that a restart keeps each for another
// hour.
type collector struct {
	client.Client
	reader client.Reader
	clock  clock.PassiveClock

	mu     sync.Mutex
	unused map[string]time.Time
}

func (c *collector) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	content := &fleetv1alpha1.WorkContent{}
	if err := c.Get(ctx, req.NamespacedName, content); err != nil {
		c.forget(req.Name)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := c.List(ctx, rows, client.MatchingFields{contentIndex: req.Name}, client.Limit(1)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list rows of content %s: %w", req.Name, err)
	}
	if len(rows.Items) > 0 {
		c.forget(req.Name)
		return ctrl.Result{}, nil
	}
	if left := contentGrace - c.unusedFor(req.Name); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	if used, err := c.usedLive(ctx, req.Name); err != nil || used {
		return ctrl.Result{}, err
	}
	err := c.Delete(ctx, content, client.Preconditions{UID: &content.UID, ResourceVersion: &content.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("delete content %s: %w", req.Name, err)
	}
	c.forget(req.Name)
	ctrl.LoggerFrom(ctx).Info("Deleted content", "name", req.Name, "reason", "Unused")
	return ctrl.Result{}, nil
}

// usedLive reads from the apiserver, since absence from a cache is no proof. It costs a full list for each content that is
// deleted.
func (c *collector) usedLive(ctx context.Context, name string) (bool, error) {
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := c.reader.List(ctx, rows); err != nil {
		return false, fmt.Errorf("list rows before content %s is deleted: %w", name, err)
	}
	for i := range rows.Items {
		if rows.Items[i].Spec.Content.Ref == name {
			return true, nil
		}
	}
	return false, nil
}

func (c *collector) unusedFor(name string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, ok := c.unused[name]
	if !ok {
		since = c.clock.Now()
		c.unused[name] = since
	}
	return c.clock.Since(since)
}

func (c *collector) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unused, name)
}
