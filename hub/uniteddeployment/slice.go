package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// sliceSpec and friends are the parts of a UnitedDeployment that a slice's manifest holds: those that are the same in
// every cluster. They are types of their own so that what does not belong there (replicas, subsets, partitions) can't
// get there, not even as an empty field: equal templates must give equal bytes.
type sliceSpec struct {
	Selector             *metav1.LabelSelector      `json:"selector,omitempty"`
	Template             appsv1beta1.SubsetTemplate `json:"template"`
	RevisionHistoryLimit *int32                     `json:"revisionHistoryLimit,omitempty"`
}

type sliceMeta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type sliceManifest struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Metadata   sliceMeta `json:"metadata"`
	Spec       sliceSpec `json:"spec"`
}

// slicePatch is what differs by cluster, as a JSON merge patch on the manifest.
type slicePatch struct {
	Spec slicePatchSpec `json:"spec"`
}

type slicePatchSpec struct {
	Replicas       int32                                      `json:"replicas"`
	Topology       sliceTopology                              `json:"topology"`
	UpdateStrategy appsv1beta1.UnitedDeploymentUpdateStrategy `json:"updateStrategy"`
}

type sliceTopology struct {
	Subsets []appsv1beta1.Subset `json:"subsets"`
}

// noted tells whether an annotation is what a tool or this project keeps about the object on the hub. In a slice it would
// be untrue (the same tool in the member would take the slice for its own), and each time that it changes every member
// would be written to.
func noted(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	switch {
	case key == keys.ConversionData, key == keys.FleetRowUID:
		return true
	case slices.Contains([]string{
		"kubectl.kubernetes.io", "deployment.kubernetes.io", "meta.helm.sh", "argocd.argoproj.io", "pulumi.com",
		"config.kubernetes.io", "internal.config.kubernetes.io", "config.k8s.io",
	}, prefix):
		return true
	default:
		return strings.HasSuffix(prefix, ".toolkit.fluxcd.io") || strings.HasSuffix(prefix, ".cattle.io")
	}
}

// manifest is the part of all slices of ud that is the same in every cluster.
func manifest(ud *appsv1beta1.UnitedDeployment) ([]byte, error) {
	annotations := maps.Clone(ud.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return noted(key) })
	raw, err := json.Marshal(sliceManifest{
		APIVersion: appsv1beta1.GroupVersion.String(),
		Kind:       sourceKind,
		Metadata:   sliceMeta{Name: ud.Name, Namespace: ud.Namespace, Labels: ud.Labels, Annotations: annotations},
		Spec: sliceSpec{
			Selector:             ud.Spec.Selector,
			Template:             ud.Spec.Template,
			RevisionHistoryLimit: ud.Spec.RevisionHistoryLimit,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("write the manifest of %s/%s: %w", ud.Namespace, ud.Name, err)
	}
	return raw, nil
}

// patch is what one cluster gets of ud: its parts, with the grants as absolute numbers. A partition of 0 is said too:
// what a slice does not say is not put back where somebody in the member sets it.
func patch(parts []part) ([]byte, error) {
	partitions := make(map[string]int32, len(parts))
	p := slicePatch{Spec: slicePatchSpec{
		Topology: sliceTopology{Subsets: make([]appsv1beta1.Subset, 0, len(parts))},
		UpdateStrategy: appsv1beta1.UnitedDeploymentUpdateStrategy{
			Type: appsv1beta1.ManualUpdateStrategyType, ManualUpdate: &appsv1beta1.ManualUpdate{Partitions: partitions},
		},
	}}
	for _, part := range parts {
		p.Spec.Replicas += part.grant.Replicas
		subset := appsv1beta1.Subset{
			Name:             part.name,
			NodeSelectorTerm: part.spec.NodeSelectorTerm,
			Tolerations:      part.spec.Tolerations,
			Patch:            part.spec.Patch,
			Ordinals:         part.spec.Ordinals,
			Replicas:         new(intstr.FromInt32(part.grant.Replicas)),
		}
		p.Spec.Topology.Subsets = append(p.Spec.Topology.Subsets, subset)
		partitions[part.name] = part.grant.Partition
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write a slice: %w", err)
	}
	return raw, nil
}

// readSlice lays a patch over a manifest.
func readSlice(manifest, patch []byte) (*appsv1beta1.UnitedDeployment, error) {
	if len(patch) > 0 {
		merged, err := jsonpatch.MergePatch(manifest, patch)
		if err != nil {
			return nil, fmt.Errorf("lay the patch over the content: %w", err)
		}
		manifest = merged
	}
	slice := &appsv1beta1.UnitedDeployment{}
	if err := json.Unmarshal(manifest, slice); err != nil {
		return nil, fmt.Errorf("read the slice: %w", err)
	}
	return slice, nil
}
