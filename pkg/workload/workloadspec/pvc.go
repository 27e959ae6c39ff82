package workloadspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ClaimTemplates validates what the API server requires of each PVC but would only reject when pods are created.
func ClaimTemplates(pvcs []corev1.PersistentVolumeClaim, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	for i := range pvcs {
		spec, at := &pvcs[i].Spec, path.Index(i).Child("spec")
		if len(spec.AccessModes) == 0 {
			faults = append(faults, field.Required(at.Child("accessModes"), "a PVC needs at least one, such as ReadWriteOnce"))
		}
		if spec.Resources.Requests.Storage().Sign() <= 0 {
			faults = append(faults, field.Required(at.Child("resources", "requests").Key(string(corev1.ResourceStorage)), "a PVC needs a size, such as 1Gi"))
		}
	}
	return faults
}

// ClaimNames validates the names of a StatefulSet's PVC templates, which become part of the names of PVCs and volumes.
func ClaimNames(pvcs []corev1.PersistentVolumeClaim, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	for i := range pvcs {
		name, at := pvcs[i].Name, path.Index(i).Child("metadata", "name")
		for _, why := range validation.IsDNS1123Label(name) {
			faults = append(faults, field.Invalid(at, name, why))
		}
		if slices.ContainsFunc(pvcs[:i], func(c corev1.PersistentVolumeClaim) bool { return c.Name == name }) {
			faults = append(faults, field.Invalid(at, name, "is listed already: use a different name for each template"))
		}
	}
	return faults
}

// defaultPVCs returns PVC templates with their defaults: volumeMode Filesystem.
func defaultPVCs(pvcs []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	if pvcs == nil {
		return nil
	}
	out := make([]corev1.PersistentVolumeClaim, len(pvcs))
	for i := range pvcs {
		out[i] = *pvcs[i].DeepCopy()
		if out[i].Spec.VolumeMode == nil {
			out[i].Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
		}
	}
	return out
}

// completePVCs returns the given PVC templates with their defaults. A template that means the same as the stored one with its name keeps its
// stored form, and thus its hash.
func completePVCs(stored, given []corev1.PersistentVolumeClaim, mode Defaulting) []corev1.PersistentVolumeClaim {
	out := slices.Clone(given)
	if mode != NoDefaults {
		out = defaultPVCs(given)
	}
	for i := range out {
		for j := range stored {
			if samePVC(&stored[j], &out[i]) {
				out[i] = *stored[j].DeepCopy()
			}
		}
	}
	return out
}

// SamePVCs reports whether two lists of PVC templates mean the same.
func SamePVCs(a, b []corev1.PersistentVolumeClaim) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.PersistentVolumeClaim) bool { return samePVC(&a, &b) })
}

// samePVC compares what becomes part of a PVC. OpenKruise stores a status in templates, and manifests may repeat the kind.
func samePVC(a, b *corev1.PersistentVolumeClaim) bool {
	both := defaultPVCs([]corev1.PersistentVolumeClaim{*a, *b})
	for i := range both {
		both[i].TypeMeta, both[i].Status = metav1.TypeMeta{}, corev1.PersistentVolumeClaimStatus{}
	}
	return apiequality.Semantic.DeepEqual(both[0], both[1])
}
