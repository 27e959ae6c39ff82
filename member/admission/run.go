package admission

import (
	"context"
	"fmt"
	"runtime/debug"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// Outcome is what one step did to a pod.
type Outcome struct {
	// Feature is the feature of the step.
	Feature string
	// Changed means that the step changed the pod. Why is what it did, or why it did nothing.
	Changed bool
	Why     string
	// Err is why the step failed. In that case it has changed nothing.
	Err error
}

// Run runs a pod through the steps and returns the result. The pod itself is not modified, and must have a namespace. A step that fails or
// panics changes nothing, and the next steps still run. A dry run reserves nothing.
func Run(ctx context.Context, cache client.Reader, steps []podwebhook.Step, pod *corev1.Pod, dry bool) (*corev1.Pod, []Outcome) {
	found, out := make([]podwebhook.Facts, len(steps)), make([]Outcome, len(steps))
	for i, s := range steps {
		out[i].Feature = s.Feature
		found[i], out[i].Err = observe(ctx, cache, s, pod)
	}
	for i := range steps {
		if out[i].Err != nil {
			continue
		}
		if r, ok := found[i].(podwebhook.Reserver); ok && !dry {
			if out[i].Err = reserve(ctx, r, pod); out[i].Err != nil {
				continue
			}
		}
		next := pod.DeepCopy()
		if out[i].Why, out[i].Err = change(ctx, found[i], next); out[i].Err != nil {
			continue
		}
		out[i].Changed = !equality.Semantic.DeepEqual(pod, next)
		pod = next
	}
	return pod, out
}

// observe runs Observe of one step.
func observe(ctx context.Context, cache client.Reader, s podwebhook.Step, pod *corev1.Pod) (facts podwebhook.Facts, err error) {
	defer recoverPanic(ctx, &err)
	return s.Observe(ctx, cache, pod)
}

// reserve reserves what the facts need for a pod.
func reserve(ctx context.Context, r podwebhook.Reserver, pod *corev1.Pod) (err error) {
	defer recoverPanic(ctx, &err)
	return r.Reserve(ctx, pod)
}

// change applies facts to a pod.
func change(ctx context.Context, facts podwebhook.Facts, pod *corev1.Pod) (why string, err error) {
	defer recoverPanic(ctx, &err)
	return facts.Change(pod), nil
}

// recoverPanic turns a panic into an error.
func recoverPanic(ctx context.Context, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
		ctrl.LoggerFrom(ctx).Error(*err, "A step or guard panicked", "stack", string(debug.Stack()))
	}
}
