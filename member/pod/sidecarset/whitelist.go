package sidecarset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// rule allows SidecarSets with matching labels to patch annotations. Without a selector it applies to all SidecarSets.
type rule struct {
	Selector *metav1.LabelSelector `json:"selector"`
	// AllowedAnnotationKeyExprs are regular expressions. One of them must match a part of the annotation key.
	AllowedAnnotationKeyExprs []string `json:"allowedAnnotationKeyExprs"`
}

// readPatchRules reads the rules. If the ConfigMap or its key doesn't exist, the list is empty.
func readPatchRules(ctx context.Context, r client.Reader, namespace string) ([]rule, error) {
	var config corev1.ConfigMap
	key := client.ObjectKey{Namespace: namespace, Name: scaletarget.ConfigMap}
	switch err := r.Get(ctx, key, &config); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get ConfigMap %s: %w", key, err)
	}
	text := config.Data[scaletarget.KeySidecarSet]
	if text == "" {
		return nil, nil
	}
	var list struct {
		Rules []rule `json:"rules"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf(`ConfigMap %s, key %s: must be {"rules":[{"selector":{},"allowedAnnotationKeyExprs":["..."]}]}: %w`,
			key, scaletarget.KeySidecarSet, err)
	}
	return list.Rules, nil
}

// validateAllowed validates that the rules allow each annotation that a SidecarSet patches.
func validateAllowed(s *appsv1beta1.SidecarSet, rules []rule) field.ErrorList {
	var faults field.ErrorList
	for i, p := range s.Spec.PatchPodMetadata {
		for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
			if !slices.ContainsFunc(rules, func(r rule) bool { return r.allows(s, key) }) {
				faults = append(faults, field.Forbidden(field.NewPath("spec", "patchPodMetadata").Index(i).Child("annotations").Key(key), fmt.Sprintf(
					"no rule allows it: add one in ConfigMap %s, key %s, or enable feature gate SidecarSetPatchPodMetadataDefaultsAllowed, which lets "+
						"SidecarSets that no rule selects patch any annotation",
					scaletarget.ConfigMap, scaletarget.KeySidecarSet)))
			}
		}
	}
	return faults
}

// selects reports whether the rule applies to a SidecarSet.
func (r rule) selects(s *appsv1beta1.SidecarSet) bool {
	return r.Selector == nil || ownership.Selects(r.Selector, s)
}

func (r rule) allows(s *appsv1beta1.SidecarSet, key string) bool {
	return r.selects(s) && slices.ContainsFunc(r.AllowedAnnotationKeyExprs, func(expr string) bool {
		re, err := regexp.Compile(expr)
		return err == nil && re.MatchString(key)
	})
}
