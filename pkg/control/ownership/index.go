package ownership

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddIndex adds a field index for a kind, given as an empty object, unless it exists already. what describes it in the error.
func AddIndex(ctx context.Context, i client.FieldIndexer, what string, kind client.Object, field string, extract client.IndexerFunc) error {
	// controller-runtime can't report whether an index exists, and returns an error if it does.
	if err := i.IndexField(ctx, kind, field, extract); err != nil && !strings.Contains(err.Error(), "indexer conflict") {
		return fmt.Errorf("index %s: %w", what, err)
	}
	return nil
}

// OwnerIndex is the index of children by the UID of their controller.
const OwnerIndex = "flotilla.ownerUID"

// IndexByOwner adds OwnerIndex for each of the kinds, given as empty objects.
func IndexByOwner(ctx context.Context, i client.FieldIndexer, kinds ...client.Object) error {
	for _, kind := range kinds {
		if err := AddIndex(ctx, i, fmt.Sprintf("%T by owner", kind), kind, OwnerIndex, ownerUID); err != nil {
			return err
		}
	}
	return nil
}

// NodeIndex is the index of pods by node name.
const NodeIndex = "flotilla.node"

// IndexByNode adds NodeIndex for pods.
func IndexByNode(ctx context.Context, i client.FieldIndexer) error {
	return AddIndex(ctx, i, "pods by node", &corev1.Pod{}, NodeIndex, nodeOf)
}

func nodeOf(o client.Object) []string {
	if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		return []string{p.Spec.NodeName}
	}
	return nil
}

// OwnedBy returns the options for listing what owner controls: through the index and without copies if the reader is a cache, or, if live, the
// whole namespace from the API server, which has no index. The caller has to check the controller in any case.
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
