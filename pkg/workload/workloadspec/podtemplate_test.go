package workloadspec

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// apiserver returns a client that responds to dry runs with answer and fails the test on any other request.
func apiserver(t *testing.T, answer func(*corev1.PodTemplate) error) client.Client {
	t.Helper()
	return interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			var options client.CreateOptions
			options.ApplyOptions(opts)
			require.Equal(t, []string{metav1.DryRunAll}, options.DryRun)
			require.Equal(t, "shop", o.GetNamespace())
			return answer(o.(*corev1.PodTemplate))
		},
	})
}

func template(volumes ...corev1.Volume) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "app", Image: "a:1"}}, Volumes: volumes,
	}}
}

func pvcTemplates(names ...string) []corev1.PersistentVolumeClaim {
	out := make([]corev1.PersistentVolumeClaim, len(names))
	for i, n := range names {
		out[i].Name = n
	}
	return out
}

func names(volumes []corev1.Volume) []string {
	var out []string
	for _, v := range volumes {
		out = append(out, v.Name)
	}
	return out
}

func TestCheckReturnsDefaultsWithoutTheVolumesOfPVCs(t *testing.T) {
	t.Parallel()
	mode := int32(0o644)
	secret := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}
	}
	given := template(secret("cert"), secret("data"))
	before := given.DeepCopy()
	c := apiserver(t, func(p *corev1.PodTemplate) error {
		require.Equal(t, []string{"cert", "data", "logs"}, names(p.Template.Spec.Volumes))
		require.NotNil(t, p.Template.Spec.Volumes[1].PersistentVolumeClaim, "the PVC replaces the volume of the same name")
		p.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
		p.Template.Spec.Volumes[0].Secret.DefaultMode = &mode
		return nil
	})
	got, faults, err := new(PodTemplates).Check(t.Context(), c, "shop", given, pvcTemplates("data", "logs"), field.NewPath("spec", "template"))
	require.NoError(t, err)
	require.Empty(t, faults)

	want := before.DeepCopy()
	want.Spec.RestartPolicy = corev1.RestartPolicyAlways
	want.Spec.Volumes[0].Secret.DefaultMode = &mode
	require.Empty(t, cmp.Diff(want, got))
	require.Empty(t, cmp.Diff(before, given), "the given template is not modified")
}

func TestCheckReturnsFaultsUnderThePath(t *testing.T) {
	t.Parallel()
	c := apiserver(t, func(*corev1.PodTemplate) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "x", field.ErrorList{
			field.Required(field.NewPath("template", "spec", "containers").Index(0).Child("image"), ""),
			field.Invalid(field.NewPath("template", "spec", "hostname"), "A!", "must be a DNS label"),
		})
	})
	got, faults, err := new(PodTemplates).Check(t.Context(), c, "shop", template(), nil, field.NewPath("spec", "template"))
	require.NoError(t, err)
	require.Nil(t, got)
	require.Len(t, faults, 2)
	require.EqualError(t, faults[0], "spec.template.spec.containers[0].image: Required value")
	require.EqualError(t, faults[1], `spec.template.spec.hostname: Invalid value: "A!": must be a DNS label`)
}

// TestFaultSaysItsKindOnce: a cause states the kind of its fault twice: as its type, and in words at the start of its message.
func TestFaultSaysItsKindOnce(t *testing.T) {
	t.Parallel()
	for _, want := range []*field.Error{
		field.Invalid(field.NewPath("a"), "x", "must be a DNS label"),
		field.Invalid(field.NewPath("a"), field.OmitValueType{}, "must be a DNS label"),
		field.Required(field.NewPath("a"), ""),
		field.Forbidden(field.NewPath("a"), "may not be set"),
		field.NotSupported(field.NewPath("a"), "x", []string{"y"}),
		field.TooLong(field.NewPath("a"), "", 5),
		field.TypeInvalid(field.NewPath("a"), "x", "must be a number"),
	} {
		t.Run(want.ErrorBody(), func(t *testing.T) {
			t.Parallel()
			var refused apierrors.APIStatus = apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "x", field.ErrorList{want})
			got := Fault(refused.Status().Details.Causes[0], "spec.a")
			require.EqualError(t, got, "spec."+want.Error())
			require.Equal(t, want.Type, got.Type)
		})
	}
}

// TestFaultOfAnUnknownTypeIsInvalid: a third-party webhook may reject with causes that have no type or a custom one.
func TestFaultOfAnUnknownTypeIsInvalid(t *testing.T) {
	t.Parallel()
	for _, kind := range []metav1.CauseType{"", "ImageNotSigned"} {
		got := Fault(metav1.StatusCause{Type: kind, Message: "the image must be signed"}, "spec.a")
		require.EqualError(t, got, "spec.a: Invalid value: the image must be signed")
	}
}

func TestCheckNamesThePVCTemplateWithAnInvalidName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, fault string
		path        *field.Path
		want        string
	}{
		{"a claim", "volumes[3].name", field.NewPath("spec", "template"), "spec.volumeClaimTemplates[2].metadata.name"},
		{"a volume", "volumes[0].name", field.NewPath("spec", "template"), "spec.template.spec.volumes[0].name"},
		{"another field of a PVC's volume", "volumes[3].secret", field.NewPath("spec", "template"), "spec.template.spec.volumes[3].secret"},
		{"a PVC template beside a patch", "volumes[3].name", field.NewPath("patch"), "patch.spec.volumes[3].name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := apiserver(t, func(p *corev1.PodTemplate) error {
				require.Equal(t, []string{"cert", "data", "Logs", "data"}, names(p.Template.Spec.Volumes))
				return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "x", field.ErrorList{
					field.Duplicate(field.NewPath("template", "spec").Child(tt.fault), "data"),
				})
			})
			given := template(corev1.Volume{Name: "cert"}, corev1.Volume{Name: "data"})
			_, faults, err := new(PodTemplates).Check(t.Context(), c, "shop", given, pvcTemplates("data", "Logs", "data"), tt.path)
			require.NoError(t, err)
			require.Len(t, faults, 1)
			require.EqualError(t, faults[0], tt.want+`: Duplicate value: "data"`)
		})
	}
}

func TestCheckWithoutAnAnswerIsAnError(t *testing.T) {
	t.Parallel()
	c := apiserver(t, func(*corev1.PodTemplate) error { return errors.New("connection refused") })
	_, faults, err := new(PodTemplates).Check(t.Context(), c, "shop", template(), nil, field.NewPath("spec", "template"))
	require.EqualError(t, err, "check pod template with a dry run: connection refused")
	require.Empty(t, faults)
}

func TestDefaultPVCs(t *testing.T) {
	t.Parallel()
	block := corev1.PersistentVolumeBlock
	given := pvcTemplates("a", "b")
	given[1].Spec.VolumeMode = &block
	got := defaultPVCs(given)
	require.Equal(t, corev1.PersistentVolumeFilesystem, *got[0].Spec.VolumeMode)
	require.Equal(t, block, *got[1].Spec.VolumeMode)
	require.Nil(t, given[0].Spec.VolumeMode, "the given template is not modified")
}

func TestCheckRemembersRecentAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer error
		again  bool // the request is repeated each time
	}{
		{name: "a valid template"},
		{name: "a rejected template is checked again", again: true, answer: apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "", field.ErrorList{
			field.Required(field.NewPath("template", "spec", "containers").Index(0).Child("name"), ""),
		})},
		{name: "a template is checked again after an error", answer: errors.New("connection refused"), again: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			c := apiserver(t, func(p *corev1.PodTemplate) error {
				asked++
				p.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
				return tc.answer
			})
			clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			templates := PodTemplates{Clock: clk}
			check := func(template *corev1.PodTemplateSpec) (*corev1.PodTemplateSpec, field.ErrorList, error) {
				return templates.Check(t.Context(), c, "shop", template, nil, field.NewPath("spec", "template"))
			}
			first, faults, err := check(template())
			if first != nil {
				first.Spec.RestartPolicy = "Changed" // changed by the caller, who owns the copy
			}
			for range 3 {
				full, more, again := check(template())
				require.Equal(t, faults, more)
				require.Equal(t, err == nil, again == nil)
				if full != nil {
					require.Equal(t, corev1.RestartPolicyAlways, full.Spec.RestartPolicy)
				}
			}
			if tc.again {
				require.Equal(t, 4, asked)
				return
			}
			require.Equal(t, 1, asked)
			_, _, _ = check(template(corev1.Volume{Name: "other"}))
			require.Equal(t, 2, asked, "another template is checked")
			elsewhere := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					require.Equal(t, "other", o.GetNamespace())
					o.SetNamespace("shop")
					return c.Create(ctx, o, opts...)
				},
			})
			for range 2 {
				_, _, err := templates.Check(t.Context(), elsewhere, "other", template(), nil, field.NewPath("spec", "template"))
				require.NoError(t, err)
			}
			require.Equal(t, 3, asked, "another namespace may have other rules")
			clk.SetTime(clk.Now().Add(time.Minute))
			_, _, _ = check(template())
			require.Equal(t, 4, asked, "the rules of the API server may have changed")
		})
	}
}

func TestCheckAsksNothingAboutATemplateThatItHasCompleted(t *testing.T) {
	t.Parallel()
	asked := 0
	var templates PodTemplates
	path, pvcs := field.NewPath("spec", "template"), pvcTemplates("data")
	c := defaultingClient(t, &asked)
	full, faults, err := templates.Check(t.Context(), c, "shop", template(corev1.Volume{Name: "data"}, corev1.Volume{Name: "cert"}), pvcs, path)
	require.NoError(t, err)
	require.Empty(t, faults)
	again, faults, err := templates.Check(t.Context(), c, "shop", full, pvcs, path)
	require.NoError(t, err)
	require.Empty(t, faults)
	require.Empty(t, cmp.Diff(full, again))
	require.Equal(t, 1, asked)
	_, _, err = templates.Check(t.Context(), c, "shop", full, nil, path)
	require.NoError(t, err)
	require.Equal(t, 2, asked, "without its PVCs it is another template")
}
