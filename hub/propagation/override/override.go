// Package override changes objects for some clusters.
package override

import (
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// Apply returns the object as it is in a cluster with these labels. It does not change object.
func Apply(
	overrides []fleetv1alpha1.PropagationOverride, cluster string, labels map[string]string, object *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	for i, o := range overrides {
		by, err := metav1.LabelSelectorAsSelector(o.ClusterSelector)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(o.Clusters, cluster) && !by.Matches(k8slabels.Set(labels)) ||
			o.Kind != "" && o.Kind != object.GetKind() || o.Name != "" && o.Name != object.GetName() {
			continue
		}
		raw, err := json.Marshal(o.Patches)
		if err != nil {
			return nil, err
		}
		patch, err := jsonpatch.DecodePatch(raw)
		if err != nil {
			return nil, err
		}
		was, err := json.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		is, err := patch.Apply(was)
		if err != nil {
			return nil, fmt.Errorf("override %d: %w", i, err)
		}
		object = &unstructured.Unstructured{}
		if err := json.Unmarshal(is, &object.Object); err != nil {
			return nil, err
		}
	}
	return object, nil
}
