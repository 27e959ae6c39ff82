package cloneset

import (
	"context"
	"fmt"
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
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

// newTestWebhook returns a webhook with a fake apiserver that has these pods, and counts dry runs.
func newTestWebhook(t *testing.T, known ...client.Object) (*Webhook, *int) {
	t.Helper()
	c, dryRuns := webhooktest.Apiserver(known...)
	return &Webhook{Client: c, Live: c, Off: workloadspec.Off{PreDownload: feature.PreDownloadForInPlaceUpdate}}, dryRuns
}

// requestContext returns the context of an admission request; old is nil for a create.
func requestContext(t *testing.T, old *appsv1beta1.CloneSet) context.Context {
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
			w, _ := newTestWebhook(t)
			set := testkit.CloneSet("web").PVCs("data").Spec(func(s *Spec) {
				s.Replicas, s.RevisionHistoryLimit, s.UpdateStrategy = nil, nil, tt.in
			}).Obj()
			require.NoError(t, w.Default(requestContext(t, nil), set))
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
		name    string
		old     *appsv1beta1.CloneSet
		set     *appsv1beta1.CloneSet
		keep    bool
		dryRuns int
	}{
		{"a create is dry-run", nil, web(1).Obj(), false, 1},
		{"a scale is not dry-run", web(1).Obj(), web(2).Obj(), false, 0},
		{"a new image is dry-run, as is the template that it replaces", web(1).Obj(), web(1).Image("app:2").Obj(), false, 2},
		{"a new PVC template is dry-run, as containers may mount it", web(1).Obj(), web(1).PVCs("data").Obj(), false, 1},
		{"defaults of PVCs are not a change", web(1).PVCs("data").Obj(), completed, false, 0},
		{"with TemplateNoDefaults, a create is not dry-run", nil, web(1).Obj(), true, 0},
		{"with TemplateNoDefaults, a new image is not dry-run, as validation does that", web(1).Obj(), web(1).Image("app:2").Obj(), true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, dryRuns := newTestWebhook(t)
			w.KeepTemplates = tt.keep
			require.NoError(t, w.Default(requestContext(t, tt.old), tt.set))
			require.Equal(t, tt.dryRuns, *dryRuns)
			if tt.old != nil || tt.keep {
				require.Empty(t, tt.set.Spec.Template.Spec.RestartPolicy, "unchanged fields stay as they are")
			}
		})
	}
}

func TestDefaultRefusesATemplateThatTheApiserverRefuses(t *testing.T) {
	t.Parallel()
	w, _ := newTestWebhook(t)
	err := w.Default(requestContext(t, nil), web(1).Image("bad").Obj())
	require.True(t, apierrors.IsInvalid(err))
	require.ErrorContains(t, err, `spec.template.spec.containers[0].image: Invalid value: "bad": is bad`)
	require.ErrorContains(t, w.Default(requestContext(t, nil), web(1).Image("down").Obj()), "connection refused")
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
		{"a budget and a surge of 0 are fine without replicas", web(0).Rolling("0", "0", "0"), ""},
		{"priorities by weight are fine", weighing(metav1.LabelSelector{MatchLabels: map[string]string{"tier": "test"}}), ""},
		{
			"a weight for all pods is refused", weighing(metav1.LabelSelector{}),
			at + `priorityStrategy.weightPriority[0].matchSelector: Invalid value: "{}": an empty selector gives every pod the same weight`,
		},
		{
			"a weight with an invalid selector is refused", weighing(metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}),
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
		{"B 1: a deadline of minReadySeconds is refused in both versions", deadlined(60, 60), "spec.progressDeadlineSeconds: Invalid value: 60: must be greater than minReadySeconds (60)"},
		{"B 1: a deadline of 0 is refused", deadlined(0, 0), "spec.progressDeadlineSeconds: Invalid value: 0"},
		{"B 1: a negative deadline is refused", deadlined(-1, 0), "spec.progressDeadlineSeconds: Invalid value: -1"},
		{"a surge of more than all pods is fine", web(4).Rolling("0", "0", "150%"), ""},
		{"OnDelete without a rolling update is fine", web(4).OnDelete(), ""},
		{"an empty lifecycle is fine", web(4).Spec(func(s *Spec) { s.Lifecycle = &pods.Lifecycle{} }), ""},

		{"a name that is too long for the names of pods is refused", testkit.CloneSet(strings.Repeat("x", 248)), "metadata.name: Invalid value"},
		{
			"a name that is too long for the names of PVCs is refused", testkit.CloneSet(strings.Repeat("x", 245)).PVCs("data"),
			"metadata.name: Invalid value",
		},
		{"an empty selector is refused", web(4).Spec(func(s *Spec) { s.Selector.MatchLabels = nil }), "spec.selector: Required value"},
		{"no selector is refused", web(4).Spec(func(s *Spec) { s.Selector = nil }), "spec.selector: Required value"},
		{
			"a selector with an invalid label is refused", web(4).Spec(func(s *Spec) { s.Selector.MatchLabels["a b"] = "c" }),
			"spec.selector: Invalid value",
		},
		{
			"a selector that doesn't match the template is refused", web(4).Spec(func(s *Spec) { s.Selector.MatchLabels["app"] = "db" }),
			`spec.template.metadata.labels: Invalid value: {"app":"web"}: the selector "app=db" doesn't match these labels`,
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

		{"an invalid partition is refused", rolling(func(r *Rolling) { r.Partition = new(intstr.FromString("5")) }), at + `partition: Invalid value: "5"`},
		{"a negative partition is refused", web(4).Rolling("-1", "1", "0"), at + `partition: Invalid value: "-1"`},
		{"a partition above 100% is refused", web(4).Rolling("101%", "1", "0"), at + `partition: Invalid value: "101%": must be at most 100%`},
		{"an invalid budget is refused", rolling(func(r *Rolling) { r.MaxUnavailable = new(intstr.FromString("few")) }), at + `maxUnavailable: Invalid value: "few"`},
		{"a budget above 100% is refused", web(4).Rolling("0", "120%", "0"), at + "maxUnavailable: Invalid value"},
		{"an invalid surge is refused", rolling(func(r *Rolling) { r.MaxSurge = new(intstr.FromString("%")) }), at + "maxSurge: Invalid value"},
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
			"an invalid bound on creations is refused",
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
			w, _ := newTestWebhook(t)
			check := func(err error) {
				if tt.want == "" {
					require.NoError(t, err)
					return
				}
				require.True(t, apierrors.IsInvalid(err), "%v", err)
				require.ErrorContains(t, err, tt.want)
			}
			_, err := w.ValidateCreate(requestContext(t, nil), tt.set.Obj())
			check(err)
			old := testkit.CloneSet(tt.set.Obj().Name).Spec(func(s *Spec) { s.MinReadySeconds = 5 }).Obj()
			if len(validateSpec(old)) > 0 {
				return // The name was already that long.
			}
			_, err = w.ValidateUpdate(requestContext(t, old), old, tt.set.Obj())
			check(err)
		})
	}
}

// counting counts the requests of a reader.
type counting struct {
	client.Reader
	requests int
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.requests++
	return c.Reader.Get(ctx, key, o, opts...)
}

func (c *counting) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.requests++
	return c.Reader.List(ctx, list, opts...)
}

// A webhook has ten seconds, and the schema doesn't limit the list.
func TestManyPodsToDeleteAreReadAtOnce(t *testing.T) {
	t.Parallel()
	var known []client.Object
	var names []string
	for i := range 300 {
		p := pod(fmt.Sprintf("n%d", i)).Obj()
		known, names = append(known, p), append(names, p.Name)
	}
	w, _ := newTestWebhook(t, append(known, testkit.Pod("web-theirs").OwnedBy("another").Obj())...)
	live := &counting{Reader: w.Live}
	w.Live = live
	old := web(300).Obj()
	_, err := w.ValidateUpdate(requestContext(t, old), old, web(300).PodsToDelete(names...).Obj())
	require.NoError(t, err)
	require.Equal(t, 1, live.requests)
	_, err = w.ValidateUpdate(requestContext(t, old), old, web(300).PodsToDelete(append(names, "web-theirs", "web-x")...).Obj())
	require.ErrorContains(t, err, `podsToDelete[300]: Invalid value: "web-theirs": is not a pod of this CloneSet`)
	require.ErrorContains(t, err, `podsToDelete[301]: Invalid value: "web-x": there is no such pod`)
	require.Equal(t, 2, live.requests)
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
		{"labels of a stored invalid object may change", web(2).Rolling("0", "0", "0"), web(2).Rolling("0", "0", "0"), ""},
		{"a stored invalid object may be updated and scaled", web(2).Rolling("0", "0", "0"), web(3).Rolling("0", "0", "0").Image("app:2"), ""},
		{"a stored invalid object may not break another rule", web(2).Rolling("0", "0", "0"), web(2).Rolling("101%", "0", "0"), "must be at most 100%"},
		{"a stored invalid object may not break the same rule with another value", web(2).Rolling("101%", "1", "0"), web(2).Rolling("102%", "1", "0"), "must be at most 100%"},
		{"a pod of the set in podsToDelete is fine", web(2), web(2).PodsToDelete("web-ours"), ""},
		{"B 1: an unknown pod in podsToDelete is refused", web(2), web(2).PodsToDelete("web-x"), `spec.scaleStrategy.podsToDelete[0]: Invalid value: "web-x": there is no such pod`},
		{"a terminating pod in podsToDelete is refused", web(2), web(2).PodsToDelete("web-going"), `podsToDelete[0]: Invalid value: "web-going": is being deleted already`},
		{"another owner's pod in podsToDelete is refused", web(2), web(2).PodsToDelete("web-theirs"), `podsToDelete[0]: Invalid value: "web-theirs": is not a pod of this CloneSet`},
		{"a stored entry of podsToDelete is not validated again", web(2).PodsToDelete("web-x"), web(3).PodsToDelete("web-x"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			going := pod("going").Terminating(start).Obj()
			going.Finalizers = []string{"example.com/hold"}
			w, _ := newTestWebhook(t, pod("ours").Obj(), going, testkit.Pod("web-theirs").OwnedBy("another").Obj())
			old, set := tt.old.Obj(), tt.set.Obj()
			warnings, err := w.ValidateUpdate(requestContext(t, old), old, set)
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
				"(in v1alpha1 annotation apps.kruise.io/image-predownload-min-updated-ready-pods): no image will be pulled before an update because feature gate PreDownloadImageForInPlaceUpdate is off",
		},
		{"a pre-download annotation in v1beta1", annotate, "metadata.annotations[apps.kruise.io/image-predownload-parallelism]: no image will be pulled before an update because feature gate PreDownloadImageForInPlaceUpdate is off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := newTestWebhook(t)
			check := func(warnings admission.Warnings, err error) {
				require.NoError(t, err)
				if tt.want == "" {
					require.Empty(t, warnings)
					return
				}
				require.Len(t, warnings, 1)
				require.Contains(t, warnings[0], tt.want)
			}
			old, changed := web(2).Obj(), web(2).Obj()
			tt.ask(changed)
			check(w.ValidateCreate(requestContext(t, nil), changed))
			check(w.ValidateUpdate(requestContext(t, old), old, changed))
			later := changed.DeepCopy()
			later.Spec.MinReadySeconds = 9
			warnings, err := w.ValidateUpdate(requestContext(t, changed), changed, later)
			require.NoError(t, err)
			require.Empty(t, warnings, "an update does not repeat the warning")
		})
	}
}

func TestValidateDeleteRefusesNothing(t *testing.T) {
	t.Parallel()
	w, _ := newTestWebhook(t)
	warnings, err := w.ValidateDelete(t.Context(), web(1).Obj())
	require.NoError(t, err)
	require.Empty(t, warnings)
}
