package uniteddeployment

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/golden"
)

var start = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// web returns an object with 10 replicas and a CloneSet in each of the subsets, as the webhook leaves it.
func web(subsets ...string) *appsv1beta1.UnitedDeployment {
	labels := map[string]string{"app": "web"}
	ud := &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: testkit.Namespace, UID: "uid-web", ResourceVersion: "1", Generation: 2},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: ptr.To[int32](10),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       appsv1beta1.CloneSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pods()},
			}},
		},
	}
	for _, s := range subsets {
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, appsv1beta1.Subset{Name: s})
	}
	united.Default(ud)
	return ud.DeepCopy()
}

func pods() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
}

func asDeployment(ud *appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment {
	c := ud.Spec.Template.CloneSetTemplate
	ud.Spec.Template = appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{
		ObjectMeta: c.ObjectMeta, Spec: appsv1.DeploymentSpec{Selector: c.Spec.Selector, Template: c.Spec.Template},
	}}
	return ud
}

func asStatefulSet(ud *appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment {
	c := ud.Spec.Template.CloneSetTemplate
	ud.Spec.Template = appsv1beta1.SubsetTemplate{StatefulSetTemplate: &appsv1beta1.StatefulSetTemplateSpec{
		ObjectMeta: c.ObjectMeta, Spec: appsv1.StatefulSetSpec{Selector: c.Spec.Selector, Template: c.Spec.Template},
	}}
	return ud
}

func asAdvanced(ud *appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment {
	c := ud.Spec.Template.CloneSetTemplate
	ud.Spec.Template = appsv1beta1.SubsetTemplate{AdvancedStatefulSetTemplate: &appsv1beta1.AdvancedStatefulSetTemplateSpec{
		ObjectMeta: c.ObjectMeta, Spec: appsv1beta1.StatefulSetSpec{
			Selector: c.Spec.Selector, Template: c.Spec.Template, ReserveOrdinals: []intstr.IntOrString{intstr.FromInt32(3)},
		},
	}}
	for i := range ud.Spec.Topology.Subsets {
		first := int32(i) * 100
		ud.Spec.Topology.Subsets[i].Ordinals = &appsv1beta1.SubsetOrdinals{Start: first, End: new(first + 99)}
	}
	return ud
}

// observedOf returns an object with the workloads and the revision of its first reconcile, with all pods ready.
func observedOf(t *testing.T, ud *appsv1beta1.UnitedDeployment) observed {
	t.Helper()
	o := observed{ud: ud}
	o.refreshRevision(t)
	p := plan(o, now)
	require.Nil(t, p.fault)
	o.history = []*appsv1.ControllerRevision{p.revision.Revision}
	for i := range p.subsets {
		s := &p.subsets[i]
		require.NoError(t, s.fault)
		o.add(s.kind, s.create, "web-"+s.name, i)
	}
	ud.Status.CurrentRevision = p.revision.Revision.Name
	ud.Status.UpdatedRevision = p.revision.Revision.Name
	return o
}

// refreshRevision computes the wanted revision after a change of the template.
func (o *observed) refreshRevision(t *testing.T) {
	t.Helper()
	var err error
	o.wanted, err = wantedRevision(o.ud)
	require.NoError(t, err)
}

// add adds a workload, i seconds after the start, with all its pods updated and available.
func (o *observed) add(k kind, w workload, name string, i int) {
	w = w.DeepCopyObject().(workload)
	w.SetName(name)
	w.SetUID(types.UID("uid-" + name))
	w.SetResourceVersion("1")
	w.SetGeneration(1)
	w.SetCreationTimestamp(metav1.NewTime(start.Add(time.Duration(i) * time.Second)))
	switch w := w.(type) {
	case *appsv1beta1.CloneSet:
		n := *w.Spec.Replicas
		w.Status = appsv1beta1.CloneSetStatus{
			ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, UpdatedReplicas: n, UpdatedReadyReplicas: n,
			UpdatedAvailableReplicas: n,
		}
	case *appsv1.Deployment:
		n := *w.Spec.Replicas
		w.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, UpdatedReplicas: n}
	case *appsv1.StatefulSet:
		n := *w.Spec.Replicas
		w.Status = appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, UpdatedReplicas: n}
	case *appsv1beta1.StatefulSet:
		n := *w.Spec.Replicas
		w.Status = appsv1beta1.StatefulSetStatus{
			ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, UpdatedReplicas: n, UpdatedReadyReplicas: n,
			UpdatedAvailableReplicas: n,
		}
	}
	o.children = append(o.children, k.viewOf(w))
}

// planText returns a plan as text, a line for each step.
func planText(p planned) string {
	var b strings.Builder
	if p.fault != nil {
		return fmt.Sprintf("fault %s: %s\n", p.fault.reason, p.fault.message)
	}
	if p.limit != nil {
		fmt.Fprintf(&b, "limit %s: %s\n", p.limit.reason, p.limit.message)
	}
	if p.revision.Change != revision.Keep {
		fmt.Fprintf(&b, "revision %s\n", p.revision.Change)
	}
	for _, c := range p.remove {
		fmt.Fprintf(&b, "delete %s %s: %s, %s\n", c.kind.Kind, c.GetName(), c.reason, c.why)
	}
	for i := range p.subsets {
		s := &p.subsets[i]
		fmt.Fprintf(&b, "subset %s: %d replicas", s.name, s.replicas)
		if s.partition > 0 {
			fmt.Fprintf(&b, ", partition %d", s.partition)
		}
		if s.limit != nil {
			fmt.Fprintf(&b, ", maxUnavailable %d", *s.limit)
		}
		switch {
		case s.fault != nil:
			fmt.Fprintf(&b, "; fault: %v", s.fault)
		case s.create != nil:
			fmt.Fprintf(&b, "; create %s: %s, %s", s.create.GetGenerateName(), s.reason, s.why)
		case s.update != nil:
			fmt.Fprintf(&b, "; update %s: %s, %s", s.update.next.GetName(), s.reason, s.why)
		case s.reason != "":
			fmt.Fprintf(&b, "; wait: %s, %s", s.reason, s.why)
		}
		if s.reserved > 0 {
			fmt.Fprintf(&b, "; %d reserved", s.reserved)
		}
		b.WriteByte('\n')
		for _, pod := range s.room.reserved.mark {
			fmt.Fprintf(&b, "  reserve %s\n", pod.Name)
		}
		for _, pod := range s.room.reserved.release {
			fmt.Fprintf(&b, "  release %s\n", pod.Name)
		}
	}
	for _, pod := range p.stuck {
		fmt.Fprintf(&b, "delete stuck pod %s\n", pod.Name)
	}
	for _, r := range p.surplusRevisions {
		fmt.Fprintf(&b, "drop revision %s\n", r.Name)
	}
	if p.division.Why != "" {
		fmt.Fprintf(&b, "division: %s\n", p.division.Why)
	}
	if p.recheck > 0 {
		fmt.Fprintf(&b, "recheck in %s\n", p.recheck)
	}
	return b.String()
}

func number(s string) *intstr.IntOrString { return new(intstr.Parse(s)) }

// stories returns observed states, named after what is planned for them.
func stories() []struct {
	name string
	make func(*testing.T) observed
} {
	image := func(ud *appsv1beta1.UnitedDeployment, image string) {
		t, _ := united.TemplateOf(&ud.Spec.Template)
		t.Pod.Spec.Containers[0].Image = image
	}
	return []struct {
		name string
		make func(*testing.T) observed
	}{
		{"a new object gets its revision and a workload for each subset", func(t *testing.T) observed {
			t.Helper()
			o := observed{ud: web("a", "b", "c")}
			o.refreshRevision(t)
			return o
		}},
		{"nothing is done when all is as wanted", func(t *testing.T) observed { t.Helper(); return observedOf(t, web("a", "b", "c")) }},
		{"nothing is done when all is as wanted, with Deployments", func(t *testing.T) observed { t.Helper(); return observedOf(t, asDeployment(web("a", "b"))) }},
		{"nothing is done when all is as wanted, with StatefulSets", func(t *testing.T) observed { t.Helper(); return observedOf(t, asStatefulSet(web("a", "b"))) }},
		{"nothing is done when all is as wanted, with StatefulSets of apps.kruise.io", func(t *testing.T) observed {
			t.Helper()
			return observedOf(t, asAdvanced(web("a", "b")))
		}},
		{"a StatefulSet of apps.kruise.io gets its number and partition like a CloneSet", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, asAdvanced(web("a", "b")))
			o.ud.Spec.Replicas = ptr.To[int32](14)
			o.ud.Spec.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{"b": 3}
			return o
		}},
		{"reserved ordinals that a user removes are restored", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, asAdvanced(web("a", "b")))
			o.children[1].workload.(*appsv1beta1.StatefulSet).Spec.ReserveOrdinals = nil
			return o
		}},
		{"a StatefulSet of apps.kruise.io replaces one of apps/v1", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, asStatefulSet(web("a")))
			o.ud.Spec.Template = asAdvanced(web("a")).Spec.Template
			o.refreshRevision(t)
			return o
		}},
		{"a scale changes the numbers that differ", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a", "b", "c"))
			o.ud.Spec.Replicas = ptr.To[int32](11)
			return o
		}},
		{"subsets are filled in their order between minimum and maximum", func(t *testing.T) observed {
			t.Helper()
			ud := web("a", "b")
			ud.Spec.Topology.Subsets[0].MinReplicas, ud.Spec.Topology.Subsets[0].MaxReplicas = number("2"), number("40%")
			o := observed{ud: ud}
			o.refreshRevision(t)
			return o
		}},
		{"numbers that do not add up change nothing", func(t *testing.T) observed {
			t.Helper()
			ud := web("a", "b")
			ud.Spec.Topology.Subsets[0].Replicas, ud.Spec.Topology.Subsets[1].Replicas = number("6"), number("4")
			o := observedOf(t, ud)
			o.ud.Spec.Replicas = ptr.To[int32](12)
			return o
		}},
		{"replicas that no subset may take are reported", func(t *testing.T) observed {
			t.Helper()
			ud := web("a")
			ud.Spec.Topology.Subsets[0].MaxReplicas = number("4")
			o := observed{ud: ud}
			o.refreshRevision(t)
			return o
		}},
		{"a new template goes to each subset with its partition", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a", "b", "c"))
			image(o.ud, "app:2")
			o.ud.Spec.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{"a": 2, "b": 100}
			o.refreshRevision(t)
			return o
		}},
		{"a partition alone is a change of numbers", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a", "b"))
			o.ud.Spec.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{"a": 2}
			return o
		}},
		{"a maxUnavailable alone is a change of numbers", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a", "b"))
			o.ud.Spec.UpdateStrategy.ManualUpdate.MaxUnavailable = map[string]int32{"a": 2, "b": 0}
			return o
		}},
		{"a new template goes to subsets whose update is stopped too, and a new Deployment is not paused", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, asDeployment(web("a")))
			image(o.ud, "app:2")
			o.ud.Spec.Topology.Subsets = append(o.ud.Spec.Topology.Subsets, appsv1beta1.Subset{Name: "b"})
			o.ud.Spec.UpdateStrategy.ManualUpdate.MaxUnavailable = map[string]int32{"a": 0, "b": 0}
			o.refreshRevision(t)
			return o
		}},
		{"a Deployment keeps no pods at the old revision", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, asDeployment(web("a")))
			o.ud.Spec.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{"a": 2}
			return o
		}},
		{"a rollback of the template makes the old revision the newest", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a"))
			newer := o.history[0].DeepCopy()
			newer.Name, newer.Revision, newer.Data.Raw = "web-newer", 2, []byte(`{}`)
			o.history = append(o.history, newer)
			return o
		}},
		{"another patch is written", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a", "b"))
			o.ud.Spec.Topology.Subsets[1].Patch = &runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"tier":"x"}}}`)}
			return o
		}},
		{"a patch that can't be applied stops its own subset only", func(t *testing.T) observed {
			t.Helper()
			ud := web("a", "b")
			ud.Spec.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":"none"}}`)}
			o := observed{ud: ud}
			o.refreshRevision(t)
			return o
		}},
		{"changes of others are reverted", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a", "b"))
			set := o.children[0].workload.(*appsv1beta1.CloneSet)
			set.Spec.Template.Spec.Containers[0].Image = "app:evil"
			delete(set.Spec.Template.Labels, "app")
			return o
		}},
		{"fields that the apiserver or others have added are kept", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a", "b"))
			set := o.children[0].workload.(*appsv1beta1.CloneSet)
			set.Spec.RevisionHistoryLimit = ptr.To[int32](10)
			set.Spec.ScaleStrategy.PodsToDelete = []string{"web-a-x"}
			set.Spec.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
			set.Labels["team"] = "shop"
			return o
		}},
		{"the workload of a removed subset is deleted", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a", "b"))
			o.ud.Spec.Topology.Subsets = o.ud.Spec.Topology.Subsets[:1]
			return o
		}},
		{"the older of two workloads of a subset is kept", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a"))
			o.add(cloneSets(), o.children[0].workload, "web-a-younger", 7)
			slices.Reverse(o.children)
			return o
		}},
		{"a terminating workload is not a duplicate", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a"))
			o.add(cloneSets(), o.children[0].workload, "web-a-younger", 7)
			o.children[0].SetDeletionTimestamp(&metav1.Time{Time: start})
			return o
		}},
		{"a subset whose only workload is terminating waits", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a", "b"))
			o.children[0].SetDeletionTimestamp(&metav1.Time{Time: start})
			return o
		}},
		{"a new kind of workload replaces the previous one", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a", "b"))
			asDeployment(o.ud)
			o.refreshRevision(t)
			return o
		}},
		{"an unsupported setting of the strategy does not stop a scale", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, asStatefulSet(web("a")))
			reserve(o.ud)
			o.ud.Spec.Replicas = ptr.To[int32](20)
			return o
		}},
		{"a pod that the scheduler has just rejected is not moved yet", func(t *testing.T) observed {
			t.Helper()
			return adaptiveOf(t, web("a", "b"), 4, now.Add(-10*time.Second))
		}},
		{"a subset whose pod waits too long closes, and keeps its replicas until that is stored", func(t *testing.T) observed {
			t.Helper()
			return adaptiveOf(t, web("a", "b"), 4, now.Add(-30*time.Second))
		}},
		{"replicas leave a closed subset whose pods wait", func(t *testing.T) observed {
			t.Helper()
			o := adaptiveOf(t, web("a", "b"), 4, now.Add(-30*time.Second))
			storeClosed(o.ud, now.Add(-time.Second))
			return o
		}},
		{"a subset without waiting pods opens after its time", func(t *testing.T) observed {
			t.Helper()
			o := adaptiveOf(t, web("a", "b"), 0, now)
			storeClosed(o.ud, now.Add(-300*time.Second))
			return o
		}},
		{"while a subset is closed, a scale out fills the next one", func(t *testing.T) observed {
			t.Helper()
			o := adaptiveOf(t, web("a", "b"), 0, now)
			storeClosed(o.ud, now.Add(-299*time.Second))
			o.ud.Spec.Replicas = ptr.To[int32](13)
			return o
		}},
		{"pods that wait are reserved when their subset closes", func(t *testing.T) observed {
			t.Helper()
			o := reservingOf(t, 4)
			o.ud.Status = appsv1beta1.UnitedDeploymentStatus{}
			for _, pod := range o.pods[o.children[0].GetUID()] {
				delete(pod.Labels, keys.SubsetReserved)
			}
			return o
		}},
		{"others run in place of reserved pods", func(t *testing.T) observed {
			t.Helper()
			return reservingOf(t, 4)
		}},
		{"reserved pods that have been ready for long enough are released, and count until then", func(t *testing.T) observed {
			t.Helper()
			o := reservingOf(t, 0)
			o.ud.Status.SubsetStatuses[0].ReservedPods = 2
			o.children[1].replicas = 2
			*o.children[1].workload.(*appsv1beta1.CloneSet).Spec.Replicas = 2
			for _, pod := range o.pods[o.children[0].GetUID()][8:] {
				pod.Labels[keys.SubsetReserved] = "true"
				pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-300 * time.Second))
			}
			return o
		}},
		{"an object without a template stops all", func(t *testing.T) observed {
			t.Helper()
			o := observed{ud: web("a")}
			o.ud.Spec.Template = appsv1beta1.SubsetTemplate{}
			o.refreshRevision(t)
			return o
		}},
		{"old revisions beyond the limit are deleted, except those in use", func(t *testing.T) observed {
			t.Helper()
			o := observedOf(t, web("a", "b"))
			o.ud.Spec.RevisionHistoryLimit = ptr.To[int32](1)
			o.ud.Status.CurrentRevision = "web-r2"
			o.children[0].revision = "web-r3"
			own := o.history[0]
			own.Revision = 9
			o.history = nil
			for i, name := range []string{"web-r1", "web-r2", "web-r3", "web-r4", "web-r5"} {
				r := own.DeepCopy()
				r.Name, r.Revision, r.Data.Raw = name, int64(i+1), fmt.Appendf(nil, `{"r":%d}`, i)
				o.history = append(o.history, r)
			}
			o.history = append(o.history, own)
			return o
		}},
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	for _, tt := range stories() {
		o := tt.make(t)
		before := snapshot(o)
		p := plan(o, now)
		text := planText(p)
		require.Equal(t, text, planText(plan(o, now)), "%s: the plan is deterministic", tt.name)
		require.True(t, apiequality.Semantic.DeepEqual(before, snapshot(o)), "%s: the observed objects are not changed", tt.name)
		fmt.Fprintf(&got, "# %s\n%s\n", tt.name, text)
		for set := range o.pods {
			testkit.RequireSamePlan(t, o.pods[set], Registration(nil).Fields.Strip, func(pods []*corev1.Pod) string {
				o.pods[set] = pods
				return planText(plan(o, now))
			})
		}
	}
	golden.Equal(t, "plan", got.String())
}

// snapshot copies all observed objects.
func snapshot(o observed) []runtime.Object {
	out := []runtime.Object{o.ud.DeepCopy(), o.wanted.DeepCopy()}
	for _, c := range o.children {
		out = append(out, c.DeepCopyObject())
	}
	for _, h := range o.history {
		out = append(out, h.DeepCopy())
	}
	return out
}

func TestChildrenGolden(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment{
		"cloneset":    func(ud *appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment { return ud },
		"deployment":  asDeployment,
		"statefulset": asStatefulSet,
		"advanced":    asAdvanced,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ud := web("a")
			ud.Spec.Template.CloneSetTemplate.Annotations = map[string]string{"team": "shop"}
			ud.Spec.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{"a": 3}
			s := &ud.Spec.Topology.Subsets[0]
			s.NodeSelectorTerm = &corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
				MatchFields:      []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}},
			}
			s.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
			s.Patch = &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"app","env":[{"name":"ZONE","value":"a"}]}]}}`)}
			o := observed{ud: make(ud)}
			o.refreshRevision(t)
			text, err := yaml.Marshal(plan(o, now).subsets[0].create)
			require.NoError(t, err)
			golden.Equal(t, name, string(text))
		})
	}
}

func TestNamesOfWorkloads(t *testing.T) {
	t.Parallel()
	ud := web()
	require.Equal(t, "web-a-", cloneSets().prefix(ud, "a"))
	ud.Name = strings.Repeat("w", 245)
	require.Equal(t, ud.Name+"-", cloneSets().prefix(ud, "zone-a-b"), "a prefix that is too long is cut to the object's name")
	for _, name := range []string{"web", "shop.web", strings.Repeat("w", 63), strings.Repeat("w-", 40) + "w", strings.Repeat("w.", 100) + "w"} {
		ud.Name = name
		for _, k := range []kind{statefulSets(), advancedSets()} {
			made := k.prefix(ud, "primary-subset-of-east") + "x7kqp" // As the apiserver completes it.
			require.Empty(t, validation.IsDNS1123Label(made+"-2147483647"), "a pod's host name, and the label with its name")
			require.Empty(t, validation.IsValidLabelValue(made+"-5d4f8c7b9d"), "the name of a revision, which is a label of pods of apps/v1")
		}
	}
	ud.Name = "web"
	require.Equal(t, "web-a-", statefulSets().prefix(ud, "a"))

	require.Equal(t, "web-12345", revisionLabel("web-12345"))
	require.Equal(t, "12345", revisionLabel(strings.Repeat("w", 60)+"-12345"), "a name that is no label is shortened to its hash")
}

func TestRevisionDependsOnTheTemplateAlone(t *testing.T) {
	t.Parallel()
	name := func(change func(*appsv1beta1.UnitedDeployment)) string {
		ud := web("a")
		change(ud)
		r, err := wantedRevision(ud)
		require.NoError(t, err)
		return r.Name
	}
	before := name(func(*appsv1beta1.UnitedDeployment) {})
	require.Equal(t, before, name(func(ud *appsv1beta1.UnitedDeployment) {
		ud.UID, ud.Generation, ud.Annotations = "other", 77, map[string]string{keys.FleetRowUID: "1"}
		ud.Spec.Replicas = ptr.To[int32](3)
		ud.Spec.Topology.Subsets = []appsv1beta1.Subset{{Name: "b", Replicas: number("3")}}
		ud.Spec.RevisionHistoryLimit = nil
		ud.Spec.Selector.MatchLabels["more"] = "x"
		ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{}
	}), "so the slices of one object have one revision in all clusters")
	require.NotEqual(t, before, name(func(ud *appsv1beta1.UnitedDeployment) { ud.Name = "shop" }))
	require.NotEqual(t, before, name(func(ud *appsv1beta1.UnitedDeployment) { ud.Status.CollisionCount = ptr.To[int32](1) }))
	require.NotEqual(t, before, name(func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Template.CloneSetTemplate.Spec.MinReadySeconds = 5
	}))
}

func TestAmendWritesWhatDiffers(t *testing.T) {
	t.Parallel()
	live := func() *appsv1beta1.CloneSet {
		o := observedOf(t, web("a"))
		set := o.children[0].workload.(*appsv1beta1.CloneSet)
		set.Spec.RevisionHistoryLimit = ptr.To[int32](7)
		set.Spec.ScaleStrategy.PodsToDelete = []string{"web-a-x"}
		set.Spec.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
		return set
	}
	want := live()
	want.Spec.RevisionHistoryLimit, want.Spec.ScaleStrategy.PodsToDelete = nil, nil
	want.Spec.Template.Spec.Containers[0].ImagePullPolicy = ""
	want.Spec.Replicas = ptr.To[int32](3)

	e, err := cloneSets().amend(live(), want, false)
	require.NoError(t, err)
	require.Equal(t, []string{"spec.replicas"}, e.paths)
	expected := live()
	expected.Spec.Replicas = ptr.To[int32](3)
	require.Empty(t, cmp.Diff(expected, e.next), "all else is unchanged")

	e, err = cloneSets().amend(live(), want, true)
	require.NoError(t, err)
	expected = live()
	expected.Spec = want.Spec
	expected.Spec.ScaleStrategy.PodsToDelete = []string{"web-a-x"}
	require.Empty(t, cmp.Diff(expected, e.next), "the whole spec is replaced, except podsToDelete")

	e, err = cloneSets().amend(live(), live(), true)
	require.NoError(t, err)
	require.Nil(t, e.next)
}

func TestStuckPods(t *testing.T) {
	t.Parallel()
	waiting := func(reason string) func(*testkit.PodBuilder) {
		return func(b *testkit.PodBuilder) {
			b.Running().NotReady()
			b.Obj().Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
		}
	}
	ready := func(b *testkit.PodBuilder) { b.Ready(start) }
	tests := []struct {
		name    string
		ordinal int
		old     bool
		state   func(*testkit.PodBuilder)
		change  func(*observed)
		limit   *int32
		deleted bool
		recheck bool
	}{
		{name: "an old pod whose image can't be pulled is deleted", ordinal: 4, old: true, state: waiting("ImagePullBackOff"), deleted: true},
		{name: "an old pod that crashes is deleted", ordinal: 4, old: true, state: waiting("CrashLoopBackOff"), deleted: true},
		{name: "an old pod that has failed is deleted", ordinal: 4, old: true, state: func(b *testkit.PodBuilder) { b.Phase(corev1.PodFailed) }, deleted: true},
		{name: "an old pod that is starting is rechecked", ordinal: 4, old: true, state: waiting("ContainerCreating"), recheck: true},
		{name: "an old pod that is ready is left to the StatefulSet", ordinal: 4, old: true, state: ready},
		{name: "a pod at the new revision is left alone", ordinal: 4, state: waiting("ImagePullBackOff")},
		{name: "a pod below the partition is left alone", ordinal: 2, old: true, state: waiting("ImagePullBackOff")},
		{
			name: "ordinals may begin above 0", ordinal: 4, old: true, state: waiting("ImagePullBackOff"),
			change: func(o *observed) {
				o.ud.Spec.Template.StatefulSetTemplate.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 2}
				o.children[0].workload.(*appsv1.StatefulSet).Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 2}
			},
		},
		{
			name: "a pod that is being deleted is left alone", ordinal: 4, old: true, state: waiting("ImagePullBackOff"),
			change: func(o *observed) { o.pods["uid-web-a"][0].DeletionTimestamp = &metav1.Time{Time: start} },
		},
		{
			name: "nothing is deleted before the StatefulSet's controller has observed the new revision", ordinal: 4, old: true, state: waiting("ImagePullBackOff"),
			change: func(o *observed) { o.children[0].observed = 0 },
		},
		{
			name: "nothing is deleted while the update is stopped", ordinal: 4, old: true, state: waiting("ImagePullBackOff"), limit: new(int32(0)),
		},
		{
			name: "an old pod is deleted if pods may be unavailable", ordinal: 4, old: true, state: waiting("ImagePullBackOff"), limit: new(int32(1)),
			deleted: true,
		},
		{
			name: "nothing is deleted with OnDelete", ordinal: 4, old: true, state: waiting("ImagePullBackOff"),
			change: func(o *observed) {
				o.children[0].workload.(*appsv1.StatefulSet).Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ud := asStatefulSet(web("a"))
			ud.Spec.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{"a": 3}
			if tt.limit != nil {
				ud.Spec.UpdateStrategy.ManualUpdate.MaxUnavailable = map[string]int32{"a": *tt.limit}
			}
			o := observedOf(t, ud)
			label := o.ud.Status.UpdatedRevision
			if tt.old {
				label = "web-old"
			}
			b := testkit.Pod(fmt.Sprintf("web-a-%d", tt.ordinal)).Label(keys.SubsetRevision, label)
			tt.state(b)
			o.pods = map[types.UID][]*corev1.Pod{"uid-web-a": {b.Obj()}}
			if tt.change != nil {
				tt.change(&o)
				o.refreshRevision(t)
				label = o.wanted.Name
				o.children[0].GetLabels()[keys.SubsetRevision] = label
				o.children[0].revision = label
				o.history = []*appsv1.ControllerRevision{o.wanted}
			}
			s := target{name: "a", kind: statefulSets(), replicas: 10, partition: 3, limit: tt.limit, child: &o.children[0]}
			stuck, unsure := s.blockingPods(o, o.wanted.Name)
			require.Equal(t, tt.deleted, len(stuck) == 1)
			require.Equal(t, tt.recheck, unsure)
			if tt.change == nil {
				p := plan(o, now)
				require.Equal(t, tt.deleted, len(p.stuck) == 1)
				require.Equal(t, tt.recheck, p.recheck == stuckRecheck)
			}
		})
	}
}
