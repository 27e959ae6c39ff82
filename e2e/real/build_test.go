//go:build e2e

package real

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// The images are our own: a server that returns its version.
const (
	imageOld     = "lab.example/testapp:1.0"
	imageNew     = "lab.example/testapp:2.0"
	imageNewer   = "lab.example/testapp:3.0"
	imageMissing = "lab.example/testapp:none"
	port         = 8080
)

// app returns a container that serves at a port and is ready when it does.
func app(name string, at int32) corev1.Container {
	return corev1.Container{
		Name: name, Image: imageOld, ImagePullPolicy: corev1.PullIfNotPresent,
		Env: []corev1.EnvVar{{Name: "TESTAPP_ADDR", Value: ":" + strconv.Itoa(int(at))}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(at)}},
			PeriodSeconds: 1,
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}},
	}
}

// template returns a pod template with these containers.
func template(name string, containers ...corev1.Container) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: containers, TerminationGracePeriodSeconds: new(int64(2))},
	}
}

// set returns a CloneSet that is updated in place, one pod at a time.
func set(name string, replicas int32, containers ...corev1.Container) *appsv1beta1.CloneSet {
	return &appsv1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1beta1.CloneSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name, containers...),
			UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
				PodUpdatePolicy: appsv1beta1.PodInPlaceIfPossible,
				MaxUnavailable:  new(intstr.FromInt32(1)),
			}},
		},
	}
}

// united returns a UnitedDeployment of such CloneSets, with that many pods in each member.
func united(name string, by shares) *appsv1beta1.UnitedDeployment {
	labels := map[string]string{"app": name}
	var total int32
	var subsets []appsv1beta1.Subset
	for _, cluster := range []string{"east", "west"} {
		total += by[cluster]
		subsets = append(subsets, appsv1beta1.Subset{Name: cluster, Cluster: cluster, Replicas: new(intstr.FromInt32(by[cluster]))})
	}
	subsets[len(subsets)-1].Replicas = nil // The rest.
	one := set(name, total, app("app", port))
	return &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: &total,
			Selector: one.Spec.Selector,
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: appsv1beta1.CloneSetSpec{
					Selector: one.Spec.Selector, Template: one.Spec.Template, UpdateStrategy: one.Spec.UpdateStrategy,
				},
			}},
			Topology: appsv1beta1.Topology{Subsets: subsets},
		},
	}
}

// colored gives the first container an env variable with the value of an annotation.
func colored(t *corev1.PodTemplateSpec, color string) {
	t.Annotations = map[string]string{"example.com/color": color}
	env, from := &t.Spec.Containers[0].Env, corev1.EnvVar{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['example.com/color']"},
	}}
	if !slices.ContainsFunc(*env, func(v corev1.EnvVar) bool { return v.Name == from.Name }) {
		*env = append(*env, from)
	}
}

// partitioned sets how many pods in each member stay at the old revision. Nil means none.
func partitioned(ud *appsv1beta1.UnitedDeployment, left map[string]int32) {
	ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{
		Type: appsv1beta1.ManualUpdateStrategyType, ManualUpdate: &appsv1beta1.ManualUpdate{Partitions: left},
	}
}

// image sets the image of the first container.
func image(t *corev1.PodTemplateSpec, image string) { t.Spec.Containers[0].Image = image }

// udImage sets the image in a UnitedDeployment.
func udImage(ud *appsv1beta1.UnitedDeployment, to string) {
	image(&ud.Spec.Template.CloneSetTemplate.Spec.Template, to)
}
