package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// defaultPatience is shorter than any webhook timeout except the minimum.
const defaultPatience = 2 * time.Second

func (e *Entries) patience() time.Duration { return cmp.Or(e.Patience, defaultPatience) }

var (
	errNoBundle = errors.New("the configuration has no CA bundle yet")
	errKept     = errors.New("another writer excludes the namespace from the entry for pods")
)

// Ask has pods sent for an object that is about to be stored. It covers what the object asks for and old, nil for a new object, does not. Ask
// returns once the cache shows the entries, so that pods created after the object are sent, or with a warning when Patience ends. Any replica
// answers. The leader keeps what Ask has written. Don't call it for a dry run. An object whose kind has neither step nor guard asks for
// nothing.
func (e *Entries) Ask(ctx context.Context, old, object client.Object) []string {
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.patience())
	defer cancel()
	var warnings []string
	for _, s := range e.sides() {
		asked := e.asked(s, old, object)
		if len(asked) == 0 {
			continue
		}
		if err := e.open(ctx, s, asked); err != nil {
			ctrl.LoggerFrom(ctx).Info("Admitted an object before pods are sent for it", "webhook", s.path, "reason", err.Error())
			from := s.sources[slices.IndexFunc(s.sources, func(from source) bool { return from.isOf(object) })]
			warnings = append(warnings, fmt.Sprintf(from.late, strings.Join(asked.namespaces(), ", ")))
		}
	}
	return warnings
}

// isOf reports whether an object is of the source's kind.
func (s source) isOf(object client.Object) bool {
	return reflect.TypeOf(s.object) == reflect.TypeOf(object)
}

// asked returns what object asks for from one webhook, and old did not.
func (e *Entries) asked(s side, old, object client.Object) marks {
	var out marks
	for _, from := range s.sources {
		if !from.isOf(object) {
			continue
		}
		var before marks
		if old != nil {
			before = from.marksOf(old)
		}
		for _, m := range from.marksOf(object) {
			if !slices.Contains(e.Exempt, m.Namespace) && !slices.ContainsFunc(before, m.asksSame) {
				out = append(out, m)
			}
		}
	}
	return out
}

// namespaces returns the namespaces that the marks are for, in human-readable form.
func (all marks) namespaces() []string {
	out := make([]string, 0, len(all))
	for _, m := range all {
		if m.Namespace == podwebhook.AllNamespaces {
			out = append(out, "all namespaces")
		} else {
			out = append(out, "namespace "+m.Namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// open has pods sent for what is asked, and waits until they are sent.
func (e *Entries) open(ctx context.Context, s side, asked marks) error {
	if err := e.one.enter(ctx); err != nil { // Concurrent writers would only conflict with each other.
		return err
	}
	missing, err := e.write(ctx, s, asked)
	e.one.leave()
	if err != nil || len(missing) == 0 {
		return err
	}
	for {
		turned := e.turn.next()
		config, err := e.cached(ctx, s)
		if err != nil {
			return err
		}
		if config != nil && !slices.ContainsFunc(missing, func(m mark) bool { return !s.covers(webhooksOf(config), m) }) {
			return nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return fmt.Errorf("wait for the entries: %w", ctx.Err())
		}
	}
}

// write writes marks and entries for what is asked to the configuration. It returns the marks for which the cache must still show entries.
func (e *Entries) write(ctx context.Context, s side, asked marks) (marks, error) {
	config, err := e.cached(ctx, s)
	if err != nil || config == nil {
		return nil, err // Without a configuration, the apiserver doesn't call the webhook.
	}
	var missing marks
	for _, m := range asked {
		secure, err := e.secure(ctx, s, config, m)
		if err != nil {
			return nil, err
		}
		if !secure {
			missing = append(missing, m)
		}
	}
	for len(missing) > 0 {
		err := e.announce(ctx, s, missing)
		switch {
		case apierrors.IsConflict(err) && ctx.Err() == nil: // Another replica or the leader wrote.
		case apierrors.IsNotFound(err):
			return nil, nil
		default:
			return missing, err
		}
	}
	return nil, nil
}

// secure reports whether pods are already sent for a mark, and will stay so because another object asks for the same.
func (e *Entries) secure(ctx context.Context, s side, config client.Object, m mark) (bool, error) {
	webhooks := webhooksOf(config)
	if policy := s.sent(webhooks)[m.Namespace]; !s.covers(webhooks, m) || policy != e.policy(m.Feature) && policy == admissionv1.Ignore {
		return false, nil
	}
	if slices.Contains(s.kept(webhooks), m.Namespace) {
		return false, errKept
	}
	for _, from := range s.sources {
		var only []client.ListOption
		switch {
		case from.namespaces != nil:
		case m.Namespace == podwebhook.AllNamespaces:
			continue // None of these objects asks for all namespaces.
		default:
			only = append(only, client.InNamespace(m.Namespace))
		}
		all, err := objects(ctx, e.Client, from, append(only, client.UnsafeDisableDeepCopy)...)
		if err != nil {
			return false, err
		}
		for _, o := range all {
			if o.GetUID() != m.UID && o.GetDeletionTimestamp() == nil &&
				slices.ContainsFunc(from.marksOf(o), func(other mark) bool { return other.Namespace == m.Namespace && other.Wants == m.Wants }) {
				return true, nil
			}
		}
	}
	return false, nil
}

// announce adds marks, and the entries for them, in one write. It doesn't close namespaces: only the leader does.
func (e *Entries) announce(ctx context.Context, s side, asked marks) error {
	config, _ := s.config.DeepCopyObject().(client.Object)
	if err := e.Live.Get(ctx, client.ObjectKey{Name: e.Configuration}, config); err != nil {
		return fmt.Errorf("get %T %s: %w", config, e.Configuration, err)
	}
	now := e.clock().Now()
	webhooks, before := webhooksOf(config), marksIn(config, now)
	next := before
	for _, m := range asked {
		if m.Until = metav1.NewTime(now.Add(markLasts)); !before.hasFresh(m, now) || !s.covers(webhooks, m) {
			next = next.with(m)
		}
	}
	needed := s.sent(webhooks)
	for _, m := range next {
		needed.add(m.Namespace, e.policy(m.Feature))
	}
	if _, all := needed[podwebhook.AllNamespaces]; all { // The match condition lists everything that is wanted.
		others, wanted, _, err := e.needed(ctx, e.Live, s.sources, nil, next)
		if err != nil {
			return err
		}
		for namespace, policy := range others {
			needed.add(namespace, policy)
		}
		s.wanted = wanted
	}
	planned := s.plan(webhooks, needed)
	if planned == nil {
		return errNoBundle
	}
	written, _ := config.DeepCopyObject().(client.Object)
	setWebhooks(written, planned)
	if err := setMarks(written, next); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(config, written) {
		return nil // Another object has just asked for the same.
	}
	if err := e.Client.Patch(ctx, written, client.MergeFromWithOptions(config, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the entries for pods into %T %s: %w", config, e.Configuration, err)
	}
	kept := s.kept(webhooksOf(written))
	if slices.ContainsFunc(asked, func(m mark) bool { return slices.Contains(kept, m.Namespace) }) {
		return errKept
	}
	return nil
}

// watch makes this replica's cache keep what Ask and CatchUp read, and report events for it.
func (e *Entries) watch(ctx context.Context, from cache.Cache) error {
	pass := func(any) { e.turn.pass() }
	for _, s := range e.sides() {
		informer, err := from.GetInformer(ctx, s.config)
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: pass, UpdateFunc: func(_, after any) { pass(after) }, DeleteFunc: pass,
			})
		}
		for i := 0; i < len(s.sources) && err == nil; i++ {
			if informer, err = from.GetInformer(ctx, s.sources[i].object); err == nil {
				_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: pass, UpdateFunc: func(_, after any) { pass(after) }})
			}
		}
		if err != nil {
			return fmt.Errorf("watch the entries of the pod webhook: %w", err)
		}
	}
	return nil
}

// turn lets any number of requests wait for the next event. The zero value is ready to use.
type turn struct {
	mu sync.Mutex
	c  chan struct{}
}

// next returns a channel that is closed at the next event.
func (t *turn) next() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c == nil {
		t.c = make(chan struct{})
	}
	return t.c
}

// pass signals an event.
func (t *turn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c != nil {
		close(t.c)
		t.c = nil
	}
}

// one admits one request at a time. The zero value is ready to use.
type one struct {
	once sync.Once
	c    chan struct{}
}

func (o *one) enter(ctx context.Context) error {
	o.once.Do(func() { o.c = make(chan struct{}, 1) })
	select {
	case o.c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other objects that are being admitted: %w", ctx.Err())
	}
}

func (o *one) leave() { <-o.c }
