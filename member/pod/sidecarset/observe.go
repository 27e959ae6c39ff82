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
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// observed is what one reconcile has read. All objects are shared with the cache and must not be modified.
type observed struct {
	set *appsv1beta1.SidecarSet
	// wanted is the revision that matches the SidecarSet's spec. history holds the existing revisions, oldest first.
	wanted  *appsv1.ControllerRevision
	history []*appsv1.ControllerRevision
	// latestRevision is the current revision, set by plan. It may be an existing revision with the same data but another name.
	latestRevision *appsv1.ControllerRevision
	// pods holds the active pods that the SidecarSet selects, sorted by namespace and name.
	pods []*corev1.Pod
	// canaries holds the SidecarSets that replace set.
	canaries []*appsv1beta1.SidecarSet
	// notSent has the reason for each namespace with observed pods that are not sent to the pod webhook.
	notSent map[string]string
	// whyNotActive is why the SidecarSet is not Active: pods in the selected namespaces are not sent to the webhook. It is "" if they are sent.
	whyNotActive string
	// states caches the parsed annotations of pods, so that a plan parses each only once.
	states map[*corev1.Pod]podState
}

// podState is what a pod and its kubelet report about the sidecars of one SidecarSet.
type podState struct {
	// record is the entry in the annotation with hashes, and hasRecord reports whether it exists. withoutImage is the hash without images.
	record       podRecord
	hasRecord    bool
	withoutImage string
	// done: the containers run what the last in-place update wrote. serves: they don't, and one of the outdated ones is still ready.
	done, serves bool
}

// stateOf returns what a pod reports about its sidecars.
func (o *observed) stateOf(pod *corev1.Pod) podState {
	if state, ok := o.states[pod]; ok {
		return state
	}
	var state podState
	state.record, state.hasRecord = podRecordsIn(pod, keys.SidecarSetHash)[o.set.Name]
	state.withoutImage = podRecordsIn(pod, keys.SidecarSetHashWithoutImage)[o.set.Name].Hash
	state.done, state.serves = ranUpdate(o.set.Name, pod)
	if o.states == nil {
		o.states = make(map[*corev1.Pod]podState, len(o.pods))
	}
	o.states[pod] = state
	return state
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
	namespaces, single := singleNamespace(o.set)
	if !single {
		namespaces = podwebhook.AllNamespaces
	}
	_, o.whyNotActive = r.Opening.Sent(ctx, namespaces)
	o.notSent = map[string]string{}
	checked := map[string]bool{}
	for _, pod := range o.pods {
		if checked[pod.Namespace] {
			continue
		}
		checked[pod.Namespace] = true
		if sent, why := r.Opening.Sent(ctx, pod.Namespace); !sent {
			o.notSent[pod.Namespace] = why
		}
	}
	return o, nil
}

// podsOf returns the active pods that a SidecarSet selects. Only pods are read through from: we write no namespaces, so the cache will do.
func podsOf(ctx context.Context, from, cache client.Reader, s *appsv1beta1.SidecarSet) ([]*corev1.Pod, error) {
	if emptySelector(s.Spec.Selector) {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Spec.Selector)
	if err != nil {
		return nil, nil //nolint:nilerr // Admission rejects an invalid selector; it matches nothing.
	}
	opts := []client.ListOption{client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy}
	only, single := singleNamespace(s)
	if single {
		opts = append(opts, client.InNamespace(only))
	}
	var all corev1.PodList
	if err := from.List(ctx, &all, opts...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	labelsByNamespace := map[string]map[string]string{}
	if !single && s.Spec.NamespaceSelector != nil {
		var namespaces corev1.NamespaceList
		if err := cache.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list namespaces: %w", err)
		}
		for i := range namespaces.Items {
			labelsByNamespace[namespaces.Items[i].Name] = namespaces.Items[i].Labels
		}
	}
	out := make([]*corev1.Pod, 0, len(all.Items))
	for i := range all.Items {
		if pod := &all.Items[i]; podpatch.Active(pod) && covers(s, pod.Namespace, labelsByNamespace[pod.Namespace]) {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(namespacedName(a), namespacedName(b)) })
	return out, nil
}

// canaries returns the SidecarSets that replace s.
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

func namespacedName(pod metav1.Object) string { return pod.GetNamespace() + "/" + pod.GetName() }
