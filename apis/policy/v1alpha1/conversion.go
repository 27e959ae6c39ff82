package v1alpha1

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
)

// Two fields of v1beta1 are annotations in v1alpha1. An annotation that can't be read stays one, so that the webhook finds it. One that
// is written in another way than here, such as with spaces, stays too, until its field is changed.

// PodUnavailableBudgetToHub sets dst to src in v1beta1. src is not changed, and neither is dst's TypeMeta.
func PodUnavailableBudgetToHub(_ context.Context, src *PodUnavailableBudget, dst *policyv1beta1.PodUnavailableBudget) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	dst.Spec = policyv1beta1.PodUnavailableBudgetSpec{
		Selector: in.Spec.Selector, TargetRef: in.Spec.TargetRef, MaxUnavailable: in.Spec.MaxUnavailable, MinAvailable: in.Spec.MinAvailable,
		IgnoredPodSelector: in.Spec.IgnoredPodSelector, ProtectNotReady: in.Spec.ProtectNotReady,
	}
	if text, ok := dst.Annotations[keys.ProtectOperations]; ok {
		dst.Spec.ProtectOperations = operations(text)
		if dst.Spec.ProtectOperations != nil && joined(dst.Spec.ProtectOperations) == text {
			delete(dst.Annotations, keys.ProtectOperations)
		}
	}
	if text, ok := dst.Annotations[keys.ProtectTotalReplicas]; ok {
		if dst.Spec.ProtectTotalReplicas = replicas(text); dst.Spec.ProtectTotalReplicas != nil && decimal(*dst.Spec.ProtectTotalReplicas) == text {
			delete(dst.Annotations, keys.ProtectTotalReplicas)
		}
	}
	if len(dst.Annotations) == 0 {
		dst.Annotations = nil
	}
	return nil
}

// PodUnavailableBudgetFromHub sets dst to src in v1alpha1. src is not changed, and neither is dst's TypeMeta.
func PodUnavailableBudgetFromHub(_ context.Context, src *policyv1beta1.PodUnavailableBudget, dst *PodUnavailableBudget) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	dst.Spec = PodUnavailableBudgetSpec{
		Selector: in.Spec.Selector, TargetRef: in.Spec.TargetRef, MaxUnavailable: in.Spec.MaxUnavailable, MinAvailable: in.Spec.MinAvailable,
		IgnoredPodSelector: in.Spec.IgnoredPodSelector, ProtectNotReady: in.Spec.ProtectNotReady,
	}
	annotate := func(key, value string) {
		if dst.Annotations == nil {
			dst.Annotations = map[string]string{}
		}
		dst.Annotations[key] = value
	}
	if is := in.Spec.ProtectOperations; len(is) > 0 && !slices.Equal(operations(dst.Annotations[keys.ProtectOperations]), is) {
		annotate(keys.ProtectOperations, joined(is))
	}
	if is := in.Spec.ProtectTotalReplicas; is != nil {
		if was := replicas(dst.Annotations[keys.ProtectTotalReplicas]); was == nil || *was != *is {
			annotate(keys.ProtectTotalReplicas, decimal(*is))
		}
	}
	return nil
}

// operations returns those of a list with commas; nil if one is not known.
func operations(text string) []policyv1beta1.Operation {
	known := []policyv1beta1.Operation{policyv1beta1.Delete, policyv1beta1.Update, policyv1beta1.Evict, policyv1beta1.Resize}
	var out []policyv1beta1.Operation
	for word := range strings.SplitSeq(text, ",") {
		o := policyv1beta1.Operation(strings.TrimSpace(word))
		if !slices.Contains(known, o) {
			return nil
		}
		out = append(out, o)
	}
	return out
}

func joined(all []policyv1beta1.Operation) string {
	words := make([]string, 0, len(all))
	for _, o := range all {
		words = append(words, string(o))
	}
	return strings.Join(words, ",")
}

// replicas returns a positive number; nil if the text is none.
func replicas(text string) *int32 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil || n < 1 {
		return nil
	}
	return new(int32(n))
}

func decimal(n int32) string { return strconv.Itoa(int(n)) }
