package v1alpha1

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// Names of the parts of a SidecarSet in keys.ConversionData.
const (
	partNamespaces    = "namespaceSelector"
	partCustomVersion = "customVersion"
)

// namespaces selects the namespaces of the pods of a SidecarSet.
type (
	namespacesV1alpha1 struct {
		Namespace string                `json:"namespace,omitempty"`
		Selector  *metav1.LabelSelector `json:"selector,omitempty"`
	}
	namespacesV1beta1 struct {
		Selector *metav1.LabelSelector `json:"selector,omitempty"`
	}
)

func namespacesToV1beta1(a namespacesV1alpha1) namespacesV1beta1 {
	if a.Namespace == "" {
		return namespacesV1beta1{Selector: a.Selector}
	}
	return namespacesV1beta1{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: a.Namespace}}}
}

func namespacesToV1alpha1(b namespacesV1beta1) namespacesV1alpha1 {
	return namespacesV1alpha1{Selector: b.Selector}
}

// customVersion is the name of the current revision. It is a label in v1alpha1. In v1beta1 it is a field, and the label has no meaning.
type (
	customVersionV1alpha1 struct {
		Label *string `json:"label,omitempty"`
	}
	customVersionV1beta1 struct {
		Label   *string `json:"label,omitempty"`
		Version string  `json:"version,omitempty"`
	}
)

func customVersionToV1beta1(a customVersionV1alpha1) customVersionV1beta1 {
	if a.Label == nil || *a.Label == "" {
		return customVersionV1beta1{Label: a.Label}
	}
	return customVersionV1beta1{Version: *a.Label}
}

func customVersionToV1alpha1(b customVersionV1beta1) customVersionV1alpha1 {
	if b.Version == "" {
		return customVersionV1alpha1{}
	}
	return customVersionV1alpha1{Label: &b.Version}
}

// takeCustomVersion removes the label from the metadata and returns it.
func takeCustomVersion(meta *metav1.ObjectMeta) *string {
	value, ok := meta.Labels[keys.SidecarSetCustomVersion]
	if !ok {
		return nil
	}
	meta.Labels = without(meta.Labels, keys.SidecarSetCustomVersion)
	return &value
}

func putCustomVersion(meta *metav1.ObjectMeta, value *string) {
	if value != nil {
		meta.Labels = with(meta.Labels, keys.SidecarSetCustomVersion, *value)
	}
}

// SidecarSetToHub converts a SidecarSet from v1alpha1 to v1beta1: namespace becomes a namespaceSelector, and the label
// keys.SidecarSetCustomVersion becomes customVersion. It doesn't change src or the TypeMeta of dst. See CloneSetToHub for the error.
func SidecarSetToHub(_ context.Context, src *SidecarSet, dst *appsv1beta1.SidecarSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	t := newTransfer(&dst.ObjectMeta, wordsV1alpha1, wordsV1beta1)
	where, err := convert(t, partNamespaces, namespacesV1alpha1{in.Spec.Namespace, in.Spec.NamespaceSelector}, namespacesToV1beta1, namespacesToV1alpha1)
	if err != nil {
		return fmt.Errorf("convert SidecarSet %s to v1beta1: %w", src.Name, err)
	}
	version, err := convert(t, partCustomVersion, customVersionV1alpha1{takeCustomVersion(&dst.ObjectMeta)}, customVersionToV1beta1, customVersionToV1alpha1)
	if err != nil {
		return fmt.Errorf("convert SidecarSet %s to v1beta1: %w", src.Name, err)
	}
	putCustomVersion(&dst.ObjectMeta, version.Label)
	dst.Spec = appsv1beta1.SidecarSetSpec{
		Selector: in.Spec.Selector, NamespaceSelector: where.Selector, InitContainers: in.Spec.InitContainers, Containers: in.Spec.Containers,
		Volumes: in.Spec.Volumes, UpdateStrategy: in.Spec.UpdateStrategy, InjectionStrategy: in.Spec.InjectionStrategy,
		ImagePullSecrets: in.Spec.ImagePullSecrets, RevisionHistoryLimit: in.Spec.RevisionHistoryLimit,
		PatchPodMetadata: in.Spec.PatchPodMetadata, CustomVersion: version.Version,
	}
	return t.end(&dst.ObjectMeta)
}

// SidecarSetFromHub converts a SidecarSet from v1beta1 to v1alpha1, with the inverse of the rules of SidecarSetToHub, except that a
// namespaceSelector stays one. It doesn't change src or the TypeMeta of dst. See CloneSetToHub for the error.
func SidecarSetFromHub(_ context.Context, src *appsv1beta1.SidecarSet, dst *SidecarSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	t := newTransfer(&dst.ObjectMeta, wordsV1beta1, wordsV1alpha1)
	where, err := convert(t, partNamespaces, namespacesV1beta1{in.Spec.NamespaceSelector}, namespacesToV1alpha1, namespacesToV1beta1)
	if err != nil {
		return fmt.Errorf("convert SidecarSet %s to v1alpha1: %w", src.Name, err)
	}
	stored := customVersionV1beta1{Label: takeCustomVersion(&dst.ObjectMeta), Version: in.Spec.CustomVersion}
	version, err := convert(t, partCustomVersion, stored, customVersionToV1alpha1, customVersionToV1beta1)
	if err != nil {
		return fmt.Errorf("convert SidecarSet %s to v1alpha1: %w", src.Name, err)
	}
	putCustomVersion(&dst.ObjectMeta, version.Label)
	dst.Spec = SidecarSetSpec{
		Selector: in.Spec.Selector, Namespace: where.Namespace, NamespaceSelector: where.Selector, InitContainers: in.Spec.InitContainers,
		Containers: in.Spec.Containers, Volumes: in.Spec.Volumes, UpdateStrategy: in.Spec.UpdateStrategy,
		InjectionStrategy: in.Spec.InjectionStrategy, ImagePullSecrets: in.Spec.ImagePullSecrets,
		RevisionHistoryLimit: in.Spec.RevisionHistoryLimit, PatchPodMetadata: in.Spec.PatchPodMetadata,
	}
	return t.end(&dst.ObjectMeta)
}
