package row

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// ErrPaused means that too many rows of a cluster and namespace were withdrawn within a minute, and that an administrator has to allow more.
var ErrPaused = errors.New("withdrawals are paused")

// PacedError means that a row of an object that a user deleted is withdrawn later, because of the limit per minute.
type PacedError struct {
	Cluster string
	Wait    time.Duration
}

func (e PacedError) Error() string {
	return fmt.Sprintf("deleted objects are withdrawn from cluster %s slowly, at most %d objects or 5 %% of them per minute: the others follow",
		e.Cluster, breakerFloor)
}

// Store writes rows and contents. It is safe for concurrent use.
type Store struct {
	client  client.Client
	key     []byte
	breaker *breaker
	usage   *usage
	// names maps manifests to content names, and manifests is the inverse. last is the most recently requested name.
	names, manifests *lru.Cache
	last             atomic.Pointer[named]
}

// named is a manifest and the name of its content.
type named struct{ manifest, name string }

// NewStore returns a Store that names contents with key. The key must not change: with another key each content would be written again.
func NewStore(c client.Client, key []byte, clk clock.PassiveClock) *Store {
	return &Store{client: c, key: key, breaker: newBreaker(clk), usage: newUsage(clk), names: newManifests(), manifests: newManifests()}
}

// Put creates or updates a member's row. live is the row that the decision was based on, or nil. Put returns the current row and whether it
// was written. After a conflict, or if the row was created in the meantime, the caller has to decide again.
func (s *Store) Put(ctx context.Context, want Want, live *fleetv1alpha1.MemberWork) (*fleetv1alpha1.MemberWork, bool, error) {
	want, err := want.fold()
	if err != nil {
		return live, false, err
	}
	content := s.contentName(want)
	missing := !want.Inline && live != nil && live.Status.Reason == fleetv1alpha1.ReasonContentNotFound
	if live != nil && !missing && sameSpec(live.Spec, want.spec(content)) {
		return live, false, nil
	}
	if !want.Inline {
		if err := s.putContent(ctx, content, want); err != nil {
			return live, false, err
		}
	}
	if live == nil {
		made := want.create(content)
		if err := s.client.Create(ctx, made); err != nil {
			return nil, false, fmt.Errorf("create row %s/%s: %w", made.Namespace, made.Name, err)
		}
		ctrl.LoggerFrom(ctx).Info("Created row", "cluster", want.Cluster, "name", made.Name)
		return made, true, nil
	}
	if sameSpec(live.Spec, want.spec(content)) { // Only its content was missing.
		return live, false, nil
	}
	next := live.DeepCopy()
	next.Spec = want.spec(content)
	withoutManagers(next)
	if err := s.client.Update(ctx, next); err != nil {
		return live, false, fmt.Errorf("update row %s/%s: %w", next.Namespace, next.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Updated row", "cluster", want.Cluster, "name", next.Name)
	return next, true, nil
}

// Current reports whether a row is in its desired state, so that Put would write nothing except a missing content.
func (s *Store) Current(want Want, live *fleetv1alpha1.MemberWork) bool {
	want, err := want.fold()
	return err == nil && sameSpec(live.Spec, want.spec(s.contentName(want)))
}

// contentName returns the content name of a manifest. It remembers the most recent ones: the rows of an object are written one after another
// and share few manifests, and comparing a manifest is much faster than hashing it for each of a thousand clusters.
func (s *Store) contentName(want Want) string {
	if want.Inline {
		return fleetv1alpha1.InlineContent
	}
	if last := s.last.Load(); last != nil && last.manifest == string(want.Manifest) { // This comparison doesn't copy.
		return last.name
	}
	entry := &named{manifest: string(want.Manifest)}
	if name, known := s.names.Get(entry.manifest); known {
		entry.name = name.(string)
	} else {
		entry.name = fleetv1alpha1.ContentName(s.key, want.Manifest)
		s.names.Add(entry.manifest, entry.name)
	}
	s.last.Store(entry)
	return entry.name
}

// putContent creates the content unless it exists. Contents are immutable, so an existing one is correct.
func (s *Store) putContent(ctx context.Context, name string, want Want) error {
	err := s.client.Get(ctx, client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: name}, contentMetadata())
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("get content %s: %w", name, err)
	}
	content := newContent(name, want)
	if err := s.usage.take(ctx, s.client, content); err != nil {
		return err
	}
	if err := s.client.Create(ctx, content); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create content %s: %w", name, err)
	}
	return nil
}

// Withdraw deletes a row after marking it as withdrawn, with the deletion policy and the epoch of the decision. A member deletes nothing at a
// lower epoch than it has seen. A row that is already being deleted keeps its policy, but gets the current epoch. deleted means that a user
// deleted the source, or the object of the row. Withdraw returns ErrPaused, wrapped with instructions, if too many rows of the cluster and
// the source's namespace were withdrawn within a minute. It returns a PacedError instead if all of them belong to one deleted source.
func (s *Store) Withdraw(ctx context.Context, live *fleetv1alpha1.MemberWork, policy fleetv1alpha1.LeavePolicy, deleted bool) error {
	withdrawn := !live.DeletionTimestamp.IsZero()
	cluster := &fleetv1alpha1.MemberCluster{}
	switch err := s.client.Get(ctx, client.ObjectKey{Name: live.Labels[keys.FleetCluster]}, cluster); {
	case withdrawn && apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get the member cluster of row %s/%s: %w", live.Namespace, live.Name, err)
	}
	epoch := live.Spec.Grant.Epoch
	if cluster.Status.Hub != nil {
		epoch = cluster.Status.Hub.Epoch
	}
	counted := false
	if withdrawn {
		policy = live.Spec.DeletionPolicy
	} else {
		var err error
		if counted, err = s.allow(ctx, cluster, live, deleted); err != nil {
			return err
		}
	}
	err := Withdraw(ctx, s.client, live, policy, epoch)
	if apierrors.IsConflict(err) && counted {
		s.breaker.giveBack(tenancyOf(identify(cluster), live)) // The decision is made again with the newer row.
	}
	return err
}

// Withdraw is like Store.Withdraw, but for a cluster that is leaving: there is no limit, and even a row that is already being deleted gets
// the policy.
func Withdraw(ctx context.Context, c client.Client, live *fleetv1alpha1.MemberWork, policy fleetv1alpha1.LeavePolicy, epoch int64) error {
	next := live.DeepCopy()
	next.Spec.DeletionPolicy, next.Spec.Grant.Epoch = policy, epoch
	if live.DeletionTimestamp.IsZero() { // Otherwise somebody other than the hub may have deleted it.
		next.Spec.Withdrawn = true
	}
	if !equality.Semantic.DeepEqual(next.Spec, live.Spec) {
		withoutManagers(next)
		if err := c.Update(ctx, next); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("set deletion policy %s at epoch %d on row %s/%s: %w", policy, epoch, live.Namespace, live.Name, err)
		}
	}
	if !live.DeletionTimestamp.IsZero() {
		return nil
	}
	err := c.Delete(ctx, next, client.Preconditions{UID: &next.UID, ResourceVersion: &next.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete row %s/%s: %w", live.Namespace, live.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Withdrew row", "namespace", live.Namespace, "name", live.Name, "reason", policy)
	return nil
}

// withoutManagers makes the update of a row clear its managedFields, which are a third of its size. One empty entry means "none", and an
// empty list means "unchanged". The apiserver adds none to an object that has none, unless somebody applies it. Nobody reads them: spec and
// status have one writer each, which always sends everything.
func withoutManagers(row *fleetv1alpha1.MemberWork) {
	row.ManagedFields = []metav1.ManagedFieldsEntry{{}}
}
