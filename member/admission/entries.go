package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-io/flotilla/pkg/podstep"
)

// Entries maintains the entries of the webhook in the manager's MutatingWebhookConfiguration. It runs in the leader, which is also
// where the controllers run that ask for it: so an object has no effect before the pods of its namespace are sent.
type Entries struct {
	// Client reads objects from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Configuration is the name of the MutatingWebhookConfiguration.
	Configuration string
	// Steps are those of the webhook. Without any it gets no pods.
	Steps []podstep.Step
	// Exempt are namespaces that are never sent, Ignore the features whose failurePolicy is Ignore.
	Exempt, Ignore []string

	// mu is held while entries change: who asks meanwhile waits for what comes of it. A namespace that is closed because its last
	// object is gone is thus closed before or after an object that comes asks, and never between its question and what it does then.
	mu sync.Mutex
	// now are the namespaces that are sent; nil before the first look.
	now needs
	// told are the channels of Changes.
	told []chan event.GenericEvent
}

var _ podstep.Opening = &Entries{}

// Sent implements podstep.Opening.
func (e *Entries) Sent(namespace string) (bool, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, open := e.now[namespace]
	switch {
	case open:
		return true, ""
	case slices.Contains(e.Exempt, namespace):
		return false, fmt.Sprintf("namespace %s is exempt from the pod webhook (podWebhook.exemptNamespaces of the chart)", namespace)
	case len(e.Steps) == 0:
		return false, "the pod webhook is off: set feature gate PodWebhook"
	}
	return false, "the pod webhook does not get the pods of the namespace yet"
}

// Changes implements podstep.Opening.
func (e *Entries) Changes() <-chan event.GenericEvent {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := make(chan event.GenericEvent, 1)
	e.told = append(e.told, c)
	return c
}

// Setup adds the controller to mgr.
func (e *Entries) Setup(mgr ctrl.Manager) error {
	request := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: e.Configuration}}}
	})
	// Which namespaces have objects changes only when they come and go.
	come := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
	b := ctrl.NewControllerManagedBy(mgr).Named("pod-webhook").
		For(&admissionv1.MutatingWebhookConfiguration{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return o.GetName() == e.Configuration
		})))
	for _, s := range e.Steps {
		b = b.Watches(s.Object, request, come)
	}
	if err := b.Complete(e); err != nil {
		return fmt.Errorf("set up the entries of the pod webhook: %w", err)
	}
	return nil
}

// Reconcile brings the entries in accordance with the objects.
func (e *Entries) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var config admissionv1.MutatingWebhookConfiguration
	switch err := e.Live.Get(ctx, req.NamespacedName, &config); {
	case apierrors.IsNotFound(err):
		e.show(needs{}) // Nobody calls us any more.
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get MutatingWebhookConfiguration %s: %w", req.Name, err)
	}
	was := sent(config.Webhooks)
	needed, err := e.needed(ctx, was)
	if err != nil {
		return ctrl.Result{}, err
	}
	next := config.DeepCopy()
	if next.Webhooks = plan(config.Webhooks, needed); next.Webhooks == nil {
		e.show(was)
		return ctrl.Result{}, nil // The CA bundle comes with an event.
	}
	if !equality.Semantic.DeepEqual(config.Webhooks, next.Webhooks) {
		from := client.MergeFromWithOptions(&config, client.MergeFromWithOptimisticLock{})
		if err := e.Client.Patch(ctx, next, from); err != nil {
			e.show(both(was, needed)) // It may have succeeded.
			if apierrors.IsConflict(err) {
				return ctrl.Result{}, nil // The other writer's event is on its way.
			}
			return ctrl.Result{}, fmt.Errorf("write the entries for pods into MutatingWebhookConfiguration %s: %w", config.Name, err)
		}
		ctrl.LoggerFrom(ctx).Info("Changed of which namespaces pods are sent to the webhook", "count", len(needed))
	}
	e.show(needed)
	return ctrl.Result{}, nil
}

// both returns what is in both.
func both(a, b needs) needs {
	out := needs{}
	for namespace := range a {
		if policy, ok := b[namespace]; ok {
			out[namespace] = policy
		}
	}
	return out
}

// show changes what Sent answers, and tells it.
func (e *Entries) show(now needs) {
	open.Set(float64(len(now)))
	if e.now != nil && maps.Equal(e.now, now) {
		return
	}
	e.now = now
	for _, c := range e.told {
		select {
		case c <- event.GenericEvent{Object: &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: e.Configuration}}}:
		default: // One that is not read yet stands for this one too.
		}
	}
}

// needed returns the namespaces that have objects, by the cache. One that is open and seems to have none any more stays open unless
// the apiserver confirms it.
func (e *Entries) needed(ctx context.Context, now needs) (needs, error) {
	out := needs{}
	for _, s := range e.Steps {
		namespaces, err := namespaces(ctx, e.Client, s, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, err
		}
		for _, namespace := range namespaces {
			if !slices.Contains(e.Exempt, namespace) {
				out.add(namespace, e.policy(s))
			}
		}
	}
	for namespace := range now {
		if _, still := out[namespace]; still || slices.Contains(e.Exempt, namespace) {
			continue
		}
		for _, s := range e.Steps {
			live, err := namespaces(ctx, e.Live, s, client.InNamespace(namespace), client.Limit(1))
			if err != nil {
				return nil, err
			}
			if len(live) > 0 {
				out.add(namespace, e.policy(s))
			}
		}
	}
	return out, nil
}

func (e *Entries) policy(s podstep.Step) admissionv1.FailurePolicyType {
	if slices.Contains(e.Ignore, s.Feature) {
		return admissionv1.Ignore
	}
	return admissionv1.Fail
}

// namespaces returns those of the objects of a step.
func namespaces(ctx context.Context, r client.Reader, s podstep.Step, opts ...client.ListOption) ([]string, error) {
	list, ok := s.List.DeepCopyObject().(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%s: %w", s.Feature, errNoList)
	}
	if err := r.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("list the objects of %s: %w", s.Feature, err)
	}
	var out []string
	err := meta.EachListItem(list, func(o runtime.Object) error {
		if o, ok := o.(client.Object); ok {
			out = append(out, o.GetNamespace())
		}
		return nil
	})
	return out, err
}

var errNoList = errors.New("its List is no list of objects")
