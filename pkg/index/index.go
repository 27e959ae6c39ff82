package index

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Owner is the field by which children are found: the UID of the controller in their owner references, in the same
// namespace.
const Owner = "flotilla.ownerUID"

// ByOwner adds the index Owner for each of the kinds, given as empty objects.
func ByOwner(ctx context.Context, i client.FieldIndexer, kinds ...client.Object) error {
	for _, kind := range kinds {
		// controller-runtime has no way to ask for an index, and refuses one that exists.
		if err := i.IndexField(ctx, kind, Owner, ownerUID); err != nil && !strings.Contains(err.Error(), "indexer conflict") {
			return fmt.Errorf("index %T by owner: %w", kind, err)
		}
	}
	return nil
}

// Node is the field by which pods are found: the name of their node.
const Node = "flotilla.node"

// ByNode adds the index Node for pods.
func ByNode(ctx context.Context, i client.FieldIndexer) error {
	if err := i.IndexField(ctx, &corev1.Pod{}, Node, nodeOf); err != nil && !strings.Contains(err.Error(), "indexer conflict") {
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

// Owned returns the options that list what owner controls: by the index from a cache, whose own objects come back, or,
// live, all of the namespace from the apiserver, which has no index. The caller looks at the controller in any case.
func Owned(owner metav1.Object, live bool) []client.ListOption {
	in := client.InNamespace(owner.GetNamespace())
	if live {
		return []client.ListOption{in}
	}
	return []client.ListOption{in, client.MatchingFields{Owner: string(owner.GetUID())}, client.UnsafeDisableDeepCopy}
}

func ownerUID(o client.Object) []string {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return nil
	}
	return []string{string(ref.UID)}
}
