package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// rendered is the object that a row asks for.
type rendered struct {
	object *unstructured.Unstructured
	// hash is the SHA-256 of the object's JSON, hexadecimal.
	hash string
	// ignored lists the fields that the row ignores, split into names. The object doesn't contain them.
	ignored [][]string
}

// render applies a row's patch (a JSON merge patch, possibly empty) to its manifest, removes the fields that the row ignores, and annotates
// the object with the row's UID. Equal input yields equal bytes, and thus an equal hash. An error means that the row is invalid.
func render(manifest, patch []byte, apply *fleetv1alpha1.WorkApply, rowUID string) (*rendered, error) {
	paths, err := ignoredPaths(apply)
	if err != nil {
		return nil, err
	}
	if len(patch) > 0 {
		merged, err := jsonpatch.MergePatch(manifest, patch)
		if err != nil {
			return nil, fmt.Errorf("apply the patch to the manifest: %w", err)
		}
		manifest = merged
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(manifest); err != nil {
		return nil, fmt.Errorf("decode the manifest: %w", err)
	}
	if object.GetName() == "" {
		return nil, fmt.Errorf("the manifest of kind %s has no metadata.name", object.GetKind())
	}
	removeFields(object.Object, paths)
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[keys.FleetRowUID] = rowUID
	object.SetAnnotations(annotations)
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	sum := sha256.Sum256(raw)
	return &rendered{object: object, hash: hex.EncodeToString(sum[:]), ignored: paths}, nil
}
