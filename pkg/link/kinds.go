package link

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NeverPlaced returns why no hub places objects of a kind in a member, or "": they are of one cluster by their nature, or they would
// give the hub more rights there than its chart does. Chart flotilla-member refuses the same in hub.kinds.
func NeverPlaced(kind schema.GroupKind) string {
	switch kind.Group {
	case "fleet.kruise.io":
		return kind.Kind + " is a kind of the fleet's own, which hub and agent write"
	case "coordination.k8s.io", "events.k8s.io":
		return fmt.Sprintf("objects of kind %s belong to the cluster whose components write them", kind.Kind)
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiregistration.k8s.io", "apiextensions.k8s.io", "certificates.k8s.io",
		"authentication.k8s.io", "authorization.k8s.io":
		return fmt.Sprintf("objects of kind %s decide what others may do in their cluster: its administrator creates them", kind.Kind)
	case "":
		switch kind.Kind {
		case "Node", "Event", "Binding", "ComponentStatus":
			return fmt.Sprintf("objects of kind %s belong to the cluster whose components write them", kind.Kind)
		}
	}
	return ""
}
