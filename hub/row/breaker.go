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
	// breakerWindow is the period over which withdrawals are counted.
	breakerWindow = time.Minute
	// breakerFloor and breakerShare limit the withdrawals in a window: the floor, or a 20th (5 %) of the namespace's rows in the cluster,
	// whichever is larger.
	breakerFloor   = 10
	breakerDivisor = 20
	// breakerOpen is how long withdrawals are unlimited after an administrator has allowed them.
	breakerOpen = 10 * time.Minute
)

// breaker counts withdrawals by cluster and by the source's namespace, so that no tenant can use up another tenant's limit. A tripped breaker
// is recorded in the MemberCluster, so it survives a restart of the hub. The counts don't, so a restart may allow another window.
type breaker struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	by    map[tenancy]*window
}

// tenancy is the part of a cluster that one namespace of the hub uses.
type tenancy struct{ cluster, namespace string }

// noNamespace stands for cluster-scoped objects of the hub. It is not a valid namespace name.
const noNamespace = "_cluster-scoped"

type window struct {
	withdrawn []withdrawal
	// paced is the source whose deletion is carried out slowly. Its withdrawals don't trip the breaker.
	paced     string
	tripped   bool
	openUntil time.Time
	// annotated is the resource version at which the MemberCluster got the annotation. It is empty once the cache has shown it. An older
	// MemberCluster says nothing about the annotation.
	annotated string
}

// withdrawal is a withdrawal that was let through.
type withdrawal struct {
	at time.Time
	cause
}

// cause is why a row is withdrawn: the UID of its source, and whether a user deleted the source or the object of the row. Otherwise a
// selector, a label or a taint has changed.
type cause struct {
	source  string
	deleted bool
}

// verdict is the breaker's decision about a withdrawal.
type verdict string

const (
	pass verdict = "Pass"
	// wait: the withdrawal belongs to a deletion that is paced. held: the breaker has already tripped. trip: the breaker trips now.
	wait verdict = "Wait"
	held verdict = "Held"
	trip verdict = "Trip"
)

func newBreaker(c clock.PassiveClock) *breaker { return &breaker{clock: c, by: map[tenancy]*window{}} }

// take counts a withdrawal for a namespace with that many rows in the cluster. paused says whether the MemberCluster has the annotation for
// the namespace at that resource version. take returns whether the row may be withdrawn, and when to retry if it has to wait.
func (b *breaker) take(key tenancy, why cause, rows int, paused bool, version string) (verdict, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	w := b.by[key]
	if w == nil {
		w = &window{}
		b.by[key] = w
	}
	if paused {
		w.tripped, w.annotated = true, ""
		return held, 0
	}
	if w.annotated != "" {
		if order, err := resourceversion.CompareResourceVersion(version, w.annotated); err == nil && order < 0 {
			return held, 0
		}
		w.tripped, w.annotated = true, "" // The annotation was added and removed.
	}
	if w.tripped { // The annotation was removed, so there is no limit for a while.
		*w = window{openUntil: now.Add(breakerOpen)}
	}
	if now.Before(w.openUntil) {
		return pass, 0
	}
	return w.take(why, max(breakerFloor, rows/breakerDivisor), now)
}

// take counts a withdrawal if the window has fewer than most. Beyond that, a withdrawal for a deletion waits if all withdrawals in the window
// have the same cause. Only one source at a time may fill the window like this. Its deletions then don't count for other sources.
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

// annotated records the resource version at which the MemberCluster got the annotation.
func (b *breaker) annotated(key tenancy, version string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.by[key]; w != nil {
		w.annotated = version
	}
}

// giveBack undoes the last take, because the row was not withdrawn.
func (b *breaker) giveBack(key tenancy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.by[key]; w != nil && len(w.withdrawn) > 0 {
		w.withdrawn = w.withdrawn[:len(w.withdrawn)-1]
	}
}

// identify returns a MemberCluster's key in a tenancy. It includes the UID, so that a MemberCluster that is created again starts over: for the
// breaker, an annotation that is missing was removed by an administrator.
func identify(mc *fleetv1alpha1.MemberCluster) string { return mc.Name + "/" + string(mc.UID) }

// tenancyOf returns the part of a cluster that a row uses.
func tenancyOf(cluster string, row *fleetv1alpha1.MemberWork) tenancy {
	return tenancy{cluster: cluster, namespace: cmp.Or(row.Spec.Source.Namespace, noNamespace)}
}

// allow consults the breaker, and annotates the MemberCluster when it trips. There is no limit for a cluster that is leaving, since its
// administrator has decided about all of its rows. The same applies to a row without replicas, where nothing runs anymore. counted says
// whether the breaker has counted the withdrawal.
func (s *Store) allow(ctx context.Context, mc *fleetv1alpha1.MemberCluster, row *fleetv1alpha1.MemberWork, deleted bool) (counted bool, err error) {
	cluster, namespace := mc.Name, row.Spec.Source.Namespace
	key := tenancyOf(identify(mc), row)
	name := key.namespace
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
	says, after := s.breaker.take(key, why, count, slices.Contains(Paused(mc), name), mc.ResourceVersion)
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
		s.breaker.annotated(key, version)
		ctrl.LoggerFrom(ctx).Info("Paused withdrawals", "cluster", cluster, "namespace", name, "count", count)
	case held:
	}
	which := "in namespace " + namespace
	if namespace == "" {
		which = "without a namespace"
	}
	return false, fmt.Errorf("%w: too many objects %s would be withdrawn from cluster %s at once; if that is intended, run "+
		"kubectl annotate membercluster %s %s-", ErrPaused, which, cluster, cluster, keys.FleetWithdrawalsPaused)
}

// emptied reports whether a row has a grant of replicas, and the member has acknowledged that it runs none.
func emptied(row *fleetv1alpha1.MemberWork) bool {
	return len(row.Spec.Grant.Subsets) > 0 && row.Status.ObservedGeneration == row.Generation && row.Status.Counts.Replicas == 0 &&
		!slices.ContainsFunc(row.Spec.Grant.Subsets, func(g fleetv1alpha1.SubsetGrant) bool { return g.Replicas > 0 })
}

// Paused returns the hub namespaces whose rows are not withdrawn from a cluster, with noNamespace for cluster-scoped objects.
func Paused(mc *fleetv1alpha1.MemberCluster) []string {
	text := mc.Annotations[keys.FleetWithdrawalsPaused]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// pause adds a namespace to the annotation, and returns the resulting resource version of the MemberCluster.
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
