package row

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// Contents without a row are kept for contentGrace, so that a rollback finds them again. They are kept only for contentLeast, which is long
// enough for a row that is being written, if their source has more than unusedPerSource newer ones, or the newer ones exceed unusedBytes in
// total. Otherwise a user who changes a template in a loop would fill the hub.
const (
	contentGrace    = 5 * time.Minute
	contentLeast    = time.Minute
	unusedPerSource = 10
	unusedBytes     = 64 << 20
)

// contentIndex is the field index of rows by the content that they refer to. The apiserver selects rows by the same field.
const contentIndex = "spec.content.ref"

// rowsPage is how many rows one request lists from an apiserver that can't select them by their content.
const rowsPage = 500

// Options configures Setup.
type Options struct {
	// Clock is the real clock, except in tests.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberworks,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=workcontents,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberclusters,verbs=get;list;watch;patch

// Setup starts two controllers: one removes the finalizer of withdrawn rows, the other deletes unused contents.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &fleetv1alpha1.MemberWork{}, contentIndex, func(o client.Object) []string {
		return []string{o.(*fleetv1alpha1.MemberWork).Spec.Content.Name()} // For an inline manifest, the name matches no content.
	})
	if err != nil {
		return fmt.Errorf("index rows by content: %w", err)
	}
	if err := ctrl.NewControllerManagedBy(mgr).Named("row").For(&fleetv1alpha1.MemberWork{}).Complete(&Finisher{mgr.GetClient()}); err != nil {
		return fmt.Errorf("set up rows: %w", err)
	}
	collector := &collector{Client: mgr.GetClient(), reader: mgr.GetAPIReader(), clock: o.Clock, unused: map[string]unused{}}
	err = ctrl.NewControllerManagedBy(mgr).Named("workcontent").
		For(&fleetv1alpha1.WorkContent{}, builder.OnlyMetadata).
		Watches(&fleetv1alpha1.MemberWork{}, handler.EnqueueRequestsFromMapFunc(contentOf)).
		Complete(collector)
	if err != nil {
		return fmt.Errorf("set up contents: %w", err)
	}
	return nil
}

// Finisher removes the finalizer of rows that the member has withdrawn.
type Finisher struct{ client.Client }

// Reconcile reconciles one row.
func (f *Finisher) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
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

// finished reports whether a row is being deleted and the member has reported that nothing is left of it. The report must be for the current
// generation. The deletion raises the generation, so earlier reports don't count.
func finished(row *fleetv1alpha1.MemberWork) bool {
	return !row.DeletionTimestamp.IsZero() &&
		row.Status.Phase == fleetv1alpha1.WorkWithdrawn &&
		row.Status.ObservedGeneration == row.Generation
}

func contentOf(_ context.Context, o client.Object) []reconcile.Request {
	ref := o.(*fleetv1alpha1.MemberWork).Spec.Content.Name()
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: ref}}}
}

// collector deletes contents that no row refers to. It stores in memory how long they have been unused, so a restart starts over.
type collector struct {
	client.Client
	reader client.Reader
	clock  clock.PassiveClock

	mu     sync.Mutex
	unused map[string]unused
}

// unused is a content without a row.
type unused struct {
	since, created time.Time
	source         string
	bytes          int
}

func (c *collector) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	content := contentMetadata()
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
	names, next := c.due(content)
	if len(names) > 0 {
		if err := c.collect(ctx, names); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: next}, nil
}

// collect deletes contents that are unused according to the apiserver, since absence from a cache is no proof.
func (c *collector) collect(ctx context.Context, names []string) error {
	used, err := c.used(ctx, names)
	if err != nil {
		return fmt.Errorf("list rows before contents are deleted: %w", err)
	}
	for _, name := range names {
		content := contentMetadata()
		err := c.Get(ctx, client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: name}, content)
		if err == nil && !used[name] {
			err = c.Delete(ctx, content, client.Preconditions{UID: &content.UID, ResourceVersion: &content.ResourceVersion})
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete content %s: %w", name, err)
		}
		c.forget(name)
		if !used[name] {
			ctrl.LoggerFrom(ctx).Info("Deleted content", "name", name, "reason", "Unused")
		}
	}
	return nil
}

// used asks the apiserver which of these contents are referenced by rows.
func (c *collector) used(ctx context.Context, names []string) (map[string]bool, error) {
	used := map[string]bool{}
	for _, name := range names {
		for _, ref := range []string{name, fleetv1alpha1.ApplyContent + name} {
			rows := &fleetv1alpha1.MemberWorkList{}
			switch err := c.reader.List(ctx, rows, client.MatchingFields{contentIndex: ref}, client.Limit(1)); {
			case apierrors.IsBadRequest(err): // Before Kubernetes 1.31, custom resources have no selectable fields.
				return c.usedOfAll(ctx)
			case err != nil:
				return nil, err //nolint:wrapcheck // The caller says what for.
			}
			used[name] = used[name] || len(rows.Items) > 0
		}
	}
	return used, nil
}

// usedOfAll does the same by reading all rows.
func (c *collector) usedOfAll(ctx context.Context) (map[string]bool, error) {
	used, page := map[string]bool{}, &fleetv1alpha1.MemberWorkList{}
	for {
		next := page.Continue
		page = &fleetv1alpha1.MemberWorkList{}
		if err := c.reader.List(ctx, page, client.Limit(rowsPage), client.Continue(next)); err != nil {
			return nil, err //nolint:wrapcheck // As above.
		}
		for i := range page.Items {
			used[page.Items[i].Spec.Content.Name()] = true
		}
		if page.Continue == "" {
			return used, nil
		}
	}
}

// due records that a content is unused. It returns the unused contents to delete now, and when the next one is due.
func (c *collector) due(content *metav1.PartialObjectMetadata) (names []string, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if _, known := c.unused[content.Name]; !known {
		c.unused[content.Name] = unused{
			since: now, created: content.CreationTimestamp.Time, source: content.Labels[keys.FleetSourceUID], bytes: sizeOf(content),
		}
	}
	newestFirst := slices.SortedFunc(maps.Keys(c.unused), func(a, b string) int {
		x, y := c.unused[a], c.unused[b]
		return cmp.Or(y.since.Compare(x.since), y.created.Compare(x.created), cmp.Compare(a, b))
	})
	bytes, perSource := 0, map[string]int{}
	for _, name := range newestFirst {
		u := c.unused[name]
		keep := contentGrace
		if perSource[u.source] >= unusedPerSource || bytes > unusedBytes {
			keep = contentLeast
		}
		perSource[u.source]++
		bytes += u.bytes
		if left := keep - now.Sub(u.since); left > 0 {
			next = timing.Sooner(next, left)
		} else {
			names = append(names, name)
		}
	}
	return names, next
}

func (c *collector) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unused, name)
}
