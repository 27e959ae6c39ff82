package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-io/flotilla/pkg/podguard"
	"github.com/flotilla-io/flotilla/pkg/podstep"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/writeback"
)

// Entries maintains the entries of both webhooks of pods in the manager's MutatingWebhookConfiguration and
// ValidatingWebhookConfiguration. It runs in the leader, which is also where the controllers run that ask for it: so an object has no
// effect before the pods of its namespace are sent.
type Entries struct {
	// Client reads objects from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Configuration is the name of both configurations.
	Configuration string
	// Steps are those of the mutating webhook, Guards those of the validating one. A webhook without any gets no requests.
	Steps  []podstep.Step
	Guards podguard.Guards
	// Exempt are namespaces that are never sent, Ignore the features whose failurePolicy is Ignore.
	Exempt, Ignore []string
	// Namespace is the manager's own, which is one of Exempt.
	Namespace string
	// Clock paces what is written back to configurations that others change; nil is the real one.
	Clock clock.PassiveClock

	// mu is held while entries change: who asks meanwhile waits for what comes of it. A namespace that is closed because its last
	// object is gone is thus closed before or after an object that comes asks, and never between its question and what it does then.
	mu sync.Mutex
	// now are the namespaces whose new pods are sent; nil before the first look.
	now needs
	// kept are those that other writers keep from the entries by name.
	kept []string
	// pace is how often the same entries are written back.
	pace writeback.Pace
	// told are the channels of Changes.
	told []chan event.GenericEvent
}

// side is one of the two webhooks.
type side struct {
	shape
	// config is an empty configuration.
	config client.Object
	// sources are the objects that ask for it.
	sources []source
	// open counts the namespaces that are sent.
	open prometheus.Gauge
	// show tells who asks of which namespaces pods are sent, and which of them other writers keep from us.
	show func(now needs, kept []string)
}

// source are the objects of a feature.
type source struct {
	feature string
	object  client.Object
	list    client.ObjectList
	// namespaces are those that an object asks for; nil is its own.
	namespaces func(client.Object) []string
	// wants is podstep.Step.Wants.
	wants func(client.Object) string
}

func (e *Entries) sides() []side {
	steps, guards := make([]source, 0, len(e.Steps)), make([]source, 0, len(e.Guards))
	creating := creations(e.Exempt, e.Namespace)
	creating.asked = &askers{policy: admissionv1.Ignore}
	for _, s := range e.Steps {
		if s.Asks == "" {
			steps = append(steps, source{s.Feature, s.Object, s.List, s.Namespaces, s.Wants})
			continue
		}
		creating.asked.asks = append(creating.asked.asks, s.Asks)
		if e.policy(s.Feature) == admissionv1.Fail { // One step that must not be left out decides for all.
			creating.asked.policy = admissionv1.Fail
		}
	}
	for _, g := range e.Guards {
		guards = append(guards, source{g.Feature, g.Object, g.List, nil, nil})
	}
	return []side{
		{shape: creating, config: &admissionv1.MutatingWebhookConfiguration{}, sources: steps, open: open, show: e.show},
		{
			shape: guarded(e.Guards, e.Exempt, e.Namespace), config: &admissionv1.ValidatingWebhookConfiguration{}, sources: guards, open: openGuarded,
			show: func(needs, []string) {}, // Nobody asks: an object that guards pods has nothing to wait for.
		},
	}
}

var _ podstep.Opening = &Entries{}

// Sent implements podstep.Opening.
func (e *Entries) Sent(namespace string) (bool, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, open := e.now[namespace]
	_, all := e.now[podstep.AllNamespaces]
	switch exempt := slices.Contains(e.Exempt, namespace); {
	case (open || all && !exempt) && slices.Contains(e.kept, namespace):
		return false, fmt.Sprintf("namespaceSelector of the entry for pods in MutatingWebhookConfiguration %s has a term, not ours, that excludes "+
			"namespace %s: remove it, or let the policy that adds it leave out this configuration", e.Configuration, namespace)
	case open || all && !exempt:
		return true, ""
	case exempt:
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
	// Which namespaces have objects changes only when they come and go, and of which cluster-scoped ones ask when their spec does.
	come := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
	change := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	own := builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == e.Configuration }))
	b := ctrl.NewControllerManagedBy(mgr).Named("pod-webhook")
	for i, s := range e.sides() {
		if i == 0 {
			b = b.For(s.config, own)
		} else {
			b = b.Watches(s.config, request, own)
		}
		for _, from := range s.sources {
			if from.namespaces == nil {
				b = b.Watches(from.object, request, come)
			} else {
				b = b.Watches(from.object, request, change)
			}
		}
	}
	if err := b.Complete(e); err != nil {
		return fmt.Errorf("set up the entries of the pod webhook: %w", err)
	}
	return nil
}

// Reconcile brings the entries in accordance with the objects.
func (e *Entries) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs error
	var result ctrl.Result
	for _, s := range e.sides() {
		wait, err := e.maintain(ctx, s)
		errs = errors.Join(errs, err)
		result.RequeueAfter = report.Sooner(result.RequeueAfter, wait)
	}
	if errs != nil {
		return ctrl.Result{}, errs
	}
	return result, nil
}

// maintain brings the entries of one webhook in accordance with the objects. It returns when to look again without an event; 0 for never.
func (e *Entries) maintain(ctx context.Context, s side) (time.Duration, error) {
	var kept []string
	show := func(now needs) {
		s.open.Set(float64(len(now)))
		s.show(now, kept)
	}
	config := s.config
	switch err := e.Live.Get(ctx, client.ObjectKey{Name: e.Configuration}, config); {
	case apierrors.IsNotFound(err):
		show(needs{}) // Nobody calls us any more.
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("get %T %s: %w", config, e.Configuration, err)
	}
	webhooks := webhooksOf(config)
	was := s.sent(webhooks)
	kept = s.kept(webhooks)
	needed, planned, err := e.plan(ctx, e.Client, s, webhooks, was)
	if _, all := needed[podstep.AllNamespaces]; err == nil && all && planned != nil && !equality.Semantic.DeepEqual(planned, webhooks) {
		// What is sent of all namespaces changes: a cache that lacks an object would keep away its pods.
		needed, planned, err = e.plan(ctx, e.Live, s, webhooks, was)
	}
	if err != nil {
		return 0, err
	}
	if planned == nil {
		show(was)
		return 0, nil // The CA bundle comes with an event.
	}
	next, _ := config.DeepCopyObject().(client.Object)
	setWebhooks(next, planned)
	if equality.Semantic.DeepEqual(config, next) {
		show(needed)
		return 0, nil
	}
	content, err := json.Marshal(planned)
	if err != nil {
		return 0, fmt.Errorf("encode the entries for pods of %T %s: %w", config, e.Configuration, err)
	}
	if wait := e.pace.Wait(s.path, string(content), e.clock().Now()); wait > 0 {
		show(both(was, needed))
		return wait, nil
	}
	if err := e.Client.Patch(ctx, next, client.MergeFromWithOptions(config, client.MergeFromWithOptimisticLock{})); err != nil {
		show(both(was, needed)) // It may have succeeded.
		if apierrors.IsConflict(err) {
			return 0, nil // The other writer's event is on its way.
		}
		return 0, fmt.Errorf("write the entries for pods into %T %s: %w", config, e.Configuration, err)
	}
	log := ctrl.LoggerFrom(ctx).WithValues("webhook", s.path, "count", len(needed))
	wait := e.pace.Wrote(s.path, string(content), e.clock().Now())
	if wait > 0 {
		log.Info("Wrote the entries for pods back, which another writer changes", "configuration", e.Configuration, "next", wait)
	} else {
		log.Info("Changed of which namespaces pods are sent to the webhook")
	}
	stored := webhooksOf(next) // Another webhook may have changed what we wrote.
	kept = s.kept(stored)
	show(both(s.sent(stored), needed))
	return wait, nil
}

func (e *Entries) clock() clock.PassiveClock {
	if e.Clock == nil {
		return clock.RealClock{}
	}
	return e.Clock
}

// webhooksOf returns the webhooks of a configuration. Those of both kinds have the same fields, but for one that the validating ones lack.
func webhooksOf(config client.Object) []admissionv1.MutatingWebhook {
	switch c := config.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		return c.Webhooks
	case *admissionv1.ValidatingWebhookConfiguration:
		out := make([]admissionv1.MutatingWebhook, 0, len(c.Webhooks))
		for _, w := range c.Webhooks {
			out = append(out, admissionv1.MutatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
				NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
				TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
			})
		}
		return out
	}
	return nil
}

// setWebhooks sets the webhooks of a configuration.
func setWebhooks(config client.Object, webhooks []admissionv1.MutatingWebhook) {
	switch c := config.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		c.Webhooks = webhooks
	case *admissionv1.ValidatingWebhookConfiguration:
		c.Webhooks = make([]admissionv1.ValidatingWebhook, 0, len(webhooks))
		for _, w := range webhooks {
			c.Webhooks = append(c.Webhooks, admissionv1.ValidatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
				NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
				TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
			})
		}
	}
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
func (e *Entries) show(now needs, kept []string) {
	if e.now != nil && maps.Equal(e.now, now) && slices.Equal(e.kept, kept) {
		return
	}
	e.now, e.kept = now, kept
	for _, c := range e.told {
		select {
		case c <- event.GenericEvent{Object: &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: e.Configuration}}}:
		default: // One that is not read yet stands for this one too.
		}
	}
}

// plan returns what is needed by the objects that a reader has, and the webhooks of a configuration for that.
func (e *Entries) plan(ctx context.Context, r client.Reader, s side, webhooks []admissionv1.MutatingWebhook, now needs) (needs, []admissionv1.MutatingWebhook, error) {
	needed, wanted, err := e.needed(ctx, r, s.sources, now)
	if err != nil {
		return nil, nil, err
	}
	s.wanted = wanted
	return needed, s.plan(webhooks, needed), nil
}

// needed returns the namespaces that have objects, by a reader. One that is open and seems to have none any more stays open unless
// the apiserver confirms it. wanted are expressions of the pods that objects want of all namespaces, sorted; none if one wants all.
func (e *Entries) needed(ctx context.Context, r client.Reader, sources []source, now needs) (out needs, wanted []string, err error) {
	out = needs{}
	wantsAll := false
	for _, s := range sources {
		all, err := objects(ctx, r, s, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, nil, err
		}
		for _, o := range all {
			for _, namespace := range s.asks(o) {
				if !slices.Contains(e.Exempt, namespace) {
					out.add(namespace, e.policy(s.feature))
				}
				switch {
				case namespace != podstep.AllNamespaces:
				case s.wants == nil:
					wantsAll = true
				default:
					wanted = append(wanted, s.wants(o))
				}
			}
		}
	}
	if wantsAll {
		wanted = nil
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	for namespace := range now {
		if _, still := out[namespace]; still || slices.Contains(e.Exempt, namespace) {
			continue
		}
		for _, s := range sources {
			var only []client.ListOption
			if s.namespaces == nil {
				if namespace == podstep.AllNamespaces {
					continue // None of these asks for all.
				}
				only = []client.ListOption{client.InNamespace(namespace), client.Limit(1)}
			}
			live, err := objects(ctx, e.Live, s, only...)
			if err != nil {
				return nil, nil, err
			}
			if slices.ContainsFunc(live, func(o client.Object) bool { return slices.Contains(s.asks(o), namespace) }) {
				out.add(namespace, e.policy(s.feature))
			}
		}
	}
	return out, wanted, nil
}

func (e *Entries) policy(feature string) admissionv1.FailurePolicyType {
	if slices.Contains(e.Ignore, feature) {
		return admissionv1.Ignore
	}
	return admissionv1.Fail
}

// asks returns the namespaces that an object asks for.
func (s source) asks(o client.Object) []string {
	if s.namespaces != nil {
		return s.namespaces(o)
	}
	return []string{o.GetNamespace()}
}

// objects lists those of a source.
func objects(ctx context.Context, r client.Reader, s source, opts ...client.ListOption) ([]client.Object, error) {
	list, ok := s.list.DeepCopyObject().(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%s: %w", s.feature, errNoList)
	}
	if err := r.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("list the objects of %s: %w", s.feature, err)
	}
	var out []client.Object
	err := meta.EachListItem(list, func(o runtime.Object) error {
		if o, ok := o.(client.Object); ok {
			out = append(out, o)
		}
		return nil
	})
	return out, err
}

var errNoList = errors.New("its List is no list of objects")
