package workloadspec

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// defaultingClient is an API server that sets all sorts of defaults: for a scalar, based on another field, in lists and in nested objects.
func defaultingClient(t *testing.T, asked *int) client.Client {
	t.Helper()
	return apiserver(t, func(p *corev1.PodTemplate) error {
		*asked++
		if p.Template.Spec.Containers[0].Image == "bad" {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "", field.ErrorList{
				field.Invalid(field.NewPath("template", "spec", "containers").Index(0).Child("image"), "bad", "is bad"),
			})
		}
		setTestDefaults(&p.Template.Spec, func(c *corev1.Container) {
			c.ImagePullPolicy = corev1.PullIfNotPresent
			if c.Image == "app:latest" {
				c.ImagePullPolicy = corev1.PullAlways
			}
		})
		p.Template.Spec.DeprecatedServiceAccount = p.Template.Spec.ServiceAccountName
		return nil
	})
}

// setTestDefaults sets the defaults that the API server and OpenKruise have in common; pull sets those of imagePullPolicy.
func setTestDefaults(s *corev1.PodSpec, pull func(*corev1.Container)) {
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			c := &list[i]
			orSet(&c.TerminationMessagePath, "/dev/termination-log")
			orSet(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
			if c.ImagePullPolicy == "" {
				pull(c)
			}
			for j := range c.Ports {
				orSet(&c.Ports[j].Protocol, corev1.ProtocolTCP)
			}
			for j := range c.Env {
				if from := c.Env[j].ValueFrom; from != nil && from.FieldRef != nil {
					orSet(&from.FieldRef.APIVersion, "v1")
				}
			}
			if p := c.ReadinessProbe; p != nil {
				orSet(&p.TimeoutSeconds, 1)
				orSet(&p.PeriodSeconds, 10)
				if p.HTTPGet != nil {
					orSet(&p.HTTPGet.Scheme, corev1.URISchemeHTTP)
				}
			}
		}
	}
	orSet(&s.RestartPolicy, corev1.RestartPolicyAlways)
	orSet(&s.SchedulerName, corev1.DefaultSchedulerName)
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.PodSecurityContext{}
	}
	for i := range s.Volumes {
		if m := s.Volumes[i].ConfigMap; m != nil && m.DefaultMode == nil {
			m.DefaultMode = new(int32(0o644))
		}
	}
}

func orSet[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// storageForm returns a template in its stored form.
type storageForm func(*corev1.PodTemplateSpec) *corev1.PodTemplateSpec

// asStored lists the ways in which an object from a manifest may have been stored.
func asStored(full storageForm) map[string]storageForm {
	return map[string]storageForm{
		"bare": (*corev1.PodTemplateSpec).DeepCopy,
		"by OpenKruise": func(p *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
			out := p.DeepCopy()
			setTestDefaults(&out.Spec, func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullAlways })
			return out
		},
		"by the API server's defaults": full,
	}
}

// podTemplates draws templates as users write them.
func podTemplates() *rapid.Generator[*corev1.PodTemplateSpec] {
	return rapid.Custom(func(t *rapid.T) *corev1.PodTemplateSpec {
		maybe := func(name string) bool { return rapid.Bool().Draw(t, name) }
		out := &corev1.PodTemplateSpec{}
		out.Labels = map[string]string{"app": "web"}
		container := func(name string) corev1.Container {
			c := corev1.Container{Name: name, Image: rapid.SampledFrom([]string{"app:1", "app:latest", "app"}).Draw(t, "image")}
			if maybe("policy") {
				c.ImagePullPolicy = rapid.SampledFrom([]corev1.PullPolicy{
					corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever,
				}).Draw(t, "policy")
			}
			for i := range rapid.IntRange(0, 2).Draw(t, "ports") {
				c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: int32(80 + i)})
			}
			if maybe("env") {
				c.Env = []corev1.EnvVar{
					{Name: "A", Value: "1"}, // The same name twice is allowed.
					{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				}
			}
			if maybe("probe") && name[0] == 'c' { // Init containers have none.
				c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
			}
			if maybe("cpu") {
				c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m")}
			}
			return c
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
			out.Spec.Containers = append(out.Spec.Containers, container(fmt.Sprintf("c%d", i)))
		}
		for i := range rapid.IntRange(0, 1).Draw(t, "init containers") {
			out.Spec.InitContainers = append(out.Spec.InitContainers, container(fmt.Sprintf("i%d", i)))
		}
		if maybe("service account") {
			out.Spec.ServiceAccountName = "web"
		}
		if maybe("volume") {
			out.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}},
			}}}
		}
		return out
	})
}

func TestTheSameManifestAgainChangesNothing(t *testing.T) {
	t.Parallel()
	var asked int
	c := defaultingClient(t, &asked)
	path := field.NewPath("spec", "template")
	rapid.Check(t, func(t *rapid.T) {
		manifest := podTemplates().Draw(t, "manifest")
		var templates PodTemplates
		full := func(p *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
			out, faults, err := templates.Check(t.Context(), c, "shop", p, nil, path)
			require.NoError(t, err)
			require.Empty(t, faults)
			return out
		}
		complete := func(stored, given *corev1.PodTemplateSpec, mode Defaulting) *corev1.PodTemplateSpec {
			out, faults, err := templates.Complete(t.Context(), c, "shop", Templates{Pod: stored}, Templates{Pod: given}, mode, path)
			require.NoError(t, err)
			require.Empty(t, faults)
			return out.Pod
		}
		for how, store := range asStored(full) {
			for _, mode := range []Defaulting{AllDefaults, NoDefaults} {
				stored := store(manifest)
				require.Empty(t, cmp.Diff(stored, complete(stored, manifest, mode)), "stored %s, mode %d", how, mode)

				// Updating one image changes only that image, so that it can be done in place.
				update := manifest.DeepCopy()
				update.Spec.Containers[0].Image = "app:2"
				want := stored.DeepCopy()
				want.Spec.Containers[0].Image = "app:2"
				done := complete(stored, update, mode)
				require.Empty(t, cmp.Diff(want, done), "updated, stored %s, mode %d", how, mode)
				_, why, ok := inplace.Diff(stored, done, inplace.Options{})
				require.True(t, ok, why)
			}
		}
		stored := complete(nil, manifest, AllDefaults)
		for i := range stored.Spec.Containers {
			want := manifest.Spec.Containers[i].ImagePullPolicy
			orSet(&want, corev1.PullAlways)
			require.Equal(t, want, stored.Spec.Containers[i].ImagePullPolicy, "new objects get the default of OpenKruise")
		}
		require.Empty(t, cmp.Diff(stored, complete(stored, manifest, AllDefaults)), "stored by this webhook")
	})
}

func TestCompleteTakesOverChanges(t *testing.T) {
	t.Parallel()
	base := func() *corev1.PodTemplateSpec {
		p := template(corev1.Volume{Name: "a"}, corev1.Volume{Name: "b"})
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "log", Image: "log:1"})
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
		return p
	}
	always := func(s *corev1.PodSpec) {
		for i := range s.Containers {
			s.Containers[i].ImagePullPolicy = corev1.PullAlways
		}
	}
	for _, tt := range []struct {
		name   string
		stored func(*corev1.PodSpec)
		change func(*corev1.PodSpec)
		want   func(*corev1.PodSpec) // of the stored one
	}{
		{"order of env", always, func(s *corev1.PodSpec) {
			e := s.Containers[0].Env
			e[0], e[1] = e[1], e[0]
		}, func(s *corev1.PodSpec) {
			e := s.Containers[0].Env
			e[0], e[1] = e[1], e[0]
		}},
		{
			"a container fewer", always,
			func(s *corev1.PodSpec) { s.Containers = s.Containers[1:] },
			func(s *corev1.PodSpec) { s.Containers = s.Containers[1:] },
		},
		{"a container more", always, func(s *corev1.PodSpec) {
			s.Containers = append([]corev1.Container{{Name: "new", Image: "new:1"}}, s.Containers...)
		}, func(s *corev1.PodSpec) {
			s.Containers = append([]corev1.Container{{
				Name: "new", Image: "new:1", ImagePullPolicy: corev1.PullAlways,
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}}, s.Containers...)
		}},
		{
			"another pull policy", always,
			func(s *corev1.PodSpec) { s.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent },
			func(s *corev1.PodSpec) { s.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent },
		},
		{
			"Never is not kept", func(s *corev1.PodSpec) { s.Containers[0].ImagePullPolicy = corev1.PullNever },
			func(*corev1.PodSpec) {},
			func(s *corev1.PodSpec) { s.Containers[0].ImagePullPolicy = corev1.PullAlways },
		},
		{
			"a removed field", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"a": "b", "c": "d"} },
			func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"c": "d"} },
			func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"c": "d"} },
		},
		{
			"a removed field with its value", func(s *corev1.PodSpec) { s.HostNetwork = true },
			func(*corev1.PodSpec) {}, func(s *corev1.PodSpec) { s.HostNetwork = false },
		},
		{
			"a stored template from before a rule is replaced", func(s *corev1.PodSpec) { s.Containers[0].Image = "bad" },
			func(s *corev1.PodSpec) { s.Containers[0].Image = "app:2" },
			func(s *corev1.PodSpec) {
				s.Containers[0].Image = "app:2"
				setTestDefaults(s, func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullAlways })
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			stored, given := base(), base()
			tt.stored(&stored.Spec)
			tt.change(&given.Spec)
			want := stored.DeepCopy()
			tt.want(&want.Spec)
			var templates PodTemplates
			done, faults, err := templates.Complete(t.Context(), defaultingClient(t, &asked), "shop",
				Templates{Pod: stored}, Templates{Pod: given}, AllDefaults, field.NewPath("spec", "template"))
			require.NoError(t, err)
			require.Empty(t, faults)
			require.Empty(t, cmp.Diff(want, done.Pod))
			require.Equal(t, 2, asked, "the stored template and the given one")
		})
	}
}

func TestCompleteKeepsPVCTemplatesThatMeanTheSame(t *testing.T) {
	t.Parallel()
	stored := pvcTemplates("data", "logs")
	stored[0].Status.Phase = corev1.ClaimPending // as OpenKruise stores it
	given := pvcTemplates("new", "data", "logs")
	given[1].TypeMeta = metav1.TypeMeta{Kind: "PersistentVolumeClaim", APIVersion: "v1"}
	given[2].Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	require.False(t, SamePVCs(stored, given[1:]))
	require.True(t, SamePVCs(stored[:1], given[1:2]))

	asked := 0
	var templates PodTemplates
	for _, mode := range []Defaulting{AllDefaults, NoDefaults} {
		done, faults, err := templates.Complete(t.Context(), defaultingClient(t, &asked), "shop",
			Templates{Pod: template(), PVCs: stored}, Templates{Pod: template(), PVCs: given}, mode, field.NewPath("spec", "template"))
		require.NoError(t, err)
		require.Empty(t, faults)
		require.Equal(t, stored[0], done.PVCs[1], "a template with the same meaning keeps its form")
		require.Equal(t, given[2], done.PVCs[2], "a changed template doesn't")
		require.Equal(t, mode == AllDefaults, done.PVCs[0].Spec.VolumeMode != nil)
		require.Equal(t, *template(), *done.Pod)
	}
}

func TestCompleteAsksNothingWhereOnlyValuesChanged(t *testing.T) {
	t.Parallel()
	base := func() *corev1.PodTemplateSpec {
		p := template(corev1.Volume{Name: "a"})
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "log", Image: "log:1", ImagePullPolicy: corev1.PullAlways})
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
		return p
	}
	for _, tt := range []struct {
		name   string
		change func(*corev1.PodTemplateSpec)
		asked  int
		want   func(*corev1.PodTemplateSpec) // of the stored one; nil is change
	}{
		{"an image", func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "app:latest" }, 0, nil},
		{"the value of a variable", func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Env[1].Value = "3" }, 0, nil},
		{"labels and annotations", func(p *corev1.PodTemplateSpec) {
			p.Labels, p.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
		}, 0, nil},
		{"another pull policy", func(p *corev1.PodTemplateSpec) { p.Spec.Containers[1].ImagePullPolicy = corev1.PullNever }, 0, nil},
		{"a variable more", func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "C"})
		}, 2, nil},
		{"the order of containers", func(p *corev1.PodTemplateSpec) {
			c := p.Spec.Containers
			c[0], c[1] = c[1], c[0]
		}, 2, nil},
		{"an image, without the policy that is stored", func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[1].Image, p.Spec.Containers[1].ImagePullPolicy = "log:2", ""
		}, 2, func(p *corev1.PodTemplateSpec) { p.Spec.Containers[1].Image = "log:2" }},
		{"an image, with a default that is not stored", func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[0].Image, p.Spec.RestartPolicy = "app:2", corev1.RestartPolicyAlways
		}, 2, func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "app:2" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			given, want := base(), base()
			tt.change(given)
			if tt.want == nil {
				tt.want = tt.change
			}
			tt.want(want)
			var templates PodTemplates
			done, faults, err := templates.Complete(t.Context(), defaultingClient(t, &asked), "shop",
				Templates{Pod: base()}, Templates{Pod: given}, NoDefaults, field.NewPath("spec", "template"))
			require.NoError(t, err)
			require.Empty(t, faults)
			require.Empty(t, cmp.Diff(want, done.Pod))
			require.Equal(t, tt.asked, asked)
		})
	}
}
