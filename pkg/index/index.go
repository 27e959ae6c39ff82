package index

import (
	"context"
	"fmt"
	"strings"

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

func ownerUID(o client.Object) []string {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return nil
	}
	return []string{string(ref.UID)}
}
