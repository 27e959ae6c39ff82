//go:build e2e

package suite

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

const (
	imageOld = "registry.example/app:1.0"
	imageNew = "registry.example/app:2.0"
)

// united returns a UnitedDeployment of CloneSets that are updated in place, half of their pods at a time.
func united(name string, replicas int32, subsets ...appsv1beta1.Subset) *appsv1beta1.UnitedDeployment {
	labels := map[string]string{"app": name}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	return &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: &replicas,
			Selector: selector,
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: appsv1beta1.CloneSetSpec{
					Selector: selector,
					UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
						PodUpdatePolicy: appsv1beta1.PodInPlaceIfPossible,
						MaxUnavailable:  new(intstr.FromString("50%")),
					}},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: imageOld}}},
					},
				},
			}},
			Topology: appsv1beta1.Topology{Subsets: subsets},
		},
	}
}

// in returns a subset that is named after its cluster. With share "" it gets the rest.
func in(cluster, share string) appsv1beta1.Subset {
	s := appsv1beta1.Subset{Name: cluster, Cluster: cluster}
	if share != "" {
		s.Replicas = new(intstr.Parse(share))
	}
	return s
}

// between returns a subset with elastic bounds. -1 omits a bound.
func between(cluster string, least, most int) appsv1beta1.Subset {
	s := appsv1beta1.Subset{Name: cluster, Cluster: cluster}
	if least >= 0 {
		s.MinReplicas = new(intstr.FromInt(least))
	}
	if most >= 0 {
		s.MaxReplicas = new(intstr.FromInt(most))
	}
	return s
}

// image sets the image of the template.
func image(ud *appsv1beta1.UnitedDeployment, image string) {
	ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = image
}

// partitions sets how many pods of each subset stay at the old revision.
func partitions(ud *appsv1beta1.UnitedDeployment, by map[string]int32) {
	ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{
		Type: appsv1beta1.ManualUpdateStrategyType, ManualUpdate: &appsv1beta1.ManualUpdate{Partitions: by},
	}
}

// condition returns a condition of an object, or a placeholder if it is missing.
func condition(ud *appsv1beta1.UnitedDeployment, kind appsv1beta1.UnitedDeploymentConditionType) appsv1beta1.UnitedDeploymentCondition {
	for _, c := range ud.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return appsv1beta1.UnitedDeploymentCondition{Type: kind, Status: "absent"}
}

// bySelector returns a subset in every cluster with the labels.
func bySelector(name string, labels map[string]string) appsv1beta1.Subset {
	return appsv1beta1.Subset{Name: name, ClusterSelector: &metav1.LabelSelector{MatchLabels: labels}}
}
