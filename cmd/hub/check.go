package main

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/cmd/checkup"
)

// probe returns a UnitedDeployment for no cluster at all, without defaults, and one whose selector doesn't match its template, which only the
// webhook detects.
func probe(namespace string) checkup.Probe {
	labels := map[string]string{"app": "flotilla-check"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	united := func(selected map[string]string) *appsv1beta1.UnitedDeployment {
		return &appsv1beta1.UnitedDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "flotilla-check"},
			Spec: appsv1beta1.UnitedDeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: selected},
				Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: appsv1beta1.CloneSetSpec{
						Selector: selector,
						Template: corev1.PodTemplateSpec{
							ObjectMeta: metav1.ObjectMeta{Labels: labels},
							Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "flotilla-check"}}},
						},
					},
				}},
				Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "none", ClusterSelector: selector}}},
			},
		}
	}
	return checkup.Probe{
		Good: united(labels),
		Bad:  united(map[string]string{"app": "another"}),
		Complete: func(o client.Object) string {
			if u, ok := o.(*appsv1beta1.UnitedDeployment); !ok || u.Spec.RevisionHistoryLimit == nil {
				return "spec.revisionHistoryLimit is empty"
			}
			return ""
		},
	}
}
