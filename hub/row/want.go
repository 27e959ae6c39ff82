package row

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// PatchLimit is the maximum size of a row's patch, in bytes. With a larger patch the row gets a content of its own.
const PatchLimit = 2048

// Want is the desired state of a row.
type Want struct {
	// Cluster is the MemberCluster's name.
	Cluster string
	// Source is the object on the hub.
	Source fleetv1alpha1.WorkSource
	// Object is the object of the row, if the source has several; nil for a source with one object.
	Object *fleetv1alpha1.WorkObject
	// Manifest is the object to apply, as JSON, without the differences between clusters. Equal manifests share one WorkContent.
	Manifest []byte
	// Patch is a JSON merge patch on Manifest; nil means none.
	Patch []byte
	// Inline is true if only that cluster may read the manifest, such as one with a Secret. It is then stored in the row, and not in a
	// WorkContent.
	Inline bool
	// Grant holds the numbers that the member may act on.
	Grant fleetv1alpha1.WorkGrant
	// Apply says how the object is applied; nil means the defaults. Suspend means that the agent changes nothing. With either of them, an agent
	// that is older than these fields reports the row as blocked.
	Apply   *fleetv1alpha1.WorkApply
	Suspend bool
	// DeletionPolicy says what happens to the object if the row is deleted without being withdrawn with another policy. It defaults to Delete.
	DeletionPolicy fleetv1alpha1.LeavePolicy
}

// Name returns the name of the row.
func (w Want) Name() string {
	if w.Object != nil {
		return fleetv1alpha1.ObjectRowName(*w.Object, w.Source.Namespace)
	}
	return fleetv1alpha1.RowName(w.Source.Kind, w.Source.Namespace, w.Source.Name, w.Source.UID)
}

// Place returns the key of the row among the rows of its source: the name of the cluster. For one of several objects, it is followed by a
// slash and the name that a new row of that object gets.
func (w Want) Place() string {
	if w.Object == nil {
		return w.Cluster
	}
	return PlaceOf(w.Cluster, w.Name())
}

// Place returns the Place of an existing row. It is derived from the object rather than the row's name, which is shorter in rows of older
// hubs.
func Place(r *fleetv1alpha1.MemberWork) string {
	cluster := r.Labels[keys.FleetCluster]
	if r.Spec.Object == nil {
		return cluster
	}
	return PlaceOf(cluster, fleetv1alpha1.ObjectRowName(*r.Spec.Object, r.Spec.Source.Namespace))
}

// ClusterOf returns the cluster of a Place.
func ClusterOf(place string) string {
	cluster, _, _ := strings.Cut(place, "/")
	return cluster
}

// NameIn returns the part of a Place after the cluster, or "" for a source with one object.
func NameIn(place string) string {
	_, name, _ := strings.Cut(place, "/")
	return name
}

// PlaceOf returns the Place of a row for one of several objects.
func PlaceOf(cluster, row string) string { return cluster + "/" + row }

// fold merges a patch that is too large for a row into the manifest.
func (w Want) fold() (Want, error) {
	if len(w.Patch) <= PatchLimit {
		return w, nil
	}
	merged, err := Merge(w.Manifest, w.Patch)
	if err != nil {
		return w, fmt.Errorf("fold the patch of row %s: %w", w.Name(), err)
	}
	w.Manifest, w.Patch = merged, nil
	return w, nil
}

// Merge applies a row's patch, a JSON merge patch that may be empty, to its manifest.
func Merge(manifest, patch []byte) ([]byte, error) {
	if len(patch) == 0 {
		return manifest, nil
	}
	merged, err := jsonpatch.MergePatch(manifest, patch)
	if err != nil {
		return nil, fmt.Errorf("apply the patch to the manifest: %w", err)
	}
	return merged, nil
}

// spec returns the row's spec, which refers to the content with that name.
func (w Want) spec(content string) fleetv1alpha1.MemberWorkSpec {
	source := fleetv1alpha1.WorkContentSource{Ref: content}
	if w.Apply != nil || w.Suspend {
		source.Ref = fleetv1alpha1.ApplyContent + content
	}
	if w.Inline {
		source.Inline = string(w.Manifest)
	}
	return fleetv1alpha1.MemberWorkSpec{
		Source:         w.Source,
		Object:         w.Object,
		Content:        source,
		Patch:          runtime.RawExtension{Raw: w.Patch},
		Grant:          w.Grant,
		DeletionPolicy: cmp.Or(w.DeletionPolicy, fleetv1alpha1.LeaveDelete),
		Apply:          w.apply(),
		Suspend:        w.Suspend,
	}
}

// apply returns Apply as the apiserver stores it, with its default.
func (w Want) apply() *fleetv1alpha1.WorkApply {
	if w.Apply == nil || w.Apply.Adoption != "" {
		return w.Apply
	}
	defaulted := *w.Apply
	defaulted.Adoption = fleetv1alpha1.AdoptNever
	return &defaulted
}

// create returns the row to create.
func (w Want) create(content string) *fleetv1alpha1.MemberWork {
	return &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{
			Name:       w.Name(),
			Namespace:  fleetv1alpha1.Namespace(w.Cluster),
			Labels:     map[string]string{keys.FleetSourceUID: w.Source.UID, keys.FleetCluster: w.Cluster},
			Finalizers: []string{keys.FleetRow},
		},
		Spec: w.spec(content),
	}
}

// sameSpec reports whether two specs are equal. Patches are compared as JSON, because the apiserver may format them differently. Bounds are
// not compared: they say what may be running until the row is acknowledged, and become equal then. They are written together with the other
// numbers.
func sameSpec(a, b fleetv1alpha1.MemberWorkSpec) bool {
	if !sameJSON(a.Patch.Raw, b.Patch.Raw) {
		return false
	}
	return equality.Semantic.DeepEqual(unbounded(a), unbounded(b))
}

func unbounded(s fleetv1alpha1.MemberWorkSpec) fleetv1alpha1.MemberWorkSpec {
	s.Patch = runtime.RawExtension{}
	s.Grant.Subsets = slices.Clone(s.Grant.Subsets)
	for i := range s.Grant.Subsets {
		g := &s.Grant.Subsets[i]
		g.Lower, g.Upper, g.UnavailableUpper, g.UpdatedUpper = 0, 0, 0, 0
	}
	return s
}

func sameJSON(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 || bytes.Equal(a, b) {
		return len(a) == len(b)
	}
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	return equality.Semantic.DeepEqual(x, y)
}
