package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

const (
	// controller is the writer name of the controller under test.
	controller = "controller"
	// user is the writer name of the scenario.
	user = "user"

	// tick is how long a step takes.
	tick = time.Millisecond
	// maxSteps is how many steps a run may take to come to rest.
	maxSteps = 20000
	// idleTimers is how many timers in a row may fire without a write before the world is at rest.
	idleTimers = 10
)

// Kind describes how a controller runs. It is the same for all scenarios.
type Kind struct {
	Scheme *runtime.Scheme
	// New returns a reconciler as in a new process, without state from an earlier one.
	New func(Process) (reconcile.Reconciler, error)
	// Index registers the indexes of the cache. Nil if there are none.
	Index func(context.Context, client.FieldIndexer) error
	// For is the kind that is reconciled, as an empty object. Owns are the kinds that it controls. Maps are kinds whose events are mapped to
	// requests: before is nil for a new object, after for a deleted one.
	For  client.Object
	Owns []client.Object
	Maps map[client.Object]func(w *World, before, after client.Object) []reconcile.Request
	// Fields are the fields of pods and nodes in the controller's cache. The undisturbed run of a scenario is repeated with a cache of whole
	// objects, and must give the same result.
	Fields podset.Fields
	// Admit rejects writes, as a webhook does. Nil admits all. For a deletion, the new object is nil.
	Admit func(w *World, r Request, old, after client.Object) error
	// Name is the name of the process in stories. Default controller. Cluster is the cluster that it works in, which contains the objects of For
	// and Owns. Maps get the objects of all clusters (Place).
	Name, Cluster string
	// Beside are further controllers in the same process, which share its caches and crash with it. Others are further processes. In both, only
	// New, Index, For, Owns and Maps count, and in Others also Name, Cluster, Fields and Beside.
	Beside, Others []Kind
	// Actors run beside the controller. Cluster returns the usual ones.
	Actors []Actor
	// Rules must always hold.
	Rules []Rule
	// Summary describes what matters in the world at rest, without random names.
	Summary func(*World) string
	// Describe says in a few words what a write has changed, for golden stories. Nil and "" add nothing.
	Describe func(Change) string

	// whole is set for the repetition with whole objects: pods have a value in each field, and the cache strips none.
	whole bool
}

// name returns the name of the process.
func (k Kind) name() string { return cmp.Or(k.Name, controller) }

// Scenario is a sequence of edits after which a controller has to reach the desired state.
type Scenario struct {
	Name string
	// Objects exist before the controller starts. They get UIDs and resource versions.
	Objects []client.Object
	// Edits are changes from outside, in this order.
	Edits []Edit
	// Rules and Actors apply to this scenario, in addition to those of the kind.
	Rules  []Rule
	Actors []Actor
	// Stall replaces the Plan's Stall if it is not 0.
	Stall time.Duration
}

// Edit is one change to the world from outside.
type Edit struct {
	Name string
	// When reports whether the edit is due. Nil means at rest, and with a seed at any time. An edit that never becomes due is made at rest.
	When func(*World) bool
	// Do makes the edit.
	Do func(context.Context, *World) error
}

// Step is something that can happen next.
type Step struct {
	Name string
	Do   func(context.Context) error
}

// Actor is another component that changes the world.
type Actor interface {
	// Steps returns what the actor could do now, in an order that only depends on the world.
	Steps(*World) []Step
}

// Change is a write and its result.
type Change struct {
	// By is the name of the writer.
	By string
	Request
	// Late reports whether the writing process had been replaced by the time the write arrived.
	Late bool
	// Before is the object before the write, or nil if it didn't exist. After is the object after it, or nil if the write was rejected. Both
	// belong to the world and must not be modified.
	Before, After client.Object
	Err           error

	tested bool
}

// News returns what say reports for the object after the write but not before, separated by commas. It is empty for a rejected write.
func (c Change) News(say func(client.Object) []string) string {
	if c.After == nil {
		return ""
	}
	var before []string
	if c.Before != nil {
		before = say(c.Before)
	}
	return strings.Join(slices.DeleteFunc(say(c.After), func(line string) bool { return slices.Contains(before, line) }), ", ")
}

// ByController reports whether a controller under test made the write, before or after a crash.
func (c Change) ByController() bool { return c.tested }

// late is a write of a process that is no longer the leader.
type late struct {
	by      string
	request Request
	due     int
}

// World is a cluster with the processes of a Kind, in one run. It is not safe for concurrent use.
type World struct {
	kind     Kind
	scenario Scenario
	schedule Schedule
	store    *store
	clock    *clocktesting.FakePassiveClock
	rng      *rand.Rand
	lot      *rand.Rand // For the controller's random names.

	// programs are what the processes run.
	programs  []program
	processes []*process

	types map[reflect.Type]schema.GroupVersionKind

	step, writes, calls int
	edits               int // Made so far.
	late                []late
	frozen              int // The step until which no watch delivers.
	idle                int // Timers that fired since the last change.
	// waited is the time that has passed with nothing to do since the last change or edit. longest is the longest such time after which the
	// controller wrote.
	waited, longest time.Duration
	// settled holds the versions of pods for which their kubelet has nothing to do.
	settled map[types.UID]string
	changes []Change
	// story is what happened. written holds its lines about writes under test.
	story, written []string
	// sent is Result.Sent.
	sent   map[string]int
	broken error
}

// begin returns the initial time of every world.
func begin() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

func newWorld(k Kind, s Scenario, sch Schedule) (*World, error) {
	w := &World{
		kind: k, scenario: s, schedule: sch, clock: clocktesting.NewFakePassiveClock(begin()),
		rng:     rand.New(rand.NewSource(sch.Seed)), //nolint:gosec // The seed makes a run reproducible.
		lot:     rand.New(rand.NewSource(sch.Seed)), //nolint:gosec // As above.
		settled: map[types.UID]string{}, types: map[reflect.Type]schema.GroupVersionKind{},
		sent: map[string]int{},
	}
	w.store = newStore(k.Scheme, w.clock, rand.New(rand.NewSource(sch.Seed))) //nolint:gosec // As above.
	if k.Admit != nil {
		w.store.admit = func(r Request, old, current client.Object) error { return k.Admit(w, r, old, current) }
	}
	w.store.furnish = k.whole
	w.store.changed = func(e event) {
		w.idle, w.waited = 0, 0
		for _, p := range w.alive() {
			p.queueEvent(e)
		}
	}
	for _, one := range append([]Kind{k}, k.Others...) {
		one.Scheme, one.whole = k.Scheme, k.whole
		p, err := programOf(one)
		if err != nil {
			return nil, err
		}
		w.programs = append(w.programs, p)
	}
	w.processes = make([]*process, len(w.programs))
	for _, o := range s.Objects {
		o = copyOf(o)
		o.SetResourceVersion("")
		kind, err := apiutil.GVKForObject(o, k.Scheme)
		if err != nil {
			return nil, err
		}
		if _, err := w.apply(user, Request{Verb: Create, Kind: kind, Key: client.ObjectKeyFromObject(o), Object: o}, false); err != nil {
			return nil, fmt.Errorf("begin with %s: %w", o.GetName(), err)
		}
	}
	return w, nil
}

// alive returns the running processes, in order.
func (w *World) alive() []*process {
	out := make([]*process, 0, len(w.processes))
	for _, p := range w.processes {
		if p != nil && !p.dead {
			out = append(out, p)
		}
	}
	return out
}

// isController reports whether a writer is a controller under test.
func (w *World) isController(by string) bool {
	return slices.ContainsFunc(w.programs, func(p program) bool { return p.kind.name() == by })
}

// record adds a line to the story.
func (w *World) record(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%5d %9s  ", w.step, w.clock.Since(begin()).Round(tick))+fmt.Sprintf(format, args...))
}

// faults returns the faults that the schedule has for the n-th call or write.
func (w *World) faults(ofCalls bool, n int) []Fault {
	var out []Fault
	for _, f := range w.schedule.Faults {
		if f.At == n && f.Kind.ofCalls() == ofCalls {
			out = append(out, f)
		}
	}
	return out
}

// apply performs a write and checks the rules.
func (w *World) apply(by string, r Request, lateWrite bool) (client.Object, error) {
	tested := w.isController(by)
	if tested && !lateWrite {
		w.longest = max(w.longest, w.waited)
	}
	before, after, err := w.store.do(r)
	if r.DryRun {
		return after, err
	}
	if after != nil {
		r.Key = client.ObjectKeyFromObject(after)
	}
	c := Change{By: by, Request: r, Late: lateWrite, Before: before, After: after, Err: err, tested: tested}
	w.changes = append(w.changes, c)
	outcome := ""
	if err != nil {
		outcome = ": " + string(apierrors.ReasonForError(err))
	}
	number := ""
	if tested && !lateWrite {
		number = fmt.Sprintf(" #%d", w.writes)
	}
	if w.kind.Describe != nil && err == nil {
		if what := w.kind.Describe(c); what != "" {
			outcome = ": " + what
		}
	}
	w.record("%s%s: %s%s", by, number, r, outcome)
	if !tested {
		return after, err
	}
	w.written = append(w.written, w.story[len(w.story)-1])
	what := fmt.Sprintf("%s %s", r.Verb, r.what())
	if err != nil {
		what += ": " + string(apierrors.ReasonForError(err))
	}
	w.sent[what]++
	for _, rule := range w.rules() {
		if rule.Write != nil && w.broken == nil {
			if broken := rule.Write(w, c); broken != nil {
				w.broken = fmt.Errorf("%s: %w", rule.Name, broken)
			}
		}
	}
	return after, err
}

func (w *World) rules() []Rule { return slices.Concat(w.kind.Rules, w.scenario.Rules) }

// Changes returns all writes so far, including rejected ones.
func (w *World) Changes() []Change { return w.changes }

// Now returns the time in this world.
func (w *World) Now() time.Time { return w.clock.Now() }

// Pass lets time pass, for a step that takes long.
func (w *World) Pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// User returns a client that reads and writes directly through the apiserver, as users do.
func (w *World) User() client.Client { return w.as(user) }

// In is like User, for another cluster.
func (w *World) In(cluster string) client.Client {
	c := w.as(user)
	c.cluster = cluster
	return c
}

// as returns a client for a writer without a cache.
func (w *World) as(name string) *conn {
	return &conn{
		scheme: w.store.scheme, match: liveFields,
		objects: func(kind schema.GroupVersionKind) (map[types.NamespacedName]client.Object, error) {
			return w.store.kinds[kind], nil
		},
		send: func(r Request) (client.Object, error) { return w.apply(name, r, false) },
	}
}

// annotate changes an annotation of the object that a write is for, as any other client may.
func (w *World) annotate(r Request) {
	current := w.store.kinds[r.Kind][r.Key]
	if current == nil {
		return
	}
	next := copyOf(current)
	annotations := maps.Clone(next.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["sim/touched"] = strconv.Itoa(w.calls)
	next.SetAnnotations(annotations)
	if _, err := w.apply(user, Request{Verb: Update, Kind: r.Kind, Key: r.Key, Object: next}, false); err != nil {
		w.broken = errors.Join(w.broken, err)
	}
}

// kindOf returns the kind of objects of type T, which the scheme must know.
func kindOf[T client.Object](w *World) schema.GroupVersionKind {
	t := reflect.TypeFor[T]()
	kind, known := w.types[t]
	if !known {
		var err error
		if kind, err = apiutil.GVKForObject(reflect.New(t.Elem()).Interface().(client.Object), w.store.scheme); err != nil {
			w.broken = errors.Join(w.broken, err)
		}
		w.types[t] = kind
	}
	return kind
}

// All returns the objects of type T in the apiserver, sorted by name. They must not be modified.
func All[T client.Object](w *World) []T { return typed[T](w.store.kinds[kindOf[T](w)]) }

// Find returns the object of type T with that name in the apiserver, or the zero T. It must not be modified.
func Find[T client.Object](w *World, key types.NamespacedName) T {
	o, _ := w.store.kinds[kindOf[T](w)][key].(T)
	return o
}

// Cached returns the objects of type T in the cache of the first process, sorted by name. There are none while the process doesn't run. They
// must not be modified.
func Cached[T client.Object](w *World) []T { return CachedBy[T](w, w.kind.name()) }

// CachedBy is Cached for the process with that name.
func CachedBy[T client.Object](w *World, name string) []T {
	for _, p := range w.alive() {
		if p.kind.name() == name {
			return typed[T](p.cache(kindOf[T](w)).objects())
		}
	}
	return nil
}

func typed[T client.Object](objects map[types.NamespacedName]client.Object) []T {
	out := make([]T, 0, len(objects))
	for _, o := range inOrder(objects) {
		out = append(out, o.(T))
	}
	return out
}

// Set changes an object as a user would, if it exists.
func Set[T client.Object](ctx context.Context, w *World, key types.NamespacedName, change func(T)) error {
	o := Find[T](w, key)
	if reflect.ValueOf(o).IsNil() {
		return nil
	}
	o = copyOf(o).(T)
	change(o)
	return w.User().Update(ctx, o)
}

// run takes steps until none are left.
func (w *World) run(ctx context.Context) error {
	ctx = logr.NewContext(ctx, logr.Discard())
	if err := w.startAll(ctx); err != nil {
		return err
	}
	for w.step = 1; ; w.step++ {
		if w.step > maxSteps {
			return fmt.Errorf("the world did not come to rest in %d steps", maxSteps)
		}
		w.clock.SetTime(w.clock.Now().Add(tick))
		for _, p := range w.processes {
			p.enqueueDue()
		}
		s, ok := w.next()
		if !ok {
			return w.untouched()
		}
		if s.Name != "" {
			w.record("%s", s.Name)
		}
		if err := s.Do(ctx); err != nil {
			return fmt.Errorf("step %d %s: %w", w.step, s.Name, err)
		}
		if err := w.checkRules(); err != nil {
			return err
		}
	}
}

func (w *World) startAll(ctx context.Context) error {
	for i := range w.programs {
		if err := w.start(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// untouched checks that nothing in the caches was modified.
func (w *World) untouched() error {
	for _, p := range w.processes {
		if err := p.untouched(); err != nil {
			return err
		}
	}
	return nil
}

// timers returns the timers of all processes.
func (w *World) timers() []timer {
	var out []timer
	for _, p := range w.processes {
		out = append(out, p.timers...)
	}
	return out
}

// checkRules checks whether a rule is broken.
func (w *World) checkRules() error {
	if w.broken != nil {
		return w.broken
	}
	for _, rule := range w.rules() {
		if rule.State != nil {
			if err := rule.State(w); err != nil {
				return fmt.Errorf("%s: %w", rule.Name, err)
			}
		}
	}
	return nil
}

// next chooses the next step. At the end there is none.
func (w *World) next() (Step, bool) {
	classes := [][]Step{w.restart(), w.lateWrites(false), w.dueEdit(), w.deliveries(), w.reconciles(), w.actorSteps()}
	if w.schedule.Seed != 0 {
		if len(classes[0])+len(classes[2])+len(classes[3])+len(classes[4])+len(classes[5]) > 0 {
			classes = append(classes, w.freeEdit())
		}
		classes = slices.DeleteFunc(classes, func(c []Step) bool { return len(c) == 0 })
		if len(classes) > 0 {
			class := classes[w.rng.Intn(len(classes))]
			return class[w.rng.Intn(len(class))], true
		}
	}
	for _, class := range classes {
		if len(class) > 0 {
			return class[0], true
		}
	}
	return w.whenIdle()
}

// whenIdle returns the step to take when nothing is due: a delayed write arrives, time passes, or the next edit is made.
func (w *World) whenIdle() (Step, bool) {
	switch {
	case w.frozen > w.step:
		return Step{"the watches resume", func(context.Context) error { w.frozen = 0; return nil }}, true
	case len(w.late) > 0:
		return w.lateWrites(true)[0], true
	case len(w.timers()) > 0 && w.idle < idleTimers:
		return w.nextTimer(), true
	case w.edits < len(w.scenario.Edits):
		return w.edit(), true
	}
	return Step{}, false
}

// nextTimer advances the clock to the next timer.
func (w *World) nextTimer() Step {
	first := slices.MinFunc(w.timers(), func(a, b timer) int { return a.at.Compare(b.at) })
	return Step{"", func(context.Context) error {
		w.idle++
		if first.at.After(w.clock.Now()) {
			w.waited += first.at.Sub(w.clock.Now())
			w.clock.SetTime(first.at)
		}
		return nil
	}}
}

func (w *World) restart() []Step {
	var out []Step
	for i, p := range w.processes {
		if p.dead {
			out = append(out, Step{"the " + p.kind.name() + " restarts", func(ctx context.Context) error { return w.start(ctx, i) }})
		}
	}
	return out
}

// lateWrites returns the late writes that are due, or all of them.
func (w *World) lateWrites(all bool) []Step {
	for i, l := range w.late {
		if all || w.step >= l.due {
			return []Step{{"a late write arrives", func(context.Context) error {
				w.late = slices.Delete(w.late, i, i+1)
				_, err := w.apply(l.by, l.request, true)
				var status apierrors.APIStatus
				if errors.As(err, &status) {
					return nil // Its writer is gone.
				}
				return err
			}}}
		}
	}
	return nil
}

// dueEdit returns the next edit if it is due.
func (w *World) dueEdit() []Step {
	if w.edits < len(w.scenario.Edits) {
		if e := w.scenario.Edits[w.edits]; e.When != nil && e.When(w) {
			return []Step{w.edit()}
		}
	}
	return nil
}

// freeEdit returns the next edit if it may be made at any time.
func (w *World) freeEdit() []Step {
	if w.edits < len(w.scenario.Edits) && w.scenario.Edits[w.edits].When == nil && w.rng.Intn(10) == 0 {
		return []Step{w.edit()}
	}
	return nil
}

func (w *World) edit() Step {
	e := w.scenario.Edits[w.edits]
	return Step{"EDIT " + e.Name, func(ctx context.Context) error {
		w.edits++
		w.idle, w.waited = 0, 0
		return e.Do(ctx, w)
	}}
}

// deliveries returns the watches with pending events. The one with the oldest event comes first.
func (w *World) deliveries() []Step {
	if w.frozen > w.step {
		return nil
	}
	type news struct {
		to   int
		kind schema.GroupVersionKind
		at   int64
	}
	var all []news
	alive := w.alive()
	for i, p := range alive {
		for kind, c := range p.caches {
			switch {
			case c.lost:
				all = append(all, news{to: i, kind: kind})
			case len(c.pending) > 0:
				all = append(all, news{to: i, kind: kind, at: c.pending[0].version})
			}
		}
	}
	slices.SortFunc(all, func(a, b news) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.to, b.to), cmp.Compare(a.kind.String(), b.kind.String()))
	})
	out := make([]Step, 0, len(all))
	for _, n := range all {
		out = append(out, Step{"", func(context.Context) error {
			return alive[n.to].deliver(n.kind)
		}})
	}
	return out
}

// reconciles returns the requests in the queue.
func (w *World) reconciles() []Step {
	var out []Step
	for _, p := range w.alive() {
		for i := range p.queue {
			out = append(out, Step{"", func(ctx context.Context) error { return p.reconcile(ctx, i) }})
		}
	}
	return out
}

func (w *World) actorSteps() []Step {
	out := make([]Step, 0, len(w.kind.Actors))
	for _, actors := range [][]Actor{w.kind.Actors, w.scenario.Actors} {
		for _, a := range actors {
			out = append(out, a.Steps(w)...)
		}
	}
	return out
}

// checkIdle checks that at rest the controller writes nothing, neither when all objects are enqueued again nor after a restart.
func (w *World) checkIdle(ctx context.Context) error {
	ctx = logr.NewContext(ctx, logr.Discard())
	resync := func(context.Context) error {
		for _, p := range w.processes {
			p.resync()
		}
		return nil
	}
	for _, begin := range []func(context.Context) error{resync, w.startAll} {
		if err := begin(ctx); err != nil {
			return err
		}
		for _, p := range w.processes {
			if err := w.requireIdle(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// requireIdle checks that a process has nothing to write.
func (w *World) requireIdle(ctx context.Context, p *process) error {
	writes := w.writes
	for len(p.queue) > 0 {
		if err := p.reconcile(ctx, 0); err != nil {
			return err
		}
		if err := w.checkRules(); err != nil {
			return err
		}
		if w.writes > writes {
			c := w.changes[len(w.changes)-1]
			return fmt.Errorf("at rest the %s still wrote: %s", p.kind.name(), c.Request)
		}
	}
	return nil
}
