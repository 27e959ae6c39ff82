package workloadspread

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// observed is what one reconcile has read. All objects are shared with the cache and must not be modified.
type observed struct {
	ws *appsv1beta1.WorkloadSpread
	// versions holds the kinds whose pods are counted by version.
	versions versions

	// listed holds the whitelisted kinds. fault is why the whitelist can't be read.
	listed []scaletarget.Listed
	fault  error
	// target is the workload, or nil if it doesn't exist. denied is why the manager may not read it.
	target client.Object
	denied error
	// elder is an older WorkloadSpread with the same target, or nil if this one counts.
	elder *appsv1beta1.WorkloadSpread
	// sent means that the pod webhook gets the pods of the namespace. Otherwise notSent is why it doesn't.
	sent    bool
	notSent string

	// total is how many replicas the workload wants, or 0 if no subset has a percentage. unknown is why that is unknown.
	total   int32
	unknown string
	// newest is the workload's latest version, or "" if unknown.
	newest string
	// pods holds the workload's pods that the filter includes. nodes holds the nodes of pods without a subset, by name.
	pods  []*corev1.Pod
	nodes map[string]*corev1.Node
	// unseen holds the places whose pods the cache doesn't show, by id, with the time since when this process knows them. lost holds those of
	// them that no pod of the workload will use any longer.
	unseen map[string]time.Time
	lost   map[string]bool
}

// metadataOf returns an empty metadata-only object and list of a kind.
func metadataOf(kind schema.GroupVersionKind) (*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList) {
	o, list := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}
	o.SetGroupVersionKind(kind)
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return o, list
}

// replicaSets returns the kind that stands between Deployments and pods.
func replicaSets() schema.GroupVersionKind { return appsv1.SchemeGroupVersion.WithKind("ReplicaSet") }

// observe reads everything that a reconcile needs. The error comes from expect.Store.Read.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{ws: &appsv1beta1.WorkloadSpread{}, versions: r.Versions}
	o.listed, o.fault = scaletarget.List(ctx, r.Client, r.Namespace, scaletarget.KeyWorkloadSpread)
	if err := r.awaitExistingPods(ctx, key); err != nil {
		return o, err
	}
	children := func(from client.Reader, live bool) error { return r.children(ctx, from, live, &o) }
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) { _ = yield(o.ws) && expect.Each(o.pods, yield) }
	}
	err := r.Expect.Read(ctx, r.Client, r.Live, key, o.ws, children, shown)
	if err != nil {
		if errors.Is(err, expect.ErrGone) {
			r.memory.Forget(key)
		}
		return o, fmt.Errorf("read WorkloadSpread: %w", err)
	}
	return o, nil
}

// awaitExistingPods makes the first reconcile of a WorkloadSpread in this process wait until the cache shows all of its existing pods: a
// previous leader may have seen them and given back their places. It does the same when a subset is new or gets a limit: its places were not
// counted before, or were dropped with it.
func (r *Reconciler) awaitExistingPods(ctx context.Context, key types.NamespacedName) error {
	var ws appsv1beta1.WorkloadSpread
	if err := r.Client.Get(ctx, key, &ws); err != nil {
		return client.IgnoreNotFound(err)
	}
	if r.memory.Get(&ws).begun && !hasNewLimit(&ws) {
		return nil
	}
	pods, err := r.livePods(ctx, key.Namespace)
	if err != nil {
		return err
	}
	var cached corev1.PodList
	if err := r.Client.List(ctx, &cached, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	shown := make(map[types.UID]bool, len(cached.Items))
	for i := range cached.Items {
		shown[cached.Items[i].UID] = true
	}
	for i := range pods {
		pod := &pods[i]
		if shown[pod.UID] || pod.DeletionTimestamp != nil || subsetOf(&ws, pod) < 0 {
			continue
		}
		switch belongs, err := r.belongs(ctx, r.Live, &ws, pod); {
		case err != nil:
			return err
		case belongs:
			r.Expect.Created(ws.UID, &corev1.Pod{ObjectMeta: pod.ObjectMeta})
		}
	}
	r.memory.Change(&ws, func(k *known) { k.begun = true })
	return nil
}

// belongs reports whether a pod belongs to the workload and is included by the filter. A pod with the annotation may not: its controller may
// have released it, its labels may have changed, or a controller between the two may have got a WorkloadSpread.
func (r *Reconciler) belongs(ctx context.Context, owners client.Reader, ws *appsv1beta1.WorkloadSpread, pod metav1.Object) (bool, error) {
	if !selects(ws, pod) {
		return false, nil
	}
	chain, missing, err := scaletarget.Chain(ctx, owners, pod, r.readable)
	if err != nil {
		return false, err
	}
	for _, ref := range chain {
		if scaletarget.SpreadTarget(ws).Same(ref) {
			return true, nil
		}
		if spread, err := r.hasSpread(ctx, ref); err != nil || spread {
			return false, err
		}
	}
	return missing, nil
}

// hasSpread reports whether a controller between pods and the target has a WorkloadSpread of its own. That one counts for its pods, because the
// webhook assigns them to the nearest one.
func (r *Reconciler) hasSpread(ctx context.Context, ref scaletarget.Ref) (bool, error) {
	all, err := scaletarget.Spreads(ctx, r.Client, ref)
	return len(all) > 0, err
}

// hasNewLimit reports whether a subset has a limit that the status doesn't reflect yet.
func hasNewLimit(ws *appsv1beta1.WorkloadSpread) bool {
	for _, all := range ws.Status.VersionedSubsetStatuses {
		for i := range ws.Spec.Subsets {
			s := &ws.Spec.Subsets[i]
			if st := statusOf(all, s.Name); s.MaxReplicas != nil && (st == nil || st.MissingReplicas == unlimited) {
				return true
			}
		}
	}
	return false
}

// livePods returns the metadata of all pods in a namespace, from the apiserver.
func (r *Reconciler) livePods(ctx context.Context, namespace string) ([]metav1.PartialObjectMetadata, error) {
	_, list := metadataOf(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := r.Live.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return list.Items, nil
}

// children reads the workload, its pods, and their nodes. live means that the reader is the apiserver, which has no index.
func (r *Reconciler) children(ctx context.Context, from client.Reader, live bool, o *observed) error {
	ref := scaletarget.SpreadTarget(o.ws)
	o.target, o.denied, o.elder, o.pods, o.nodes, o.newest, o.total, o.unknown = nil, nil, nil, nil, nil, "", 0, ""
	o.unseen, o.lost = nil, nil
	if scaletarget.SpreadOfHub(o.ws) {
		return expect.ErrGone
	}
	if !allowed(ref.Kind.GroupKind(), o.listed) {
		return nil
	}
	all, err := scaletarget.Spreads(ctx, r.Client, ref)
	if err != nil {
		return err
	}
	if len(all) > 0 && all[0].UID != o.ws.UID {
		o.elder = all[0]
		return nil
	}
	o.sent, o.notSent = r.Opening.Sent(ctx, o.ws.Namespace)
	if !builtIn(ref.Kind.GroupKind()) && !r.watches(ref.Kind) { // The start of the watch triggers a reconcile.
		from = r.Live
	}
	switch o.target, err = scaletarget.Get(ctx, from, ref); {
	case apierrors.IsForbidden(err):
		o.denied = err
		return nil
	case err != nil:
		return err
	case o.target == nil || o.target.GetDeletionTimestamp() != nil:
		o.target = nil
		return nil
	}
	if err := r.readPods(ctx, from, live || from == r.Live, o); err != nil {
		return err
	}
	if err := r.readLost(ctx, o); err != nil {
		return err
	}
	if anyPercentage(o.ws) {
		o.total, o.unknown, err = total(ctx, r.Client, r.Live, o.ws, o.target, o.listed)
	}
	return err
}

// watches reports whether the cache has a kind from the whitelist.
func (r *Reconciler) watches(kind schema.GroupVersionKind) bool {
	return r.Watched == nil || r.Watched(kind)
}

// readPods reads the pods of the workload, through the owners in between, and the nodes of pods without a subset.
func (r *Reconciler) readPods(ctx context.Context, from client.Reader, live bool, o *observed) error {
	kind := scaletarget.SpreadTarget(o.ws).Kind
	type owner struct {
		metav1.Object

		kind schema.GroupVersionKind
	}
	owners := []owner{{o.target, kind}}
	var sets []*metav1.PartialObjectMetadata
	for i := 0; i < len(owners); i++ {
		pods, err := ownership.Pods(ctx, from, owners[i], owners[i].kind, live)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if selects(o.ws, pod) {
				o.pods = append(o.pods, pod)
			}
		}
		for _, between := range kindsBetween(owners[i].kind, kind, o.listed) {
			reader, indexed := from, between == replicaSets()
			if !indexed && !r.watches(between) {
				reader = r.Live
			}
			children, err := childrenOf(ctx, reader, owners[i], owners[i].kind, between, !indexed || live)
			if err != nil {
				return err
			}
			for _, child := range children {
				ref := scaletarget.Ref{Kind: between, NamespacedName: client.ObjectKeyFromObject(child)}
				spread, err := r.hasSpread(ctx, ref)
				if err != nil {
					return err
				}
				if !spread {
					owners = append(owners, owner{child, between})
				}
			}
			if indexed {
				sets = append(sets, children...)
			}
		}
	}
	slices.SortFunc(o.pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	o.newest = newestVersion(o.target, sets)
	return r.readNodes(ctx, o)
}

// kindsBetween returns the kinds that an object of a kind may control on the way to the target's pods, each in one version. Listing a kind twice
// would count its pods twice.
func kindsBetween(kind, target schema.GroupVersionKind, listed []scaletarget.Listed) []schema.GroupVersionKind {
	if g := kind.GroupKind(); g == deployment() {
		return []schema.GroupVersionKind{replicaSets()}
	} else if builtIn(g) {
		return nil
	}
	out := []schema.GroupVersionKind{replicaSets()}
	for _, l := range listed {
		if l.Kind.GroupKind() != target.GroupKind() {
			continue
		}
		for _, between := range l.Between {
			g := between.GroupKind()
			known := slices.ContainsFunc(out, func(k schema.GroupVersionKind) bool { return k.GroupKind() == g })
			if !known && g != kind.GroupKind() && g.Kind != "Pod" {
				out = append(out, between)
			}
		}
	}
	return out
}

// childrenOf lists the metadata of the objects of a kind that owner controls. scan means that the reader has no index for them.
func childrenOf(
	ctx context.Context, r client.Reader, owner metav1.Object, ownerKind, kind schema.GroupVersionKind, scan bool,
) ([]*metav1.PartialObjectMetadata, error) {
	_, list := metadataOf(kind)
	if err := r.List(ctx, list, ownership.OwnedBy(owner, scan)...); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.GroupKind(), err)
	}
	var out []*metav1.PartialObjectMetadata
	for i := range list.Items {
		if o := &list.Items[i]; ownership.ControlledBy(o, owner, ownerKind) {
			out = append(out, o)
		}
	}
	return out, nil
}

// newestVersion returns the latest version of a workload.
func newestVersion(target client.Object, sets []*metav1.PartialObjectMetadata) string {
	switch t := target.(type) {
	case *appsv1beta1.CloneSet:
		return shortHash(t.Status.UpdateRevision)
	case *appsv1beta1.StatefulSet:
		return shortHash(t.Status.UpdateRevision)
	case *appsv1.StatefulSet:
		return shortHash(t.Status.UpdateRevision)
	case *appsv1.Deployment:
		latest, out := int64(-1), ""
		for _, s := range sets {
			// Kubernetes raises it for each rollout, also when an earlier revision returns.
			n, err := strconv.ParseInt(s.Annotations["deployment.kubernetes.io/revision"], 10, 64)
			if err == nil && n > latest {
				latest, out = n, s.Labels[keys.PodTemplateHash]
			}
		}
		return out
	}
	return ""
}

func (r *Reconciler) readNodes(ctx context.Context, o *observed) error {
	o.nodes = map[string]*corev1.Node{}
	for _, pod := range o.pods {
		name := pod.Spec.NodeName
		if name == "" || o.nodes[name] != nil || subsetOf(o.ws, pod) >= 0 {
			continue
		}
		node := &corev1.Node{}
		switch err := r.Client.Get(ctx, client.ObjectKey{Name: name}, node); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("get node %s: %w", name, err)
		default:
			o.nodes[name] = node
		}
	}
	return nil
}

// readLost asks the apiserver for admitted pods that the cache should show by now. It measures time only by this process, because the clocks
// of the webhook's replicas may be wrong.
func (r *Reconciler) readLost(ctx context.Context, o *observed) error {
	previous, now, seen := r.memory.Get(o.ws).unseen, r.Clock.Now(), idsOf(o.pods)
	overdue := map[string]bool{}
	o.unseen = map[string]time.Time{}
	for _, all := range o.ws.Status.VersionedSubsetStatuses {
		for i := range all {
			for id := range all[i].CreatingPods {
				if seen[id] {
					continue
				}
				since, known := previous[id]
				if !known {
					since = now
				}
				o.unseen[id] = since
				if now.Sub(since) >= creationTimeout {
					overdue[id] = true
				}
			}
		}
	}
	r.memory.Change(o.ws, func(k *known) { k.unseen = o.unseen })
	if len(overdue) == 0 {
		return nil
	}
	pods, err := r.livePods(ctx, o.ws.Namespace)
	if err != nil {
		return err
	}
	for i := range pods {
		for _, id := range idsIn(&pods[i]) {
			if !overdue[id] {
				continue
			}
			switch belongs, err := r.belongs(ctx, r.Client, o.ws, &pods[i]); {
			case err != nil:
				return err
			case belongs: // The cache is behind: ask again later.
				delete(overdue, id)
				o.unseen[id] = now
			}
		}
	}
	o.lost = overdue
	return nil
}

// idsOf returns the ids that pods may have in creatingPods.
func idsOf(pods []*corev1.Pod) map[string]bool {
	out := make(map[string]bool, 2*len(pods))
	for _, pod := range pods {
		for _, id := range idsIn(pod) {
			out[id] = true
		}
	}
	return out
}

// idsIn returns a pod's ids: its name, which OpenKruise uses, and the UID in its annotation.
func idsIn(pod metav1.Object) []string {
	if m, ok := matchedOf(pod); ok && m.UID != "" {
		return []string{pod.GetName(), m.UID}
	}
	return []string{pod.GetName()}
}

// total returns how many replicas a workload wants, or why that is unknown. For kinds without Go types it asks the apiserver.
func total(
	ctx context.Context, c client.Client, live client.Reader, ws *appsv1beta1.WorkloadSpread, target client.Object, listed []scaletarget.Listed,
) (n int32, unknown string, err error) {
	ref := scaletarget.SpreadTarget(ws)
	var paths []string
	if ws.Spec.TargetFilter != nil {
		paths = ws.Spec.TargetFilter.ReplicasPathList
	}
	if len(paths) == 0 {
		if ref.Kind.GroupKind() == job() {
			var j batchv1.Job
			err := live.Get(ctx, ref.NamespacedName, &j)
			return ptr.Deref(j.Spec.Parallelism, 1), "", client.IgnoreNotFound(err)
		}
		n, known, err := scaletarget.Replicas(ctx, c, target)
		if err != nil || known {
			return n, "", err
		}
		i := slices.IndexFunc(listed, func(l scaletarget.Listed) bool { return l.Kind.GroupKind() == ref.Kind.GroupKind() })
		if i < 0 || listed[i].ReplicasPath == "" {
			return 0, fmt.Sprintf("%s has no scale subresource, so maxReplicas can't be a percentage: set spec.targetFilter."+
				"replicasPathList, or use numbers", ref.Kind.GroupKind()), nil
		}
		paths = []string{listed[i].ReplicasPath}
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(ref.Kind)
	if err := live.Get(ctx, ref.NamespacedName, o); err != nil {
		return 0, "", client.IgnoreNotFound(err)
	}
	for _, path := range paths {
		v, why := valueAt(o.Object, path)
		if why != "" {
			return 0, why, nil
		}
		n = toInt32(int(n) + int(v))
	}
	return n, "", nil
}

// valueAt returns the integer at a dotted path in an object, or why there is none. List elements are addressed by index. A missing field
// counts as 0.
func valueAt(object any, path string) (n int32, why string) {
	for name := range strings.SplitSeq(path, ".") {
		switch in := object.(type) {
		case map[string]any:
			object = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return 0, fmt.Sprintf("the workload has no field %s: %q is not an index of its list", path, name)
			}
			object = in[i]
		default:
			return 0, ""
		}
	}
	switch n := object.(type) {
	case int64:
		if 0 <= n && n <= math.MaxInt32 {
			return int32(n), ""
		}
	case nil:
		return 0, ""
	}
	return 0, fmt.Sprintf("field %s of the workload is not a number of replicas", path)
}
