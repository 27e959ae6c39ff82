package cloneset

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/workloadspec"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

// asking returns a webhook with a fake apiserver that has these pods, and counts dry runs.
func asking(t *testing.T, known ...client.Object) (*Webhook, *int) {
	t.Helper()
	c, asked := webhooktest.Apiserver(known...)
	return &Webhook{Client: c, Live: c, Off: workloadspec.Off{PreDownload: feature.PreDownloadForInPlaceUpdate}}, asked
}

// requested returns the context of an admission request; old is nil for a create.
func requested(t *testing.T, old *appsv1beta1.CloneSet) context.Context {
	t.Helper()
	return webhooktest.Requested(t, old)
}

func TestDefault(t *testing.T) {
	t.Parallel()
	type Spec = appsv1beta1.CloneSetSpec
	tests := []struct {
		name string
		in   appsv1beta1.CloneSetUpdateStrategy
		want appsv1beta1.CloneSetUpdateStrategy
	}{
		{
			"an empty strategy becomes RollingUpdate with ReCreate",
			appsv1beta1.CloneSetUpdateStrategy{},
			appsv1beta1.CloneSetUpdateStrategy{
				Type: appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
					PodUpdatePolicy: appsv1beta1.PodReCreate, Partition: new(intstr.FromInt32(0)),
					MaxUnavailable: new(intstr.FromString("20%")), MaxSurge: new(intstr.FromInt32(0)),
				},
			},
		},
		{
			"an in-place policy gets an empty in-place strategy, and explicit values are kept",
			appsv1beta1.CloneSetUpdateStrategy{RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
				PodUpdatePolicy: appsv1beta1.PodInPlaceOnly, Partition: new(intstr.FromInt32(3)),
				MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(2)),
			}},
			appsv1beta1.CloneSetUpdateStrategy{
				Type: appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
					PodUpdatePolicy: appsv1beta1.PodInPlaceOnly, Partition: new(intstr.FromInt32(3)),
					MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(2)),
					InPlaceUpdateStrategy: &pods.InPlaceUpdateStrategy{},
				},
			},
		},
		{
			"OnDelete gets no rolling update",
			appsv1beta1.CloneSetUpdateStrategy{Type: appsv1beta1.CloneSetOnDelete},
			appsv1beta1.CloneSetUpdateStrategy{Type: appsv1beta1.CloneSetOnDelete},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := asking(t)
			set := testkit.CloneSet("web").PVCs("data").Spec(func(s *Spec) {
				s.Replicas, s.RevisionHistoryLimit, s.UpdateStrategy = nil, nil, tt.in
			}).Obj()
			require.NoError(t, w.Default(requested(t, nil), set))
			require.Empty(t, cmp.Diff(tt.want, set.Spec.UpdateStrategy))
			require.Equal(t, int32(1), *set.Spec.Replicas)
			require.Equal(t, int32(10), *set.Spec.RevisionHistoryLimit)
			require.Equal(t, corev1.RestartPolicyAlways, set.Spec.Template.Spec.RestartPolicy)
			require.Equal(t, corev1.PersistentVolumeFilesystem, *set.Spec.VolumeClaimTemplates[0].Spec.VolumeMode)
			require.Empty(t, set.Spec.Template.Spec.Volumes)
		})
	}
}

func TestDefaultDryRunsATemplateOnlyWhenItChanged(t *testing.T) {
	t.Parallel()
	completed := web(2).PVCs("data").Obj()
	completed.Spec.VolumeClaimTemplates[0].Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	tests := []struct {
		name  string
		old   *appsv1beta1.CloneSet
		set   *appsv1beta1.CloneSet
		keep  bool
		asked int
	}{
		{"a create is dry-run", nil, web(1).Obj(), false, 1},
		{"a scale is not", web(1).Obj(), web(2).Obj(), false, 0},
		{"a new image is, and what it replaces", web(1).Obj(), web(1).Image("app:2").Obj(), false, 2},
		{"so is a new PVC template, which containers may mount", web(1).Obj(), web(1).PVCs("data").Obj(), false, 1},
		{"defaults of PVCs are no change", web(1).PVCs("data").Obj(), completed, false, 0},
		{"with TemplateNoDefaults, a create is not", nil, web(1).Obj(), true, 0},
		{"nor is a new image, which validation asks about", web(1).Obj(), web(1).Image("app:2").Obj(), true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, asked := asking(t)
			w.KeepTemplates = tt.keep
			require.NoError(t, w.Default(requested(t, tt.old), tt.set))
			require.Equal(t, tt.asked, *asked)
			if tt.old != nil || tt.keep {
				require.Empty(t, tt.set.Spec.Template.Spec.RestartPolicy, "what did not change keeps its form")
			}
		})
	}
}

func TestDefaultRefusesATemplateThatTheApiserverRefuses(t *testing.T) {
	t.Parallel()
	w, _ := asking(t)
	err := w.Default(requested(t, nil), web(1).Image("bad").Obj())
	require.True(t, apierrors.IsInvalid(err))
	require.ErrorContains(t, err, `spec.template.spec.containers[0].image: Invalid value: "bad": is bad`)
	require.ErrorContains(t, w.Default(requested(t, nil), web(1).Image("down").Obj()), "connection refused")
}

func TestValidate(t *testing.T) {
	t.Parallel()
	type (
		Spec    = appsv1beta1.CloneSetSpec
		Rolling = appsv1beta1.CloneSetRollingUpdateStrategy
	)
	rolling := func(change func(*Rolling)) *testkit.CloneSetBuilder {
		return web(4).Spec(func(s *Spec) { change(s.UpdateStrategy.RollingUpdate) })
	}
	inPlace := func(s pods.InPlaceUpdateStrategy) *testkit.CloneSetBuilder {
		return rolling(func(r *Rolling) { r.InPlaceUpdateStrategy = &s })
	}
	weighing := func(s metav1.LabelSelector) *testkit.CloneSetBuilder {
		return rolling(func(r *Rolling) {
			r.PriorityStrategy = &pods.UpdatePriorityStrategy{WeightPriority: []pods.UpdatePriorityWeightTerm{{Weight: 1, MatchSelector: s}}}
		})
	}
	deadlined := func(deadline, minReady int32) *testkit.CloneSetBuilder {
		return web(4).Spec(func(s *Spec) { s.ProgressDeadlineSeconds, s.MinReadySeconds = &deadline, minReady })
	}
	const at = "spec.updateStrategy.rollingUpdate."
	tests := []struct {
		name string
		set  *testkit.CloneSetBuilder
		want string // empty: accepted
	}{
		{"a plain set is fine", web(4), ""},
		{"B 1: a budget of 0 with surge is fine", web(4).Rolling("0", "0", "1"), ""},
		{"a budget that rounds up to 1 is fine", web(4).Rolling("0", "1%", "0"), ""},
		{"no budget at all is fine for no replicas", web(0).Rolling("0", "0", "0"), ""},
		{"priorities by weight are fine", weighing(metav1.LabelSelector{MatchLabels: map[string]string{"tier": "test"}}), ""},
		{
			"a weight for all pods is refused", weighing(metav1.LabelSelector{}),
			at + `priorityStrategy.weightPriority[0].matchSelector: Invalid value: "{}": an empty selector gives every pod the same weight`,
		},
		{
			"a weight by a bad selector is refused", weighing(metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}),
			at + "priorityStrategy.weightPriority[0].matchSelector: Invalid value",
		},
		{
			"scattering over several pairs is fine",
			rolling(func(r *Rolling) {
				r.ScatterStrategy = []pods.UpdateScatterTerm{{Key: "a", Value: "b"}, {Key: "a", Value: "c"}}
			}), "",
		},
		{
			"scattering over a pair twice is refused",
			rolling(func(r *Rolling) {
				r.ScatterStrategy = []pods.UpdateScatterTerm{{Key: "a", Value: "b"}, {Key: "a", Value: "b"}}
			}),
			at + `scatterStrategy[1]: Invalid value: "a=b": is listed already`,
		},
		{"a deadline above minReadySeconds is fine", deadlined(60, 59), ""},
		{"the largest deadline is fine with the largest minReadySeconds", deadlined(math.MaxInt32, math.MaxInt32), ""},
		{"B 1: a deadline of minReadySeconds is refused in both versions", deadlined(60, 60), "spec.progressDeadlineSeconds: Invalid value: 60: must be above minReadySeconds (60)"},
		{"B 1: a deadline of 0 is refused", deadlined(0, 0), "spec.progressDeadlineSeconds: Invalid value: 0"},
		{"B 1: a negative deadline is refused", deadlined(-1, 0), "spec.progressDeadlineSeconds: Invalid value: -1"},
		{"a surge of more than all pods is fine", web(4).Rolling("0", "0", "150%"), ""},
		{"OnDelete without a rolling update is fine", web(4).OnDelete(), ""},
		{"an empty lifecycle is fine", web(4).Spec(func(s *Spec) { s.Lifecycle = &pods.Lifecycle{} }), ""},

		{"a name so long that pods could have none is refused", testkit.CloneSet(strings.Repeat("x", 248)), "metadata.name: Invalid value"},
		{
			"a name so long that PVCs could have none is refused", testkit.CloneSet(strings.Repeat("x", 245)).PVCs("data"),
			"metadata.name: Invalid value",
		},
		{"an empty selector is refused", web(4).Spec(func(s *Spec) { s.Selector.MatchLabels = nil }), "spec.selector: Required value"},
		{"no selector is refused", web(4).Spec(func(s *Spec) { s.Selector = nil }), "spec.selector: Required value"},
		{
			"a selector with a bad label is refused", web(4).Spec(func(s *Spec) { s.Selector.MatchLabels["a b"] = "c" }),
			"spec.selector: Invalid value",
		},
		{
			"a selector that misses the template is refused", web(4).Spec(func(s *Spec) { s.Selector.MatchLabels["app"] = "db" }),
			`spec.template.metadata.labels: Invalid value: {"app":"web"}: the selector "app=db" does not match these labels`,
		},
		{
			"another restart policy is refused",
			web(4).Spec(func(s *Spec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }),
			`spec.template.spec.restartPolicy: Unsupported value: "OnFailure": supported values: "Always"`,
		},
		{
			"an active deadline is refused",
			web(4).Spec(func(s *Spec) { s.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](5) }),
			"spec.template.spec.activeDeadlineSeconds: Forbidden",
		},
		{"a template that the apiserver refuses is refused", web(4).Image("bad"), "spec.template.spec.containers[0].image: Invalid value"},
		{
			"a claim template without accessModes is refused", web(4).PVCs("data").Spec(func(s *Spec) { s.VolumeClaimTemplates[0].Spec.AccessModes = nil }),
			"spec.volumeClaimTemplates[0].spec.accessModes: Required value",
		},
		{"a name twice in podsToDelete is refused", web(4).PodsToDelete("a", "b", "a"), `spec.scaleStrategy.podsToDelete[2]: Invalid value: "a": is listed already`},

		{"a partition that is no percentage is refused", rolling(func(r *Rolling) { r.Partition = new(intstr.FromString("5")) }), at + `partition: Invalid value: "5"`},
		{"a negative partition is refused", web(4).Rolling("-1", "1", "0"), at + `partition: Invalid value: "-1"`},
		{"a partition above 100% is refused", web(4).Rolling("101%", "1", "0"), at + `partition: Invalid value: "101%": must not be above 100%`},
		{"a budget that is no percentage is refused", rolling(func(r *Rolling) { r.MaxUnavailable = new(intstr.FromString("few")) }), at + `maxUnavailable: Invalid value: "few"`},
		{"a budget above 100% is refused", web(4).Rolling("0", "120%", "0"), at + "maxUnavailable: Invalid value"},
		{"a surge that is no percentage is refused", rolling(func(r *Rolling) { r.MaxSurge = new(intstr.FromString("%")) }), at + "maxSurge: Invalid value"},
		{"a budget and a surge of 0 are refused", web(4).Rolling("0", "0", "0%"), at + `maxUnavailable: Invalid value: "0": no pod could ever be updated`},
		{"a surge with InPlaceOnly is refused", web(4).Rolling("0", "1", "1").Policy(appsv1beta1.PodInPlaceOnly), at + `maxSurge: Invalid value: "1": must be 0 with podUpdatePolicy InPlaceOnly`},

		{
			"lifecycle hooks are fine",
			web(4).Spec(func(s *Spec) {
				s.Lifecycle = &pods.Lifecycle{PreDelete: &pods.LifecycleHook{FinalizersHandler: []string{"example.com/drain"}}}
			}), "",
		},
		{"a bound on creations is fine", web(4).Spec(func(s *Spec) { s.ScaleStrategy.MaxUnavailable = new(intstr.FromString("30%")) }), ""},
		{
			"a bound on creations that is no percentage is refused",
			web(4).Spec(func(s *Spec) { s.ScaleStrategy.MaxUnavailable = new(intstr.FromString("5")) }),
			`spec.scaleStrategy.maxUnavailable: Invalid value: "5": must be a number of pods`,
		},
		{"excludePreparingDelete is fine", web(4).Spec(func(s *Spec) { s.ScaleStrategy.ExcludePreparingDelete = true }), ""},
		{"a grace period is fine", inPlace(pods.InPlaceUpdateStrategy{GracePeriodSeconds: 5}), ""},
		{"a pre-download is fine", inPlace(pods.InPlaceUpdateStrategy{ImagePreDownloadParallelism: new(intstr.FromInt32(1))}), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := asking(t)
			check := func(err error) {
				if tt.want == "" {
					require.NoError(t, err)
					return
				}
				require.True(t, apierrors.IsInvalid(err), "%v", err)
				require.ErrorContains(t, err, tt.want)
			}
			_, err := w.ValidateCreate(requested(t, nil), tt.set.Obj())
			check(err)
			old := testkit.CloneSet(tt.set.Obj().Name).Spec(func(s *Spec) { s.MinReadySeconds = 5 }).Obj()
			if len(validateSpec(old)) > 0 {
				return // The name was already that long.
			}
			_, err = w.ValidateUpdate(requested(t, old), old, tt.set.Obj())
			check(err)
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	type Spec = appsv1beta1.CloneSetSpec
	command := func(b *testkit.CloneSetBuilder) *testkit.CloneSetBuilder {
		return b.Spec(func(s *Spec) { s.Template.Spec.Containers[0].Command = []string{"serve"} })
	}
	only := func() *testkit.CloneSetBuilder { return web(2).Policy(appsv1beta1.PodInPlaceOnly) }
	tests := []struct {
		name     string
		old, set *testkit.CloneSetBuilder
		want     string
	}{
		{"with InPlaceOnly, a new image is fine", only(), only().Image("app:2"), ""},
		{
			"B 1: with InPlaceOnly, another change is refused", only(), command(only()),
			"spec.template: Forbidden: podUpdatePolicy InPlaceOnly can't make this change (container app: command changed)",
		},
		{"with InPlaceIfPossible, another change is fine", web(2).Policy(appsv1beta1.PodInPlaceIfPossible), command(web(2).Policy(appsv1beta1.PodInPlaceIfPossible)), ""},
		{"an object that was stored with a fault may change its labels", web(2).Rolling("0", "0", "0"), web(2).Rolling("0", "0", "0"), ""},
		{"it may be updated and scaled too", web(2).Rolling("0", "0", "0"), web(3).Rolling("0", "0", "0").Image("app:2"), ""},
		{"it may not break another rule", web(2).Rolling("0", "0", "0"), web(2).Rolling("101%", "0", "0"), "must not be above 100%"},
		{"it may not break the same rule otherwise", web(2).Rolling("101%", "1", "0"), web(2).Rolling("102%", "1", "0"), "must not be above 100%"},
		{"a name of a pod of the set is fine", web(2), web(2).PodsToDelete("web-ours"), ""},
		{"B 1: a name of no pod is refused", web(2), web(2).PodsToDelete("web-x"), `spec.scaleStrategy.podsToDelete[0]: Invalid value: "web-x": there is no such pod`},
		{"a name of a terminating pod is refused", web(2), web(2).PodsToDelete("web-going"), `podsToDelete[0]: Invalid value: "web-going": is being deleted already`},
		{"a name of another owner's pod is refused", web(2), web(2).PodsToDelete("web-theirs"), `podsToDelete[0]: Invalid value: "web-theirs": is no pod of this CloneSet`},
		{"a name that was stored before is not validated again", web(2).PodsToDelete("web-x"), web(3).PodsToDelete("web-x"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			going := pod("going").Terminating(start).Obj()
			going.Finalizers = []string{"example.com/hold"}
			w, _ := asking(t, pod("ours").Obj(), going, testkit.Pod("web-theirs").OwnedBy("another").Obj())
			old, set := tt.old.Obj(), tt.set.Obj()
			warnings, err := w.ValidateUpdate(requested(t, old), old, set)
			if tt.want == "" {
				require.NoError(t, err)
				unchanged := cmp.Equal(old.Spec, set.Spec)
				require.Equal(t, !unchanged && len(validateSpec(old)) > 0, len(warnings) > 0, "%v", warnings)
				return
			}
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestWarningsAboutWhatIsNotServedYet(t *testing.T) {
	t.Parallel()
	type set = appsv1beta1.CloneSet
	annotate := func(o *set) { o.Annotations = map[string]string{keys.ImagePreDownloadParallelism: "2"} }
	for _, tt := range []struct {
		name string
		ask  func(*set)
		want string // empty: none
	}{
		{"nothing", func(*set) {}, ""},
		{
			"a pre-download", func(o *set) {
				o.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.CloneSetRollingUpdateStrategy{
					InPlaceUpdateStrategy: &pods.InPlaceUpdateStrategy{ImagePreDownloadMinUpdatedReadyPods: ptr.To[int32](1)},
				}
			},
			"spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods " +
				"(in v1alpha1 annotation apps.kruise.io/image-predownload-min-updated-ready-pods): no image is pulled before an update, as feature gate PreDownloadImageForInPlaceUpdate is off",
		},
		{"an annotation for it in v1beta1", annotate, "metadata.annotations[apps.kruise.io/image-predownload-parallelism]: no image is pulled before an update, as feature gate PreDownloadImageForInPlaceUpdate is off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := asking(t)
			check := func(said admission.Warnings, err error) {
				require.NoError(t, err)
				if tt.want == "" {
					require.Empty(t, said)
					return
				}
				require.Len(t, said, 1)
				require.Contains(t, said[0], tt.want)
			}
			old, is := web(2).Obj(), web(2).Obj()
			tt.ask(is)
			check(w.ValidateCreate(requested(t, nil), is))
			check(w.ValidateUpdate(requested(t, old), old, is))
			later := is.DeepCopy()
			later.Spec.MinReadySeconds = 9
			said, err := w.ValidateUpdate(requested(t, is), is, later)
			require.NoError(t, err)
			require.Empty(t, said, "an update does not repeat the warning")
		})
	}
}

func TestValidateDeleteRefusesNothing(t *testing.T) {
	t.Parallel()
	w, _ := asking(t)
	warnings, err := w.ValidateDelete(t.Context(), web(1).Obj())
	require.NoError(t, err)
	require.Empty(t, warnings)
}
