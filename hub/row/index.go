package row

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// sourceIndex is the field index of rows by the UID of the object that they are a part of.
const sourceIndex = "flotilla.sourceUID"

// IndexBySource adds the index that Of needs.
func IndexBySource(ctx context.Context, i client.FieldIndexer) error {
	err := i.IndexField(ctx, &fleetv1alpha1.MemberWork{}, sourceIndex, sourceOf)
	// controller-runtime can't report whether an index exists, and refuses one that does.
	if err != nil && !strings.Contains(err.Error(), "indexer conflict") {
		return fmt.Errorf("index rows by source: %w", err)
	}
	return nil
}

// sourceOf reads the label and not the spec, so that the index finds what a list from the apiserver finds.
func sourceOf(o client.Object) []string {
	if uid := o.GetLabels()[keys.FleetSourceUID]; uid != "" {
		return []string{uid}
	}
	return nil
}

// Of returns the options that list the rows of an object: by the index from a cache, without copies, or, if live, by label from the
// apiserver, which has no index.
func Of(source types.UID, live bool) []client.ListOption {
	if live {
		return []client.ListOption{client.MatchingLabels{keys.FleetSourceUID: string(source)}}
	}
	return []client.ListOption{client.MatchingFields{sourceIndex: string(source)}, client.UnsafeDisableDeepCopy}
}
