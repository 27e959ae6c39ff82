package sim

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patch applies the patch in r to before.
func (s *store) patch(r Request, before client.Object) (client.Object, error) {
	raw, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", r.Key.Name, err)
	}
	switch r.PatchType { //nolint:exhaustive // The default is for the others.
	case types.MergePatchType:
		raw, err = jsonpatch.MergePatch(raw, r.Data)
	case types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(r.Data); err == nil {
			if raw, err = p.Apply(raw); err != nil {
				return nil, apierrors.NewGenericServerResponse(422, string(r.Verb), resourceOf(r.Kind), r.Key.Name, err.Error(), 0, true)
			}
		}
	case types.StrategicMergePatchType:
		if custom(r.Kind) {
			return nil, unsupported(r, "strategic merge patches of custom resources")
		}
		raw, err = strategicpatch.StrategicMergePatch(raw, r.Data, before)
	default:
		return nil, unsupported(r, string(r.PatchType))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s: %v", r, err))
	}
	want, err := decode(raw, before)
	if err != nil {
		return nil, err
	}
	return s.update(r, before, want)
}

func unsupported(r Request, what string) error {
	return apierrors.NewGenericServerResponse(415, string(r.Verb), resourceOf(r.Kind), r.Key.Name,
		what+" are not served", 0, true)
}
