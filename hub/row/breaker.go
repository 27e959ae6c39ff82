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
	withdrawn []time.Time
	tripped   bool
	openUntil time.Time
	// annotated is the version in which the MemberCluster got the annotation; empty once the cache has shown it. An older one says nothing.
	annotated string
}

func newBreaker(c clock.PassiveClock) *breaker { return &breaker{clock: c, by: map[tenancy]*window{}} }

// take counts a withdrawal of a namespace that has that many rows in the cluster. paused says whether the MemberCluster has the
// annotation for it in that version. It returns whether the row may be withdrawn, and whether to set the annotation.
func (b *breaker) take(of tenancy, rows int, paused bool, version string) (ok, trip bool) {
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
		return false, false
	}
	if w.annotated != "" {
		if order, err := resourceversion.CompareResourceVersion(version, w.annotated); err == nil && order < 0 {
			return false, false
		}
		w.tripped, w.annotated = true, "" // The annotation came and went.
	}
	if w.tripped { // The annotation was removed: there is no limit for a while.
		*w = window{openUntil: now.Add(breakerOpen)}
	}
	if now.Before(w.openUntil) {
		return true, false
	}
	w.withdrawn = slices.DeleteFunc(w.withdrawn, func(t time.Time) bool { return now.Sub(t) >= breakerWindow })
	if len(w.withdrawn) >= max(breakerFloor, rows/breakerShare) {
		return false, true
	}
	w.withdrawn = append(w.withdrawn, now)
	return true, false
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
// administrator has decided on all rows.
func (s *Store) allow(ctx context.Context, mc *fleetv1alpha1.MemberCluster, row *fleetv1alpha1.MemberWork) error {
	cluster, namespace := mc.Name, row.Spec.Source.Namespace
	of := tenancyOf(cluster, row)
	name := of.namespace
	if !mc.DeletionTimestamp.IsZero() {
		return nil
	}
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := s.client.List(ctx, rows, client.InNamespace(fleetv1alpha1.Namespace(cluster)), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("count rows of %s: %w", cluster, err)
	}
	count := 0
	for i := range rows.Items {
		if rows.Items[i].Spec.Source.Namespace == namespace {
			count++
		}
	}
	ok, trip := s.breaker.take(of, count, slices.Contains(Paused(mc), name), mc.ResourceVersion)
	if trip {
		version, err := s.pause(ctx, mc, name)
		if err != nil {
			return err
		}
		s.breaker.annotated(of, version)
		ctrl.LoggerFrom(ctx).Info("Paused withdrawals", "cluster", cluster, "namespace", name, "count", count)
	}
	if !ok {
		which := "of namespace " + namespace
		if namespace == "" {
			which = "without a namespace"
		}
		return fmt.Errorf("%w: many objects %s would be withdrawn from cluster %s at once; if that is meant, run "+
			"kubectl annotate membercluster %s %s-", ErrPaused, which, cluster, cluster, keys.FleetWithdrawalsPaused)
	}
	return nil
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
