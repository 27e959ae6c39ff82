package v1alpha1

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// The snapshot of containers and the time since when the pod is not ready are annotations in v1alpha1, and part of the status in v1beta1.
// The other conditions are in the status of both versions.

// partRecreate is the part of a ContainerRecreateRequest that is in different places in the two versions.
const partRecreate = "recreate"

// recreateHub is this part in v1beta1.
type recreateHub struct {
	Snapshot   []appsv1beta1.ContainerStatusSnapshot `json:"snapshot,omitempty"`
	Conditions []metav1.Condition                    `json:"conditions,omitempty"`
	// Annotations are the annotations of v1alpha1, which are also kept in v1beta1 if they can't be parsed.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// recreateOld is this part in v1alpha1.
type recreateOld struct {
	Annotations map[string]string  `json:"annotations,omitempty"`
	Conditions  []metav1.Condition `json:"conditions,omitempty"`
}

// recreateAnnotations removes the annotations that have a meaning only in v1alpha1 from the metadata and returns them. It returns nil if
// there are none.
func recreateAnnotations(meta *metav1.ObjectMeta) map[string]string {
	var out map[string]string
	for _, key := range []string{keys.RecreateStatuses, keys.RecreateUnready} {
		if value, ok := meta.Annotations[key]; ok {
			out = with(out, key, value)
			meta.Annotations = without(meta.Annotations, key)
		}
	}
	return out
}

// annotate adds annotations to the metadata.
func annotate(meta *metav1.ObjectMeta, annotations map[string]string) {
	for key, value := range annotations {
		meta.Annotations = with(meta.Annotations, key, value)
	}
}

// ContainerRecreateRequestToHub sets dst to the v1beta1 form of src. It doesn't change src or the TypeMeta of dst.
func ContainerRecreateRequestToHub(_ context.Context, src *ContainerRecreateRequest, dst *appsv1beta1.ContainerRecreateRequest) error {
	in := src.DeepCopy()
	t := newTransfer(&in.ObjectMeta, wordsV1alpha1, wordsV1beta1)
	part, err := convert(t, partRecreate, recreateOld{Annotations: recreateAnnotations(&in.ObjectMeta), Conditions: in.Status.Conditions},
		recreateToHub, recreateFromHub)
	if err != nil {
		return err
	}
	dst.ObjectMeta, dst.Spec = in.ObjectMeta, in.Spec
	annotate(&dst.ObjectMeta, part.Annotations)
	dst.Status = appsv1beta1.ContainerRecreateRequestStatus{
		ObservedGeneration: in.Status.ObservedGeneration,
		Phase:              in.Status.Phase, CompletionTime: in.Status.CompletionTime, Message: in.Status.Message,
		ContainerRecreateStates: in.Status.ContainerRecreateStates, ContainerStatusSnapshot: part.Snapshot, Conditions: part.Conditions,
	}
	return t.end(&dst.ObjectMeta)
}

// ContainerRecreateRequestFromHub sets dst to the v1alpha1 form of src. It doesn't change src or the TypeMeta of dst.
func ContainerRecreateRequestFromHub(_ context.Context, src *appsv1beta1.ContainerRecreateRequest, dst *ContainerRecreateRequest) error {
	in := src.DeepCopy()
	t := newTransfer(&in.ObjectMeta, wordsV1beta1, wordsV1alpha1)
	part, err := convert(t, partRecreate, recreateHub{
		Snapshot: in.Status.ContainerStatusSnapshot, Conditions: in.Status.Conditions, Annotations: recreateAnnotations(&in.ObjectMeta),
	}, recreateFromHub, recreateToHub)
	if err != nil {
		return err
	}
	dst.ObjectMeta, dst.Spec = in.ObjectMeta, in.Spec
	annotate(&dst.ObjectMeta, part.Annotations)
	dst.Status = ContainerRecreateRequestStatus{
		ObservedGeneration: in.Status.ObservedGeneration,
		Phase:              in.Status.Phase, CompletionTime: in.Status.CompletionTime, Message: in.Status.Message,
		ContainerRecreateStates: in.Status.ContainerRecreateStates, Conditions: part.Conditions,
	}
	return t.end(&dst.ObjectMeta)
}

// recreateToHub parses the annotations. Annotations that can't be parsed are kept.
func recreateToHub(in recreateOld) recreateHub {
	var out recreateHub
	for key, value := range in.Annotations {
		at, err := time.Parse(time.RFC3339, value)
		switch {
		case key == keys.RecreateUnready && err == nil:
			out.Conditions = []metav1.Condition{{
				Type: appsv1beta1.RecreatePreGrace, Status: metav1.ConditionTrue, Reason: appsv1beta1.RecreatePreGrace,
				LastTransitionTime: metav1.NewTime(at),
			}}
			continue
		case key == keys.RecreateStatuses && json.Unmarshal([]byte(value), &out.Snapshot) == nil:
			continue
		case key == keys.RecreateStatuses:
			out.Snapshot = nil
		}
		out.Annotations = with(out.Annotations, key, value)
	}
	out.Conditions = append(out.Conditions, in.Conditions...)
	return out
}

// recreateFromHub writes the annotations.
func recreateFromHub(in recreateHub) recreateOld {
	out := recreateOld{Annotations: in.Annotations}
	if len(in.Snapshot) > 0 {
		text, _ := json.Marshal(in.Snapshot) // Strings, bools and numbers always marshal.
		out.Annotations = with(out.Annotations, keys.RecreateStatuses, string(text))
	}
	for i := range in.Conditions {
		if c := &in.Conditions[i]; c.Type == appsv1beta1.RecreatePreGrace && c.Status == metav1.ConditionTrue {
			out.Annotations = with(out.Annotations, keys.RecreateUnready, c.LastTransitionTime.UTC().Format(time.RFC3339))
		} else {
			out.Conditions = append(out.Conditions, *c)
		}
	}
	return out
}
