package podcontrol

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Discovery is what CanResize needs of a discovery client.
type Discovery interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// CanResize reports whether the apiserver has the subresource resize of pods, as Kubernetes does from 1.33 on.
// Without it, resources of a running pod can't be changed.
func CanResize(d Discovery) (bool, error) {
	list, err := d.ServerResourcesForGroupVersion(corev1.SchemeGroupVersion.String())
	if err != nil {
		return false, fmt.Errorf("discover whether pods can be resized: %w", err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "pods/resize" }), nil
}
