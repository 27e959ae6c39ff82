package sidecarset

import (
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

// kind is the kind of the objects that this package reconciles.
const kind = "SidecarSet"

func gvk() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind) }

// versioned holds the fields of a SidecarSet that a revision contains, as OpenKruise stores them. No field is omitted, even if empty.
type versioned struct {
	Patch            string                                   `json:"$patch"`
	Containers       []appsv1beta1.SidecarContainer           `json:"containers"`
	ImagePullSecrets []corev1.LocalObjectReference            `json:"imagePullSecrets"`
	InitContainers   []appsv1beta1.SidecarContainer           `json:"initContainers"`
	PatchPodMetadata []appsv1beta1.SidecarSetPatchPodMetadata `json:"patchPodMetadata"`
	Volumes          []corev1.Volume                          `json:"volumes"`
}

// newRevision returns the revision of a SidecarSet, in the manager's namespace. Errors come from encoding/json.
func newRevision(s *appsv1beta1.SidecarSet, namespace string) (*appsv1.ControllerRevision, error) {
	raw, err := json.Marshal(map[string]any{"spec": versioned{
		Patch: "replace", Containers: s.Spec.Containers, ImagePullSecrets: s.Spec.ImagePullSecrets, InitContainers: s.Spec.InitContainers,
		PatchPodMetadata: s.Spec.PatchPodMetadata, Volumes: s.Spec.Volumes,
	}})
	if err != nil {
		return nil, fmt.Errorf("marshal the revision of SidecarSet %s: %w", s.Name, err)
	}
	// OpenKruise marshals maps, whose keys are sorted, and the revision's name depends on every byte.
	var fields any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("unmarshal the revision of SidecarSet %s: %w", s.Name, err)
	}
	if raw, err = json.Marshal(fields); err != nil {
		return nil, fmt.Errorf("marshal the revision of SidecarSet %s: %w", s.Name, err)
	}
	hash := revision.Hash(raw, s.Status.CollisionCount)
	labels := map[string]string{keys.RevisionHash: hash, keys.SidecarSetName: s.Name}
	if s.Spec.CustomVersion != "" {
		labels[keys.SidecarSetCustomVersion] = s.Spec.CustomVersion
	}
	annotations := maps.Clone(s.Annotations)
	// These describe the SidecarSet as it was applied last, not this revision of it.
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	delete(annotations, keys.ConversionData)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Name + "-" + hash, Namespace: namespace, Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, gvk())},
		},
		Data: runtime.RawExtension{Raw: raw},
	}, nil
}

// currentInjection returns the injection for the SidecarSet's current spec.
func currentInjection(s *appsv1beta1.SidecarSet) (injection, error) {
	h, err := hashesIn(s.Annotations, &s.Spec)
	return injection{set: s, spec: &s.Spec, hashes: h, revision: s.Status.LatestRevision}, err
}

// injectionOf returns the injection for a revision of a SidecarSet.
func injectionOf(s *appsv1beta1.SidecarSet, r *appsv1.ControllerRevision) (injection, error) {
	var data struct {
		Spec versioned `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return injection{}, fmt.Errorf("unmarshal revision %s: %w", r.Name, err)
	}
	spec := s.Spec.DeepCopy()
	spec.Containers, spec.InitContainers, spec.Volumes = data.Spec.Containers, data.Spec.InitContainers, data.Spec.Volumes
	spec.ImagePullSecrets, spec.PatchPodMetadata = data.Spec.ImagePullSecrets, data.Spec.PatchPodMetadata
	h, err := hashesIn(r.Annotations, spec)
	return injection{set: s, spec: spec, hashes: h, revision: r.Name}, err
}

// hashesIn returns the hashes from the annotations, or computes them if one is missing.
func hashesIn(annotations map[string]string, s *appsv1beta1.SidecarSetSpec) (hashes, error) {
	h := hashes{full: annotations[keys.SidecarSetHash], withoutImage: annotations[keys.SidecarSetHashWithoutImage]}
	if h.full != "" && h.withoutImage != "" {
		return h, nil
	}
	return hashesOf(s)
}
