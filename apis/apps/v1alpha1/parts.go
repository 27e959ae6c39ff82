package v1alpha1

import (
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// This file contains the three parts of a CloneSet that differ between the versions. Each is a pair of structs with the rules between them.
// They apply to CloneSets and to the cloneSetTemplate of a UnitedDeployment.

// update specifies how pods are updated to a new revision.
type (
	updateV1alpha1 struct {
		Strategy SubsetCloneSetUpdateStrategy `json:"strategy"`
		// Annotations are the annotations of the image pre-download.
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	updateV1beta1 struct {
		Strategy appsv1beta1.CloneSetUpdateStrategy `json:"strategy"`
		// Annotations are the annotations of the image pre-download that exist here but have no effect.
		Annotations map[string]string `json:"annotations,omitempty"`
	}
)

// updateToV1beta1 applies these rules: OnDelete has no rollingUpdate. Any other type becomes RollingUpdate with the podUpdatePolicy of that
// name, or ReCreate if it is empty. An invalid value is kept, so that it is rejected. Annotations of the image pre-download become fields.
func updateToV1beta1(a updateV1alpha1) updateV1beta1 {
	flat := a.Strategy.CloneSetUpdateStrategy
	annotations, preDownload := readPreDownload(a.Annotations)
	if flat.Type == CloneSetOnDelete {
		return updateV1beta1{
			Strategy: appsv1beta1.CloneSetUpdateStrategy{
				Type:          appsv1beta1.CloneSetOnDelete,
				RollingUpdate: a.Strategy.RollingUpdate.DeepCopy(),
			},
			Annotations: annotations,
		}
	}
	rolling := &appsv1beta1.CloneSetRollingUpdateStrategy{
		Partition:             flat.Partition,
		MaxUnavailable:        flat.MaxUnavailable,
		MaxSurge:              flat.MaxSurge,
		Paused:                flat.Paused,
		PodUpdatePolicy:       appsv1beta1.PodReCreate,
		PriorityStrategy:      flat.PriorityStrategy,
		ScatterStrategy:       flat.ScatterStrategy,
		InPlaceUpdateStrategy: preDownload.into(flat.InPlaceUpdateStrategy),
	}
	if flat.Type != "" && flat.Type != typeOfV1beta1 {
		rolling.PodUpdatePolicy = appsv1beta1.PodUpdatePolicy(flat.Type)
	}
	if a.Strategy.RollingUpdate != nil {
		overlay(rolling, a.Strategy.RollingUpdate)
	}
	return updateV1beta1{
		Strategy:    appsv1beta1.CloneSetUpdateStrategy{Type: appsv1beta1.CloneSetRollingUpdate, RollingUpdate: rolling},
		Annotations: annotations,
	}
}

// updateToV1alpha1 applies these rules: OnDelete stays, and otherwise the type is the podUpdatePolicy, or ReCreate if that is empty. Fields
// of the image pre-download become annotations.
func updateToV1alpha1(b updateV1beta1) updateV1alpha1 {
	// Annotations without effect in v1beta1 would have one here.
	annotations, _ := readPreDownload(b.Annotations)
	a := updateV1alpha1{Annotations: annotations}
	flat := &a.Strategy.CloneSetUpdateStrategy
	flat.Type = CloneSetReCreate
	if r := b.Strategy.RollingUpdate; r != nil {
		if r.PodUpdatePolicy != "" {
			flat.Type = CloneSetUpdateStrategyType(r.PodUpdatePolicy)
		}
		flat.Partition = r.Partition
		flat.MaxUnavailable = r.MaxUnavailable
		flat.MaxSurge = r.MaxSurge
		flat.Paused = r.Paused
		flat.PriorityStrategy = r.PriorityStrategy
		flat.ScatterStrategy = r.ScatterStrategy
		flat.InPlaceUpdateStrategy, a.Annotations = writePreDownload(r.InPlaceUpdateStrategy, annotations)
	}
	if b.Strategy.Type == appsv1beta1.CloneSetOnDelete {
		flat.Type = CloneSetOnDelete
	}
	return a
}

// overlay copies each field that is set in over to r.
func overlay(r, over *appsv1beta1.CloneSetRollingUpdateStrategy) {
	if over.Partition != nil {
		r.Partition = over.Partition
	}
	if over.MaxUnavailable != nil {
		r.MaxUnavailable = over.MaxUnavailable
	}
	if over.MaxSurge != nil {
		r.MaxSurge = over.MaxSurge
	}
	if over.Paused {
		r.Paused = true
	}
	if over.PodUpdatePolicy != "" {
		r.PodUpdatePolicy = over.PodUpdatePolicy
	}
	if over.PriorityStrategy != nil {
		r.PriorityStrategy = over.PriorityStrategy
	}
	if over.ScatterStrategy != nil {
		r.ScatterStrategy = over.ScatterStrategy
	}
	if over.InPlaceUpdateStrategy != nil {
		r.InPlaceUpdateStrategy = over.InPlaceUpdateStrategy
	}
}

// claimReuse specifies whether the PVCs of lost pods are reused. The defaults differ on purpose: a v1alpha1 object that doesn't set it has
// always reused PVCs, a v1beta1 object has not.
type (
	claimReuseV1alpha1 struct {
		Disable bool  `json:"disable,omitempty"`
		Enable  *bool `json:"enable,omitempty"`
	}
	claimReuseV1beta1 struct {
		Enable bool `json:"enable,omitempty"`
	}
)

func claimReuseToV1beta1(a claimReuseV1alpha1) claimReuseV1beta1 {
	if a.Enable != nil {
		return claimReuseV1beta1{Enable: *a.Enable}
	}
	return claimReuseV1beta1{Enable: !a.Disable}
}

func claimReuseToV1alpha1(b claimReuseV1beta1) claimReuseV1alpha1 {
	return claimReuseV1alpha1{Disable: !b.Enable}
}

// exclude specifies whether pods that a preDelete hook holds are excluded from the count. Both versions have the label, which isn't
// changed.
type (
	excludeV1alpha1 struct {
		Label   *string `json:"label,omitempty"`
		Exclude *bool   `json:"exclude,omitempty"`
	}
	excludeV1beta1 struct {
		Label   *string `json:"label,omitempty"`
		Exclude bool    `json:"exclude,omitempty"`
	}
)

func excludeToV1beta1(a excludeV1alpha1) excludeV1beta1 {
	if a.Exclude != nil {
		return excludeV1beta1{Label: a.Label, Exclude: *a.Exclude}
	}
	return excludeV1beta1{Label: a.Label, Exclude: a.Label != nil && *a.Label == "true"}
}

func excludeToV1alpha1(b excludeV1beta1) excludeV1alpha1 {
	return excludeV1alpha1{Label: b.Label}
}

func excludeLabel(meta *metav1.ObjectMeta) *string {
	if v, ok := meta.Labels[keys.CloneSetExcludePreparingDelete]; ok {
		return &v
	}
	return nil
}

// preDownload is the content of the annotations of the image pre-download. Fields are nil if their annotation is missing or invalid.
type preDownload struct {
	parallelism         *intstr.IntOrString
	timeoutSeconds      *int32
	minUpdatedReadyPods *int32
}

// preDownloadAnnotations returns the annotations of the image pre-download in m.
func preDownloadAnnotations(m map[string]string) map[string]string {
	var own map[string]string
	for _, key := range []string{
		keys.ImagePreDownloadParallelism, keys.ImagePreDownloadTimeoutSeconds, keys.ImagePreDownloadMinUpdatedReadyPods,
	} {
		if v, ok := m[key]; ok {
			own = with(own, key, v)
		}
	}
	return own
}

// replacePreDownload returns m with the annotations of the image pre-download replaced by those in own.
func replacePreDownload(m, own map[string]string) map[string]string {
	for key := range preDownloadAnnotations(m) {
		m = without(m, key)
	}
	for key, v := range preDownloadAnnotations(own) {
		m = with(m, key, v)
	}
	return m
}

// readPreDownload returns the content of the annotations, and the annotations that can't be parsed and therefore have no effect.
func readPreDownload(annotations map[string]string) (unread map[string]string, said preDownload) {
	for key, v := range annotations {
		read := false
		switch key {
		case keys.ImagePreDownloadParallelism:
			said.parallelism, read = parseNumberOrPercent(v)
		case keys.ImagePreDownloadTimeoutSeconds:
			said.timeoutSeconds, read = parseNumber(v)
		case keys.ImagePreDownloadMinUpdatedReadyPods:
			said.minUpdatedReadyPods, read = parseNumber(v)
		}
		if !read {
			unread = with(unread, key, v)
		}
	}
	return unread, said
}

// into returns s with the content of the annotations. It returns s itself if there are none.
func (p preDownload) into(s *pods.InPlaceUpdateStrategy) *pods.InPlaceUpdateStrategy {
	if p == (preDownload{}) {
		return s
	}
	out := &pods.InPlaceUpdateStrategy{}
	if s != nil {
		*out = *s
	}
	if p.parallelism != nil {
		out.ImagePreDownloadParallelism = p.parallelism
	}
	if p.timeoutSeconds != nil {
		out.ImagePreDownloadTimeoutSeconds = p.timeoutSeconds
	}
	if p.minUpdatedReadyPods != nil {
		out.ImagePreDownloadMinUpdatedReadyPods = p.minUpdatedReadyPods
	}
	return out
}

// writePreDownload returns s without the fields of the image pre-download, and annotations with these fields added.
func writePreDownload(s *pods.InPlaceUpdateStrategy, annotations map[string]string) (*pods.InPlaceUpdateStrategy, map[string]string) {
	if s == nil {
		return nil, annotations
	}
	if v := s.ImagePreDownloadParallelism; v != nil {
		annotations = with(annotations, keys.ImagePreDownloadParallelism, v.String())
	}
	if v := s.ImagePreDownloadTimeoutSeconds; v != nil {
		annotations = with(annotations, keys.ImagePreDownloadTimeoutSeconds, strconv.Itoa(int(*v)))
	}
	if v := s.ImagePreDownloadMinUpdatedReadyPods; v != nil {
		annotations = with(annotations, keys.ImagePreDownloadMinUpdatedReadyPods, strconv.Itoa(int(*v)))
	}
	return &pods.InPlaceUpdateStrategy{GracePeriodSeconds: s.GracePeriodSeconds}, annotations
}

func parseNumber(v string) (*int32, bool) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return nil, false
	}
	i := int32(n)
	return &i, true
}

func parseNumberOrPercent(v string) (*intstr.IntOrString, bool) {
	if number, isPercent := strings.CutSuffix(v, "%"); isPercent {
		if _, ok := parseNumber(number); !ok {
			return nil, false
		}
		s := intstr.FromString(v)
		return &s, true
	}
	n, ok := parseNumber(v)
	if !ok {
		return nil, false
	}
	i := intstr.FromInt32(*n)
	return &i, true
}

// with returns a copy of m with key set.
func with(m map[string]string, key, value string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, m)
	out[key] = value
	return out
}
