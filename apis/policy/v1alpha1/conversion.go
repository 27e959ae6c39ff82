package v1alpha1

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
)

// Two fields of v1beta1 are annotations in v1alpha1. An annotation that can't be parsed is kept, so that the webhook can report it. An
// annotation in a different format than the one written here, for example with spaces, is also kept until its field changes.

// PodUnavailableBudgetToHub sets dst to the v1beta1 form of src. It doesn't change src or the TypeMeta of dst.
func PodUnavailableBudgetToHub(_ context.Context, src *PodUnavailableBudget, dst *policyv1beta1.PodUnavailableBudget) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	dst.Spec = policyv1beta1.PodUnavailableBudgetSpec{
		Selector: in.Spec.Selector, TargetRef: in.Spec.TargetRef, MaxUnavailable: in.Spec.MaxUnavailable, MinAvailable: in.Spec.MinAvailable,
		IgnoredPodSelector: in.Spec.IgnoredPodSelector, ProtectNotReady: in.Spec.ProtectNotReady,
	}
	if text, ok := dst.Annotations[keys.ProtectOperations]; ok {
		dst.Spec.ProtectOperations = parseOperations(text)
		if dst.Spec.ProtectOperations != nil && joinOperations(dst.Spec.ProtectOperations) == text {
			delete(dst.Annotations, keys.ProtectOperations)
		}
	}
	if text, ok := dst.Annotations[keys.ProtectTotalReplicas]; ok {
		dst.Spec.ProtectTotalReplicas = parseReplicas(text)
		if n := dst.Spec.ProtectTotalReplicas; n != nil && formatInt32(*n) == text {
			delete(dst.Annotations, keys.ProtectTotalReplicas)
		}
	}
	if len(dst.Annotations) == 0 {
		dst.Annotations = nil
	}
	return nil
}

// PodUnavailableBudgetFromHub sets dst to the v1alpha1 form of src. It doesn't change src or the TypeMeta of dst.
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
	if ours := in.Spec.ProtectOperations; len(ours) > 0 && !slices.Equal(parseOperations(dst.Annotations[keys.ProtectOperations]), ours) {
		annotate(keys.ProtectOperations, joinOperations(ours))
	}
	if current := in.Spec.ProtectTotalReplicas; current != nil {
		if annotated := parseReplicas(dst.Annotations[keys.ProtectTotalReplicas]); annotated == nil || *annotated != *current {
			annotate(keys.ProtectTotalReplicas, formatInt32(*current))
		}
	}
	return nil
}

// parseOperations parses a comma-separated list of operations. It returns nil if one of them is unknown.
func parseOperations(text string) []policyv1beta1.Operation {
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

func joinOperations(all []policyv1beta1.Operation) string {
	words := make([]string, 0, len(all))
	for _, o := range all {
		words = append(words, string(o))
	}
	return strings.Join(words, ",")
}

// parseReplicas parses a positive number. It returns nil if the text isn't one.
func parseReplicas(text string) *int32 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil || n < 1 {
		return nil
	}
	return new(int32(n))
}

func formatInt32(n int32) string { return strconv.Itoa(int(n)) }
