package sidecarset

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	notes "github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// Feature is the name of the step.
const Feature = kind

// Injector adds sidecars to new pods. It is safe for concurrent use.
type Injector struct {
	// Namespace is the manager's own namespace, where the revisions are stored.
	Namespace string
	// ByName sorts containers by name instead of keeping the order in which SidecarSets list them. Init containers are always sorted.
	ByName bool
	Clock  clock.PassiveClock
	// Draw returns a number in [0, 1). Nil draws at random.
	Draw func() float64
	// Events records events. The manager provides it in Setup.
	Events notes.Recorder
}

// Step returns the step of the pod webhook.
func (i *Injector) Step() podwebhook.Step {
	return podwebhook.Step{
		Feature: Feature, Order: podwebhook.OrderSidecarSet, Object: &appsv1beta1.SidecarSet{}, List: &appsv1beta1.SidecarSetList{},
		Active: true,
		Namespaces: func(o client.Object) []string {
			if s, ok := o.(*appsv1beta1.SidecarSet); ok {
				if name, ok := singleNamespace(s); ok {
					return []string{name}
				}
			}
			return []string{podwebhook.AllNamespaces}
		},
		Wants: func(o client.Object) string {
			if s, ok := o.(*appsv1beta1.SidecarSet); ok && !emptySelector(s.Spec.Selector) {
				return podwebhook.WantsSelected(s.Spec.Selector)
			}
			return "false" // An empty selector selects no pod.
		},
		Setup: func(_ context.Context, mgr ctrl.Manager) error {
			i.Events = notes.New(mgr.GetEventRecorder(control.Name(kind)))
			return nil
		},
		Observe: i.observe,
	}
}

// facts are the decisions about one pod.
type facts struct {
	injector *Injector
	chosen   []injection
	// skipped holds the SidecarSets that select the pod but give it nothing.
	skipped []outcome
	now     metav1.Time
}

// observe implements podwebhook.Step.
func (i *Injector) observe(ctx context.Context, cache client.Reader, pod *corev1.Pod) (podwebhook.Facts, error) {
	var all appsv1beta1.SidecarSetList
	if err := cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list SidecarSets: %w", err)
	}
	var candidates []*appsv1beta1.SidecarSet
	for n := range all.Items {
		if selects(&all.Items[n], pod) {
			candidates = append(candidates, &all.Items[n])
		}
	}
	switch {
	case len(candidates) == 0:
		return podwebhook.Nothing("no SidecarSet selects the pod's labels"), nil
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return podwebhook.Nothing("it is a static pod, which its node runs from a file"), nil
	case !podpatch.Active(pod):
		return podwebhook.Nothing("the pod has ended or is terminating"), nil
	}
	namespaceLabels, err := labelsOfNamespace(ctx, cache, pod.Namespace, candidates)
	if err != nil {
		return nil, err
	}
	matched, skipped := matchSets(candidates, pod, namespaceLabels)
	f := facts{injector: i, skipped: skipped, now: metav1.NewTime(i.Clock.Now())}
	draw := i.Draw
	if draw == nil {
		draw = rand.Float64
	}
	for _, s := range matched {
		var history []*appsv1.ControllerRevision
		n := draw()
		if wantsRevision(s, pod, n) {
			if history, err = revisionsOf(ctx, cache, i.Namespace, s); err != nil {
				return nil, err
			}
		}
		in, err := chooseInjection(s, history, pod, n)
		if err != nil {
			return nil, err
		}
		f.chosen = append(f.chosen, in)
	}
	return f, nil
}

// labelsOfNamespace returns the labels of a namespace, or nil if no SidecarSet needs them.
func labelsOfNamespace(ctx context.Context, cache client.Reader, name string, sets []*appsv1beta1.SidecarSet) (map[string]string, error) {
	needed := slices.ContainsFunc(sets, func(s *appsv1beta1.SidecarSet) bool {
		_, single := singleNamespace(s)
		return !single && s.Spec.NamespaceSelector != nil
	})
	if !needed {
		return nil, nil
	}
	var namespace corev1.Namespace
	if err := cache.Get(ctx, client.ObjectKey{Name: name}, &namespace); err != nil {
		return nil, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return namespace.Labels, nil
}

// revisionsOf returns the revisions of a SidecarSet.
func revisionsOf(ctx context.Context, r client.Reader, namespace string, s *appsv1beta1.SidecarSet) ([]*appsv1.ControllerRevision, error) {
	var all appsv1.ControllerRevisionList
	byName := client.MatchingLabels{keys.SidecarSetName: s.Name}
	if err := r.List(ctx, &all, client.InNamespace(namespace), byName, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list revisions of SidecarSet %s: %w", s.Name, err)
	}
	var out []*appsv1.ControllerRevision
	for i := range all.Items {
		if metav1.IsControlledBy(&all.Items[i], s) {
			out = append(out, &all.Items[i])
		}
	}
	return out, nil
}

// Change implements podwebhook.Facts.
func (f facts) Change(pod *corev1.Pod) string {
	next, outcomes, err := f.inject(pod)
	if err != nil {
		return err.Error()
	}
	*pod = *next
	return joinOutcomes(slices.Concat(outcomes, f.skipped))
}

// Reserve implements podwebhook.Reserver. It reserves nothing: it rejects a pod whose sidecars can't be built, and sends events about what a
// pod does not get, which Change must not do because it also runs for dry runs.
func (f facts) Reserve(_ context.Context, pod *corev1.Pod) error {
	_, outcomes, err := f.inject(pod)
	if err != nil {
		return podwebhook.RefusedError(err.Error())
	}
	name := pod.Name
	if name == "" {
		name = pod.GenerateName + "*"
	}
	for _, o := range outcomes {
		switch {
		case f.injector.Events == nil:
		case o.skipped:
			f.injector.Events.Record(o.set, notes.Warning(reasonSkipped, actionInject, "pod %s/%s: %s", pod.Namespace, name, o))
		case len(o.faults) > 0:
			f.injector.Events.Record(o.set, notes.Warning(reasonIncomplete, actionInject, "pod %s/%s: %s", pod.Namespace, name, o))
		}
	}
	return nil
}

// inject returns the pod with its sidecars.
func (f facts) inject(pod *corev1.Pod) (*corev1.Pod, []outcome, error) {
	next := pod.DeepCopy()
	outcomes, err := inject(next, f.chosen, options{byName: f.injector.ByName, now: f.now})
	return next, outcomes, err
}
