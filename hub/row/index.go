package row

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// sourceIndex is the field index of rows by the UID of their source.
const sourceIndex = "flotilla.sourceUID"

// IndexBySource adds the index that Of needs.
func IndexBySource(ctx context.Context, i client.FieldIndexer) error {
	return ownership.AddIndex(ctx, i, "rows by source", &fleetv1alpha1.MemberWork{}, sourceIndex, sourceOf)
}

// sourceOf reads the label rather than the spec, so that the index matches a list from the apiserver.
func sourceOf(o client.Object) []string {
	if uid := o.GetLabels()[keys.FleetSourceUID]; uid != "" {
		return []string{uid}
	}
	return nil
}

// objectIndex is the field index of rows by the object that they place.
const objectIndex = "flotilla.object"

// IndexByObject adds the index that Placing needs.
func IndexByObject(ctx context.Context, i client.FieldIndexer) error {
	return ownership.AddIndex(ctx, i, "rows by object", &fleetv1alpha1.MemberWork{}, objectIndex, func(o client.Object) []string {
		return []string{keyOf(ObjectOf(o.(*fleetv1alpha1.MemberWork)))}
	})
}

// ObjectOf returns the hub object that a row places: one of several objects of its source, or the source itself.
func ObjectOf(r *fleetv1alpha1.MemberWork) (namespace string, object fleetv1alpha1.WorkObject) {
	source := &r.Spec.Source
	if r.Spec.Object != nil {
		return source.Namespace, *r.Spec.Object
	}
	return source.Namespace, fleetv1alpha1.WorkObject{APIVersion: source.APIVersion, Kind: source.Kind, Name: source.Name}
}

// keyOf returns the key of an object in the index, regardless of its version.
func keyOf(namespace string, o fleetv1alpha1.WorkObject) string {
	return strings.Join([]string{schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind().String(), namespace, o.Name}, "/")
}

// Placing returns options that list the rows of all sources that place an object, from a cache and without copies.
func Placing(namespace string, o fleetv1alpha1.WorkObject) []client.ListOption {
	return []client.ListOption{client.MatchingFields{objectIndex: keyOf(namespace, o)}, client.UnsafeDisableDeepCopy}
}

// Of returns options that list the rows of a source. If live, they select by label, since the apiserver has no index. Otherwise they use the
// index of a cache, without copies.
func Of(source types.UID, live bool) []client.ListOption {
	if live {
		return []client.ListOption{client.MatchingLabels{keys.FleetSourceUID: string(source)}}
	}
	return []client.ListOption{client.MatchingFields{sourceIndex: string(source)}, client.UnsafeDisableDeepCopy}
}
