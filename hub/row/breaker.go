package row

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

const (
	// breakerWindow is the time over which withdrawals are counted.
	breakerWindow = time.Minute
	// breakerFloor and breakerShare limit the withdrawals in a window: the floor, or a 20th (5 %) of the rows of the namespace in
	// the cluster.
	breakerFloor = 10
	breakerShare = 20
	// breakerOpen is for how long withdrawals are not limited after an administrator has allowed them.
	breakerOpen = 10 * time.Minute
)

// breaker counts withdrawals by cluster and namespace of the source, so that no tenant can use up another's. That it has tripped
// is stored in the MemberCluster, so that it survives a restart of the hub; the counts are not, so that a restart may allow another
// window.
type breaker struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	by    map[tenancy]*window
}

// tenancy is the part of a cluster that one namespace of the hub uses.
type tenancy struct{ cluster, namespace string }

// noNamespace stands for objects of the hub that are in no namespace. It is no namespace's name.
const noNamespace = "_cluster-scoped"

type window struct {
	withdrawn []withdrawal
	// paced is the source whose deletion is carried out slowly, so that its withdrawals are not those that trip the breaker.
	paced     string
	tripped   bool
	openUntil time.Time
	// annotated is the version in which the MemberCluster got the annotation; empty once the cache has shown it. An older one says nothing.
	annotated string
}

// withdrawal is one that was let through.
type withdrawal struct {
	at time.Time
	cause
}

// cause is why a row is withdrawn: the UID of its source, and whether a user has deleted that, or the object that the row is of. Otherwise a
// selector, a label or a taint has changed.
type cause struct {
	source  string
	deleted bool
}

// verdict is what the breaker says of a withdrawal.
type verdict string

const (
	pass verdict = "Pass"
	// wait: it is one of a deletion that is paced. held: the breaker has tripped. trip: it trips.
	wait verdict = "Wait"
	held verdict = "Held"
	trip verdict = "Trip"
)

func newBreaker(c clock.PassiveClock) *breaker { return &breaker{clock: c, by: map[tenancy]*window{}} }

// take counts a withdrawal of a namespace that has that many rows in the cluster. paused says whether the MemberCluster has the
// annotation for it in that version. It returns whether the row may be withdrawn, and after how long one that waits may.
func (b *breaker) take(of tenancy, why cause, rows int, paused bool, version string) (verdict, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	w := b.by[of]
	if w == nil {
		w = &window{}
		b.by[of] = w
	}
	if paused {
		w.tripped, w.annotated = true, ""
		return held, 0
	}
	if w.annotated != "" {
		if order, err := resourceversion.CompareResourceVersion(version, w.annotated); err == nil && order < 0 {
			return held, 0
		}
		w.tripped, w.annotated = true, "" // The annotation came and went.
	}
	if w.tripped { // The annotation was removed: there is no limit for a while.
		*w = window{openUntil: now.Add(breakerOpen)}
	}
	if now.Before(w.openUntil) {
		return pass, 0
	}
	return w.take(why, max(breakerFloor, rows/breakerShare), now)
}

// take counts a withdrawal if fewer than most were within the window. Beyond that, one for a deletion waits if all of the window are for
// that too. Of one source at a time deletions may fill the window so, and then they don't count for others.
func (w *window) take(why cause, most int, now time.Time) (verdict, time.Duration) {
	w.withdrawn = slices.DeleteFunc(w.withdrawn, func(o withdrawal) bool { return now.Sub(o.at) >= breakerWindow })
	paced := func(o withdrawal) bool { return o.source == w.paced && o.deleted }
	if !slices.ContainsFunc(w.withdrawn, paced) {
		w.paced = ""
	}
	next := withdrawal{now, why}
	others := w.paced == "" || !paced(next)
	var counted []withdrawal
	for _, o := range w.withdrawn {
		if paced(o) != others || w.paced == "" {
			counted = append(counted, o)
		}
	}
	if len(counted) < most {
		w.withdrawn = append(w.withdrawn, next)
		return pass, 0
	}
	alone := why.deleted && !slices.ContainsFunc(counted, func(o withdrawal) bool { return o.cause != why })
	if !alone || w.paced != "" && others {
		return trip, 0
	}
	w.paced = why.source
	return wait, breakerWindow - now.Sub(counted[0].at)
}

// annotated notes that the MemberCluster has got the annotation, in that version.
func (b *breaker) annotated(of tenancy, version string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.by[of]; w != nil {
		w.annotated = version
	}
}

// giveBack undoes the last take: the row was not withdrawn.
func (b *breaker) giveBack(of tenancy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.by[of]; w != nil && len(w.withdrawn) > 0 {
		w.withdrawn = w.withdrawn[:len(w.withdrawn)-1]
	}
}

// tenancyOf returns the part of a cluster that a row uses.
func tenancyOf(cluster string, row *fleetv1alpha1.MemberWork) tenancy {
	return tenancy{cluster: cluster, namespace: cmp.Or(row.Spec.Source.Namespace, noNamespace)}
}

// allow consults the breaker, and annotates the MemberCluster when it trips. A cluster that leaves has no limit: its
// administrator has decided on all rows. Nor has a row without replicas: nothing runs there any more. counted says whether the breaker has
// counted the withdrawal.
func (s *Store) allow(ctx context.Context, mc *fleetv1alpha1.MemberCluster, row *fleetv1alpha1.MemberWork, deleted bool) (counted bool, err error) {
	cluster, namespace := mc.Name, row.Spec.Source.Namespace
	of := tenancyOf(cluster, row)
	name := of.namespace
	if !mc.DeletionTimestamp.IsZero() || emptied(row) {
		return false, nil
	}
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := s.client.List(ctx, rows, client.InNamespace(fleetv1alpha1.Namespace(cluster)), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("count rows of %s: %w", cluster, err)
	}
	count := 0
	for i := range rows.Items {
		if rows.Items[i].Spec.Source.Namespace == namespace {
			count++
		}
	}
	why := cause{source: row.Spec.Source.UID, deleted: deleted}
	says, after := s.breaker.take(of, why, count, slices.Contains(Paused(mc), name), mc.ResourceVersion)
	switch says {
	case pass:
		return true, nil
	case wait:
		return false, PacedError{Cluster: cluster, Wait: after}
	case trip:
		version, err := s.pause(ctx, mc, name)
		if err != nil {
			return false, err
		}
		s.breaker.annotated(of, version)
		ctrl.LoggerFrom(ctx).Info("Paused withdrawals", "cluster", cluster, "namespace", name, "count", count)
	case held:
	}
	which := "of namespace " + namespace
	if namespace == "" {
		which = "without a namespace"
	}
	return false, fmt.Errorf("%w: many objects %s would be withdrawn from cluster %s at once; if that is meant, run "+
		"kubectl annotate membercluster %s %s-", ErrPaused, which, cluster, cluster, keys.FleetWithdrawalsPaused)
}

// emptied reports whether a member has acknowledged that it runs no replicas of a row that has a grant of them.
func emptied(row *fleetv1alpha1.MemberWork) bool {
	return len(row.Spec.Grant.Subsets) > 0 && row.Status.ObservedGeneration == row.Generation && row.Status.Counts.Replicas == 0 &&
		!slices.ContainsFunc(row.Spec.Grant.Subsets, func(g fleetv1alpha1.SubsetGrant) bool { return g.Replicas > 0 })
}

// Paused returns the namespaces on the hub whose rows are not withdrawn from a cluster, and noNamespace for what is in none.
func Paused(mc *fleetv1alpha1.MemberCluster) []string {
	text := mc.Annotations[keys.FleetWithdrawalsPaused]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// pause adds a namespace to the annotation, and returns the version of the MemberCluster that has it.
func (s *Store) pause(ctx context.Context, mc *fleetv1alpha1.MemberCluster, namespace string) (version string, err error) {
	marked := mc.DeepCopy()
	if marked.Annotations == nil {
		marked.Annotations = map[string]string{}
	}
	marked.Annotations[keys.FleetWithdrawalsPaused] = strings.Join(append(Paused(mc), namespace), ",")
	if err := s.client.Patch(ctx, marked, client.MergeFromWithOptions(mc, client.MergeFromWithOptimisticLock{})); err != nil {
		return "", fmt.Errorf("pause withdrawals of namespace %s from %s: %w", namespace, mc.Name, err)
	}
	return marked.ResourceVersion, nil
}
