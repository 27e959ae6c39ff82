package cloneset

import (
	"context"
	"fmt"
	"iter"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/history"
	"github.com/flotilla-io/flotilla/pkg/index"
)

// observed is the world of one pass. All objects are the cache's own: nobody may change them.
type observed struct {
	set *appsv1beta1.CloneSet
	// wanted is the revision of the set's template, without a number.
	wanted *appsv1.ControllerRevision
	// history, pods and claims are those that the set controls; history is in the order of revision.Sort.
	history []*appsv1.ControllerRevision
	pods    []*corev1.Pod
	claims  []*corev1.PersistentVolumeClaim
	// nodes are the labels of nodes by name; only there if the pods to be deleted are chosen by topology.
	nodes map[string]map[string]string
	// strangers are pods that the selector selects and that are not of the set.
	strangers strangers
	// daemons are the nodes of pods on which a node daemon lives.
	daemons map[string]bool
	// gates are those of the controller.
	gates Gates
}

// observe reads what a pass needs, from the cache, or from the apiserver if the cache has failed to show our writes for
// too long.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	var set appsv1beta1.CloneSet
	if err := r.Client.Get(ctx, key, &set); err != nil {
		if apierrors.IsNotFound(err) {
			r.pace.forget(key)
			r.lookout.forget(key)
			r.events.Forget(key)
			return observed{}, expect.ErrGone
		}
		return observed{}, fmt.Errorf("get CloneSet: %w", err)
	}
	if set.DeletionTimestamp != nil {
		r.Expect.Forget(set.UID)
		return observed{}, expect.ErrGone
	}
	o := observed{set: &set, gates: r.Gates}
	if err := o.children(ctx, r.Client, false); err != nil {
		return observed{}, err
	}
	err := r.Expect.Fresh(ctx, &set, o.shown, r.Live, func() error {
		set = appsv1beta1.CloneSet{} // An answer would be decoded over it: what the apiserver has no more would stay.
		if err := r.Live.Get(ctx, key, &set); err != nil {
			return fmt.Errorf("get CloneSet: %w", err)
		}
		return o.children(ctx, r.Live, true)
	})
	if err != nil {
		return observed{}, err
	}
	if o.wanted, err = wantedRevision(&set); err != nil {
		return observed{}, err
	}
	if o.strangers, err = r.lookout.look(ctx, r.Client, &set, r.Clock.Now()); err != nil {
		return observed{}, err
	}
	o.daemons = r.daemons(o.pods)
	if o.byTopology() {
		if o.nodes, err = nodeLabels(ctx, r.Client); err != nil {
			return observed{}, err
		}
	}
	return o, nil
}

// daemons tells on which of the pods' nodes a node daemon lives.
func (r *Reconciler) daemons(pods []*corev1.Pod) map[string]bool {
	if r.Daemons == nil || !r.Gates.EnvFromMetadata {
		return nil
	}
	out := map[string]bool{}
	for _, p := range pods {
		if node := p.Spec.NodeName; node != "" && !out[node] && r.Daemons.Live(node) {
			out[node] = true
		}
	}
	return out
}

// onNode are the sets that have pods on a node.
func (r *Reconciler) onNode(ctx context.Context, node string) []ctrl.Request {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.MatchingFields{index.Node: node}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Left CloneSets with pods on a node to their next event", "node", node)
		return nil
	}
	var out []ctrl.Request
	for i := range pods.Items {
		ref := metav1.GetControllerOfNoCopy(&pods.Items[i])
		if ref == nil || ref.Kind != Kind().Kind || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group != Kind().Group {
			continue
		}
		req := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: pods.Items[i].Namespace, Name: ref.Name}}
		if !slices.Contains(out, req) {
			out = append(out, req)
		}
	}
	return out
}

// children reads history, pods and claims; live says that the reader is the apiserver, which has no index.
func (o *observed) children(ctx context.Context, r client.Reader, live bool) error {
	opts := index.Owned(o.set, live)
	var err error
	if o.history, err = history.List(ctx, r, o.set, opts...); err != nil {
		return err
	}
	var pods corev1.PodList
	if err := r.List(ctx, &pods, opts...); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	o.pods = make([]*corev1.Pod, 0, len(pods.Items))
	for i := range pods.Items {
		if ownedBy(&pods.Items[i], o.set) {
			o.pods = append(o.pods, &pods.Items[i])
		}
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.List(ctx, &claims, opts...); err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	o.claims = make([]*corev1.PersistentVolumeClaim, 0, len(claims.Items))
	for i := range claims.Items {
		if ownedBy(&claims.Items[i], o.set) {
			o.claims = append(o.claims, &claims.Items[i])
		}
	}
	return nil
}

// shown are all objects that the expectations are about, the set itself included: a plan from an old status would write
// the status again.
func (o *observed) shown() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		_ = yield(o.set) && expect.Each(o.pods, yield) && expect.Each(o.claims, yield) && expect.Each(o.history, yield)
	}
}

// byTopology tells whether labels of nodes can matter: pods may have to go, and the template spreads them by topology.
func (o *observed) byTopology() bool {
	return len(o.set.Spec.Template.Spec.TopologySpreadConstraints) > 0 && len(o.pods) > replicas(&o.set.Spec)
}

// nodeLabels reads the labels of all nodes from a cache of their metadata, which begins with the first call.
func nodeLabels(ctx context.Context, r client.Reader) (map[string]map[string]string, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	out := make(map[string]map[string]string, len(list.Items))
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Labels
	}
	return out, nil
}
