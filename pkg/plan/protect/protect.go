package protect

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// Label values. Any other value protects nothing.
const (
	// Always rejects every delete.
	Always = "Always"
	// Cascading rejects deletes that would take other objects along: the pods of a workload, the contents of a namespace.
	Cascading = "Cascading"
)

// Forbidden is the prefix of the response to a rejected delete, as in OpenKruise; scripts recognize it.
const Forbidden = "forbidden by ResourcesProtectionDeletion: "

// Why returns a sentence that says why o must not be deleted now and what to do about it; "" if it may be deleted. An object that is already
// being deleted may be, whatever its label. For namespaces and CRDs with Cascading it returns "", because it can't judge them.
func Why(o *unstructured.Unstructured) string {
	if o.GetDeletionTimestamp() != nil {
		return ""
	}
	switch o.GetLabels()[keys.DeleteProtection] {
	case Always:
		return Sentence(o, "", "")
	case Cascading:
		content, instead := dependents(o)
		if content == "" {
			return ""
		}
		return Sentence(o, content, instead)
	}
	return ""
}

// Sentence is the text of a rejection. content says what o contains, and instead what can be done other than removing the label; both are empty for
// an object that is always protected.
func Sentence(o *unstructured.Unstructured, content, instead string) string {
	name := strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	text := fmt.Sprintf("label %s=%s protects %s %s", keys.DeleteProtection, o.GetLabels()[keys.DeleteProtection], o.GetKind(), name)
	if content == "" {
		return text + ": to delete it, remove the label first"
	}
	return fmt.Sprintf("%s: %s: to delete it, %s or remove the label first", text, content, instead)
}

// dependents returns what o shows about other objects that its deletion would take along, and how to detach or remove them; "" if there is nothing.
func dependents(o *unstructured.Unstructured) (content, instead string) {
	switch o.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Service"}, schema.GroupKind{Kind: "ConfigMap"}, schema.GroupKind{Kind: "Secret"},
		schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}:
		return "", ""
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, schema.GroupKind{Group: "apps.kruise.io", Kind: "DaemonSet"}:
		return countIn(o, "let its node selector match no node", "status", "desiredNumberScheduled")
	case schema.GroupKind{Group: "apps.kruise.io", Kind: "SidecarSet"}:
		return countIn(o, "let its selector match no pod", "status", "matchedPods")
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		return boundVolume(o, "delete its volume")
	case schema.GroupKind{Kind: "PersistentVolume"}:
		return boundVolume(o, "delete its claim")
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas"); found {
		return countIn(o, "scale it to 0", "spec", "replicas")
	}
	// A UnitedDeployment may leave the number to its subsets.
	return countIn(o, "scale it to 0", "status", "replicas")
}

func countIn(o *unstructured.Unstructured, how, section, field string) (content, instead string) {
	n, _, _ := unstructured.NestedInt64(o.Object, section, field)
	if n <= 0 {
		return "", ""
	}
	return fmt.Sprintf("%s.%s is %d", section, field, n), how
}

func boundVolume(o *unstructured.Unstructured, how string) (content, instead string) {
	if phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase != "Bound" {
		return "", ""
	}
	return "status.phase is Bound", how
}
