package daemonset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

type (
	spec    = appsv1beta1.DaemonSetSpec
	Rolling = appsv1beta1.DaemonSetRollingUpdateStrategy
)

// newTestWebhook returns a webhook with a fake apiserver that counts dry runs.
func newTestWebhook(t *testing.T) (*Webhook, *int) {
	t.Helper()
	c, dryRuns := webhooktest.Apiserver()
	return &Webhook{Client: c, Off: workloadspec.Off{PreDownload: feature.PreDownloadForDaemonSetUpdate}}, dryRuns
}

// agent returns a DaemonSet as Default leaves it, changed by each of the functions.
func agent(t *testing.T, changes ...func(*spec)) *appsv1beta1.DaemonSet {
	t.Helper()
	set := minimalSet()
	w, _ := newTestWebhook(t)
	require.NoError(t, w.Default(t.Context(), set))
	for _, change := range changes {
		change(&set.Spec)
	}
	return set
}

func minimalSet() *appsv1beta1.DaemonSet {
	return &appsv1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "shop"}, Spec: spec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "agent"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "agent:1"}}},
		},
	}}
}

func image(name string) func(*spec) {
	return func(s *spec) { s.Template.Spec.Containers[0].Image = name }
}

func rolling(change func(*Rolling)) func(*spec) {
	return func(s *spec) { change(s.UpdateStrategy.RollingUpdate) }
}

func TestDefault(t *testing.T) {
	t.Parallel()
	amount := func(s string) *intstr.IntOrString { return new(intstr.Parse(s)) }
	tests := []struct {
		name string
		in   appsv1beta1.DaemonSetUpdateStrategy
		want appsv1beta1.DaemonSetUpdateStrategy
	}{
		{
			"an empty strategy re-creates one pod at a time",
			appsv1beta1.DaemonSetUpdateStrategy{},
			appsv1beta1.DaemonSetUpdateStrategy{Type: appsv1beta1.DaemonSetRollingUpdate, RollingUpdate: &Rolling{
				Type: appsv1beta1.DaemonSetStandard, MaxUnavailable: amount("1"), MaxSurge: amount("0"),
			}},
		},
		{
			"with a surge no pod becomes unavailable",
			appsv1beta1.DaemonSetUpdateStrategy{RollingUpdate: &Rolling{MaxSurge: amount("10%")}},
			appsv1beta1.DaemonSetUpdateStrategy{Type: appsv1beta1.DaemonSetRollingUpdate, RollingUpdate: &Rolling{
				Type: appsv1beta1.DaemonSetStandard, MaxUnavailable: amount("0"), MaxSurge: amount("10%"),
			}},
		},
		{
			"a surge of 0 is no surge",
			appsv1beta1.DaemonSetUpdateStrategy{RollingUpdate: &Rolling{MaxSurge: amount("0%")}},
			appsv1beta1.DaemonSetUpdateStrategy{Type: appsv1beta1.DaemonSetRollingUpdate, RollingUpdate: &Rolling{
				Type: appsv1beta1.DaemonSetStandard, MaxUnavailable: amount("1"), MaxSurge: amount("0%"),
			}},
		},
		{
			"explicit values are kept",
			appsv1beta1.DaemonSetUpdateStrategy{RollingUpdate: &Rolling{
				Type: appsv1beta1.DaemonSetInPlaceIfPossible, MaxUnavailable: amount("20%"), Partition: amount("50%"), Paused: true,
			}},
			appsv1beta1.DaemonSetUpdateStrategy{Type: appsv1beta1.DaemonSetRollingUpdate, RollingUpdate: &Rolling{
				Type: appsv1beta1.DaemonSetInPlaceIfPossible, MaxUnavailable: amount("20%"), MaxSurge: amount("0"),
				Partition: amount("50%"), Paused: true,
			}},
		},
		{
			"OnDelete gets no rolling update",
			appsv1beta1.DaemonSetUpdateStrategy{Type: appsv1beta1.DaemonSetOnDelete},
			appsv1beta1.DaemonSetUpdateStrategy{Type: appsv1beta1.DaemonSetOnDelete},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, dryRuns := newTestWebhook(t)
			set := minimalSet()
			set.Spec.UpdateStrategy = tt.in
			require.NoError(t, w.Default(t.Context(), set))
			require.Empty(t, cmp.Diff(tt.want, set.Spec.UpdateStrategy))
			require.Equal(t, "250", set.Spec.BurstReplicas.String())
			require.Equal(t, int32(10), *set.Spec.RevisionHistoryLimit)
			require.Empty(t, cmp.Diff(minimalSet().Spec.Template, set.Spec.Template), "a template with defaults would be another revision")
			require.Zero(t, *dryRuns)
			again := set.DeepCopy()
			require.NoError(t, w.Default(t.Context(), again))
			require.Empty(t, cmp.Diff(set, again), "defaults are set once")
		})
	}
}

func TestDefaultKeepsTheStoredFormOfTheTemplate(t *testing.T) {
	t.Parallel()
	old, set := agent(t), agent(t)
	old.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways // a default
	w, dryRuns := newTestWebhook(t)
	require.NoError(t, w.Default(webhooktest.Requested(t, old), set))
	require.Empty(t, cmp.Diff(old.Spec.Template, set.Spec.Template))
	require.Equal(t, 2, *dryRuns)

	set.Spec.Template.Spec.Containers[0].Image = "bad"
	require.NoError(t, w.Default(webhooktest.Requested(t, old), set), "no default is needed for it")
	_, err := w.ValidateUpdate(webhooktest.Requested(t, old), old, set)
	require.ErrorContains(t, err, "spec.template.spec.containers[0].image")
}

func TestValidate(t *testing.T) {
	t.Parallel()
	named := func(name string) *appsv1beta1.DaemonSet {
		set := agent(t)
		set.Name = name
		return set
	}
	tests := []struct {
		name string
		set  *appsv1beta1.DaemonSet
		want string // empty: accepted
	}{
		{"a plain set is fine", agent(t), ""},
		{"a long name with dots is fine", named(strings.Repeat("x", 120) + "." + strings.Repeat("y", 121)), ""},
		{"an update on all nodes is fine", agent(t, rolling(func(r *Rolling) { r.Selector = &metav1.LabelSelector{} })), ""},
		{
			"an update on chosen nodes is fine",
			agent(t, rolling(func(r *Rolling) {
				r.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
			})), "",
		},
		{"a preDelete hook is fine", agent(t, func(s *spec) {
			s.Lifecycle = &pods.Lifecycle{PreDelete: &pods.LifecycleHook{LabelsHandler: map[string]string{"a": "b"}}}
		}), ""},

		{
			"a name that is too long for the names of revisions is refused", named(strings.Repeat("x", 243)),
			"the names of its revisions would have 254 characters, but at most 253 are allowed: use a shorter name",
		},
		{"an empty selector is refused", agent(t, func(s *spec) { s.Selector = nil }), "spec.selector: Required value: an empty selector would select every pod"},
		{
			"a selector that doesn't match the template is refused", agent(t, func(s *spec) { s.Selector.MatchLabels["app"] = "web" }),
			`spec.template.metadata.labels: Invalid value: {"app":"agent"}: the selector "app=web" doesn't match these labels`,
		},
		{
			"another restart policy is refused", agent(t, func(s *spec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }),
			`spec.template.spec.restartPolicy: Unsupported value: "OnFailure": supported values: "Always"`,
		},
		{
			"an active deadline is refused", agent(t, func(s *spec) { s.Template.Spec.ActiveDeadlineSeconds = new(int64(5)) }),
			"spec.template.spec.activeDeadlineSeconds: Forbidden: pods of a DaemonSet run indefinitely: leave it out",
		},
		{"a template that the apiserver refuses is refused", agent(t, image("bad")), "spec.template.spec.containers[0].image: Invalid value"},
		{
			"an invalid selector of nodes is refused",
			agent(t, rolling(func(r *Rolling) {
				r.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: "Near"}}}
			})),
			`spec.updateStrategy.rollingUpdate.selector: Invalid value`,
		},
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
			_, err := w.ValidateCreate(t.Context(), tt.set)
			check(err)
			old := agent(t, func(s *spec) { s.MinReadySeconds = 5 })
			_, err = w.ValidateUpdate(t.Context(), old, tt.set)
			check(err)
		})
	}
}

func TestValidateUpdateDryRunsOnlyNewTemplates(t *testing.T) {
	t.Parallel()
	w, dryRuns := newTestWebhook(t)
	busy := func(s *spec) { s.MinReadySeconds = 5 }
	_, err := w.ValidateUpdate(t.Context(), agent(t), agent(t, busy))
	require.NoError(t, err)
	_, err = w.ValidateUpdate(t.Context(), agent(t, image("bad")), agent(t, image("bad"), busy))
	require.NoError(t, err)
	require.Zero(t, *dryRuns)
	_, err = w.ValidateUpdate(t.Context(), agent(t), agent(t, image("agent:2")))
	require.NoError(t, err)
	require.Equal(t, 1, *dryRuns)
	_, err = w.ValidateUpdate(t.Context(), agent(t), agent(t, image("down")))
	require.ErrorContains(t, err, "connection refused")
	_, err = w.ValidateDelete(t.Context(), agent(t))
	require.NoError(t, err)
}

func TestFaultsOfTheOldSpecAreWarnings(t *testing.T) {
	t.Parallel()
	w, _ := newTestWebhook(t)
	wrong := func(s *spec) { s.Selector.MatchLabels["app"] = "web" }
	warnings, err := w.ValidateUpdate(t.Context(), agent(t, wrong), agent(t, wrong, image("agent:2")))
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "doesn't match these labels")
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	surge := rolling(func(r *Rolling) { r.MaxSurge, r.MaxUnavailable = new(intstr.FromInt32(1)), new(intstr.FromInt32(0)) })
	port := func(p corev1.ContainerPort) func(*spec) {
		return func(s *spec) { s.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{p} }
	}
	annotated := func(key, value string) *appsv1beta1.DaemonSet {
		set := agent(t)
		set.Annotations = map[string]string{key: value}
		return set
	}
	const taken = "spec.updateStrategy.rollingUpdate.maxSurge: container app uses a port of the node, " +
		"so a second pod can't start beside the first and no pod would be updated: use maxUnavailable"
	tests := []struct {
		name string
		set  *appsv1beta1.DaemonSet
		want string // empty: none
	}{
		{"no warning about a plain set", agent(t), ""},
		{"no warning about a surge of pods without host ports", agent(t, surge, port(corev1.ContainerPort{ContainerPort: 80})), ""},
		{"no warning about a host port without a surge", agent(t, port(corev1.ContainerPort{HostPort: 80})), ""},
		{"a surge of pods with a host port", agent(t, surge, port(corev1.ContainerPort{HostPort: 80})), taken},
		{
			"a surge of pods in the host network",
			agent(t, surge, port(corev1.ContainerPort{ContainerPort: 80}), func(s *spec) { s.Template.Spec.HostNetwork = true }), taken,
		},
		{
			"a preNormal hook", agent(t, func(s *spec) { s.Lifecycle = &pods.Lifecycle{PreNormal: &pods.LifecycleHook{}} }),
			"spec.lifecycle.preNormal has no effect on a DaemonSet: its pods are Normal once they are ready",
		},
		{
			"a rolling update with OnDelete", agent(t, func(s *spec) { s.UpdateStrategy.Type = appsv1beta1.DaemonSetOnDelete }),
			"spec.updateStrategy.rollingUpdate has no effect with type OnDelete: pods are updated when a user deletes them",
		},
		{
			"an annotation of v1alpha1", annotated(keys.DaemonSetProgressiveCreate, "true"),
			`annotation daemonset.kruise.io/progressive-create-pod: "true" has no effect: write "true" in v1alpha1, ` +
				`or set spec.scaleStrategy.partitionedScaling in v1beta1`,
		},
		{"an annotation of v1alpha1 with value false", annotated(keys.DaemonSetProgressiveCreate, "false"), ""},
		{
			"a pre-download of images", annotated(keys.ImagePreDownloadParallelism, "2"),
			"metadata.annotations[apps.kruise.io/image-predownload-parallelism]: no image will be pulled before an update because feature gate PreDownloadImageForDaemonSetUpdate is off",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := newTestWebhook(t)
			warnings, err := w.ValidateCreate(t.Context(), tt.set)
			require.NoError(t, err)
			if tt.want == "" {
				require.Empty(t, warnings)
				return
			}
			require.Equal(t, admission.Warnings{tt.want}, warnings)
			later := tt.set.DeepCopy()
			later.Spec.MinReadySeconds = 9
			warnings, err = w.ValidateUpdate(t.Context(), tt.set, later)
			require.NoError(t, err)
			require.Empty(t, warnings, "an update does not repeat the warning")
		})
	}
	t.Run("an annotation that is added later", func(t *testing.T) {
		t.Parallel()
		w, _ := newTestWebhook(t)
		warnings, err := w.ValidateUpdate(t.Context(), agent(t), annotated(keys.DaemonSetProgressiveCreate, "true"))
		require.NoError(t, err)
		require.Len(t, warnings, 1)
		require.Contains(t, warnings[0], "set spec.scaleStrategy.partitionedScaling in v1beta1")
	})
}

func TestAnUpdateWithoutSpecChangesIsNotValidated(t *testing.T) {
	t.Parallel()
	w, _ := newTestWebhook(t)
	wrong := agent(t, func(s *spec) { s.Selector = nil })
	warnings, err := w.ValidateUpdate(t.Context(), wrong, wrong.DeepCopy())
	require.NoError(t, err)
	require.Empty(t, warnings)
}
