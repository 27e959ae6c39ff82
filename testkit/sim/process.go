package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstBackoff and lastBackoff bound the back-off after an error, as in controller-runtime's queue.
	firstBackoff = 5 * time.Millisecond
	lastBackoff  = 1000 * time.Second
)

// errDead is the error that every call of a crashed process gets.
var errDead = errors.New("this process has ended")

// Process is what a controller gets when it starts.
type Process struct {
	// Client reads from caches, which lag behind, and writes.
	Client client.Client
	// Live reads from the apiserver.
	Live client.Reader
	// Clock is the clock of the world.
	Clock clock.PassiveClock
	// In returns clients for another cluster. They cache only kinds that the process has read.
	In func(cluster string) (cached client.Client, live client.Reader)
	// Draw returns that many random letters and digits, like String in k8s.io/apimachinery/pkg/util/rand.
	Draw func(length int) string
}

// call is a request of a process that reaches the apiserver.
type call struct {
	verb Verb // empty for a read
	kind schema.GroupVersionKind
}

// cached is an object in a cache, with a copy that serves to detect modifications.
type cached struct{ given, current client.Object }

// untouched checks that the controller, which may read its cache without copying, has not modified the object.
func (c cached) untouched() error {
	if c.current != nil && !apiequality.Semantic.DeepEqual(c.given, c.current) {
		return fmt.Errorf("the controller changed %T %s in its cache", c.current, c.current.GetName())
	}
	return nil
}

// cache is what a process knows about one kind.
type cache struct {
	items   map[types.NamespacedName]cached
	pending []event
	// lost means that the watch is broken and the next delivery lists again. twice means that the next event is delivered twice.
	lost, twice bool
}

func (c *cache) objects() map[types.NamespacedName]client.Object {
	out := make(map[types.NamespacedName]client.Object, len(c.items))
	for k, v := range c.items {
		out[k] = v.given
	}
	return out
}

// cacheEvent applies an event. It checks that an object leaving the cache was not modified.
func (p *process) cacheEvent(c *cache, e event) error {
	key := client.ObjectKeyFromObject(e.object())
	err := c.items[key].untouched()
	if e.current == nil {
		delete(c.items, key)
		return err
	}
	c.items[key] = p.cached(e.current)
	return err
}

// cached returns an object as the cache holds it.
func (p *process) cached(current client.Object) cached {
	given := p.cacheView(current)
	if given == current {
		return cached{given: copyOf(current), current: current}
	}
	return cached{given: given, current: p.cacheView(current)}
}

// cacheView returns a copy of a pod or node that has only the cache's fields. Other objects are returned as they are.
func (p *process) cacheView(current client.Object) client.Object {
	if p.kind.whole {
		return current
	}
	switch o := current.(type) {
	case *corev1.Pod:
		o = o.DeepCopy()
		p.kind.Fields.Strip(o)
		return o
	case *corev1.Node:
		o = o.DeepCopy()
		p.kind.Fields.StripNode(o)
		return o
	}
	return current
}

// request is a request for a controller, which is given by its index in the process.
type request struct {
	controller int
	reconcile.Request
}

// timer is a request to be enqueued at a given time.
type timer struct {
	at      time.Time
	request request
}

// program is what a process runs: its controllers, and what each of them watches.
type program struct {
	kind        Kind
	controllers []watching
}

// watching is what a controller watches.
type watching struct {
	kind    Kind
	primary schema.GroupVersionKind
	owned   map[schema.GroupVersionKind]bool
	mapped  map[schema.GroupVersionKind]func(w *World, before, after client.Object) []reconcile.Request
}

// programOf returns the program of a process.
func programOf(k Kind) (program, error) {
	p := program{kind: k}
	for _, one := range append([]Kind{k}, k.Beside...) {
		one.Cluster = k.Cluster
		c := watching{
			kind: one, owned: map[schema.GroupVersionKind]bool{},
			mapped: map[schema.GroupVersionKind]func(w *World, before, after client.Object) []reconcile.Request{},
		}
		var err error
		if c.primary, err = apiutil.GVKForObject(one.For, k.Scheme); err != nil {
			return p, err
		}
		for _, o := range one.Owns {
			kind, err := apiutil.GVKForObject(o, k.Scheme)
			if err != nil {
				return p, err
			}
			c.owned[kind] = true
		}
		for o, to := range one.Maps {
			kind, err := apiutil.GVKForObject(o, k.Scheme)
			if err != nil {
				return p, err
			}
			c.mapped[kind] = to
		}
		p.controllers = append(p.controllers, c)
	}
	return p, nil
}

// watched returns the kinds that a controller watches, sorted.
func (c watching) watched() []schema.GroupVersionKind {
	kinds := slices.Concat([]schema.GroupVersionKind{c.primary}, slices.Collect(maps.Keys(c.owned)), slices.Collect(maps.Keys(c.mapped)))
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(kinds)
}

// process is a running program: its reconcilers, caches and queue, all of which are lost in a crash.
type process struct {
	w *World
	program
	reconcilers []reconcile.Reconciler
	caches      map[schema.GroupVersionKind]*cache
	indexes     map[schema.GroupVersionKind]map[string]client.IndexerFunc
	queue       []request
	timers      []timer
	failures    map[request]int
	dead        bool
}

// start starts the i-th process, with caches that are in sync with the apiserver.
func (w *World) start(ctx context.Context, i int) error {
	p := &process{
		w: w, program: w.programs[i], caches: map[schema.GroupVersionKind]*cache{}, failures: map[request]int{},
		indexes: map[schema.GroupVersionKind]map[string]client.IndexerFunc{},
	}
	w.processes[i] = p
	read := func(kind schema.GroupVersionKind) (map[types.NamespacedName]client.Object, error) {
		if p.dead {
			return nil, errDead
		}
		return p.cache(kind).objects(), nil
	}
	live := func(kind schema.GroupVersionKind) (map[types.NamespacedName]client.Object, error) {
		if err := p.countCall(call{kind: kind}); err != nil {
			return nil, err
		}
		return w.store.kinds[kind], nil
	}
	for _, c := range p.controllers {
		if c.kind.Index != nil {
			if err := c.kind.Index(ctx, p); err != nil {
				return fmt.Errorf("index: %w", err)
			}
		}
		in := func(cluster string) (client.Client, client.Reader) {
			return &conn{scheme: w.store.scheme, cluster: cluster, objects: read, match: p.match, send: p.performWrite},
				&conn{scheme: w.store.scheme, cluster: cluster, objects: live, match: liveFields, send: p.performWrite}
		}
		cached, uncached := in(p.kind.Cluster)
		reconciler, err := c.kind.New(Process{
			Client: cached, Live: uncached, In: in, Clock: w.clock,
			Draw: func(length int) string { return draw(w.lot, length) },
		})
		if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown { // It could not read what it needs at the start.
			w.record("start of the %s: %v", p.kind.name(), err)
			p.dead = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("start the %s: %w", p.kind.name(), err)
		}
		p.reconcilers = append(p.reconcilers, reconciler)
		for _, kind := range c.watched() {
			p.cache(kind)
		}
	}
	p.resync()
	return nil
}

// resync enqueues all objects of the reconciled kinds, and the requests that other objects are mapped to, as starting watches do.
func (p *process) resync() {
	for i, c := range p.controllers {
		for _, o := range inOrder(p.cache(c.primary).objects()) {
			if key, ok := c.requestFor(c.primary, o); ok {
				p.add(request{i, reconcile.Request{NamespacedName: key}})
			}
		}
		for _, kind := range c.watched() {
			if to := c.mapped[kind]; to != nil {
				for _, o := range inOrder(p.cache(kind).objects()) {
					p.addAll(i, to(p.w, nil, o))
				}
			}
		}
	}
}

// IndexField registers an index for cache reads by field.
func (p *process) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	kind, err := apiutil.GVKForObject(o, p.w.store.scheme)
	if err != nil {
		return err
	}
	if p.indexes[kind] == nil {
		p.indexes[kind] = map[string]client.IndexerFunc{}
	}
	p.indexes[kind][field] = extract
	return nil
}

func (p *process) match(kind schema.GroupVersionKind, o client.Object, field, value string) (bool, error) {
	extract := p.indexes[kind][field]
	if extract == nil {
		return false, fmt.Errorf("list %s: no index %q", kind.Kind, field)
	}
	return slices.Contains(extract(o), value), nil
}

// cache returns the cache of a kind. It is started on first use.
func (p *process) cache(kind schema.GroupVersionKind) *cache {
	c := p.caches[kind]
	if c == nil {
		c = &cache{items: map[types.NamespacedName]cached{}}
		for _, current := range p.w.store.kinds[kind] {
			c.items[client.ObjectKeyFromObject(current)] = p.cached(current)
		}
		p.caches[kind] = c
	}
	return c
}

// queueEvent adds an event to those pending for the cache.
func (p *process) queueEvent(e event) {
	if c := p.caches[e.kind]; c != nil && !c.lost {
		c.pending = append(c.pending, e)
	}
}

// deliver applies the next event of a kind to the cache.
func (p *process) deliver(kind schema.GroupVersionKind) error {
	c := p.caches[kind]
	if c.lost {
		return p.relist(kind, c)
	}
	e := c.pending[0]
	if c.twice {
		c.twice = false
	} else {
		c.pending = c.pending[1:]
	}
	p.enqueueFor(e)
	return p.cacheEvent(c, e)
}

// relist applies what has changed meanwhile, as one event for each object.
func (p *process) relist(kind schema.GroupVersionKind, c *cache) error {
	c.lost, c.pending = false, nil
	before := c.objects()
	var errs []error
	for _, old := range inOrder(before) {
		if p.w.store.kinds[kind][client.ObjectKeyFromObject(old)] == nil {
			e := event{kind: kind, old: old}
			p.enqueueFor(e)
			errs = append(errs, p.cacheEvent(c, e))
		}
	}
	for _, after := range p.w.store.all(kind) {
		old := before[client.ObjectKeyFromObject(after)]
		if old == nil || old.GetResourceVersion() != after.GetResourceVersion() {
			e := event{kind: kind, old: old, current: after}
			p.enqueueFor(e)
			errs = append(errs, p.cacheEvent(c, e))
		}
	}
	return errors.Join(errs...)
}

// enqueueFor enqueues the requests for an event.
func (p *process) enqueueFor(e event) {
	for i, c := range p.controllers {
		if to := c.mapped[e.kind]; to != nil {
			p.addAll(i, to(p.w, p.cacheView(e.old), p.cacheView(e.current)))
		}
		for _, o := range []client.Object{e.old, e.current} {
			if key, ok := c.requestFor(e.kind, o); ok {
				p.add(request{i, reconcile.Request{NamespacedName: key}})
			}
		}
	}
}

// requestFor returns what an event for an object, which may be nil, enqueues.
func (c watching) requestFor(kind schema.GroupVersionKind, o client.Object) (key types.NamespacedName, ok bool) {
	if o == nil {
		return key, false
	}
	cluster, namespace := Place(o)
	if cluster != c.kind.Cluster {
		return key, false
	}
	if kind == c.primary {
		return types.NamespacedName{Namespace: namespace, Name: o.GetName()}, true
	}
	ref := metav1.GetControllerOfNoCopy(o)
	if !c.owned[kind] || ref == nil || ref.Kind != c.primary.Kind {
		return key, false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return types.NamespacedName{Namespace: namespace, Name: ref.Name}, err == nil && gv.Group == c.primary.Group
}

func (p *process) addAll(controller int, all []reconcile.Request) {
	for _, r := range all {
		p.add(request{controller, r})
	}
}

func (p *process) add(r request) {
	if !slices.Contains(p.queue, r) {
		p.queue = append(p.queue, r)
	}
}

// enqueueDue enqueues the requests that are due.
func (p *process) enqueueDue() {
	now := p.w.clock.Now()
	p.timers = slices.DeleteFunc(p.timers, func(t timer) bool {
		if t.at.After(now) {
			return false
		}
		p.add(t.request)
		return true
	})
}

// reconcile runs one reconcile, and requeues the request according to the result.
func (p *process) reconcile(ctx context.Context, i int) (err error) {
	request := p.queue[i]
	p.queue = slices.Delete(p.queue, i, i+1)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reconcile %s panicked: %v\n%s", request.Request, r, debug.Stack())
		}
	}()
	result, failed := p.reconcilers[request.controller].Reconcile(ctx, request.Request)
	if p.dead {
		return nil
	}
	switch {
	case errors.Is(failed, reconcile.TerminalError(nil)):
		p.w.record("reconcile %s: %v", request.Request, failed)
	case failed != nil:
		p.w.record("reconcile %s: %v", request.Request, failed)
		wait := min(firstBackoff<<min(p.failures[request], 20), lastBackoff)
		p.failures[request]++
		p.addAfter(request, wait)
	default:
		delete(p.failures, request)
		if result.RequeueAfter > 0 {
			p.addAfter(request, result.RequeueAfter)
		}
	}
	return nil
}

// addAfter enqueues a request later. As in client-go's delaying queue, a request has at most one timer: the earliest.
func (p *process) addAfter(r request, wait time.Duration) {
	next := timer{at: p.w.clock.Now().Add(wait), request: r}
	i := slices.IndexFunc(p.timers, func(t timer) bool { return t.request == r })
	switch {
	case i < 0:
		p.timers = append(p.timers, next)
	case next.at.Before(p.timers[i].at):
		p.timers[i] = next
	}
}

// untouched checks that nothing in the caches was modified.
func (p *process) untouched() error {
	for _, c := range p.caches {
		for _, item := range c.items {
			if err := item.untouched(); err != nil {
				return err
			}
		}
	}
	return nil
}

// countCall counts a call and returns the error of a fault for it, if any.
func (p *process) countCall(c call) error {
	if p.dead {
		return errDead
	}
	p.w.calls++
	for _, f := range p.w.faults(true, p.w.calls) {
		p.w.record("FAULT %s", f)
		if _, err := f.Kind.answer("", c); err != nil {
			return err
		}
	}
	return nil
}

// performWrite performs a write of the controller, with the faults for it.
func (p *process) performWrite(r Request) (client.Object, error) {
	w := p.w
	if p.dead {
		return nil, errDead
	}
	w.calls++
	if !r.DryRun {
		w.writes++
	}
	var answer error
	crash, do := false, true
	for _, f := range slices.Concat(w.faults(false, w.writes), w.faults(true, w.calls)) {
		if r.DryRun && !f.Kind.ofCalls() {
			continue
		}
		w.record("FAULT %s at %s", f, r)
		switch f.Kind { //nolint:exhaustive // The default is for the answers.
		case CrashBefore:
			crash, do = true, false
		case CrashAfter:
			crash = true
		case LateWrite:
			crash, do = true, false
			w.late = append(w.late, late{by: p.kind.name(), request: r, due: w.step + f.Steps})
		case Stale:
			w.frozen = w.step + f.Steps
		case Relist:
			for _, c := range p.caches {
				c.lost = true
			}
		case Duplicate:
			for _, c := range p.caches {
				c.twice = true
			}
		default:
			if f.Kind == Conflict && r.Verb != Create && r.Verb != Delete {
				w.annotate(r)
			}
			done, err := f.Kind.answer(r.Key.Name, call{verb: r.Verb, kind: r.Kind})
			do = do && done
			if answer == nil {
				answer = err
			}
		}
	}
	var current client.Object
	if do {
		var err error
		current, err = w.apply(p.kind.name(), r, false)
		if answer == nil {
			answer = err
		}
	}
	if crash {
		p.dead = true
		return nil, errDead
	}
	return current, answer
}
