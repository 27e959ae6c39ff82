package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

var setKey = types.NamespacedName{Namespace: "shop", Name: "web"}

// toy is a controller for ReplicaSets that names pods by number and recreates old ones, one at a time. Its flags are bugs.
type toy struct {
	Process
	expect *expect.Store
	// unsure: a creation had no clear response, so the apiserver has to be read before the cache can be used.
	unsure bool

	// lot: names are random, and there are no expectations for creations.
	lot bool
	// anyUID: deletions have no UID precondition.
	anyUID bool
	// forgets: there are no expectations for deletions, so the budget counts pods that are gone.
	forgets bool
	// chatty: every reconcile writes the status.
	chatty bool
	// spoils: it modifies objects in its cache.
	spoils bool
	// sleepy: it starts after an hour.
	sleepy bool
}

func (c *toy) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if c.sleepy {
		c.sleepy = false
		return ctrl.Result{RequeueAfter: time.Hour}, nil
	}
	var set appsv1.ReplicaSet
	if err := c.Client.Get(ctx, req.NamespacedName, &set); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if set.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	var pods corev1.PodList
	if c.unsure {
		if err := c.Live.List(ctx, &pods, client.InNamespace(set.Namespace)); err != nil {
			return ctrl.Result{}, err
		}
		for i := range pods.Items {
			c.expect.Created(set.UID, &pods.Items[i])
		}
		c.unsure = false
	}
	if err := c.Client.List(ctx, &pods, client.InNamespace(set.Namespace), client.UnsafeDisableDeepCopy,
		client.MatchingFields{ownership.OwnerIndex: string(set.UID)}); err != nil {
		return ctrl.Result{}, err
	}
	wait := c.expect.Check(set.UID, shown(&pods))
	if wait.Overdue {
		if err := c.Live.List(ctx, &pods, client.InNamespace(set.Namespace)); err != nil {
			return ctrl.Result{}, err
		}
		c.expect.Renew(set.UID, shown(&pods))
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if wait.Count > 0 {
		return ctrl.Result{RequeueAfter: wait.Left}, nil
	}
	if c.spoils {
		for i := range pods.Items {
			pods.Items[i].Labels["seen"] = "yes"
		}
	}
	return ctrl.Result{}, errors.Join(c.scale(ctx, &set, pods.Items), c.status(ctx, &set, pods.Items))
}

func shown(pods *corev1.PodList) iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		for i := range pods.Items {
			if !yield(&pods.Items[i]) {
				return
			}
		}
	}
}

func (c *toy) scale(ctx context.Context, set *appsv1.ReplicaSet, pods []corev1.Pod) error {
	used := map[string]bool{}
	alive, ready := 0, 0
	for i := range pods {
		used[pods[i].Name] = true
		if pods[i].DeletionTimestamp == nil {
			alive++
		}
		if serves(&pods[i]) {
			ready++
		}
	}
	want := int(*set.Spec.Replicas)
	for n := 0; alive < want; n++ {
		name := fmt.Sprintf("%s-%d", set.Name, n)
		if used[name] {
			continue
		}
		if err := c.create(ctx, set, name); err != nil {
			return err
		}
		alive++
	}
	for i := len(pods) - 1; i >= 0; i-- {
		pod := &pods[i]
		old := pod.Spec.Containers[0].Image != set.Spec.Template.Spec.Containers[0].Image
		switch {
		case pod.DeletionTimestamp != nil, alive <= want && !old, serves(pod) && ready-1 < want-1:
			continue
		case serves(pod):
			ready--
		}
		alive--
		if err := c.remove(ctx, set, pod); err != nil {
			return err
		}
	}
	return nil
}

func (c *toy) create(ctx context.Context, set *appsv1.ReplicaSet, name string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: set.Namespace, Labels: map[string]string{"app": "web"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}, Spec: *set.Spec.Template.Spec.DeepCopy()}
	if c.lot {
		pod.Name, pod.GenerateName = "", set.Name+"-"
	}
	err := c.Client.Create(ctx, pod)
	if apierrors.IsAlreadyExists(err) {
		err = c.Live.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, pod)
		if apierrors.IsNotFound(err) {
			return nil
		}
	}
	if err == nil && !c.lot {
		c.expect.Created(set.UID, pod)
	}
	c.unsure = err != nil
	return err
}

func (c *toy) remove(ctx context.Context, set *appsv1.ReplicaSet, pod *corev1.Pod) error {
	var opts []client.DeleteOption
	if !c.anyUID {
		opts = append(opts, client.Preconditions{UID: &pod.UID})
	}
	err := c.Client.Delete(ctx, pod, opts...)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	if !c.forgets {
		c.expect.Deleted(set.UID, pod)
	}
	return nil
}

func (c *toy) status(ctx context.Context, set *appsv1.ReplicaSet, pods []corev1.Pod) error {
	if set.Status.Replicas == int32(len(pods)) && !c.chatty {
		return nil
	}
	set.Status.Replicas = int32(len(pods))
	return c.Client.Status().Update(ctx, set)
}

func serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func toyKind(t *testing.T, bug func(*toy)) Kind {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	want := func(w *World) int {
		sets := Cached[*appsv1.ReplicaSet](w)
		if len(sets) == 0 {
			return 0
		}
		return int(*sets[0].Spec.Replicas)
	}
	alive := func(_ *World, p *corev1.Pod) bool { return p.DeletionTimestamp == nil }
	return Kind{
		Scheme: scheme,
		New: func(p Process) (reconcile.Reconciler, error) {
			c := &toy{Process: p, expect: expect.New("Toy", p.Clock, time.Minute)}
			bug(c)
			return c, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, &corev1.Pod{})
		},
		For: &appsv1.ReplicaSet{}, Owns: []client.Object{&corev1.Pod{}},
		Actors: Cluster(3),
		Rules: []Rule{
			DeletesByUID(),
			AtMost("never more pods than wanted", alive, want),
			AtLeast[*corev1.Pod]{
				Name: "one pod at a time",
				Good: func(_ *World, p *corev1.Pod) bool { return serves(p) }, Least: func(w *World) int { return want(w) - 1 },
			}.Rule(),
		},
		Summary: func(w *World) string {
			var lines []string
			for _, p := range All[*corev1.Pod](w) {
				lines = append(lines, fmt.Sprintf("%s ready=%t", p.Spec.Containers[0].Image, serves(p)))
			}
			return strings.Join(lines, "\n")
		},
	}
}

func toyScenario() Scenario {
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: setKey.Namespace, Name: setKey.Name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}}},
		},
	}
	change := func(name string, change func(*appsv1.ReplicaSet)) Edit {
		return Edit{Name: name, Do: func(ctx context.Context, w *World) error { return Set(ctx, w, setKey, change) }}
	}
	return Scenario{Name: "toy", Objects: []client.Object{set}, Edits: []Edit{
		change("scale to 4", func(s *appsv1.ReplicaSet) { s.Spec.Replicas = new(int32(4)) }),
		change("a new image", func(s *appsv1.ReplicaSet) { s.Spec.Template.Spec.Containers[0].Image = "app:2" }),
		LoseNode("node-2", nil),
		change("scale to 2", func(s *appsv1.ReplicaSet) { s.Spec.Replicas = new(int32(2)) }),
	}}
}

// tryAll tries random schedules and sweeps, and returns the first failure.
func tryAll(t *testing.T, k Kind, s Scenario, seeds int64) (*Checker, error) {
	t.Helper()
	c, err := NewChecker(t.Context(), k, s)
	if err != nil {
		return nil, err
	}
	for seed := range seeds {
		if err := c.Random(t.Context(), seed+1, AllFaults()); err != nil {
			return c, err
		}
	}
	if failed := c.Sweep(t.Context(), 0, AllFaults()); len(failed) > 0 {
		return c, failed[0]
	}
	return c, nil
}

func TestASoundControllerPasses(t *testing.T) {
	t.Parallel()
	Test(t, toyKind(t, func(*toy) {}), Plan{Sweeps: 2, Seeds: 200}, toyScenario())
}

func TestPlantedBugsAreFound(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		bug  func(*toy)
		says string
	}{
		{"creations are not waited for", func(c *toy) { c.lot = true }, "never more pods than wanted"},
		{"deletions take whatever has the name", func(c *toy) { c.anyUID = true }, "has no UID precondition"},
		{"the budget is counted from old pods", func(c *toy) { c.forgets = true }, "one pod at a time"},
		{"the status is written each time", func(c *toy) { c.chatty = true }, "at rest the controller still wrote: update replicaset/status"},
		{"objects of the cache are changed", func(c *toy) { c.spoils = true }, "changed *v1.Pod"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := tryAll(t, toyKind(t, tt.bug), toyScenario(), 100)
			require.ErrorContains(t, err, tt.says)
			var failure *RunError
			require.ErrorAs(t, err, &failure)
			require.Contains(t, err.Error(), "replay: FLOTILLA_SIM='toy/"+failure.Schedule.String()+"'")
			t.Log(err)
		})
	}
}

func TestAFailureIsShrunkAndReplayed(t *testing.T) {
	t.Parallel()
	k := toyKind(t, func(c *toy) { c.lot = true })
	c, err := NewChecker(t.Context(), k, toyScenario())
	require.NoError(t, err)
	noise := []Fault{{Kind: Duplicate, At: 2}, {Kind: Relist, At: 900}, {Kind: Stale, At: 901, Steps: 3}}
	err = c.Try(t.Context(), Schedule{Seed: 1, Faults: noise})
	var failure *RunError
	require.ErrorAs(t, err, &failure)
	require.Empty(t, failure.Schedule.Faults, "the order of steps alone breaks it")

	sch, err := ParseSchedule(failure.Schedule.String())
	require.NoError(t, err)
	again := Run(t.Context(), k, toyScenario(), sch)
	require.EqualError(t, again.Err, failure.Result.Err.Error())
	require.Equal(t, failure.Result.Story, again.Story)
}

func TestSchedulesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0:", "7:crash-after@5", "42:late-write@3+12,conflict@9,stale@1+25"} {
		sch, err := ParseSchedule(text)
		require.NoError(t, err)
		require.Equal(t, text, sch.String())
	}
	for _, text := range []string{"", "x:", "1:nothing@1", "1:stale@1", "1:conflict@1+2", "1:conflict@x", "1:stale@1+x"} {
		_, err := ParseSchedule(text)
		require.Error(t, err, text)
	}
}

func TestAWorldThatNeverRestsIsFound(t *testing.T) {
	t.Parallel()
	k := toyKind(t, func(*toy) {})
	k.Actors = append(k.Actors, restless{})
	_, err := NewChecker(t.Context(), k, toyScenario())
	require.ErrorContains(t, err, "did not come to rest")
}

func TestAWorldThatStandsStillIsFound(t *testing.T) {
	t.Parallel()
	c, err := NewChecker(t.Context(), toyKind(t, func(c *toy) { c.sleepy = true }), Scenario{Name: "toy", Objects: toyScenario().Objects})
	require.NoError(t, err)
	require.NoError(t, c.Try(t.Context(), Schedule{}))
	c.Limit = time.Minute
	require.ErrorIs(t, c.Try(t.Context(), Schedule{}), ErrStalled)
}

func TestARequestKeepsOnlyItsEarliestTimer(t *testing.T) {
	t.Parallel()
	p := &process{w: &World{clock: clocktesting.NewFakePassiveClock(begin())}}
	web, db := request{Request: reconcile.Request{NamespacedName: setKey}}, request{controller: 1}
	for _, wait := range []time.Duration{time.Hour, time.Minute, 2 * time.Hour} {
		p.addAfter(web, wait)
	}
	p.addAfter(db, time.Hour)
	require.Equal(t, []timer{{begin().Add(time.Minute), web}, {begin().Add(time.Hour), db}}, p.timers)
}

// restless always has a step.
type restless struct{}

func (restless) Steps(*World) []Step {
	return []Step{{Name: "nothing of note", Do: func(context.Context) error { return nil }}}
}

func TestScenariosShareTheSchedulesThatAreAskedFor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		scenarios  int
		want       int
	}{
		{"a few by default", "", 10, few / 10},
		{"as many as are asked for", "500", 20, 25},
		{"each tries one at least", "5", 20, 1},
		{"all", "all", 20, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseShare(tc.text, tc.scenarios)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	for _, text := range []string{"0", "-1", "some"} {
		_, err := parseShare(text, 1)
		require.ErrorContains(t, err, "FLOTILLA_SIM=\""+text+"\": want a number of schedules")
	}
}

// counting is a controller that creates a ConfigMap for each ReplicaSet in its cluster.
type counting struct{ Process }

func (c counting) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	if err := c.Client.Get(ctx, r.NamespacedName, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, client.IgnoreAlreadyExists(c.Client.Create(ctx, config))
}

// Processes crash independently. They see the objects of their own cluster, or of another one that they ask for.
func TestProcessesAndClusters(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	set := func(cluster, name string) client.Object {
		return At(cluster, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	}
	kindOf := func(name, cluster string) Kind {
		return Kind{
			Scheme: scheme, Name: name, Cluster: cluster, For: &appsv1.ReplicaSet{},
			New: func(p Process) (reconcile.Reconciler, error) {
				cached, live := p.In("west")
				for _, r := range []client.Reader{cached, live} {
					sets := &appsv1.ReplicaSetList{}
					if err := r.List(t.Context(), sets); err != nil {
						return nil, err
					}
					require.Len(t, sets.Items, 1)
					require.Equal(t, client.ObjectKey{Namespace: "shop", Name: "db"}, client.ObjectKeyFromObject(&sets.Items[0]))
				}
				return counting{p}, nil
			},
		}
	}
	k := kindOf("first", "")
	k.Others = []Kind{kindOf("second", "west")}
	k.Summary = func(w *World) string {
		var out []string
		for _, c := range All[*corev1.ConfigMap](w) {
			cluster, namespace := Place(c)
			out = append(out, fmt.Sprintf("%q %s/%s", cluster, namespace, c.Name))
		}
		return strings.Join(out, ", ")
	}
	s := Scenario{Objects: []client.Object{set("", "web"), set("west", "db")}}
	r := Run(t.Context(), k, s, Schedule{Faults: []Fault{{Kind: CrashBefore, At: 2}, {Kind: Internal, At: 1}}})
	require.NoError(t, r.Err)
	require.Equal(t, `"" shop/web, "west" shop/db`, r.Summary)
	story := strings.Join(r.Story, "\n")
	require.Contains(t, story, "start of the first: Internal error")
	require.Equal(t, 1, strings.Count(story, "the first restarts"))
	require.Equal(t, 1, strings.Count(story, "the second restarts"))
	require.Len(t, r.WriteLines, 2)
}
