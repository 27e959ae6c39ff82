package row

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/ownership"
)

// sourceIndex is the field index of rows by the UID of the object that they are a part of.
const sourceIndex = "flotilla.sourceUID"

// IndexBySource adds the index that Of needs.
func IndexBySource(ctx context.Context, i client.FieldIndexer) error {
	return ownership.AddIndex(ctx, i, "rows by source", &fleetv1alpha1.MemberWork{}, sourceIndex, sourceOf)
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
