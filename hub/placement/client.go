package placement

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/hashicorp/go-multierror"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// recheckTaken is how soon a row is retried if its name is taken, or if its namespace has no bytes left. No event of this object reports when
// that ends.
const recheckTaken = time.Minute

// recheckPassed is how soon a plan is made again if something that rows name had changed since it was read.
const recheckPassed = time.Second

// Client reads and writes the rows of objects of one kind. It is safe for concurrent use. Its cache needs the index of row.IndexBySource.
type Client struct {
	// Client writes, and reads from the cache. Live reads from the apiserver.
	client.Client
	Live client.Reader
	// Rows writes rows.
	Rows *row.Store
	// Expect holds the writes that the cache doesn't show yet.
	Expect *expect.Store
}

// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Owned reads more objects that the controller writes for an object, which has been read before. live means that the reader is the apiserver.
type Owned func(ctx context.Context, r client.Reader, live bool) (iter.Seq[metav1.Object], error)

// Fleet reads an object into object, which must be empty, along with its rows, what else it owns, and the clusters. It returns the errors of
// expect's Read. An object that is being deleted doesn't count as gone.
func (c Client) Fleet(ctx context.Context, key client.ObjectKey, object client.Object, more ...Owned) (Fleet, error) {
	f := Fleet{Clusters: map[string]*fleetv1alpha1.MemberCluster{}, Rows: map[string]*fleetv1alpha1.MemberWork{}}
	var rows *fleetv1alpha1.MemberWorkList
	owned := make([]iter.Seq[metav1.Object], len(more))
	read := func(r client.Reader, live bool) error {
		rows = &fleetv1alpha1.MemberWorkList{}
		if err := r.List(ctx, rows, row.Of(object.GetUID(), live)...); err != nil {
			return fmt.Errorf("list rows of %s: %w", key, err)
		}
		for i, also := range more {
			var err error
			if owned[i], err = also(ctx, r, live); err != nil {
				return err
			}
		}
		return nil
	}
	shown := func() iter.Seq[metav1.Object] { return objects(object, rows, owned) }
	if err := c.Expect.ReadFinalized(ctx, c.Client, c.Live, key, object, read, shown); err != nil {
		return f, fmt.Errorf("read %s: %w", key, err)
	}
	clusters := &fleetv1alpha1.MemberClusterList{}
	if err := c.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list member clusters: %w", err)
	}
	for i := range clusters.Items {
		f.Clusters[clusters.Items[i].Name] = &clusters.Items[i]
	}
	for i := range rows.Items {
		if r := &rows.Items[i]; inOwnNamespace(r) {
			f.add(r)
		}
	}
	return f, nil
}

// add adds a row. If two rows have the same place, the older one counts, since the member has applied that.
func (f *Fleet) add(r *fleetv1alpha1.MemberWork) {
	place := row.Place(r)
	if other := f.Rows[place]; other != nil {
		if before := other.CreationTimestamp; before.Before(&r.CreationTimestamp) || before.Equal(&r.CreationTimestamp) && other.Name < r.Name {
			other, r = r, other
		}
		f.Doubles = append(f.Doubles, other)
	}
	f.Rows[place] = r
}

// inOwnNamespace reports whether a row is in the namespace of its cluster. Users create none there.
func inOwnNamespace(r *fleetv1alpha1.MemberWork) bool {
	return r.Namespace == fleetv1alpha1.Namespace(r.Labels[keys.FleetCluster])
}

func objects(source client.Object, rows *fleetv1alpha1.MemberWorkList, owned []iter.Seq[metav1.Object]) iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		if !yield(source) {
			return
		}
		for i := range rows.Items {
			if !yield(&rows.Items[i]) {
				return
			}
		}
		for _, more := range owned {
			for o := range more {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// Manifest returns the object that a row requests: its content with its patch. It is nil if the content is missing. The next write of the row
// creates the content again.
func (c Client) Manifest(ctx context.Context, r *fleetv1alpha1.MemberWork) ([]byte, error) {
	text := r.Spec.Content.Inline
	if text == "" {
		var err error
		if text, err = c.Rows.Manifest(ctx, c.Live, r.Spec.Content.Name()); err != nil {
			return nil, fmt.Errorf("read row %s/%s: %w", r.Namespace, r.Name, err)
		}
		if text == "" {
			return nil, nil
		}
	}
	manifest, err := row.Merge([]byte(text), r.Spec.Patch.Raw)
	if err != nil {
		return nil, fmt.Errorf("read row %s/%s: %w", r.Namespace, r.Name, err)
	}
	return manifest, nil
}

// NamespaceTerminating asks the apiserver whether a namespace is being deleted. Only objects that are being deleted need to know, so there is
// no watch for it.
func (c Client) NamespaceTerminating(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return false, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return !namespace.DeletionTimestamp.IsZero(), nil
}

// Apply writes a plan: first the finalizer, so that no row exists without it, then the rows, then the withdrawals. A failure in one cluster
// doesn't stop the others. The finalizer is not removed while the apiserver still has a row, because a write of a process that has crashed
// may have arrived late. The event of that row triggers the next attempt. The error is also in the result.
func (c Client) Apply(ctx context.Context, object client.Object, f Fleet, p Plan) (Result, error) {
	out := unwritten(f, p)
	if p.AddFinalizer {
		err := c.changeFinalizer(ctx, object, controllerutil.AddFinalizer)
		if apierrors.IsNotFound(err) { // Nobody would withdraw the rows of an object that was deleted in the meantime.
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
	for _, double := range f.Doubles {
		out.Problems = append(out.Problems, duplicateRow(double))
	}
	var failures *multierror.Error
	for _, want := range p.Wants {
		live := f.Rows[want.Place()]
		now, wrote, err := c.Rows.Put(ctx, want, live)
		if apierrors.IsAlreadyExists(err) {
			taken, unread := c.rowTaken(ctx, want)
			if unread != nil {
				err = unread
			}
			if taken.Reason != "" {
				out.Problems = append(out.Problems, taken)
				out.Recheck = timing.Sooner(out.Recheck, recheckTaken)
			}
		}
		if full := (row.BudgetError{}); errors.As(err, &full) {
			if out.Recheck = timing.Sooner(out.Recheck, recheckTaken); !slices.ContainsFunc(out.Problems, func(p Problem) bool { return p.Reason == reasonBytes }) {
				out.Problems = append(out.Problems, Problem{Reason: reasonBytes, Message: full.Error()})
			}
			continue
		}
		if err != nil {
			failures = multierror.Append(failures, err)
			continue
		}
		out.Rows[want.Place()] = now
		delete(out.Missed, want.Place())
		if !wrote {
			continue
		}
		out.Written = append(out.Written, want.Cluster)
		if live == nil {
			c.Expect.Created(object.GetUID(), now)
		} else {
			c.Expect.Written(object.GetUID(), now)
		}
	}
	for _, w := range p.Withdrawals {
		err := c.Rows.Withdraw(ctx, w.Row, w.Policy, w.Deleted || p.Deleting != "")
		switch paced := (row.PacedError{}); {
		case errors.As(err, &paced):
			out.Recheck = timing.Sooner(out.Recheck, paced.Wait)
			out.Problems = append(out.Problems, Problem{Cluster: paced.Cluster, Reason: ReasonPaced, Message: err.Error()})
		case errors.Is(err, row.ErrPaused): // The watch on MemberClusters enqueues the object when withdrawals may continue.
			out.Problems = append(out.Problems, Problem{Cluster: w.Row.Labels[keys.FleetCluster], Reason: ReasonPaused, Message: err.Error()})
		case err != nil:
			failures = multierror.Append(failures, err)
		default:
			c.Expect.Deleted(object.GetUID(), w.Row)
		}
	}
	if p.RemoveFinalizer {
		if left, err := c.hasRows(ctx, object); err != nil || left {
			return out, err
		}
		if err := c.changeFinalizer(ctx, object, controllerutil.RemoveFinalizer); client.IgnoreNotFound(err) != nil {
			return out, err
		}
	}
	out.Err = withoutConflicts(failures)
	return out, out.Err
}

// rowTaken returns the problem of a new row whose name is used by a row of another source or object. It is not a problem if that row
// belongs to the object itself and the cache doesn't show it yet.
func (c Client) rowTaken(ctx context.Context, want row.Want) (Problem, error) {
	live := &fleetv1alpha1.MemberWork{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.Namespace(want.Cluster), Name: want.Name()}
	if err := c.Live.Get(ctx, key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return Problem{}, nil
		}
		return Problem{}, fmt.Errorf("get row %s: %w", key, err)
	}
	if live.Labels[keys.FleetSourceUID] == want.Source.UID && row.Place(live) == want.Place() {
		return Problem{}, nil
	}
	return Problem{
		Cluster: want.Cluster, Reason: reasonRowTaken,
		Message: fmt.Sprintf("row %s in namespace %s belongs to another object: this object is placed once that row is gone; kubectl get memberwork -n %s %s "+
			"shows its owner", key.Name, key.Namespace, key.Namespace, key.Name),
	}, nil
}

// duplicateRow returns the problem of a row if an older row has the same place.
func duplicateRow(r *fleetv1alpha1.MemberWork) Problem {
	return Problem{
		Cluster: r.Labels[keys.FleetCluster], Reason: reasonRowDoubled,
		Message: fmt.Sprintf("row %s in namespace %s is a duplicate for the same object and has no effect: delete it with kubectl delete "+
			"memberwork -n %s %s", r.Name, r.Namespace, r.Namespace, r.Name),
	}
}

// hasRows asks the apiserver whether an object has rows.
func (c Client) hasRows(ctx context.Context, object client.Object) (bool, error) {
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := c.Live.List(ctx, rows, row.Of(object.GetUID(), true)...); err != nil {
		return false, fmt.Errorf("list rows of %s: %w", client.ObjectKeyFromObject(object), err)
	}
	return slices.ContainsFunc(rows.Items, func(r fleetv1alpha1.MemberWork) bool { return inOwnNamespace(&r) }), nil
}

// changeFinalizer adds or removes our finalizer.
func (c Client) changeFinalizer(ctx context.Context, object client.Object, change func(client.Object, string) bool) error {
	next := object.DeepCopyObject().(client.Object)
	if !change(next, keys.FleetRow) {
		return nil
	}
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, next, patch); err != nil {
		return fmt.Errorf("set finalizers of %s: %w", client.ObjectKeyFromObject(object), err)
	}
	c.Expect.Written(object.GetUID(), next)
	return nil
}

// withoutConflicts drops conflicts. They mean that the cache is stale, and the watch delivers the newer row, so they are neither reported in
// a status nor retried. Rows that belong to another object are reported by rowTaken.
func withoutConflicts(all *multierror.Error) error {
	if all == nil {
		return nil
	}
	var rest *multierror.Error
	for _, err := range all.Errors {
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			rest = multierror.Append(rest, err)
		}
	}
	return rest.ErrorOrNil()
}
