package ephemeraljob

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

// webhook returns a Webhook with a fake apiserver.
func webhook() *Webhook {
	c, _ := webhooktest.Apiserver()
	return &Webhook{Client: c}
}

func TestTheApiserverChecksTheContainers(t *testing.T) {
	t.Parallel()
	c, asked := webhooktest.Apiserver()
	w := &Webhook{Client: c}
	job := debug(spec(func(s *appsv1alpha1.EphemeralJobSpec) {
		e := &s.Template.EphemeralContainers[0]
		e.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/a"}, {Name: "data", MountPath: "/b"}}
		e.VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/dev/a"}}
		e.TargetContainerName = "app"
	}))
	given := job.DeepCopy()
	said, err := w.ValidateCreate(t.Context(), job)
	require.NoError(t, err)
	require.Empty(t, said)
	require.Equal(t, given, job, "nothing is defaulted")
	require.Equal(t, 1, *asked)

	job.Spec.Template.EphemeralContainers[0].Image = "bad"
	_, err = w.ValidateCreate(t.Context(), job)
	require.ErrorContains(t, err, "spec.template.ephemeralContainers[0].image: Invalid value")
	job.Spec.Template.EphemeralContainers[0].Image = "down"
	_, err = w.ValidateCreate(t.Context(), job)
	require.ErrorContains(t, err, "check pod template with a dry run: connection refused")
}

func TestWhatNoEphemeralContainerMayHave(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	for name, change := range map[string]func(*corev1.EphemeralContainer){
		"ports":                       func(c *corev1.EphemeralContainer) { c.Ports = []corev1.ContainerPort{{}} },
		"resources":                   func(c *corev1.EphemeralContainer) { c.Resources.Claims = []corev1.ResourceClaim{{}} },
		"resizePolicy":                func(c *corev1.EphemeralContainer) { c.ResizePolicy = []corev1.ContainerResizePolicy{{}} },
		"restartPolicy":               func(c *corev1.EphemeralContainer) { c.RestartPolicy = &always },
		"restartPolicyRules":          func(c *corev1.EphemeralContainer) { c.RestartPolicyRules = []corev1.ContainerRestartRule{{}} },
		"livenessProbe":               func(c *corev1.EphemeralContainer) { c.LivenessProbe = &corev1.Probe{} },
		"readinessProbe":              func(c *corev1.EphemeralContainer) { c.ReadinessProbe = &corev1.Probe{} },
		"startupProbe":                func(c *corev1.EphemeralContainer) { c.StartupProbe = &corev1.Probe{} },
		"lifecycle":                   func(c *corev1.EphemeralContainer) { c.Lifecycle = &corev1.Lifecycle{} },
		"volumeMounts[0].subPathExpr": func(c *corev1.EphemeralContainer) { c.VolumeMounts = []corev1.VolumeMount{{SubPathExpr: "a"}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := debug()
			change(&job.Spec.Template.EphemeralContainers[0])
			_, err := webhook().ValidateCreate(t.Context(), job)
			require.ErrorContains(t, err, "spec.template.ephemeralContainers[0]."+name+": Forbidden")
		})
	}
}

func TestAMissingSelectorIsRefused(t *testing.T) {
	t.Parallel()
	_, err := webhook().ValidateCreate(t.Context(), debug(spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.Selector = nil })))
	require.ErrorContains(t, err, "spec.selector: Required value: select the pods by their labels; {} selects all pods in the namespace")
}

func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	ports := func(s *appsv1alpha1.EphemeralJobSpec) {
		s.Template.EphemeralContainers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
	}
	for _, tt := range []struct {
		name     string
		old, new func(*appsv1alpha1.EphemeralJobSpec)
		ended    bool
		says     string
		refused  string
	}{
		{name: "everything may change", new: func(s *appsv1alpha1.EphemeralJobSpec) {
			s.Selector.MatchLabels["app"], s.Paused, s.Replicas = "db", true, new(int32(1))
			s.Template.EphemeralContainers[0].Image = "tools:2"
		}},
		{name: "metadata of an invalid job may change", old: ports, new: ports},
		{name: "a new fault is refused", new: ports, refused: "ephemeralContainers[0].ports: Forbidden"},
		{name: "a fault of the stored spec causes a warning", old: ports, new: func(s *appsv1alpha1.EphemeralJobSpec) { ports(s); s.Paused = true }, says: "ephemeralContainers[0].ports"},
		{name: "the apiserver checks new containers", new: func(s *appsv1alpha1.EphemeralJobSpec) { s.Template.EphemeralContainers[0].Image = "bad" }, refused: "image: Invalid value"},
		{name: "a job that has ended adds nothing", ended: true, new: func(s *appsv1alpha1.EphemeralJobSpec) { s.Replicas = new(int32(1)) }, says: "the job has ended"},
		{name: "the TTL of a finished job may change", ended: true, new: func(s *appsv1alpha1.EphemeralJobSpec) { s.TTLSecondsAfterFinished = new(int32(1)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			old, job := debug(), debug()
			if tt.old != nil {
				tt.old(&old.Spec)
			}
			tt.new(&job.Spec)
			if tt.ended {
				job.Status.Phase = appsv1alpha1.EphemeralJobFailed
			}
			said, err := webhook().ValidateUpdate(t.Context(), old, job)
			if tt.refused != "" {
				require.ErrorContains(t, err, tt.refused)
				return
			}
			require.NoError(t, err)
			if tt.says == "" {
				require.Empty(t, said)
				return
			}
			require.Len(t, said, 1)
			require.Contains(t, said[0], tt.says)
		})
	}
	_, err := webhook().ValidateDelete(t.Context(), debug())
	require.NoError(t, err)
}
