package statefulset

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// defaultClass marks the storage class for PVCs that don't name one, as in kube 1.36.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

// validatePVCChange validates a change of volumeClaimTemplates if existing PVCs are to be resized. Only the size may change, and only in a
// storage class that allows it. A smaller size has no effect and causes a warning.
func (w *Webhook) validatePVCChange(
	ctx context.Context, old, spec *appsv1beta1.StatefulSetSpec,
) (field.ErrorList, admission.Warnings, error) {
	if !w.Gates.ResizePVCs || spec.VolumeClaimUpdateStrategy.Type != appsv1beta1.StatefulSetClaimOnPodRollingUpdate ||
		apiequality.Semantic.DeepEqual(old.VolumeClaimTemplates, spec.VolumeClaimTemplates) {
		return nil, nil, nil
	}
	path := templatesPath()
	if before, after := volumes(old), volumes(spec); !slices.Equal(before, after) {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("volumeClaimTemplates can't be added, removed or renamed (%v, now %v) "+
			"with volumeClaimUpdateStrategy.type OnPodRollingUpdate: use OnDelete for this change", before, after))}, nil, nil
	}
	var classes storagev1.StorageClassList
	if err := w.Client.List(ctx, &classes); err != nil {
		return nil, nil, fmt.Errorf("list storage classes: %w", err)
	}
	var faults field.ErrorList
	var warnings admission.Warnings
	for i := range spec.VolumeClaimTemplates {
		claim, at := &spec.VolumeClaimTemplates[i], path.Index(i)
		oldClaim := old.VolumeClaimTemplates[slices.IndexFunc(old.VolumeClaimTemplates, func(c corev1.PersistentVolumeClaim) bool {
			return c.Name == claim.Name
		})]
		before, after := oldClaim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
		size := at.Child("spec", "resources", "requests").Key(string(corev1.ResourceStorage))
		switch class := classOf(claim, classes.Items); {
		case !sameButSize(&oldClaim, claim):
			faults = append(faults, field.Forbidden(at, "only the size of PVCs can be changed "+
				"with volumeClaimUpdateStrategy.type OnPodRollingUpdate: use OnDelete for this change"))
		case after.Cmp(before) < 0:
			warnings = append(warnings, fmt.Sprintf("%s: PVCs can't shrink: PVCs of %s and more keep their size", size, before.String()))
		case after.Cmp(before) > 0 && class != nil && !ptr.Deref(class.AllowVolumeExpansion, false):
			faults = append(faults, field.Invalid(size, after.String(), fmt.Sprintf(
				"storage class %s doesn't allow resizing: set its allowVolumeExpansion, or use volumeClaimUpdateStrategy.type OnDelete "+
					"and replace the PVCs", class.Name)))
		}
	}
	return faults, warnings, nil
}

// volumes returns the names of the volumeClaimTemplates, sorted.
func volumes(spec *appsv1beta1.StatefulSetSpec) []string {
	out := make([]string, 0, len(spec.VolumeClaimTemplates))
	for i := range spec.VolumeClaimTemplates {
		out = append(out, spec.VolumeClaimTemplates[i].Name)
	}
	slices.Sort(out)
	return out
}

func templatesPath() *field.Path { return field.NewPath("spec", "volumeClaimTemplates") }

// sameButSize reports whether two templates differ only in the size, in requests and limits, and in defaults.
func sameButSize(a, b *corev1.PersistentVolumeClaim) bool {
	sizeless := func(pvc *corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
		out := *pvc.DeepCopy()
		delete(out.Spec.Resources.Requests, corev1.ResourceStorage)
		delete(out.Spec.Resources.Limits, corev1.ResourceStorage)
		return []corev1.PersistentVolumeClaim{out}
	}
	return workloadspec.SamePVCs(sizeless(a), sizeless(b))
}

// classOf returns the storage class for a template's PVCs: the one it names, or the newest default class. It returns nil if there is none, or
// if the template's class is "".
func classOf(pvc *corev1.PersistentVolumeClaim, classes []storagev1.StorageClass) *storagev1.StorageClass {
	var found *storagev1.StorageClass
	for i := range classes {
		c := &classes[i]
		if name := pvc.Spec.StorageClassName; name != nil {
			if c.Name == *name {
				return c
			}
		} else if c.Annotations[defaultClass] == "true" && (found == nil || found.CreationTimestamp.Before(&c.CreationTimestamp)) {
			found = c
		}
	}
	return found
}
