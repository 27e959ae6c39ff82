package main

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/cmd/checkup"
)

// probe returns a CloneSet without defaults, and one whose selector doesn't match its own template, which only the webhook detects.
func probe(namespace string) checkup.Probe {
	labels := map[string]string{"app": "flotilla-check"}
	set := func(selector map[string]string) *appsv1beta1.CloneSet {
		return &appsv1beta1.CloneSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "flotilla-check"},
			Spec: appsv1beta1.CloneSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: selector},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "flotilla-check"}}},
				},
			},
		}
	}
	return checkup.Probe{
		Good: set(labels), Bad: set(map[string]string{"app": "another"}),
		Complete: func(o client.Object) string {
			if s, ok := o.(*appsv1beta1.CloneSet); !ok || s.Spec.Replicas == nil {
				return "spec.replicas is empty"
			}
			return ""
		},
	}
}
