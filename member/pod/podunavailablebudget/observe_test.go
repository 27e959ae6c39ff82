package podunavailablebudget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
)

// scales maps names of objects to the responses of their scale subresources.
type scales map[string]any

// indexed returns a client with these objects and the indexes of the cache.
func indexed(tb testing.TB, scale scales, objects ...client.Object) client.WithWatch {
	tb.Helper()
	owner := func(o client.Object) []string {
		if ref := metav1.GetControllerOf(o); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	}
	b := fake.NewClientBuilder().WithScheme(scheme(tb)).WithObjects(testkit.Copies(objects)...).WithStatusSubresource(&policyv1beta1.PodUnavailableBudget{})
	for _, o := range []client.Object{
		&corev1.Pod{}, &appsv1.ReplicaSet{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1beta1.CloneSet{}, &appsv1beta1.StatefulSet{},
	} {
		b.WithIndex(o, ownership.OwnerIndex, owner)
	}
	return interceptor.NewClient(b.Build(), interceptor.Funcs{
		SubResourceGet: func(_ context.Context, _ client.Client, _ string, o, into client.Object, _ ...client.SubResourceGetOption) error {
			switch owner := scale[o.GetName()].(type) {
			case int:
				into.(*unstructured.Unstructured).Object = map[string]any{"spec": map[string]any{"replicas": int64(owner)}}
				return nil
			case error:
				return owner
			}
			return apierrors.NewNotFound(schema.GroupResource{}, o.GetName())
		},
	})
}

func reconciler(c client.Client, live client.Reader, watched *[]string) *Reconciler {
	clk := clocktesting.NewFakePassiveClock(noon)
	return &Reconciler{
		Controller: controltest.New(c, live, clk, &testkit.Events{}), Watch: func(k schema.GroupVersionKind) { *watched = append(*watched, k.Kind) },
	}
}

// objectOf creates an object that is controlled by another one.
func objectOf[T client.Object](o T, name string, owner schema.GroupVersionKind, by string) T {
	o.SetNamespace(testkit.Namespace)
	o.SetName(name)
	o.SetUID(types.UID("uid-" + name))
	if by != "" {
		controlBy(o, owner, by)
	}
	return o
}

func TestPodsAndTheirTotal(t *testing.T) {
	t.Parallel()
	none := schema.GroupVersionKind{}
	web := objectOf(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(7))}}, "web", none, "")
	set := objectOf(&appsv1.ReplicaSet{}, "web-1", deployment, "web")
	clones := objectOf(&appsv1beta1.CloneSet{Spec: appsv1beta1.CloneSetSpec{Replicas: new(int32(3))}}, "clones", unitedDeployment, "fleet")
	uncounted := clones.DeepCopy()
	uncounted.Annotations = map[string]string{keys.DisableFetchReplicas: "true"}
	huge, hugeToo := clones.DeepCopy(), clones.DeepCopy()
	huge.Spec.Replicas, hugeToo.Spec.Replicas = new(int32(math.MaxInt32)), new(int32(math.MaxInt32))
	hugeToo.Name, hugeToo.UID = "clones2", "uid-clones2"
	fleet := objectOf(&appsv1beta1.UnitedDeployment{}, "fleet", none, "")
	daemons := objectOf(&appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 4}}, "agent", none, "")
	advancedDaemons := objectOf(&appsv1beta1.DaemonSet{Status: appsv1beta1.DaemonSetStatus{DesiredNumberScheduled: 5}}, "agent2", none, "")
	work := objectOf(&batchv1.Job{}, "job", none, "")
	rc := objectOf(&corev1.ReplicationController{}, "rc", none, "")
	controller := corev1.SchemeGroupVersion.WithKind("ReplicationController")
	node := corev1.SchemeGroupVersion.WithKind("Node")
	own := func(kind schema.GroupVersionKind, by string) func(i int) *corev1.Pod {
		return func(i int) *corev1.Pod { return pod(fmt.Sprintf("%s-%d", by, i), controlledBy(kind, by)) }
	}
	deleted := func(d *appsv1.Deployment, finalizer string) client.Object {
		d = d.DeepCopy()
		d.DeletionTimestamp, d.Finalizers = new(metav1.NewTime(noon)), []string{finalizer}
		return d
	}
	two := func(make func(int) *corev1.Pod) []client.Object { return []client.Object{make(0), make(1)} }
	for _, tc := range []struct {
		name     string
		budget   *policyv1beta1.PodUnavailableBudget
		objects  [][]client.Object
		scale    scales
		pods     int
		expected int32
		fault    string
		ends     bool
		watched  []string
	}{
		{name: "a Deployment", budget: budget(0, targeting(deployment, "web")), objects: [][]client.Object{{web, set}, two(own(replicaSet, "web-1"))}, pods: 2, expected: 7},
		{name: "the Deployment's ReplicaSet", budget: budget(0, targeting(replicaSet, "web-1")), objects: [][]client.Object{{web, set}, two(own(replicaSet, "web-1"))}, scale: scales{"web-1": 6}, pods: 2, expected: 6},
		{name: "a UnitedDeployment", budget: budget(0, targeting(unitedDeployment, "fleet")), objects: [][]client.Object{{fleet, clones}, two(own(cloneSet, "clones"))}, scale: scales{"fleet": 9}, pods: 2, expected: 9},
		{name: "a workload whose pods are to be counted", budget: budget(0, targeting(cloneSet, "clones")), objects: [][]client.Object{{uncounted}, two(own(cloneSet, "clones"))}, pods: 2, expected: 2},
		{name: "a DaemonSet", budget: budget(0, targeting(daemonSet, "agent")), objects: [][]client.Object{{daemons}, two(own(daemonSet, "agent"))}, pods: 2, expected: 4, watched: []string{"DaemonSet"}},
		{name: "a DaemonSet of apps.kruise.io", budget: budget(0, targeting(advancedDaemon, "agent2")), objects: [][]client.Object{{advancedDaemons}, two(own(advancedDaemon, "agent2"))}, pods: 2, expected: 5},
		{name: "another kind", budget: budget(0, targeting(controller, "rc")), objects: [][]client.Object{{rc}, two(own(controller, "rc"))}, scale: scales{"rc": 3}, pods: 2, expected: 3, watched: []string{"ReplicationController"}},
		{name: "another kind without a scale", budget: budget(0, targeting(controller, "rc")), objects: [][]client.Object{{rc}, two(own(controller, "rc"))}, pods: 2, fault: "ReplicationController rc has no scale subresource: protect its pods by a selector", watched: []string{"ReplicationController"}},
		{name: "a scale that can't be read", budget: budget(0, targeting(controller, "rc")), objects: [][]client.Object{{rc}, two(own(controller, "rc"))}, scale: scales{"rc": errors.New("boom")}, pods: 2, fault: "boom", watched: []string{"ReplicationController"}},
		{name: "protectTotalReplicas needs no scale", budget: budget(0, targeting(controller, "rc"), func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.ProtectTotalReplicas = new(int32(8)) }), objects: [][]client.Object{{rc}, two(own(controller, "rc"))}, scale: scales{"rc": errors.New("boom")}, pods: 2, watched: []string{"ReplicationController"}},
		{name: "a workload that does not exist", budget: budget(0, targeting(cloneSet, "none")), ends: true},
		{name: "a workload that is deleted after its pods", budget: budget(0, targeting(deployment, "web")), objects: [][]client.Object{{deleted(web, "foregroundDeletion"), set}, two(own(replicaSet, "web-1"))}, ends: true},
		{name: "a deleted workload whose pods are orphaned", budget: budget(0, targeting(deployment, "web")), objects: [][]client.Object{{deleted(web, "orphan"), set}, two(own(replicaSet, "web-1"))}, pods: 2, expected: 7},
		{name: "pods of an orphaning workload by a selector", budget: budget(0), objects: [][]client.Object{{deleted(web, "foregroundDeletion"), set}, two(own(replicaSet, "web-1"))}, pods: 2, expected: 2},
		{
			name: "a selector of pods of several workloads, of a Job, of a node, and without a workload", budget: budget(0), scale: scales{"rc": 3},
			objects: [][]client.Object{
				{web, set, clones, rc, work, pod("alone")},
				two(own(replicaSet, "web-1")), two(own(cloneSet, "clones")), two(own(controller, "rc")), two(own(job, "job")),
				{pod("orphan", controlledBy(cloneSet, "gone")), pod("static", controlledBy(node, "node-1")), objectOf(&corev1.Node{}, "node-1", none, "")},
			},
			pods: 11, expected: 7 + 3 + 3 + 2 + 1 + 1 + 1, watched: []string{"ReplicationController"},
		},
		{
			name: "a selector of pods of workloads that want too many", budget: budget(0), objects: [][]client.Object{{huge, hugeToo}, two(own(cloneSet, "clones")), two(own(cloneSet, "clones2"))},
			pods: 4, expected: math.MaxInt32,
		},
		{
			name: "inactive pods don't count, an ignored one does", budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) {
				b.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}
			}), objects: [][]client.Object{{
				pod("a"), pod("b", labelled("canary", "true")), pod("c", labelled("app", "db")), pod("d", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
				pod("e", func(p *corev1.Pod) { p.Finalizers, p.DeletionTimestamp = []string{"x/y"}, new(metav1.NewTime(noon)) }),
			}}, pods: 2, expected: 2,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := indexed(t, tc.scale, append(slices.Concat(tc.objects...), tc.budget)...)
			var watched []string
			o, err := reconciler(c, c, &watched).observe(t.Context(), client.ObjectKeyFromObject(tc.budget), noon)
			require.NoError(t, err)
			require.Len(t, o.pods, tc.pods)
			require.True(t, o.counts)
			require.Equal(t, tc.ends, o.ends)
			require.Equal(t, tc.watched, watched)
			if tc.fault != "" {
				require.ErrorContains(t, o.fault, tc.fault)
				return
			}
			require.NoError(t, o.fault)
			require.Equal(t, tc.expected, o.expected)
		})
	}
}

// One of five ready pods is ignored. It is one of the workload's replicas, so it counts as available.
func TestIgnoredPodsCountAndAreNotJudged(t *testing.T) {
	t.Parallel()
	b := budget(0, targeting(cloneSet, "web"), func(b *policyv1beta1.PodUnavailableBudget) {
		b.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}
	})
	objects := []client.Object{b, objectOf(&appsv1beta1.CloneSet{Spec: appsv1beta1.CloneSetSpec{Replicas: new(int32(5))}}, "web", schema.GroupVersionKind{}, "")}
	for i := range 4 {
		objects = append(objects, pod(fmt.Sprintf("web-%d", i), controlledBy(cloneSet, "web")))
	}
	canary := pod("web-4", controlledBy(cloneSet, "web"), labelled("canary", "true"))
	for _, tc := range []struct {
		name             string
		canary           *corev1.Pod
		current, allowed int32
	}{
		{name: "ready", canary: canary, current: 5, allowed: 1},
		{name: "not ready", canary: pod("web-4", controlledBy(cloneSet, "web"), labelled("canary", "true"), notReady), current: 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := indexed(t, nil, append(slices.Clone(objects), tc.canary)...)
			_, err := reconciler(c, c, nil).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
			require.NoError(t, err)
			s := getBudget(t, c).Status
			require.Equal(t, [3]int32{5, tc.current, tc.allowed}, [3]int32{s.TotalReplicas, s.CurrentAvailable, s.UnavailableAllowed})
			refusal, err := guardOf(c, c, &testkit.Events{}).Check(t.Context(), podwebhook.Request{Operation: podwebhook.Delete, Old: tc.canary})
			require.NoError(t, err)
			require.Nil(t, refusal)
			require.Equal(t, tc.allowed, getBudget(t, c).Status.UnavailableAllowed, "the request takes no unit")
		})
	}
}

// The cache still shows the old pods.
func TestAGrantWhoseTimeIsOverIsReadFromTheApiserver(t *testing.T) {
	t.Parallel()
	deleting := pod("web-1", func(p *corev1.Pod) { p.Finalizers, p.DeletionTimestamp = []string{"x/y"}, new(metav1.NewTime(noon)) })
	for _, tc := range []struct {
		name  string
		since time.Duration
		live  []client.Object
		// pods is the number of pods that count, and current the number of available ones.
		pods, current int
	}{
		{name: "the pod is gone", since: 25 * time.Second, live: []client.Object{pod("web-0")}, pods: 1, current: 1},
		{name: "the pod is being deleted", since: 25 * time.Second, live: []client.Object{pod("web-0"), deleting}, pods: 1, current: 1},
		{name: "the pod exists and is not ready", since: 25 * time.Second, live: []client.Object{pod("web-0"), pod("web-1", notReady)}, pods: 2, current: 1},
		{name: "the pod is unchanged", since: 25 * time.Second, live: []client.Object{pod("web-0"), pod("web-1")}, pods: 2, current: 2},
		{name: "before the grant expires the cache is used", since: 5 * time.Second, pods: 2, current: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := budget(0, grantedAgo("web-1", tc.since))
			r := reconciler(indexed(t, nil, b, pod("web-0"), pod("web-1")), indexed(t, nil, tc.live...), nil)
			r.begun.Change(b, func(begun *bool) { *begun = true })
			o, err := r.observe(t.Context(), client.ObjectKeyFromObject(b), noon)
			require.NoError(t, err)
			require.Len(t, o.pods, tc.pods)
			require.Equal(t, int32(tc.current), plan(o, noon).current)
		})
	}
}

// The apiserver has shown the pod once, and the grant was dropped. The cache still shows the old pods.
func TestAPodWhoseGrantIsForgottenIsNotCountedByACacheThatIsBehind(t *testing.T) {
	t.Parallel()
	deleting := pod("web-1", func(p *corev1.Pod) { p.Finalizers, p.DeletionTimestamp = []string{"x/y"}, new(metav1.NewTime(noon)) })
	down := pod("web-1", notReady)
	for name, live := range map[string][]client.Object{"the pod is gone": {pod("web-0")}, "the pod is being deleted": {pod("web-0"), deleting}, "the pod is not ready": {pod("web-0"), down}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withUIDs := func(pods ...client.Object) []client.Object {
				for _, p := range pods {
					p.SetUID(types.UID("uid-" + p.GetName()))
					p.SetAnnotations(map[string]string{keys.RelatedPub: "web", keys.RelatedPubOld: "web"}) // This way, no name needs to be written.
				}
				return pods
			}
			b := budget(0, grantedAgo("web-1", 25*time.Second))
			b.UID = "uid-web"
			apiserver := indexed(t, nil, withUIDs(live...)...)
			if changed := live[len(live)-1]; changed.GetName() == "web-1" { // Another version than in the cache.
				changed.SetLabels(map[string]string{"app": "web", "a": "b"})
				require.NoError(t, apiserver.Update(t.Context(), changed))
			}
			c := indexed(t, nil, append(withUIDs(pod("web-0"), pod("web-1")), b)...)
			r := reconciler(c, apiserver, nil)
			r.begun.Change(b, func(begun *bool) { *begun = true })
			for range 3 {
				_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
				require.NoError(t, err)
				require.Empty(t, getBudget(t, c).Status.DisruptedPods)
				require.Equal(t, int32(1), getBudget(t, c).Status.CurrentAvailable)
			}
		})
	}
}

// A previous leader has seen that pods are being deleted, and has dropped their grants. The cache of the new leader is behind.
func TestANewLeaderWaitsUntilItsCacheShowsDeletions(t *testing.T) {
	t.Parallel()
	deleting := pod("web-1", func(p *corev1.Pod) { p.Finalizers, p.DeletionTimestamp = []string{"x/y"}, new(metav1.NewTime(noon)) })
	for name, live := range map[string][]client.Object{"gone": {pod("web-0")}, "being deleted": {pod("web-0"), deleting}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withUIDs := func(pods ...client.Object) []client.Object {
				for _, p := range pods {
					p.SetUID(types.UID("uid-" + p.GetName()))
				}
				return pods
			}
			b := budget(0)
			b.UID = "uid-web"
			c := indexed(t, nil, append(withUIDs(pod("web-0"), pod("web-1")), b)...)
			r := reconciler(c, indexed(t, nil, withUIDs(live...)...), nil)
			before := getBudget(t, c).Status
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
			require.NoError(t, err)
			require.Equal(t, before, getBudget(t, c).Status, "nothing is counted")
			require.NoError(t, c.Delete(t.Context(), pod("web-1")))
			_, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
			require.NoError(t, err)
			require.Equal(t, int32(1), getBudget(t, c).Status.CurrentAvailable)
		})
	}
}

func TestAWorkloadThatMayNotBeReadKeepsAllPods(t *testing.T) {
	t.Parallel()
	game := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}
	b := budget(1, targeting(game, "g"))
	c := interceptor.NewClient(indexed(t, nil, b), interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key.Name == "g" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "daemonsets"}, "g", errors.New("no right"))
			}
			return w.Get(ctx, key, o, opts...)
		},
	})
	r := reconciler(c, c, nil)
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
	require.ErrorContains(t, err, "no right", "the write is retried")
	s := getBudget(t, c).Status
	require.Zero(t, s.UnavailableAllowed)
	require.Equal(t, int32(4), s.DesiredAvailable)
	require.Equal(t, []string{reasonNoPods, reasonNotCounted}, r.Events.(*testkit.Events).Reasons())
}

func daemons(version string, nodes int32) client.Object {
	return &appsv1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Status: appsv1beta1.DaemonSetStatus{DesiredNumberScheduled: nodes}}
}

func metadata(kind schema.GroupVersionKind, version string) client.Object {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
	o.SetGroupVersionKind(kind)
	return o
}

func TestWhichEventsMatter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"no change": {func(*corev1.Pod) {}, false}, "an annotation": {annotated("a", "b"), false}, "the budget's name": {annotated(keys.RelatedPub, "b"), false},
		"both names": {func(p *corev1.Pod) { annotated(keys.RelatedPub, "b")(p); annotated(keys.RelatedPubOld, "b")(p) }, true},
		"a label":    {labelled("a", "b"), true}, "not ready": {notReady, true}, "terminating": {terminating(0, 30), true},
		"another pod": {func(p *corev1.Pod) { p.UID = "other" }, true},
	} {
		changed := pod("web-0")
		tc.change(changed)
		require.Equal(t, tc.want, podChanged(pod("web-0"), changed, noon), name)
	}
	for name, tc := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"the status of a Deployment": {
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"}}, false,
		},
		"the number of nodes of a DaemonSet": {daemons("1", 1), daemons("2", 2), true}, "another status field of a DaemonSet": {daemons("1", 1), daemons("2", 1), false},
		"metadata of a DaemonSet whose status may have changed":  {metadata(daemonSet, "1"), metadata(daemonSet, "2"), true},
		"unchanged metadata of a DaemonSet":                      {metadata(daemonSet, "1"), metadata(daemonSet, "1"), false},
		"metadata of another kind whose status may have changed": {metadata(replicaSet, "1"), metadata(replicaSet, "2"), false},
	} {
		require.Equal(t, tc.want, workloadChanged(tc.before, tc.after), name)
	}
	c := indexed(t, nil, budget(0), func() client.Object {
		b := budget(0, targeting(deployment, "web"))
		b.Name = "ref"
		return b
	}(), objectOf(&appsv1.Deployment{}, "web", schema.GroupVersionKind{}, ""), objectOf(&appsv1.ReplicaSet{}, "web-1", deployment, "web"))
	r := reconciler(c, c, nil)
	names := func(o client.Object) []string {
		var out []string
		for _, req := range r.forWorkload(t.Context(), o) {
			out = append(out, req.Name)
		}
		return out
	}
	require.ElementsMatch(t, []string{"web", "ref"}, names(objectOf(&appsv1.Deployment{}, "web", schema.GroupVersionKind{}, "")))
	require.ElementsMatch(t, []string{"web", "ref"}, names(objectOf(&appsv1.ReplicaSet{}, "web-2", deployment, "web")))
	require.ElementsMatch(t, []string{"web"}, names(objectOf(&appsv1.Deployment{}, "db", schema.GroupVersionKind{}, "")))
	require.Len(t, r.forPod(t.Context(), pod("p", controlledBy(replicaSet, "web-1"))), 2)
	require.Empty(t, r.forPod(t.Context(), &corev1.Node{}))
}
