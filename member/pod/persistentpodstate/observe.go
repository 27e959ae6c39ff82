package persistentpodstate

import (
	"context"
	"errors"
	"fmt"
	"iter"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/plan/ordinal"
)

// observed is what one reconcile has read. All objects are shared with the cache and must not be modified.
type observed struct {
	key types.NamespacedName
	// pps is nil if it doesn't exist or is being deleted. leaving is true in the latter case.
	pps     *appsv1beta1.PersistentPodState
	leaving bool
	// generators holds the workloads with this name that want a generated PersistentPodState.
	generators []generator
	// unwanted means that the controller of pps exists on the apiserver, but no longer wants pps.
	unwanted bool

	// listed holds the whitelisted kinds. fault is why the whitelist can't be read.
	listed []schema.GroupVersionKind
	fault  error
	// target is the workload, or nil if the cache doesn't have it. gone means that the apiserver doesn't have it either, or that it is being
	// deleted.
	target client.Object
	gone   bool
	// denied is why the manager may not read the workload.
	denied error
	// wanted holds the ordinals that the workload wants, or nil if unknown.
	wanted *wanted
	// pods maps names to the pods that the workload controls. nodes maps names to the nodes that pods are on.
	pods  map[string]*corev1.Pod
	nodes map[string]*corev1.Node
	// elder is an older PersistentPodState with the same target, or nil if this one counts.
	elder *appsv1beta1.PersistentPodState
	// sent means that the pod webhook gets the pods of the namespace. Otherwise notSent is why it doesn't.
	sent    bool
	notSent string
}

// generator is a workload with keys.AutoGeneratePersistentPodState.
type generator struct {
	client.Object

	kind schema.GroupVersionKind
}

// wanted describes the ordinals of a workload.
type wanted struct {
	start    int64
	replicas int32
	reserved ordinal.Set
}

// has reports whether the workload wants a pod with this name. A pod without an ordinal in its name doesn't belong to the workload.
func (w *wanted) has(workload, pod string) bool {
	n, ok := ordinal.Number(workload, pod)
	return ok && w.reserved.Wants(n, w.start, w.replicas)
}

// observe reads everything that a reconcile needs.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{key: key, pps: &appsv1beta1.PersistentPodState{}}
	children := func(from client.Reader, live bool) error { return r.children(ctx, from, live, &o) }
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) { yield(o.pps) }
	}
	o.listed, o.fault = scaletarget.WhiteList(ctx, r.Client, r.Namespace, scaletarget.KeyPersistentPodState)
	switch err := r.Expect.Read(ctx, r.Client, r.Live, key, o.pps, children, shown); {
	case errors.Is(err, expect.ErrGone):
		o.leaving = o.pps.UID != ""
		o.pps = nil
	case err != nil:
		return o, fmt.Errorf("read PersistentPodState: %w", err)
	}
	return o, r.generators(ctx, &o)
}

// children reads the workload, its pods, and their nodes. live means that the reader is the apiserver, which has no index.
func (r *Reconciler) children(ctx context.Context, from client.Reader, live bool, o *observed) error {
	ref := refOf(o.pps)
	o.target, o.gone, o.denied, o.wanted, o.elder, o.pods, o.nodes = nil, false, nil, nil, nil, nil, nil
	if !allowed(ref.Kind.GroupKind(), o.listed) {
		return nil
	}
	all, err := statesWithTarget(ctx, r.Client, ref)
	if err != nil {
		return err
	}
	if len(all) > 0 && all[0].UID != o.pps.UID {
		o.elder = all[0]
		return nil
	}
	o.sent, o.notSent = r.Opening.Sent(ctx, o.pps.Namespace)
	if cached := builtIn(ref.Kind.GroupKind()) || r.watches(ref.Kind); cached {
		if o.target, err = scaletarget.Get(ctx, from, ref); err != nil {
			return err
		}
	}
	if o.target == nil && !live {
		// A cache that is behind, or doesn't watch the kind yet, is no proof that what is remembered can be dropped.
		switch o.target, err = scaletarget.Get(ctx, r.Live, ref); {
		case apierrors.IsForbidden(err):
			o.denied = err
			return nil
		case err != nil:
			return err
		}
	}
	if o.gone = o.target == nil || o.target.GetDeletionTimestamp() != nil; o.gone {
		return nil
	}
	if err := r.readPods(ctx, from, live, ref.Kind, o); err != nil {
		return err
	}
	return r.readWanted(ctx, o)
}

// readPods reads the workload's pods and their nodes.
func (r *Reconciler) readPods(ctx context.Context, from client.Reader, live bool, kind schema.GroupVersionKind, o *observed) error {
	pods, err := ownership.Pods(ctx, from, o.target, kind, live)
	if err != nil {
		return err
	}
	o.pods, o.nodes = map[string]*corev1.Pod{}, map[string]*corev1.Node{}
	for _, pod := range pods {
		o.pods[pod.Name] = pod
		if pod.Spec.NodeName == "" || o.nodes[pod.Spec.NodeName] != nil {
			continue
		}
		node := &corev1.Node{}
		switch err := r.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("get node %s: %w", pod.Spec.NodeName, err)
		default:
			o.nodes[node.Name] = node
		}
	}
	return nil
}

// readWanted reads the ordinals that the workload wants, if they matter: for kinds without Go types this takes a request to the apiserver.
func (r *Reconciler) readWanted(ctx context.Context, o *observed) error {
	if !forgetsPods(&o.pps.Spec) || !o.anyGone() {
		return nil
	}
	n, known, err := scaletarget.Replicas(ctx, r.Client, o.target)
	if err != nil || !known {
		return err
	}
	o.wanted = &wanted{replicas: n}
	switch set := o.target.(type) {
	case *appsv1.StatefulSet:
		if set.Spec.Ordinals != nil {
			o.wanted.start = int64(set.Spec.Ordinals.Start)
		}
	case *appsv1beta1.StatefulSet:
		if set.Spec.Ordinals != nil && r.StartOrdinal {
			o.wanted.start = int64(set.Spec.Ordinals.Start)
		}
		o.wanted.reserved, _, _ = ordinal.Reserve(set.Spec.ReserveOrdinals, nil)
	}
	return nil
}

// anyGone reports whether a remembered pod is gone.
func (o *observed) anyGone() bool {
	for name := range o.pps.Status.PodStates {
		if o.pods[name] == nil {
			return true
		}
	}
	return false
}

// generators reads the workloads with this name that want a generated PersistentPodState, and whether the controller of the existing one
// still wants it.
func (r *Reconciler) generators(ctx context.Context, o *observed) error {
	kinds := append([]schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"), appsv1beta1.GroupVersion.WithKind("StatefulSet"),
	}, o.listed...)
	for _, kind := range kinds {
		if !builtIn(kind.GroupKind()) && !r.watches(kind) {
			continue // The start of the watch triggers a reconcile.
		}
		w, err := scaletarget.Get(ctx, r.Client, scaletarget.Ref{Kind: kind, NamespacedName: o.key})
		if err != nil {
			return err
		}
		if w != nil && wantsGenerated(w) {
			o.generators = append(o.generators, generator{w, kind})
		}
	}
	if o.pps == nil {
		return nil
	}
	owner, ok := scaletarget.Controller(o.pps)
	if !ok || o.generatedBy() != nil || !allowed(owner.Kind.GroupKind(), o.listed) {
		return nil
	}
	// Deleting it deletes what is remembered, so don't rely on a cache that may show an old version of the workload.
	w, err := scaletarget.Get(ctx, r.Live, owner)
	o.unwanted = w != nil && w.GetDeletionTimestamp() == nil && !wantsGenerated(w)
	return err
}

// watches reports whether the cache has a kind from the whitelist.
func (r *Reconciler) watches(kind schema.GroupVersionKind) bool {
	return r.Watched == nil || r.Watched(kind)
}

// wantsGenerated reports whether a workload wants a generated PersistentPodState.
func wantsGenerated(w client.Object) bool {
	return w.GetDeletionTimestamp() == nil && w.GetAnnotations()[keys.AutoGeneratePersistentPodState] == "true"
}

// generatedBy returns the workload that controls the PersistentPodState and wants it, or nil.
func (o *observed) generatedBy() *generator {
	for i := range o.generators {
		if g := &o.generators[i]; o.pps != nil && ownership.ControlledBy(o.pps, g, g.kind) {
			return g
		}
	}
	return nil
}
