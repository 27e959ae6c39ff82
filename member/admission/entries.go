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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-io/flotilla/pkg/control/writeback"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// Entries maintains the entries of both pod webhooks in the manager's MutatingWebhookConfiguration and ValidatingWebhookConfiguration. Its
// controller runs in the leader, where the controllers that ask for entries run too: so an object has no effect before the pods of its
// namespace are sent. Every replica adds to the entries for an object that it admits (Ask). Only the leader removes from them.
type Entries struct {
	// Client reads objects from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Configuration is the name of both configurations.
	Configuration string
	// Steps are the steps of the mutating webhook, Guards the guards of the validating one. A webhook without any gets no requests.
	Steps  []podwebhook.Step
	Guards podwebhook.Guards
	// Exempt lists the namespaces that are never sent. Ignore lists the features whose failurePolicy is Ignore.
	Exempt, Ignore []string
	// Namespace is the manager's own namespace. It is also in Exempt.
	Namespace string
	// Clock limits how often entries that others change are written back. Nil means the real clock.
	Clock clock.PassiveClock
	// Patience is how long the admission of an object waits until pods are sent for it. 0 means two seconds. It must be less than the webhook's
	// timeout.
	Patience time.Duration

	// mu is held while entries change, so that callers of Sent wait for the result. A namespace that is closed because its last object is gone
	// is therefore closed either before or after a new object's controller asks, never between the answer and what the controller does with it.
	mu sync.Mutex
	// pace limits how often the same entries are written back.
	pace writeback.Pace
	// met holds the marks whose objects this leader has seen, by the webhook's path.
	met map[string]map[types.UID]bool

	// state guards the fields below. It is never held during a request.
	state sync.Mutex
	// now holds the namespaces whose new pods are sent, or nil before the first reconcile.
	now needs
	// kept holds the namespaces that other writers exclude from the entries by name.
	kept []string
	// absent means that there is no configuration, so pods are never sent.
	absent bool
	// subscribers holds the channels that Changes returned.
	subscribers []chan event.GenericEvent
	// awaited records since when pods of a namespace wait until the namespace is sent.
	awaited map[string]time.Time

	// turn signals each event for a cached configuration or object. one admits one writer at a time for objects that are being admitted.
	turn turn
	one  one
}

// side is one of the two webhooks.
type side struct {
	shape
	// config is an empty configuration.
	config client.Object
	// sources defines the objects that ask for this webhook.
	sources []source
	// open counts the namespaces that are sent.
	open prometheus.Gauge
	// show publishes which namespaces' pods are sent, and which namespaces other writers exclude.
	show func(now needs, kept []string)
}

// source defines the objects of a feature.
type source struct {
	feature string
	object  client.Object
	list    client.ObjectList
	// namespaces returns the namespaces that an object asks for. Nil means the object's own.
	namespaces func(client.Object) []string
	// wants is podwebhook.Step.Wants.
	wants func(client.Object) string
	// late is a format string with a verb for namespaces. It warns that their pods are not sent yet.
	late string
}

func (e *Entries) sides() []side {
	steps, guards := make([]source, 0, len(e.Steps)), make([]source, 0, len(e.Guards))
	creating := creationShape(e.Exempt, e.Namespace)
	creating.asked = &askers{policy: admissionv1.Ignore}
	for _, s := range e.Steps {
		if s.Asks == "" {
			late := lateStep
			if s.Active {
				late = lateActive
			}
			steps = append(steps, source{s.Feature, s.Object, s.List, s.Namespaces, s.Wants, late})
			continue
		}
		creating.asked.asks = append(creating.asked.asks, s.Asks)
		if e.policy(s.Feature) == admissionv1.Fail { // One step that must not be skipped decides for all.
			creating.asked.policy = admissionv1.Fail
		}
	}
	for _, g := range e.Guards {
		guards = append(guards, source{g.Feature, g.Object, g.List, nil, nil, lateGuard})
	}
	return []side{
		{shape: creating, config: &admissionv1.MutatingWebhookConfiguration{}, sources: steps, open: open, show: e.publish},
		{
			shape: guardedShape(e.Guards, e.Exempt, e.Namespace), config: &admissionv1.ValidatingWebhookConfiguration{}, sources: guards, open: openGuarded,
			show: func(needs, []string) {}, // No controller asks: an object that guards pods has nothing to wait for.
		},
	}
}

// Warnings for objects that are admitted before pods are sent for them. The object of lateActive has condition Active.
const (
	missed = "the pod webhook does not get the pods of %s yet: pods created in the next moments may permanently miss what this object does for them."

	lateActive = missed + " Wait until its condition Active is True"
	lateStep   = missed + " Wait a few seconds before creating pods"
	lateGuard  = "the pod webhook is not asked about the pods of %s yet: it rejects nothing in the next moments"
)

var _ podwebhook.Opening = &Entries{}

// Sent implements podwebhook.Opening.
func (e *Entries) Sent(ctx context.Context, namespace string) (bool, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.Lock()
	now, kept := e.now, e.kept
	e.state.Unlock()
	if now == nil {
		now, kept = e.inherited(ctx)
	}
	_, open := now[namespace]
	_, all := now[podwebhook.AllNamespaces]
	switch exempt := slices.Contains(e.Exempt, namespace); {
	case (open || all && !exempt) && slices.Contains(kept, namespace):
		return false, fmt.Sprintf("namespaceSelector of the entry for pods in MutatingWebhookConfiguration %s has a term of another writer that excludes "+
			"namespace %s: remove it, or exclude this configuration from the policy that adds it", e.Configuration, namespace)
	case open || all && !exempt:
		return true, ""
	case exempt:
		return false, fmt.Sprintf("namespace %s is exempt from the pod webhook (podWebhook.exemptNamespaces of the chart)", namespace)
	case len(e.Steps) == 0:
		return false, "the pod webhook is off: enable feature gate PodWebhook"
	}
	if namespace == podwebhook.AllNamespaces {
		return false, "the pod webhook does not get the pods of all namespaces yet"
	}
	return false, "the pod webhook does not get the pods of the namespace yet"
}

// inherited returns what a new leader's cache has of the entries before its first reconcile: which namespaces are sent, and which ones other
// writers exclude. Objects that were active under the previous leader would otherwise be inactive for a moment. Their namespaces stay open,
// because a namespace is closed only once the apiserver confirms that it has no object.
func (e *Entries) inherited(ctx context.Context) (now needs, kept []string) {
	s := e.sides()[0]
	if len(s.sources) == 0 {
		return nil, nil
	}
	config, err := e.cached(ctx, s)
	if err != nil || config == nil {
		return nil, nil
	}
	webhooks := webhooksOf(config)
	return s.sent(webhooks), s.kept(webhooks)
}

// Changes implements podwebhook.Opening.
func (e *Entries) Changes() <-chan event.GenericEvent {
	e.state.Lock()
	defer e.state.Unlock()
	c := make(chan event.GenericEvent, 1)
	e.subscribers = append(e.subscribers, c)
	return c
}

// Setup adds the controller to mgr, and makes the cache of each replica keep what Ask reads.
func (e *Entries) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if err := e.watch(ctx, mgr.GetCache()); err != nil {
		return err
	}
	request := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: e.Configuration}}}
	})
	// The set of namespaces with objects changes only when objects are created or deleted. What cluster-scoped objects ask for also changes with
	// their spec.
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

// Reconcile updates the entries to match the objects.
func (e *Entries) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs error
	var result ctrl.Result
	for _, s := range e.sides() {
		wait, err := e.maintain(ctx, s)
		errs = errors.Join(errs, err)
		result.RequeueAfter = timing.Sooner(result.RequeueAfter, wait)
	}
	if errs != nil {
		return ctrl.Result{}, errs
	}
	return result, nil
}

// maintain updates the entries of one webhook to match the objects, including those that are about to be stored. It returns when to check
// again without an event. 0 means never.
func (e *Entries) maintain(ctx context.Context, s side) (time.Duration, error) {
	var kept []string
	show := func(now needs) {
		s.open.Set(float64(len(now)))
		s.show(now, kept)
	}
	config := s.config
	err := e.Live.Get(ctx, client.ObjectKey{Name: e.Configuration}, config)
	if s.path == Path {
		e.setAbsent(apierrors.IsNotFound(err))
	}
	switch {
	case apierrors.IsNotFound(err):
		show(needs{}) // The apiserver no longer calls the webhook.
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("get %T %s: %w", config, e.Configuration, err)
	}
	webhooks := webhooksOf(config)
	before := s.sent(webhooks)
	kept = s.kept(webhooks)
	seen, err := e.sentByCache(ctx, s)
	if err != nil {
		return 0, err
	}
	now := e.clock().Now()
	all, fresh := marksIn(config, now), marks(nil)
	for _, m := range all {
		if !e.met[s.path][m.UID] {
			fresh = append(fresh, m)
		}
	}
	planned, err := e.plan(ctx, e.Client, s, webhooks, before, fresh)
	_, anywhere := planned.needed[podwebhook.AllNamespaces]
	if err == nil && anywhere && planned.webhooks != nil && !equality.Semantic.DeepEqual(planned.webhooks, webhooks) {
		// This changes which pods are sent from all namespaces: a cache that lacks an object would exclude its pods.
		planned, err = e.plan(ctx, e.Live, s, webhooks, before, fresh)
	}
	if err != nil {
		return 0, err
	}
	if planned.webhooks == nil {
		show(intersect(before, seen))
		return 0, nil // The CA bundle's arrival triggers an event.
	}
	next, _ := config.DeepCopyObject().(client.Object)
	setWebhooks(next, planned.webhooks)
	left, expires := e.keepMarks(s, all, planned.marks, now)
	if err := setMarks(next, left); err != nil {
		return 0, err
	}
	if equality.Semantic.DeepEqual(config, next) {
		show(intersect(planned.needed, seen)) // An event will follow for what the cache doesn't show yet.
		return expires, nil
	}
	content, err := json.Marshal(planned.webhooks)
	if err != nil {
		return 0, fmt.Errorf("encode the entries for pods of %T %s: %w", config, e.Configuration, err)
	}
	changed := !equality.Semantic.DeepEqual(webhooks, webhooksOf(next))
	if wait := e.pace.Wait(s.path, string(content), now); changed && wait > 0 {
		show(intersect(intersect(before, planned.needed), seen))
		return wait, nil
	}
	show(intersect(intersect(before, planned.needed), seen)) // Namespaces to be closed count as closed from here on.
	if err := e.Client.Patch(ctx, next, client.MergeFromWithOptions(config, client.MergeFromWithOptimisticLock{})); err != nil {
		if apierrors.IsConflict(err) {
			return 0, nil // The other writer's event is coming.
		}
		return 0, fmt.Errorf("write the entries for pods into %T %s: %w", config, e.Configuration, err)
	}
	var wait time.Duration
	if log := ctrl.LoggerFrom(ctx).WithValues("webhook", s.path, "count", len(planned.needed)); changed {
		if wait = e.pace.Wrote(s.path, string(content), now); wait > 0 {
			log.Info("Restored the entries for pods, which another writer had changed", "configuration", e.Configuration, "next", wait)
		} else {
			log.Info("Changed the namespaces whose pods are sent to the webhook")
		}
	}
	kept = s.kept(webhooksOf(next)) // Another webhook may have changed what we wrote.
	if seen, err = e.sentByCache(ctx, s); err != nil {
		return 0, err
	}
	show(intersect(planned.needed, seen))
	return timing.Sooner(wait, expires), nil
}

// keepMarks returns the marks to keep, and when to check again. Marks of unseen objects stay. Marks of seen objects stay for some seconds,
// because the caches of other replicas may not show those objects yet.
func (e *Entries) keepMarks(s side, all, unseen marks, now time.Time) (kept marks, again time.Duration) {
	met := map[types.UID]bool{}
	for _, m := range all {
		left := m.Until.Sub(now)
		if !slices.Contains(unseen, m) {
			if left -= markLasts - markStays; left <= 0 {
				continue
			}
			met[m.UID] = true
		}
		kept, again = append(kept, m), timing.Sooner(again, left)
	}
	if e.met == nil {
		e.met = map[string]map[types.UID]bool{}
	}
	e.met[s.path] = met
	return kept, again
}

// sentByCache returns the namespaces that the cached configuration has sent. The apiserver that feeds the cache applies a configuration when
// it sends the event, not when it answers the write.
func (e *Entries) sentByCache(ctx context.Context, s side) (needs, error) {
	config, err := e.cached(ctx, s)
	if err != nil || config == nil {
		return needs{}, err
	}
	return s.sent(webhooksOf(config)), nil
}

// cached returns the configuration in the cache, or nil. It must not be modified. It is not copied, because every pod creation reads it.
func (e *Entries) cached(ctx context.Context, s side) (client.Object, error) {
	config, _ := s.config.DeepCopyObject().(client.Object)
	switch err := e.Client.Get(ctx, client.ObjectKey{Name: e.Configuration}, config, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %T %s from the cache: %w", config, e.Configuration, err)
	}
	return config, nil
}

func (e *Entries) setAbsent(absent bool) {
	e.state.Lock()
	defer e.state.Unlock()
	e.absent = absent
}

func (e *Entries) clock() clock.PassiveClock {
	if e.Clock == nil {
		return clock.RealClock{}
	}
	return e.Clock
}

// webhooksOf returns the webhooks of a configuration. Both kinds have the same fields, except for one that validating webhooks lack.
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

// intersect returns the intersection of a and b.
func intersect(a, b needs) needs {
	out := needs{}
	for namespace := range a {
		if policy, ok := b[namespace]; ok {
			out[namespace] = policy
		}
	}
	return out
}

// publish changes what Sent answers, and notifies the channels of Changes.
func (e *Entries) publish(now needs, kept []string) {
	e.state.Lock()
	defer e.state.Unlock()
	if e.now != nil && maps.Equal(e.now, now) && slices.Equal(e.kept, kept) {
		return
	}
	e.now, e.kept = now, kept
	for _, c := range e.subscribers {
		select {
		case c <- event.GenericEvent{Object: &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: e.Configuration}}}:
		default: // An unread event covers this one too.
		}
	}
}

// plan is the desired state of one webhook's entries.
type plan struct {
	// needed holds the namespaces that objects ask for.
	needed needs
	// webhooks are the configuration's webhooks for those namespaces, or nil if they can't be built yet.
	webhooks []admissionv1.MutatingWebhook
	// marks holds the marks of objects that have not been seen yet.
	marks marks
}

// plan returns what is needed by the objects that a reader has, and by the objects that marks announce.
func (e *Entries) plan(ctx context.Context, r client.Reader, s side, webhooks []admissionv1.MutatingWebhook, now needs, announced marks) (plan, error) {
	needed, wanted, left, err := e.needed(ctx, r, s.sources, now, announced)
	if err != nil {
		return plan{}, err
	}
	s.wanted = wanted
	return plan{needed: needed, webhooks: s.plan(webhooks, needed), marks: left}, nil
}

// needed returns the namespaces that have objects, according to a reader, or that have an announced object. An open namespace that seems to
// have no objects left stays open until the apiserver confirms it. wanted holds sorted expressions for the pods that objects want from all
// namespaces, or nothing if one wants all pods. left holds the marks whose objects the reader doesn't have.
func (e *Entries) needed(
	ctx context.Context, r client.Reader, sources []source, now needs, announced marks,
) (out needs, wanted []string, left marks, err error) {
	out = needs{}
	wantsAll := false
	add := func(m mark) {
		if !slices.Contains(e.Exempt, m.Namespace) {
			out.add(m.Namespace, e.policy(m.Feature))
		}
		switch {
		case m.Namespace != podwebhook.AllNamespaces:
		case m.Wants == "":
			wantsAll = true
		default:
			wanted = append(wanted, m.Wants)
		}
	}
	for _, s := range sources {
		all, err := objects(ctx, r, s, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, o := range all {
			for _, m := range s.marksOf(o) {
				add(m)
				announced = announced.without(m)
			}
		}
		for _, m := range announced {
			if m.Feature == s.feature && !slices.Contains(e.Exempt, m.Namespace) {
				add(m)
				left = append(left, m)
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
				if namespace == podwebhook.AllNamespaces {
					continue // None of these objects asks for all namespaces.
				}
				only = []client.ListOption{client.InNamespace(namespace), client.Limit(1)}
			}
			live, err := objects(ctx, e.Live, s, only...)
			if err != nil {
				return nil, nil, nil, err
			}
			if slices.ContainsFunc(live, func(o client.Object) bool { return s.wantsNamespace(o, namespace) }) {
				out.add(namespace, e.policy(s.feature))
			}
		}
	}
	return out, wanted, left, nil
}

func (e *Entries) policy(feature string) admissionv1.FailurePolicyType {
	if slices.Contains(e.Ignore, feature) {
		return admissionv1.Ignore
	}
	return admissionv1.Fail
}

// marksOf returns what an object asks for.
func (s source) marksOf(o client.Object) []mark {
	namespaces := []string{o.GetNamespace()}
	if s.namespaces != nil {
		namespaces = s.namespaces(o)
	}
	out := make([]mark, 0, len(namespaces))
	for _, namespace := range namespaces {
		m := mark{Feature: s.feature, Namespace: namespace, UID: o.GetUID()}
		if namespace == podwebhook.AllNamespaces && s.wants != nil {
			if m.Wants = s.wants(o); len(m.Wants) > maxCondition {
				m.Wants = "" // It would not fit into any match condition.
			}
		}
		out = append(out, m)
	}
	return out
}

// wantsNamespace reports whether an object asks for a namespace.
func (s source) wantsNamespace(o client.Object, namespace string) bool {
	return slices.ContainsFunc(s.marksOf(o), func(m mark) bool { return m.Namespace == namespace })
}

// objects lists the objects of a source.
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

var errNoList = errors.New("its List is not a list of objects")
