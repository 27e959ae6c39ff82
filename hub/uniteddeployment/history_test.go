package uniteddeployment

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// templateFrom returns a template of any kind with any values.
func templateFrom(t *rapid.T) appsv1beta1.SubsetTemplate {
	text := rapid.StringMatching(`[a-z<&"é]{1,8}`)
	labels := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,4}`), text, 0, 3).Draw(t, "labels")
	meta := func(what string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Labels: labels}
		if rapid.Bool().Draw(t, what+" has annotations") {
			m.Annotations = map[string]string{"metadata": text.Draw(t, what)}
		}
		if rapid.Bool().Draw(t, what+" has a creationTimestamp") {
			m.CreationTimestamp = metav1.Unix(int64(rapid.IntRange(1, 2e9).Draw(t, what+" time")), 0)
		}
		return m
	}
	volume := corev1.PersistentVolumeClaimTemplate{ObjectMeta: meta("volume")}
	pod := corev1.PodTemplateSpec{
		ObjectMeta: meta("pod"),
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: text.Draw(t, "container"), Args: rapid.SliceOfN(text, 0, 3).Draw(t, "args"), Env: []corev1.EnvVar{{Name: "A", Value: text.Draw(t, "env")}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1500m")}},
			}},
			TerminationGracePeriodSeconds: new(rapid.Int64Range(-1<<53, 1<<53).Draw(t, "grace")),
			Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &volume},
			}}},
		},
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	pvcs := []corev1.PersistentVolumeClaim{{ObjectMeta: meta("pvc")}}
	out := appsv1beta1.SubsetTemplate{}
	switch rapid.SampledFrom([]string{"CloneSet", "Deployment", "StatefulSet", "advanced StatefulSet", "none"}).Draw(t, "kind") {
	case "CloneSet":
		out.CloneSetTemplate = &appsv1beta1.CloneSetTemplateSpec{ObjectMeta: meta("workload"), Spec: appsv1beta1.CloneSetSpec{
			Selector: selector, Template: pod, VolumeClaimTemplates: pvcs,
			UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{Type: appsv1beta1.CloneSetOnDelete},
		}}
	case "Deployment":
		out.DeploymentTemplate = &appsv1beta1.DeploymentTemplateSpec{ObjectMeta: meta("workload"), Spec: appsv1.DeploymentSpec{
			Selector: selector, Template: pod, Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(1))}},
		}}
	case "StatefulSet":
		out.StatefulSetTemplate = &appsv1beta1.StatefulSetTemplateSpec{ObjectMeta: meta("workload"), Spec: appsv1.StatefulSetSpec{
			Selector: selector, Template: pod, VolumeClaimTemplates: pvcs, Ordinals: &appsv1.StatefulSetOrdinals{Start: 3},
		}}
	case "advanced StatefulSet":
		out.AdvancedStatefulSetTemplate = &appsv1beta1.AdvancedStatefulSetTemplateSpec{ObjectMeta: meta("workload"), Spec: appsv1beta1.StatefulSetSpec{
			Selector: selector, Template: pod, VolumeClaimTemplates: pvcs,
		}}
	}
	return out
}

func encode(t require.TestingT, v any) string {
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

func TestARevisionRestoresTheTemplateAndThePatchesOfSubsets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ud := newWorld(1, subsetIn("a", "east", ""), subsetIn("b", "west", ""), subsetIn("c", "west", "")).o.ud
		ud.Spec.Template = templateFrom(t)
		patches := map[string]*runtime.RawExtension{}
		for i := range ud.Spec.Topology.Subsets {
			s := &ud.Spec.Topology.Subsets[i]
			raw := rapid.SampledFrom([]string{"", "null", `{"spec":{"nodeSelector":null}}`, `{"metadata":{"labels":{"a":"<1&2>"}}}`}).Draw(t, "patch")
			if raw != "" {
				s.Patch = &runtime.RawExtension{Raw: []byte(raw)}
			}
			if united.Patch(s) != "" {
				patches[s.Name] = s.Patch
			}
		}
		rev, err := revisionOf(ud)
		require.NoError(t, err)
		template, got, err := contentOf(rev)
		require.NoError(t, err)
		require.Equal(t, encode(t, ud.Spec.Template), encode(t, template))
		require.Equal(t, encode(t, patches), encode(t, got))

		ud.Spec.Template = template
		for i := range ud.Spec.Topology.Subsets {
			ud.Spec.Topology.Subsets[i].Patch = got[ud.Spec.Topology.Subsets[i].Name]
		}
		again, err := revisionOf(ud)
		require.NoError(t, err)
		require.Equal(t, rev, again, "what is restored has the same revision")
	})
}

func TestTheNameOfARevisionDependsOnTheTemplateAndThePatches(t *testing.T) {
	t.Parallel()
	named := func(change func(*appsv1beta1.UnitedDeployment)) string {
		ud := newWorld(3, subsetIn("a", "east", ""), subsetIn("b", "west", "")).o.ud
		ud.Spec.Template.DeploymentTemplate = deploymentTemplate(map[string]string{"app": "web"})
		change(ud)
		r, err := revisionOf(ud)
		require.NoError(t, err)
		require.Equal(t, ud.Name+"-"+r.Labels[keys.RevisionHash], r.Name)
		require.True(t, metav1.IsControlledBy(r, ud))
		return r.Name
	}
	patched := func(a, b string) func(*appsv1beta1.UnitedDeployment) {
		return func(ud *appsv1beta1.UnitedDeployment) {
			for i, raw := range []string{a, b} {
				if raw != "" {
					ud.Spec.Topology.Subsets[i].Patch = &runtime.RawExtension{Raw: []byte(raw)}
				}
			}
		}
	}
	const one, two = `{"metadata":{"labels":{"x":"1"}}}`, `{"metadata":{"labels":{"x":"2"}}}`
	before := named(func(*appsv1beta1.UnitedDeployment) {})
	require.Equal(t, before, named(func(ud *appsv1beta1.UnitedDeployment) {
		data, err := united.RevisionData(&ud.Spec.Template)
		require.NoError(t, err)
		require.Equal(t, before, united.Revision(ud, data).Name, "a member names the revision of a slice like that")
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, subsetIn("c", "south", "20%"))
		ud.Spec.Replicas = ptr.To[int32](7)
		ud.UID, ud.Generation = "other", 77
	}), "without patches, subsets and numbers don't matter")
	require.Equal(t, before, named(patched("null", "")), "null is no patch")
	names := map[string]bool{before: true}
	for _, change := range []func(*appsv1beta1.UnitedDeployment){
		patched(one, ""), patched("", one), patched(two, ""), patched(one, two), patched(two, one),
		func(ud *appsv1beta1.UnitedDeployment) { ud.Status.CollisionCount = ptr.To[int32](1) },
		func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Template.DeploymentTemplate.Spec.Paused = true },
	} {
		name := named(change)
		require.NotContains(t, names, name)
		names[name] = true
	}
	require.Equal(t, named(patched("", one)), named(func(ud *appsv1beta1.UnitedDeployment) {
		patched("", one)(ud)
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, subsetIn("c", "south", ""))
	}), "a subset without a patch doesn't matter")
}

// Data of another client, such as a restored backup, may have a form that this version doesn't write.
func TestARevisionWithoutATemplateIsAnError(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `{`, `{}`, `{"spec":{}}`, `{"spec":{"template":[]}}`} {
		_, _, err := contentOf(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, Data: runtime.RawExtension{Raw: []byte(raw)}})
		require.ErrorContains(t, err, "web-1", "data %q", raw)
	}
	ud := newWorld(1, subsetIn("a", "east", "")).o.ud
	ud.Spec.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{`)}
	_, err := revisionOf(ud)
	require.ErrorContains(t, err, "marshal revision")
}

// revisions returns the object's revisions in the apiserver, oldest first.
func (b *fixture) revisions(tb testing.TB, ud *appsv1beta1.UnitedDeployment) []*appsv1.ControllerRevision {
	tb.Helper()
	all, err := revision.List(tb.Context(), b.Client, ud, ownership.OwnedBy(ud, true)...)
	require.NoError(tb, err)
	return all
}

// change changes the template of an object to one with that number of seconds, and reconciles the object.
func (b *fixture) change(tb testing.TB, ud *appsv1beta1.UnitedDeployment, n int32) *appsv1beta1.UnitedDeployment {
	tb.Helper()
	template := deploymentTemplate(map[string]string{"app": "web"})
	template.Spec.MinReadySeconds = n
	ud.Generation++
	ud.Spec.Template.DeploymentTemplate = template
	require.NoError(tb, b.Update(tb.Context(), ud))
	ud, _ = b.reconcile(tb, ud)
	return ud
}

func TestAnObjectHasARevisionForEachTemplate(t *testing.T) {
	t.Parallel()
	all, uds := hub(1)
	b := newFixture(t, all...)
	ud := b.change(t, uds[0], 1)
	ud = b.change(t, ud, 2)
	history := b.revisions(t, ud)
	require.Len(t, history, 2)
	require.Equal(t, []int64{1, 2}, []int64{history[0].Revision, history[1].Revision})
	require.Equal(t, history[1].Name, ud.Status.UpdatedRevision)
	owner := metav1.GetControllerOf(history[0])
	require.Equal(t, "apps.kruise.io/v1beta1 UnitedDeployment web-0", owner.APIVersion+" "+owner.Kind+" "+owner.Name)
	require.Nil(t, owner.BlockOwnerDeletion, "the hub may not set it")

	first := history[0].Name
	ud = b.change(t, ud, 1)
	history = b.revisions(t, ud)
	require.Len(t, history, 2, "the template that is restored has a revision already")
	require.Equal(t, first, history[1].Name)
	require.Equal(t, int64(3), history[1].Revision)
	require.Equal(t, first, ud.Status.UpdatedRevision)

	ud.Spec.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"tier":"web"}}}`)}
	ud = b.change(t, ud, 1)
	history = b.revisions(t, ud)
	require.Len(t, history, 3, "a patch is part of a revision")
	require.Equal(t, history[2].Name, ud.Status.UpdatedRevision)

	_, writes := b.reconcile(t, ud)
	require.Zero(t, writes)
	require.NoError(t, b.Delete(t.Context(), ud))
	ud, _ = b.reconcile(t, ud)
	require.Len(t, b.revisions(t, ud), 3, "the garbage collector deletes them with the object")
}

// I9: an upgrade of the hub changes nothing in the members.
func TestAnObjectOfAnOlderHubGetsItsRevisionAndNoOtherWrite(t *testing.T) {
	t.Parallel()
	all, uds := hub(1)
	b := newFixture(t, all...)
	ud := b.change(t, uds[0], 1)
	require.NoError(t, b.DeleteAllOf(t.Context(), &appsv1.ControllerRevision{}, client.InNamespace(ud.Namespace)))
	_, writes := b.reconcile(t, ud)
	require.Equal(t, 1, writes)
	require.Equal(t, []string{"create"}, b.Verbs)
	require.Len(t, b.revisions(t, ud), 1)
}

func TestNoRowIsWrittenWithoutItsRevision(t *testing.T) {
	t.Parallel()
	all, uds := hub(1)
	uds[0].Finalizers = nil
	b := newFixture(t, all...)
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(uds[0])}
	b.Fail = func(_ string, o client.Object) error {
		if _, ok := o.(*appsv1.ControllerRevision); ok {
			return errors.New("quota exceeded")
		}
		return nil
	}
	_, err := b.Reconcile(t.Context(), request)
	require.ErrorContains(t, err, "quota exceeded")
	require.Equal(t, []string{"create", "patch status"}, b.Verbs, "neither a row nor the finalizer")
	ud := &appsv1beta1.UnitedDeployment{}
	require.NoError(t, b.Get(t.Context(), request.NamespacedName, ud))
	failure := find(ud.Status.Conditions, appsv1beta1.SubsetFailure)
	require.Equal(t, "Error", failure.Reason)
	require.Contains(t, failure.Message, "quota exceeded")
	require.Empty(t, ud.Status.UpdatedRevision, "there is no such revision")
	require.Zero(t, ud.Status.ObservedGeneration)

	b.Fail = nil
	for range 3 {
		ud, _ = b.reconcile(t, ud)
	}
	require.Equal(t, b.revisions(t, ud)[0].Name, ud.Status.UpdatedRevision)
	require.Equal(t, corev1.ConditionFalse, find(ud.Status.Conditions, appsv1beta1.SubsetFailure).Status)
	require.Equal(t, int64(1), ud.Status.ObservedGeneration)
}

func TestATemplateWhoseNameIsTakenGetsAnotherName(t *testing.T) {
	t.Parallel()
	all, uds := hub(1)
	taken, err := revisionOf(uds[0])
	require.NoError(t, err)
	taken.Data.Raw = []byte(`{"spec":{"template":{}}}`)
	taken.OwnerReferences = nil
	b := newFixture(t, append(all, taken)...)
	_, err = b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(uds[0])})
	require.NoError(t, err, "this is no failure")
	require.Equal(t, []string{"create", "patch status"}, b.Verbs)
	ud, writes := b.reconcile(t, uds[0])
	require.Equal(t, 4, writes, "a revision, a content, a row and the status")
	require.Equal(t, int32(1), *ud.Status.CollisionCount)
	require.Empty(t, find(ud.Status.Conditions, appsv1beta1.SubsetFailure).Message)
	history := b.revisions(t, ud)
	require.Len(t, history, 1)
	require.NotEqual(t, taken.Name, history[0].Name)
	require.Equal(t, history[0].Name, ud.Status.UpdatedRevision)
}

func TestTheRevisionOfAnEarlierObjectIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*appsv1.ControllerRevision){
		"a hub without a garbage collector":                func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].UID = "earlier" },
		"an object that was deleted with --cascade=orphan": func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, uds := hub(1)
			left, err := revisionOf(uds[0])
			require.NoError(t, err)
			left.Labels[keys.FleetSourceUID], left.UID = "earlier", "left"
			change(left)
			b := newFixture(t, append(all, left)...)
			ud, _ := b.reconcile(t, uds[0])
			history := b.revisions(t, ud)
			require.Len(t, history, 1)
			require.Equal(t, left.UID, history[0].UID)
			require.Equal(t, string(ud.UID), history[0].Labels[keys.FleetSourceUID])
			require.Len(t, ud.Status.SubsetStatuses, 1)
			_, writes := b.reconcile(t, ud)
			require.Zero(t, writes)
		})
	}
}

func TestARevisionThatHasChangedIsReadAgain(t *testing.T) {
	t.Parallel()
	all, uds := hub(1)
	b := newFixture(t, all...)
	ud := b.change(t, b.change(t, uds[0], 1), 2)
	b.Fail = func(verb string, o client.Object) error {
		if _, ok := o.(*appsv1.ControllerRevision); ok && verb == "patch" {
			return apierrors.NewConflict(appsv1.Resource("controllerrevisions"), o.GetName(), errors.New("the object has been modified"))
		}
		return nil
	}
	ud.Spec.Template.DeploymentTemplate.Spec.MinReadySeconds = 1
	require.NoError(t, b.Update(t.Context(), ud))
	b.Verbs = nil
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(ud)})
	require.NoError(t, err)
	require.Equal(t, time.Second, result.RequeueAfter)
	require.Equal(t, []string{"patch"}, b.Verbs, "neither a row nor a status")
}

func TestSurplusRevisionsAreDeletedButNotThoseInUse(t *testing.T) {
	t.Parallel()
	all, uds := hub(1)
	uds[0].Spec.RevisionHistoryLimit = ptr.To[int32](1)
	b := newFixture(t, all...)
	ud := b.change(t, uds[0], 1)
	first := b.revisions(t, ud)[0].Name
	rows := &fleetv1alpha1.MemberWorkList{}
	require.NoError(t, b.List(t.Context(), rows))
	require.Len(t, rows.Items, 1)

	o := &observed{ud: ud.DeepCopy(), Fleet: placement.Fleet{Rows: map[string]*fleetv1alpha1.MemberWork{"east": &rows.Items[0]}}}
	o.ud.Status.CurrentRevision = "web-0-c"
	rows.Items[0].Spec.Grant.Revision = "web-0-b"
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		o.history = append(o.history, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-0-" + name}, Revision: int64(i)})
	}
	named := func(update string, wants ...string) []string {
		p := planned{revision: revision.Step{Revision: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: update}}}}
		for _, name := range wants {
			p.Wants = append(p.Wants, row.Want{Grant: fleetv1alpha1.WorkGrant{Revision: name}})
		}
		var out []string
		for _, r := range p.findSurplus(o) {
			out = append(out, r.Name)
		}
		return out
	}
	require.Equal(t, []string{"web-0-a"}, named("web-0-e"), "one of a and d is kept")
	require.Empty(t, named("web-0-e", "web-0-a"), "a row will name it")
	require.Equal(t, []string{"web-0-a", "web-0-d"}, named("web-0-f"))
	o.Rows, o.Doubles = nil, []*fleetv1alpha1.MemberWork{{}}
	require.Equal(t, []string{"web-0-a", "web-0-b"}, named("web-0-e"))
	o.ud.Spec.RevisionHistoryLimit = nil
	require.Empty(t, named("web-0-e"))

	for n := range int32(4) {
		ud = b.change(t, ud, n+2)
	}
	ud, _ = b.reconcile(t, ud) // The event of the last revision.
	history := b.revisions(t, ud)
	require.Len(t, history, 2, "the newest, and one that is not used")
	require.Equal(t, int64(4), history[0].Revision)
	require.NotEqual(t, first, history[0].Name)
	_, writes := b.reconcile(t, ud)
	require.Zero(t, writes)
}

func TestObjectsThatTheHubDoesNotRunHaveNoRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(6, subsetIn("a", "", ""))
	require.Nil(t, plan(w.o).revision.Revision, "no subset names a cluster")
	w.o.localMember = true
	require.Nil(t, plan(w.o).revision.Revision)
	w = newWorld(6, subsetIn("a", "east", ""))
	require.NotNil(t, plan(w.o).revision.Revision)
	w.o.ud.Finalizers = nil
	w.o.ud.Status.SubsetStatuses = []appsv1beta1.SubsetStatus{{Name: "a"}}
	require.Nil(t, plan(w.o).revision.Revision, "a member stack here runs it")
	w.o.ud.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
	require.Nil(t, plan(w.o).revision.Revision)
}
