package sidecarset

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/podstep"
	"github.com/flotilla-io/flotilla/pkg/revision"
)

// observed is what one reconcile has read. All objects are shared with the cache and must not be modified.
type observed struct {
	set *appsv1beta1.SidecarSet
	// wanted is the revision that matches the SidecarSet's spec. history holds the existing revisions, oldest first.
	wanted  *appsv1.ControllerRevision
	history []*appsv1.ControllerRevision
	// present is the current revision, set by plan. It may be an existing revision with the same data but another name.
	present *appsv1.ControllerRevision
	// pods holds the active pods that the SidecarSet selects, sorted by namespace and name.
	pods []*corev1.Pod
	// canaries holds the SidecarSets that take its place.
	canaries []*appsv1beta1.SidecarSet
	// notSent maps namespaces whose pods are not sent to the pod webhook to the reason.
	notSent map[string]string
	// inactive is why pods in the selected namespaces are not sent to the webhook, or "" if they are sent.
	inactive string
	// read caches the parsed annotations of pods, so that a plan parses each only once.
	read map[*corev1.Pod]said
}

// said is what a pod and its kubelet report about the sidecars of one SidecarSet.
type said struct {
	// upgrade is the entry in the annotation with hashes, and has tells whether it exists. withoutImage is the hash without images.
	upgrade      upgrade
	has          bool
	withoutImage string
	// done and serves are the results of updated.
	done, serves bool
}

// saidBy returns what a pod reports about its sidecars.
func (o *observed) saidBy(pod *corev1.Pod) said {
	if is, ok := o.read[pod]; ok {
		return is
	}
	var is said
	is.upgrade, is.has = upgradesIn(pod, keys.SidecarSetHash)[o.set.Name]
	is.withoutImage = upgradesIn(pod, keys.SidecarSetHashWithoutImage)[o.set.Name].Hash
	is.done, is.serves = updated(o.set.Name, pod)
	if o.read == nil {
		o.read = make(map[*corev1.Pod]said, len(o.pods))
	}
	o.read[pod] = is
	return is
}

// observe reads everything that a reconcile needs.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{set: &appsv1beta1.SidecarSet{}}
	children := func(from client.Reader, _ bool) error {
		var err error
		if o.history, err = revisionsOf(ctx, from, r.Namespace, o.set); err != nil {
			return err
		}
		revision.Sort(o.history)
		o.pods, err = podsOf(ctx, from, r.Client, o.set)
		return err
	}
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) {
			_ = yield(o.set) && expect.Each(o.history, yield) && expect.Each(o.pods, yield)
		}
	}
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, o.set, children, shown); err != nil {
		return o, fmt.Errorf("read SidecarSet: %w", err)
	}
	var err error
	if o.wanted, err = newRevision(o.set, r.Namespace); err != nil {
		return o, err
	}
	if o.canaries, err = r.canaries(ctx, o.set); err != nil {
		return o, err
	}
	namespaces, isFixed := fixed(o.set)
	if !isFixed {
		namespaces = podstep.AllNamespaces
	}
	_, o.inactive = r.Opening.Sent(namespaces)
	o.notSent = map[string]string{}
	for _, pod := range o.pods {
		if sent, why := r.Opening.Sent(pod.Namespace); !sent {
			o.notSent[pod.Namespace] = why
		}
	}
	return o, nil
}

// podsOf returns the active pods that a SidecarSet selects.
func podsOf(ctx context.Context, from, cache client.Reader, s *appsv1beta1.SidecarSet) ([]*corev1.Pod, error) {
	if emptySelector(s.Spec.Selector) {
		return nil, nil
	}
	by, err := metav1.LabelSelectorAsSelector(s.Spec.Selector)
	if err != nil {
		return nil, nil //nolint:nilerr // Admission rejects an invalid selector; it matches nothing.
	}
	opts := []client.ListOption{client.MatchingLabelsSelector{Selector: by}, client.UnsafeDisableDeepCopy}
	only, isFixed := fixed(s)
	if isFixed {
		opts = append(opts, client.InNamespace(only))
	}
	var all corev1.PodList
	if err := from.List(ctx, &all, opts...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	of := map[string]map[string]string{}
	if !isFixed && s.Spec.NamespaceSelector != nil {
		var namespaces corev1.NamespaceList
		if err := cache.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list namespaces: %w", err)
		}
		for i := range namespaces.Items {
			of[namespaces.Items[i].Name] = namespaces.Items[i].Labels
		}
	}
	out := make([]*corev1.Pod, 0, len(all.Items))
	for i := range all.Items {
		if pod := &all.Items[i]; podpatch.Active(pod) && covers(s, pod.Namespace, of[pod.Namespace]) {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return out, nil
}

// canaries returns the SidecarSets that take the place of s.
func (r *Reconciler) canaries(ctx context.Context, s *appsv1beta1.SidecarSet) ([]*appsv1beta1.SidecarSet, error) {
	var all appsv1beta1.SidecarSetList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list SidecarSets: %w", err)
	}
	var out []*appsv1beta1.SidecarSet
	for i := range all.Items {
		if baseOf(&all.Items[i]) == s.Name {
			out = append(out, &all.Items[i])
		}
	}
	return out, nil
}

func nameOf(pod metav1.Object) string { return pod.GetNamespace() + "/" + pod.GetName() }
