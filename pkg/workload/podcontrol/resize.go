package podcontrol

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Discovery is the part of a discovery client that CanResize needs.
type Discovery interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// CanResize reports whether the API server has the resize subresource of pods, as Kubernetes does since 1.33. Without it, the resources of a
// running pod can't be changed.
func CanResize(d Discovery) (bool, error) {
	list, err := d.ServerResourcesForGroupVersion(corev1.SchemeGroupVersion.String())
	if err != nil {
		return false, fmt.Errorf("discover whether pods can be resized: %w", err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "pods/resize" }), nil
}
