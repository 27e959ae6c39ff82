//go:build e2e

package real

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

// TestADeploymentIsPropagatedWithWhatItUses propagates a Deployment with a ConfigMap, a PVC and an autoscaler. The autoscaler finds no
// metrics and so keeps its minimum: 2 in east, and 3 in west because of an override. In west the ConfigMap exists already and is adopted.
func TestADeploymentIsPropagatedWithWhatItUses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	red := map[string]string{"color": "red"}
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: map[string]string{"color": "green", "owner": "west"}}
	s.create(env.West, mine)

	container := app("app", port)
	container.Env = append(container.Env, corev1.EnvVar{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}, Key: "color"},
	}})
	container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	pods := template("web", container)
	pods.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "web"},
	}}}
	web := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{keys.FleetTemplate: "true"}},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: pods},
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: red}
	for _, o := range []client.Object{
		config, web,
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: storage("1Gi")},
		}},
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    new(int32(2)), MaxReplicas: 4,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(90))},
			}}},
		}},
	} {
		s.create(env.Hub, o)
	}
	named := func(apiVersion, kind string) fleetv1alpha1.PropagationSelector {
		return fleetv1alpha1.PropagationSelector{APIVersion: apiVersion, Kind: kind, Name: "web"}
	}
	inWest := func(kind, path, value string) fleetv1alpha1.PropagationOverride {
		return fleetv1alpha1.PropagationOverride{Clusters: []string{fleet.WestName}, Kind: kind, Patches: []fleetv1alpha1.PropagationPatch{{
			Op: fleetv1alpha1.PatchReplace, Path: path, Value: &apiextensionsv1.JSON{Raw: []byte(value)},
		}}}
	}
	p := &fleetv1alpha1.Propagation{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: fleetv1alpha1.PropagationSpec{
			Selectors: []fleetv1alpha1.PropagationSelector{
				named("apps/v1", "Deployment"), named("v1", "ConfigMap"), named("v1", "PersistentVolumeClaim"),
				named("autoscaling/v2", "HorizontalPodAutoscaler"),
			},
			Clusters:  fleetv1alpha1.PropagationClusters{Names: []string{fleet.EastName, fleet.WestName}},
			Overrides: []fleetv1alpha1.PropagationOverride{inWest("ConfigMap", "/data/color", `"blue"`), inWest("HorizontalPodAutoscaler", "/spec/minReplicas", "3")},
			Apply:     &fleetv1alpha1.WorkApply{Adoption: fleetv1alpha1.AdoptFull, Ignore: []string{"spec.replicas"}},
		},
	}
	s.create(env.Hub, p)
	t.Cleanup(func() { s.deleteAndAwait(p) })

	// runs waits until the members run that many ready pods of a version, each with its cluster's color.
	runs := func(version string) {
		t.Helper()
		for c, want := range map[*fleet.Cluster]struct {
			pods  int
			color string
		}{env.East: {2, "red"}, env.West: {3, "blue"}} {
			s.until(func(ctx context.Context) string {
				pods := s.pods(c, "web")
				for name, p := range pods {
					if !ready(&p) || p.Spec.Containers[0].Image != version {
						return fmt.Sprintf("%s: pod %s has image %s, ready: %t", c.Name, name, p.Spec.Containers[0].Image, ready(&p))
					}
					env, err := fetch(ctx, fmt.Sprintf("http://%s:%d/env", p.Status.PodIP, port))
					if err != nil || !slices.Contains(strings.Fields(env), "COLOR="+want.color) {
						return fmt.Sprintf("%s: pod %s does not have color %s: %s (%v)", c.Name, name, want.color, env, err)
					}
				}
				if len(pods) != want.pods {
					return fmt.Sprintf("%s runs %d pods, not %d", c.Name, len(pods), want.pods)
				}
				return ""
			})
		}
	}
	healthy := func() {
		t.Helper()
		s.until(func(ctx context.Context) string {
			if err := env.Hub.Client.Get(ctx, s.key("web"), p); err != nil {
				return err.Error()
			}
			if p.Status.ObservedGeneration != p.Generation || p.Status.Desired != 8 || p.Status.Applied != 8 || p.Status.Healthy != 8 {
				return fmt.Sprintf("%+v", p.Status)
			}
			return ""
		})
	}
	runs(imageOld)
	healthy()
	require.Empty(t, s.pods(env.Hub, "web"), "nothing runs the template on the hub")
	require.NoError(t, env.West.Client.Get(t.Context(), s.key("web"), mine))
	require.Equal(t, map[string]string{"color": "blue", "owner": "west"}, mine.Data, "an adopted object keeps the fields that the hub doesn't set")
	volumes := map[string]bool{}
	for _, c := range env.Members() {
		pvc := s.pvcs(c)["web"]
		require.Equal(t, corev1.ClaimBound, pvc.Status.Phase)
		volumes[pvc.Spec.VolumeName] = true
	}
	require.Len(t, volumes, 2, "each cluster has a volume of its own")

	// Each cluster's own Deployment controller rolls out an update. What autoscalers set stays.
	change(s, env.Hub, web, func(web *appsv1.Deployment) { image(&web.Spec.Template, imageNew) })
	runs(imageNew)
	healthy()

	// Changes by others are reverted, except in ignored fields.
	for _, c := range env.Members() {
		change(s, c, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}, func(web *appsv1.Deployment) {
			image(&web.Spec.Template, imageMissing)
		})
		change(s, c, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}},
			func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.MaxReplicas = 9 })
	}
	s.until(func(ctx context.Context) string {
		for _, c := range env.Members() {
			hpa := &autoscalingv2.HorizontalPodAutoscaler{}
			if err := c.Client.Get(ctx, s.key("web"), hpa); err != nil || hpa.Spec.MaxReplicas != 4 {
				return fmt.Sprintf("%s: the autoscaler has a maximum of %d (%v)", c.Name, hpa.Spec.MaxReplicas, err)
			}
		}
		return ""
	})
	runs(imageNew)
	healthy()

	s.deleteAndAwait(p)
	for _, c := range env.Members() {
		require.True(t, apierrors.IsNotFound(c.Client.Get(t.Context(), s.key("web"), web.DeepCopy())), c.Name)
		s.until(func(context.Context) string {
			if left := s.pods(c, "web"); len(left) > 0 {
				return fmt.Sprintf("%s still runs %d pods", c.Name, len(left))
			}
			return ""
		})
	}
	require.NoError(t, env.Hub.Client.Get(t.Context(), s.key("web"), config), "the selected object stays on the hub")
}
