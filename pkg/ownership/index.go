package ownership

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OwnerIndex is the field by which children are found: the UID of the controller in their owner references, in the same
// namespace.
const OwnerIndex = "flotilla.ownerUID"

// IndexByOwner adds the index OwnerIndex for each of the kinds, given as empty objects.
func IndexByOwner(ctx context.Context, i client.FieldIndexer, kinds ...client.Object) error {
	for _, kind := range kinds {
		// controller-runtime has no way to ask for an index, and refuses one that exists.
		if err := i.IndexField(ctx, kind, OwnerIndex, ownerUID); err != nil && !strings.Contains(err.Error(), "indexer conflict") {
			return fmt.Errorf("index %T by owner: %w", kind, err)
		}
	}
	return nil
}

// NodeIndex is the field by which pods are found: the name of their node.
const NodeIndex = "flotilla.node"

// IndexByNode adds the index NodeIndex for pods.
func IndexByNode(ctx context.Context, i client.FieldIndexer) error {
	if err := i.IndexField(ctx, &corev1.Pod{}, NodeIndex, nodeOf); err != nil && !strings.Contains(err.Error(), "indexer conflict") {
		return fmt.Errorf("index pods by node: %w", err)
	}
	return nil
}

func nodeOf(o client.Object) []string {
	if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		return []string{p.Spec.NodeName}
	}
	return nil
}

// OwnedBy returns the options that list what owner controls: by the index from a cache, whose own objects come back, or,
// live, all of the namespace from the apiserver, which has no index. The caller looks at the controller in any case.
func OwnedBy(owner metav1.Object, live bool) []client.ListOption {
	in := client.InNamespace(owner.GetNamespace())
	if live {
		return []client.ListOption{in}
	}
	return []client.ListOption{in, client.MatchingFields{OwnerIndex: string(owner.GetUID())}, client.UnsafeDisableDeepCopy}
}

func ownerUID(o client.Object) []string {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return nil
	}
	return []string{string(ref.UID)}
}
