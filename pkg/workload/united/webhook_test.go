package united

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/feature"
)

// hook returns a webhook whose API server defaults a template's restart policy, rejects an image, a zone and a toleration, and counts requests.
func hook(t *testing.T) (*Webhook, *int) {
	t.Helper()
	asked := 0
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			asked++
			p := o.(*corev1.PodTemplate)
			require.Equal(t, "shop", p.Namespace)
			spec, path := &p.Template.Spec, field.NewPath("template", "spec")
			var faults field.ErrorList
			switch spec.Containers[0].Image {
			case "bad":
				faults = append(faults, field.Invalid(path.Child("containers").Index(0).Child("image"), "bad", "is bad"))
			case "down":
				return errors.New("connection refused")
			}
			if a := spec.Affinity; a != nil {
				terms := path.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
				for i, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
					if term.MatchExpressions[0].Key == "bad" {
						faults = append(faults, field.Invalid(terms.Index(i).Child("matchExpressions").Index(0).Child("key"), "bad", "is bad"))
					}
				}
			}
			for i := range spec.Tolerations {
				if spec.Tolerations[i].Key == "bad" {
					faults = append(faults, field.Invalid(path.Child("tolerations").Index(i).Child("key"), "bad", "is bad"))
				}
			}
			if len(faults) > 0 {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "", faults)
			}
			if spec.RestartPolicy == "" {
				spec.RestartPolicy = corev1.RestartPolicyAlways
			}
			return nil
		},
	})
	return &Webhook{Client: c}, &asked
}

// request is the context of an admission request; old is nil on creation.
func request(t *testing.T, old *object) context.Context {
	t.Helper()
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "shop"}}
	if old != nil {
		text, err := json.Marshal(old)
		require.NoError(t, err)
		req.OldObject = runtime.RawExtension{Raw: text}
	}
	return admission.NewContextWithRequest(t.Context(), req)
}

func TestWebhookDefaultsTemplates(t *testing.T) {
	t.Parallel()
	claims := func(ud *object) {
		ud.Spec.Template.StatefulSetTemplate.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{}}
	}
	tests := []struct {
		name   string
		ud     func() *object
		update bool // of an identical object
		keep   bool
		asked  int
		done   bool // the template is defaulted
	}{
		{name: "a new StatefulSet template is completed", ud: stateful, asked: 1, done: true},
		{name: "an unchanged template is left as it is", ud: stateful, update: true},
		{name: "a template with the gate is left as it is", ud: stateful, keep: true},
		{name: "a slice is left as the hub sent it", ud: func() *object {
			ud := stateful()
			ud.Annotations = map[string]string{keys.FleetRowUID: "1"}
			return ud
		}},
		{name: "a CloneSet template is left to CloneSet's own webhook", ud: web},
		{name: "a Deployment template is left to the API server", ud: deployment},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, asked := hook(t)
			w.KeepTemplates = tt.keep
			ud := tt.ud()
			if ud.Spec.Template.StatefulSetTemplate != nil {
				claims(ud)
			}
			var old *object
			if tt.update {
				full := corev1.PersistentVolumeFilesystem
				ud.Spec.Template.StatefulSetTemplate.Spec.VolumeClaimTemplates[0].Spec.VolumeMode = &full
				old = ud.DeepCopy()
			}
			require.NoError(t, w.Default(request(t, old), ud))
			require.Equal(t, tt.asked, *asked)
			require.Equal(t, ptr.To[int32](10), ud.Spec.RevisionHistoryLimit)
			member, _ := TemplateOf(&ud.Spec.Template)
			require.Equal(t, tt.done, member.Pod.Spec.RestartPolicy == corev1.RestartPolicyAlways)
			if tt.done {
				require.NotNil(t, member.PVCs[0].Spec.VolumeMode)
			}
		})
	}
}

// TestWebhookRejectsInvalidNumbersBeforeTheSchemaDoes: the schema rejects these too, between the two webhooks, but its message only shows a
// pattern.
func TestWebhookRejectsInvalidNumbersBeforeTheSchemaDoes(t *testing.T) {
	t.Parallel()
	const way = `must be a number, 0 or more, or a whole percentage from "0%" to "100%"`
	tests := []struct {
		name   string
		change func(*object, *intstr.IntOrString)
		field  string
	}{
		{"replicas", func(ud *object, n *intstr.IntOrString) { ud.Spec.Topology.Subsets[1].Replicas = n }, "spec.topology.subsets[1].replicas"},
		{"minReplicas", func(ud *object, n *intstr.IntOrString) { ud.Spec.Topology.Subsets[0].MinReplicas = n }, "spec.topology.subsets[0].minReplicas"},
		{"maxReplicas", func(ud *object, n *intstr.IntOrString) { ud.Spec.Topology.Subsets[0].MaxReplicas = n }, "spec.topology.subsets[0].maxReplicas"},
		{"maxSurge", func(ud *object, n *intstr.IntOrString) {
			ud.Spec.Topology.Placement = &pods.Placement{Reallocation: &pods.Reallocation{MaxSurge: n}}
		}, "spec.topology.placement.reallocation.maxSurge"},
		{"maxUnavailable", func(ud *object, n *intstr.IntOrString) {
			ud.Spec.Topology.Placement = &pods.Placement{Reallocation: &pods.Reallocation{MaxUnavailable: n}}
		}, "spec.topology.placement.reallocation.maxUnavailable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := hook(t)
			for _, n := range []intstr.IntOrString{intstr.FromString("101%"), intstr.FromString("half"), intstr.FromInt32(-1)} {
				ud := web()
				tt.change(ud, &n)
				err := w.Default(request(t, nil), ud)
				require.True(t, apierrors.IsInvalid(err), "%s: %v", n.String(), err)
				require.ErrorContains(t, err, tt.field)
				require.ErrorContains(t, err, way)
				require.Error(t, w.Default(request(t, web()), ud), "nor may an update")
				require.NoError(t, w.Default(request(t, ud), ud), "a stored fault doesn't block other changes")
			}
			ud, n := web(), intstr.FromString("100%")
			tt.change(ud, &n)
			require.NoError(t, w.Default(request(t, nil), ud))
		})
	}
}

func TestWebhookRejects(t *testing.T) {
	t.Parallel()
	image := func(image string) func(*object) {
		return func(ud *object) { ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = image }
	}
	patch := subsets(part{Name: "a", Patch: raw(`{"spec": {"containers": [{"name": "app", "image": "bad"}]}}`)})
	exists := func(keys ...string) []corev1.Toleration {
		var out []corev1.Toleration
		for _, key := range keys {
			out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
		return out
	}
	place := subsets(
		part{Name: "a", NodeSelectorTerm: new(term("zone", "x")), Tolerations: exists("spot")},
		part{Name: "b", NodeSelectorTerm: &corev1.NodeSelectorTerm{}, Tolerations: exists("spot", "bad")},
		part{Name: "c", NodeSelectorTerm: new(term("bad", "x")), Tolerations: exists("bad")},
	)
	tests := []struct {
		name   string
		change func(*object)
		want   []string // empty: accepted
	}{
		{"a valid object is accepted", func(*object) {}, nil},
		{"an object that the rules reject", func(ud *object) { ud.Spec.Replicas = ptr.To[int32](-1) }, []string{"spec.replicas"}},
		{"pods that the API server rejects", image("bad"), []string{"spec.template.cloneSetTemplate.spec.template.spec.containers[0].image"}},
		{"a patch that makes pods invalid", patch, []string{"spec.topology.subsets[0].patch.spec.containers[0].image"}},
		{"a node selector that the API server rejects", place, []string{
			"spec.topology.subsets[2].nodeSelectorTerm.matchExpressions[0].key", "spec.topology.subsets[1].tolerations[1].key",
			"spec.topology.subsets[2].tolerations[0].key",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := hook(t)
			check := func(err error) {
				if len(tt.want) == 0 {
					require.NoError(t, err)
					return
				}
				require.True(t, apierrors.IsInvalid(err), "%v", err)
				for _, path := range tt.want {
					require.ErrorContains(t, err, path)
				}
			}
			ud := web()
			tt.change(ud)
			_, err := w.ValidateCreate(request(t, nil), ud)
			check(err)
			old := web()
			old.Spec.Topology.Subsets = []part{{Name: "old"}}
			_, err = w.ValidateUpdate(request(t, old), old, ud)
			check(err)
		})
	}
}

func TestWebhookValidatesOnlyNewTemplates(t *testing.T) {
	t.Parallel()
	old := web()
	subsets(
		part{Name: "a", NodeSelectorTerm: new(term("zone", "a")), Patch: raw(`{"metadata": {"labels": {"tier": "x"}}}`)},
		part{Name: "b"},
	)(old)
	tests := []struct {
		name   string
		change func(*object)
		asked  int
	}{
		{"nothing changed", func(*object) {}, 0},
		{"a scale", func(ud *object) { ud.Spec.Replicas = ptr.To[int32](20) }, 0},
		{"another patch", func(ud *object) { ud.Spec.Topology.Subsets[0].Patch = raw(`{"metadata": {"labels": {"tier": "y"}}}`) }, 1},
		{"another template, and the patch on it", func(ud *object) {
			ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
		}, 2},
		{"a new subset with a node selector", func(ud *object) {
			ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, part{Name: "c", NodeSelectorTerm: new(term("zone", "c"))})
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, asked := hook(t)
			ud := old.DeepCopy()
			tt.change(ud)
			_, err := w.ValidateUpdate(request(t, old), old, ud)
			require.NoError(t, err)
			require.Equal(t, tt.asked, *asked)
		})
	}
}

// TestDryRunsOfARequest: here one process serves both webhooks of a request. With two processes, a template change is still dry-run only once.
func TestDryRunsOfARequest(t *testing.T) {
	t.Parallel()
	placed := subsets(
		part{Name: "a", NodeSelectorTerm: new(term("zone", "a")), Tolerations: []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}},
		part{Name: "b", NodeSelectorTerm: new(term("zone", "b"))},
	)
	patched := func(a, b string) func(*object) {
		return func(ud *object) {
			ud.Spec.Topology.Subsets = slices.Clone(ud.Spec.Topology.Subsets)
			for i, tier := range []string{a, b} {
				ud.Spec.Topology.Subsets[i].Patch = raw(`{"metadata": {"labels": {"tier": "` + tier + `"}}}`)
			}
		}
	}
	pod := func(change func(*corev1.PodTemplateSpec)) func(*object) {
		return func(ud *object) {
			m, _ := TemplateOf(&ud.Spec.Template)
			change(m.Pod)
		}
	}
	image := pod(func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "app:2" })
	two := subsets(part{Name: "a"}, part{Name: "b"})
	for _, tt := range []struct {
		name      string
		base      func() *object
		from, to  func(*object) // a nil from means creation
		asked     int
		mutations int // of them, in the mutating webhook
	}{
		{"a new Deployment", deployment, nil, two, 1, 0},
		{"a new CloneSet", web, nil, two, 1, 0},
		{"a new StatefulSet with defaults", stateful, nil, two, 1, 1},
		{"the node selectors of all subsets are validated together", deployment, nil, placed, 2, 0},
		{"each patch makes other pods", deployment, nil, all(placed, patched("x", "y")), 4, 0},
		{"unless they are equal", deployment, nil, all(placed, patched("x", "x")), 3, 0},
		{"a scale", deployment, two, all(two, func(ud *object) { ud.Spec.Replicas = ptr.To[int32](20) }), 0, 0},
		{
			"scaling patched subsets with node selectors", deployment, all(placed, patched("x", "y")),
			all(placed, patched("x", "y"), func(ud *object) { ud.Spec.Replicas = ptr.To[int32](20) }), 0, 0,
		},
		{"a label", deployment, two, all(two, func(ud *object) { ud.Labels = map[string]string{"team": "shop"} }), 0, 0},
		{"another strategy", web, two, all(two, func(ud *object) {
			ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.Type = appsv1beta1.CloneSetOnDelete
		}), 0, 0},
		{"another image of a Deployment", deployment, two, all(two, image), 1, 0},
		{"another image of a CloneSet", web, two, all(two, image), 1, 0},
		{"an annotation of the pods", deployment, two, all(two, pod(func(p *corev1.PodTemplateSpec) {
			p.Annotations = map[string]string{"restarted": "now"}
		})), 1, 0},
		{"an added field, which the stored template may have as a default", deployment, two, all(two, pod(func(p *corev1.PodTemplateSpec) {
			p.Spec.PriorityClassName = "high"
		})), 2, 2},
		{"another image of a StatefulSet, whose defaults may differ", stateful, two, all(two, image), 2, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, asked := hook(t)
			var old *object
			if tt.from != nil {
				old = tt.base()
				tt.from(old)
				require.NoError(t, w.Default(request(t, nil), old))
				w, asked = hook(t) // It was stored long ago.
			}
			updated := tt.base()
			tt.to(updated)
			require.NoError(t, w.Default(request(t, old), updated))
			require.Equal(t, tt.mutations, *asked)
			var err error
			if old == nil {
				_, err = w.ValidateCreate(request(t, nil), updated)
			} else {
				_, err = w.ValidateUpdate(request(t, old), old, updated)
			}
			require.NoError(t, err)
			require.Equal(t, tt.asked, *asked)
		})
	}
}

// TestWebhookKeepsTheStoredFormOfAnUpdateStrategy: a v1alpha1 manifest is stored with fields that a v1beta1 manifest leaves out. A different
// form would be a different revision, which updates every pod.
func TestWebhookKeepsTheStoredFormOfAnUpdateStrategy(t *testing.T) {
	t.Parallel()
	type strategy = appsv1beta1.CloneSetUpdateStrategy
	rolling := func(policy appsv1beta1.PodUpdatePolicy) *appsv1beta1.CloneSetRollingUpdateStrategy {
		return &appsv1beta1.CloneSetRollingUpdateStrategy{PodUpdatePolicy: policy}
	}
	tests := []struct {
		name          string
		stored, given strategy
		kept          bool
	}{
		{"no type", strategy{Type: "RollingUpdate", RollingUpdate: rolling("InPlaceIfPossible")}, strategy{RollingUpdate: rolling("InPlaceIfPossible")}, true},
		{"no strategy", strategy{Type: "RollingUpdate", RollingUpdate: rolling("ReCreate")}, strategy{}, true},
		{"the defaults", strategy{}, strategy{Type: "RollingUpdate", RollingUpdate: rolling("ReCreate")}, true},
		{"another policy", strategy{Type: "RollingUpdate", RollingUpdate: rolling("ReCreate")}, strategy{RollingUpdate: rolling("InPlaceOnly")}, false},
		{"another type", strategy{Type: "RollingUpdate", RollingUpdate: rolling("ReCreate")}, strategy{Type: "OnDelete"}, false},
		{"OnDelete", strategy{Type: "OnDelete"}, strategy{Type: "OnDelete", RollingUpdate: rolling("ReCreate")}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := hook(t)
			old, ud := web(), web()
			old.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy = *tt.stored.DeepCopy()
			ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy = *tt.given.DeepCopy()
			require.NoError(t, w.Default(request(t, old), ud))
			want := tt.given
			if tt.kept {
				want = tt.stored
			}
			require.Equal(t, want, ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy)
		})
	}
}

func TestWebhookKeepsTheStoredFormOfTemplates(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]func() *object{
		"CloneSet": web, "Deployment": deployment, "StatefulSet": stateful, "advanced StatefulSet": advanced,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := base()
			stored, _ := TemplateOf(&old.Spec.Template)
			stored.Pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
			stored.Pod.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
			for _, image := range []string{stored.Pod.Spec.Containers[0].Image, "app:2"} {
				w, _ := hook(t)
				ud := base()
				current, _ := TemplateOf(&ud.Spec.Template)
				current.Pod.Spec.Containers[0].Image = image
				require.NoError(t, w.Default(request(t, old), ud))
				want := stored.Pod.DeepCopy()
				want.Spec.Containers[0].Image = image
				require.Equal(t, want, current.Pod)
			}
		})
	}
}

func TestWebhookDoesNotStopASetForAnOldPatch(t *testing.T) {
	t.Parallel()
	old := web()
	subsets(part{Name: "a", Patch: raw(`{"spec": {"tolerations": [{"key": "bad"}]}}`)}, part{Name: "b"})(old)
	w, _ := hook(t)
	ud := old.DeepCopy()
	ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
	_, err := w.ValidateUpdate(request(t, old), old, ud)
	require.NoError(t, err)

	ud.Spec.Topology.Subsets[0].Patch = raw(`{"spec": {"tolerations": [{"key": "bad", "value": "x"}]}}`)
	_, err = w.ValidateUpdate(request(t, old), old, ud)
	require.ErrorContains(t, err, "spec.topology.subsets[0].patch.spec.tolerations[0].key")
}

// answer sends the creation of an object to the webhook, or its update if from is given.
func answer(
	t *testing.T, w *Webhook, base func() *object, from, to func(*object),
) (old, updated *object, warnings admission.Warnings, err error) {
	t.Helper()
	updated = base()
	to(updated)
	Default(updated)
	if from == nil {
		warnings, err = w.ValidateCreate(request(t, nil), updated)
		return nil, updated, warnings, err
	}
	old = base()
	from(old)
	Default(old)
	warnings, err = w.ValidateUpdate(request(t, old), old, updated)
	return old, updated, warnings, err
}

func TestWebhookHasTheWarningsOfTheStatefulSetWebhook(t *testing.T) {
	t.Parallel()
	const (
		oldFashioned = "spec.template.advancedStatefulSetTemplate.spec.serviceName: is old-fashioned"
		annotated    = "spec.template.advancedStatefulSetTemplate.metadata.annotations[apps.kruise.io/image-predownload-parallelism]: " +
			"no image will be pulled before an update because feature gate PreDownloadImageForInPlaceUpdate is off"
		above = "spec.updateStrategy.manualUpdate.partitions[a]: 4 is greater than the replicas of the subset (3): none of its pods will be updated until it is lower"
	)
	judge := func(s *appsv1beta1.StatefulSetSpec, path *field.Path) admission.Warnings {
		if s.ServiceName == "old" {
			return admission.Warnings{path.Child("serviceName").String() + ": is old-fashioned"}
		}
		return nil
	}
	old := func(ud *object) { ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.ServiceName = "old" }
	annotate := func(ud *object) {
		ud.Spec.Template.AdvancedStatefulSetTemplate.Annotations = map[string]string{keys.ImagePreDownloadParallelism: "2"}
	}
	part3 := subsets(part{Name: "a", Replicas: number("3")}, part{Name: "b"})
	history := func(ud *object) { ud.Spec.RevisionHistoryLimit = new(int32(3)) }
	for _, tt := range []struct {
		name     string
		base     func() *object
		from, to func(*object) // a nil from means creation
		warnings admission.Warnings
	}{
		{"nothing odd", advanced, nil, all(), nil},
		{"its spec and its annotations", advanced, nil, all(old, annotate), admission.Warnings{annotated, oldFashioned}},
		{"a partition above the subset's replicas", advanced, nil, all(part3, partitions(map[string]int32{"a": 4})), admission.Warnings{above}},
		{"a partition of all replicas", advanced, nil, all(part3, partitions(map[string]int32{"a": 3, "b": 9})), nil},
		{"new faults in an update", advanced, old, all(old, annotate), admission.Warnings{annotated}},
		{"no faults that existed before", advanced, all(old, annotate), all(old, annotate, history), nil},
		{"none in a rejected update", advanced, all(), old, nil},
		{"none for a slice, where no user would see them", sliced, nil, old, nil},
		{"none for a StatefulSet of apps", stateful, nil, all(), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := hook(t)
			w.Options.StatefulSetWarnings, w.Options.Off.PreDownload = judge, feature.PreDownloadForInPlaceUpdate
			old, updated, got, err := answer(t, w, tt.base, tt.from, tt.to)
			changed := old != nil && old.Spec.Template.AdvancedStatefulSetTemplate.Spec.ServiceName !=
				updated.Spec.Template.AdvancedStatefulSetTemplate.Spec.ServiceName
			require.Equal(t, changed, err != nil, "%v", err)
			require.ElementsMatch(t, tt.warnings, got)
		})
	}
}

func TestWebhookWarnsOfPartitionsWithoutEffect(t *testing.T) {
	t.Parallel()
	const (
		path      = "spec.updateStrategy.manualUpdate.partitions[a]: has no effect: "
		cannot    = path + "a Deployment can't keep pods at the old revision: remove it, or use cloneSetTemplate"
		byDeletes = path + "with the template's updateStrategy OnDelete, pods are only updated when they are deleted: remove it, or use RollingUpdate"
	)
	two, none := partitions(map[string]int32{"a": 2}), partitions(map[string]int32{"a": 0})
	for _, tt := range []struct {
		name     string
		base     func() *object
		from, to func(*object) // a nil from means creation
		warnings admission.Warnings
	}{
		{"of a Deployment", deployment, nil, two, admission.Warnings{cannot}},
		{"introduced by an update", deployment, none, two, admission.Warnings{cannot}},
		{"existing before", deployment, two, all(two, func(ud *object) { ud.Spec.RevisionHistoryLimit = new(int32(3)) }), nil},
		{"not of 0", deployment, nil, none, nil},
		{"of a CloneSet with OnDelete", web, nil, all(two, func(ud *object) {
			ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.Type = appsv1beta1.CloneSetOnDelete
		}), admission.Warnings{byDeletes}},
		{"of a StatefulSet of apps with OnDelete", stateful, nil, all(two, func(ud *object) {
			ud.Spec.Template.StatefulSetTemplate.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		}), admission.Warnings{byDeletes}},
		{"of a StatefulSet of apps.kruise.io with OnDelete", advanced, nil, all(two, func(ud *object) {
			ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		}), admission.Warnings{byDeletes}},
		{"not of a CloneSet that supports them", web, nil, two, nil},
		{"not in a slice, where a hub empties a subset", deployment, nil, all(two, func(ud *object) {
			ud.Annotations = map[string]string{keys.FleetRowUID: "uid"}
		}), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := hook(t)
			_, _, got, err := answer(t, w, tt.base, tt.from, tt.to)
			require.NoError(t, err)
			require.ElementsMatch(t, tt.warnings, got)
		})
	}
}

func TestWebhookWarnsOfMaxUnavailableWithoutEffect(t *testing.T) {
	t.Parallel()
	const (
		path      = "spec.updateStrategy.manualUpdate.maxUnavailable[a]: "
		byDeletes = path + "has no effect: with the template's updateStrategy OnDelete, pods are only updated when they are deleted: remove it, or use RollingUpdate"
		recreate  = path + "has no effect: with the template's strategy Recreate, all pods are replaced at once: use RollingUpdate, or 0 to stop the update"
		ordered   = path + "one pod is updated at a time, because 2 requires podManagementPolicy Parallel in the template"
	)
	one, two, none := unavailable(map[string]int32{"a": 1}), unavailable(map[string]int32{"a": 2}), unavailable(map[string]int32{"a": 0})
	onDelete := func(ud *object) {
		ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.Type = appsv1beta1.CloneSetOnDelete
	}
	atOnce := func(ud *object) {
		ud.Spec.Template.DeploymentTemplate.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	}
	parallel := func(ud *object) {
		ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	}
	for _, tt := range []struct {
		name     string
		base     func() *object
		from, to func(*object) // a nil from means creation
		warnings admission.Warnings
	}{
		{"of a CloneSet with OnDelete", web, nil, all(two, onDelete), admission.Warnings{byDeletes}},
		{"of 0 with OnDelete too", web, nil, all(none, onDelete), admission.Warnings{byDeletes}},
		{"of a Deployment that re-creates pods", deployment, nil, all(two, atOnce), admission.Warnings{recreate}},
		{"not of 0, which pauses such a Deployment", deployment, nil, all(none, atOnce), nil},
		{"not of a Deployment", deployment, nil, two, nil},
		{"of an ordered StatefulSet of apps.kruise.io", advanced, nil, two, admission.Warnings{ordered}},
		{"not of 1, which is what it does", advanced, nil, one, nil},
		{"not of a parallel StatefulSet of apps.kruise.io", advanced, nil, all(two, parallel), nil},
		{"existing before", advanced, two, all(two, func(ud *object) { ud.Spec.RevisionHistoryLimit = new(int32(3)) }), nil},
		{"not of a CloneSet", web, nil, two, nil},
		{"not in a slice", advanced, nil, all(two, func(ud *object) { ud.Annotations = map[string]string{keys.FleetRowUID: "uid"} }), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := hook(t)
			_, _, got, err := answer(t, w, tt.base, tt.from, tt.to)
			require.NoError(t, err)
			require.ElementsMatch(t, tt.warnings, got)
		})
	}
}

func TestWebhookWarnsOfWhatIsNotServedYet(t *testing.T) {
	t.Parallel()
	const (
		protects = "metadata.labels[policy.kruise.io/delete-protection]: Always protects nothing"
		pulls    = "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism"
		liveness = "metadata.annotations[apps.kruise.io/using-enhanced-liveness]: has no effect"
	)
	ask := func(ud *object) {
		m, _ := TemplateOf(&ud.Spec.Template)
		m.Metadata.Labels = maps.Clone(m.Metadata.Labels)
		m.Metadata.Labels[keys.DeleteProtection] = "Always"
		m.Pod.Annotations = map[string]string{keys.EnhancedLiveness: "true"}
	}
	inPlace := pods.InPlaceUpdateStrategy{ImagePreDownloadParallelism: number("2")}
	ofCloneSet := func(ud *object) {
		ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.CloneSetRollingUpdateStrategy{InPlaceUpdateStrategy: &inPlace}
	}
	ofStatefulSet := func(ud *object) {
		ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.StatefulSetRollingUpdateStrategy{
			InPlaceUpdateStrategy: &inPlace,
		}
	}
	patched := subsets(part{Name: "a"}, part{Name: "b", Patch: raw(`{"metadata": {"annotations": {"apps.kruise.io/using-enhanced-liveness": "true"}}}`)})
	for _, tt := range []struct {
		name string
		base func() *object
		ask  func(*object)
		want []string // each the beginning of a warning
	}{
		{"no such features", web, all(), nil},
		{"a CloneSet", web, all(ask, ofCloneSet), []string{"cloneSetTemplate." + pulls, "cloneSetTemplate.spec.template." + liveness, "cloneSetTemplate." + protects}},
		{"a Deployment", deployment, ask, []string{"deploymentTemplate.spec.template." + liveness, "deploymentTemplate." + protects}},
		{"a StatefulSet", stateful, ask, []string{"statefulSetTemplate.spec.template." + liveness, "statefulSetTemplate." + protects}},
		{"a StatefulSet of apps.kruise.io", advanced, all(ask, ofStatefulSet), []string{
			"advancedStatefulSetTemplate." + pulls,
			"advancedStatefulSetTemplate.spec.template." + liveness, "advancedStatefulSetTemplate." + protects,
		}},
		{"a patch alone", web, patched, []string{"spec.topology.subsets[1].patch." + liveness}},
		{"a patch that repeats the template", deployment, all(ask, patched), []string{
			"deploymentTemplate.spec.template." + liveness, "deploymentTemplate." + protects,
		}},
		{"settings of an unused strategy", web, func(ud *object) {
			ud.Spec.Topology.ScheduleStrategy.Adaptive = &appsv1beta1.AdaptiveScheduleStrategy{}
		}, []string{"spec.topology.scheduleStrategy.adaptive: has no effect with type Fixed"}},
		{"a slice, whose warnings no user would see", sliced, ask, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := hook(t)
			w.Options.Unprotected, w.Options.Off.PreDownload, w.Options.Off.Liveness = true, feature.PreDownloadForInPlaceUpdate, feature.EnhancedLiveness
			old, updated := tt.base(), tt.base()
			tt.ask(updated)
			Default(old)
			Default(updated)
			check := func(got admission.Warnings) {
				require.Len(t, got, len(tt.want), "%v", got)
				for i, want := range tt.want {
					if !strings.HasPrefix(want, "spec.") {
						want = "spec.template." + want
					}
					require.True(t, strings.HasPrefix(got[i], want), "%s\n%s", got[i], want)
				}
			}
			got, err := w.ValidateCreate(request(t, nil), updated)
			require.NoError(t, err)
			check(got)
			got, err = w.ValidateUpdate(request(t, old), old, updated)
			require.NoError(t, err)
			check(got)
			later := updated.DeepCopy()
			later.Spec.RevisionHistoryLimit = new(int32(3))
			got, err = w.ValidateUpdate(request(t, updated), updated, later)
			require.NoError(t, err)
			require.Empty(t, got, "an update does not repeat the warnings")
		})
	}
}

func TestWebhookAcceptsWhatItCantValidate(t *testing.T) {
	t.Parallel()
	w, _ := hook(t)
	ud := web()
	ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "down"
	_, err := w.ValidateCreate(request(t, nil), ud)
	require.ErrorContains(t, err, "connection refused")
	require.False(t, apierrors.IsInvalid(err), "no verdict without a response")

	invalid := web()
	invalid.Spec.Replicas = ptr.To[int32](-1)
	labelled := invalid.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	_, err = w.ValidateUpdate(request(t, invalid), invalid, labelled)
	require.NoError(t, err, "an object from before a rule can still be labeled")
	_, err = w.ValidateDelete(request(t, invalid), invalid)
	require.NoError(t, err)
}

func TestAProtectedTemplateIsNotWarnedOf(t *testing.T) {
	t.Parallel()
	w, _ := hook(t)
	ud := web()
	ud.Spec.Template.CloneSetTemplate.Labels[keys.DeleteProtection] = "Always"
	Default(ud)
	got, err := w.ValidateCreate(request(t, nil), ud)
	require.NoError(t, err)
	require.Empty(t, got)
}
