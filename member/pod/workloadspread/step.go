package workloadspread

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/groupwrite"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/plan/ordinal"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// Feature is the name of the step.
const Feature = "WorkloadSpread"

// spreader assigns new pods to subsets. It is safe for concurrent use.
type spreader struct {
	// namespace is the manager's own namespace, which holds the whitelist.
	namespace string
	versions  versions
	// startOrdinal is the feature gate for StatefulSets of apps.kruise.io.
	startOrdinal bool
	clock        clock.WithTicker

	// The manager provides these. They are nil before that, and in tests that only call Observe.
	client  client.Client
	live    client.Reader
	watched func(schema.GroupVersionKind) bool
	ledger  *groupwrite.Writer[appsv1beta1.WorkloadSpread, *appsv1beta1.WorkloadSpread]
	left    *departures
}

func newSpreader(namespace string, versions versions, startOrdinal bool, c clock.WithTicker) *spreader {
	return &spreader{namespace: namespace, versions: versions, startOrdinal: startOrdinal, clock: c, left: newDepartures(c)}
}

// step returns the step of the pod webhook.
func (s *spreader) step() podwebhook.Step {
	return podwebhook.Step{
		Feature: Feature, Order: podwebhook.OrderWorkloadSpread, Gate: feature.WorkloadSpread,
		Object: &appsv1beta1.WorkloadSpread{}, List: &appsv1beta1.WorkloadSpreadList{}, Active: true, Index: scaletarget.IndexSpreads,
		Setup: func(ctx context.Context, mgr ctrl.Manager) error {
			w := scaletarget.NewWatcher(mgr.GetCache(), s.namespace, scaletarget.KeyWorkloadSpread, s.clock)
			s.setClients(mgr.GetClient(), mgr.GetAPIReader())
			s.watched = w.Watched
			return errors.Join(s.left.follow(ctx, mgr.GetCache()), mgr.Add(w))
		},
		Observe: s.observe,
	}
}

// setClients sets the clients.
func (s *spreader) setClients(c client.Client, live client.Reader) {
	s.client, s.live, s.ledger = c, live, groupwrite.New[appsv1beta1.WorkloadSpread](c, live)
}

// facts holds what is known about the place of one pod.
type facts struct {
	s *spreader
	// ws is the WorkloadSpread that the pod belongs to. It is nil if the pod's controller, named by missing, is not in the cache yet.
	ws      *appsv1beta1.WorkloadSpread
	missing scaletarget.Ref
	kind    schema.GroupKind
	version string

	// total is the workload's number of replicas, or totalUnknown. ask means that the apiserver has to be asked for it.
	total int32
	ask   bool
	// subset is where the pod goes, -1 for nowhere. counted means that other requests have to know about the place. id is the pod's id in
	// creatingPods.
	subset  int
	counted bool
	id      string
	// passed holds the full subsets before it.
	passed []string
}

// observe implements podwebhook.Step. It reads only from the cache that every replica has.
func (s *spreader) observe(ctx context.Context, cache client.Reader, pod *corev1.Pod) (podwebhook.Facts, error) {
	return s.findSpread(ctx, cache, cache, pod)
}

// findSpread finds the WorkloadSpread of a pod, reading its controllers from owners, and the pod's place, using the cache.
func (s *spreader) findSpread(ctx context.Context, cache, owners client.Reader, pod *corev1.Pod) (podwebhook.Facts, error) {
	var all appsv1beta1.WorkloadSpreadList
	if err := cache.List(ctx, &all, client.InNamespace(pod.Namespace), client.Limit(1), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list WorkloadSpreads: %w", err)
	}
	if len(all.Items) == 0 {
		return podwebhook.Nothing("the namespace has no WorkloadSpread"), nil
	}
	chain, missing, err := scaletarget.Chain(ctx, owners, pod, s.readable)
	if err != nil {
		return nil, err
	}
	for _, ref := range chain {
		found, err := scaletarget.Spreads(ctx, cache, ref)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			return s.factsFor(ctx, cache, owners, found[0], ref, pod)
		}
	}
	if missing {
		return &facts{s: s, missing: chain[len(chain)-1], subset: -1}, nil
	}
	if len(chain) == 0 {
		return podwebhook.Nothing("the pod has no controller"), nil
	}
	return podwebhook.Nothing(fmt.Sprintf("no WorkloadSpread has %s as its target", chain[len(chain)-1])), nil
}

// readable reports whether the cache can read a kind without waiting.
func (s *spreader) readable(kind schema.GroupVersionKind) bool {
	return alwaysCached(kind.GroupKind()) || s.watched != nil && s.watched(kind)
}

// factsFor returns the facts about a pod of a given WorkloadSpread.
func (s *spreader) factsFor(
	ctx context.Context, cache, owners client.Reader, ws *appsv1beta1.WorkloadSpread, ref scaletarget.Ref, pod *corev1.Pod,
) (podwebhook.Facts, error) {
	kind := ref.Kind.GroupKind()
	if !builtIn(kind) {
		listed, err := scaletarget.List(ctx, cache, s.namespace, scaletarget.KeyWorkloadSpread)
		if err != nil {
			return nil, err
		}
		if !allowed(kind, listed) {
			return podwebhook.Nothing(fmt.Sprintf("%s is not listed in ConfigMap %s", kind, scaletarget.ConfigMap)), nil
		}
	}
	if !selects(ws, pod) {
		return podwebhook.Nothing(ws.Name + " does not select the pod: spec.targetFilter.selector"), nil
	}
	f := &facts{s: s, ws: ws, kind: kind, version: s.versions.versionOf(kind, pod)}
	switch {
	case takesAllPods(ws):
		return f, nil
	case hasOrdinals(kind):
		set, err := scaletarget.Get(ctx, owners, ref)
		if err != nil {
			return nil, err
		}
		if set == nil { // Its first pods are created at once.
			return &facts{s: s, missing: ref, subset: -1}, nil
		}
		f.subset = -1
		if rank := s.rank(set, pod); rank >= 0 {
			f.subset = subsetByRank(ws, rank)
		}
		return f, nil
	}
	return f, f.countPlaces(ctx, cache, ref)
}

// rank returns how many pods of a StatefulSet come before this one by ordinal, without reserved ordinals. -1 means that the pod has no
// ordinal, or one that is not wanted.
func (s *spreader) rank(set client.Object, pod *corev1.Pod) int64 {
	n, ok := ordinal.Number(set.GetName(), pod.Name)
	if !ok {
		return -1
	}
	var start int64
	switch set := set.(type) {
	case *appsv1.StatefulSet:
		if set.Spec.Ordinals != nil {
			start = int64(set.Spec.Ordinals.Start)
		}
	case *appsv1beta1.StatefulSet:
		if set.Spec.Ordinals != nil && s.startOrdinal {
			start = int64(set.Spec.Ordinals.Start)
		}
		return ordinal.Count(set.Spec.ReserveOrdinals, start, n) - 1
	}
	return n - start
}

// countPlaces chooses a subset using the cache. Only a place in a limited subset is counted. The last subset often has no limit, and takes its
// pods without a write.
func (f *facts) countPlaces(ctx context.Context, cache client.Reader, ref scaletarget.Ref) error {
	f.total = totalUnknown
	if anyPercentage(f.ws) && cachedReplicas(f.kind) && !byPath(f.ws) {
		w, err := scaletarget.Get(ctx, cache, ref)
		if err != nil {
			return err
		}
		if w != nil {
			if f.total, _, err = scaletarget.Replicas(ctx, nil, w); err != nil {
				return err
			}
		}
	}
	f.chooseSubset()
	return nil
}

// chooseSubset chooses a subset using the status in ws. It doesn't leave out a pod because of percentages of a replica count that may be
// outdated.
func (f *facts) chooseSubset() {
	f.subset, f.passed = chooseSubset(f.ws, f.version, f.total), nil
	f.ask = anyPercentage(f.ws) && (f.subset < 0 || f.total == totalUnknown && len(f.ws.Status.VersionedSubsetStatuses[f.version]) == 0)
	f.counted = f.ask || f.subset >= 0 && f.ws.Spec.Subsets[f.subset].MaxReplicas != nil
	for i := range f.ws.Spec.Subsets {
		if i == f.subset {
			break
		}
		if name := f.ws.Spec.Subsets[i].Name; schedulable(f.ws, name) {
			f.passed = append(f.passed, name)
		}
	}
}

// cachedReplicas reports whether the number of replicas of a kind is in the cache.
func cachedReplicas(kind schema.GroupKind) bool { return kind == deployment() || kind == cloneSet() }

// byPath reports whether the number of replicas is read from paths in the workload.
func byPath(ws *appsv1beta1.WorkloadSpread) bool {
	return ws.Spec.TargetFilter != nil && len(ws.Spec.TargetFilter.ReplicasPathList) > 0
}

// Reserve implements podwebhook.Reserver.
func (f *facts) Reserve(ctx context.Context, pod *corev1.Pod) error {
	if f.ws == nil {
		if err := f.findLive(ctx, pod); err != nil || f.ws == nil {
			return err
		}
	}
	if err := f.awaitFreedPlaces(ctx, pod); err != nil {
		return err
	}
	if f.counted {
		if err := f.takePlace(ctx); err != nil {
			return err
		}
	}
	if f.subset < 0 {
		if f.ws.Spec.OverflowPolicy == appsv1beta1.OverflowRefuse {
			return podwebhook.RefusedError(f.fullMessage())
		}
		return nil
	}
	return f.inject(pod.DeepCopy())
}

// findLive repeats find with the apiserver: a pod is often created right after its controller.
func (f *facts) findLive(ctx context.Context, pod *corev1.Pod) error {
	found, err := f.s.findSpread(ctx, f.s.client, f.s.live, pod)
	if err != nil {
		return err
	}
	if known, ok := found.(*facts); ok { // A pod whose controller doesn't exist belongs to no WorkloadSpread.
		*f = *known
	}
	return nil
}

// awaitFreedPlaces waits while a place that a pod has just left is not yet counted as free. It doesn't wait longer if more pods leave meanwhile:
// during a rollout they do all the time, and the request would time out.
func (f *facts) awaitFreedPlaces(ctx context.Context, pod *corev1.Pod) error {
	deadline := f.s.clock.Now().Add(patience)
	for {
		wait, changed := f.s.left.waitFor(pod, f.ws.Name, f.passed)
		if wait = min(wait, deadline.Sub(f.s.clock.Now())); wait <= 0 {
			return nil
		}
		timer := f.s.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		case <-changed:
			timer.Stop()
		}
		ws := &appsv1beta1.WorkloadSpread{}
		if err := f.s.client.Get(ctx, client.ObjectKeyFromObject(f.ws), ws); err != nil {
			return err
		}
		f.ws = ws
		f.chooseSubset()
	}
}

// takePlace takes a place by writing the status.
func (f *facts) takePlace(ctx context.Context) error {
	if f.ask {
		if err := f.askTotal(ctx); err != nil {
			return err
		}
	}
	f.id = string(uuid.NewUUID())
	key, uid, subset := client.ObjectKeyFromObject(f.ws), f.ws.UID, -1
	var written *appsv1beta1.WorkloadSpread
	err := f.s.ledger.Do(ctx, key, func(ws *appsv1beta1.WorkloadSpread) (changed bool) {
		subset, written = -1, ws
		if ws.UID != uid {
			return false
		}
		subset, changed = takePlace(ws, f.version, f.id, f.total, f.s.clock.Now())
		return changed
	})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil || written.UID != uid {
		return fmt.Errorf("WorkloadSpread %s was deleted meanwhile: the pod is created again", key.Name)
	}
	f.ws, f.subset = written, subset
	if subset < 0 && !f.ask && anyPercentage(written) { // The status was newer than in the cache, and so may be the number of replicas.
		f.ask = true
		return f.takePlace(ctx)
	}
	return nil
}

// askTotal asks the apiserver for the number of replicas.
func (f *facts) askTotal(ctx context.Context) error {
	listed, err := scaletarget.List(ctx, f.s.client, f.s.namespace, scaletarget.KeyWorkloadSpread)
	if err != nil {
		return err
	}
	w, err := scaletarget.Get(ctx, f.s.live, scaletarget.SpreadTarget(f.ws))
	if err != nil {
		return err
	}
	if w == nil {
		return fmt.Errorf("%s does not exist", scaletarget.SpreadTarget(f.ws))
	}
	n, unknown, err := total(ctx, f.s.client, f.s.live, f.ws, w, listed)
	if err == nil && unknown != "" {
		err = fmt.Errorf("WorkloadSpread %s: %s", f.ws.Name, unknown)
	}
	f.total = n
	return err
}

// fullMessage returns the message that there is no room.
func (f *facts) fullMessage() string {
	if f.ws.Spec.OverflowPolicy == appsv1beta1.OverflowRefuse {
		return fmt.Sprintf("all subsets of %s are full, and its overflowPolicy is Refuse: "+
			"raise maxReplicas, add a subset, or set overflowPolicy to Create", f.ws.Name)
	}
	return fmt.Sprintf("all subsets of %s are full: it is assigned to none", f.ws.Name)
}

// inject applies the subset's settings to a pod.
func (f *facts) inject(pod *corev1.Pod) error {
	s := &f.ws.Spec.Subsets[f.subset]
	if err := inject(pod, s, matched{Name: f.ws.Name, Subset: s.Name, UID: f.id}); err != nil {
		return fmt.Errorf("subset %s of WorkloadSpread %s: %w", s.Name, f.ws.Name, err)
	}
	if usesDeletionCost(pod) { // This saves the controller a write.
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, keys.PodDeletionCost, costOfNew(f.ws, f.version, f.subset, f.total, f.id))
	}
	return nil
}

// leaveOut removes the pod from any subset, whatever its template says.
func (f *facts) leaveOut(pod *corev1.Pod) {
	delete(pod.Annotations, keys.MatchedWorkloadSpread)
	if usesDeletionCost(pod) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, keys.PodDeletionCost, costOfNone(len(f.ws.Spec.Subsets)))
	}
}

// Change implements podwebhook.Facts.
func (f *facts) Change(pod *corev1.Pod) string {
	switch {
	case f.ws == nil:
		return fmt.Sprintf("%s, a controller of the pod, is unknown", f.missing)
	case f.ask && f.total == totalUnknown:
		return f.ws.Name + " chooses by a percentage of the workload's replicas, which a dry run does not read"
	case f.subset < 0:
		f.leaveOut(pod)
		return f.fullMessage()
	}
	if err := f.inject(pod); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s assigns it to subset %s", f.ws.Name, f.ws.Spec.Subsets[f.subset].Name)
}

var _ podwebhook.Reserver = &facts{}
