package admit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// refusals is the maximum size of a refusal: a larger response contains objects and is not inspected.
const refusals = 1 << 16

// fieldNaming makes the error about an object that can't be decoded name the field. An object in another version than the stored one is converted
// before the schema is checked, and an error from decoding a quantity, a time or an int-or-string names no field.
type fieldNaming struct {
	http.Handler

	decoder *conversion.Decoder
}

// ServeHTTP implements http.Handler.
func (f fieldNaming) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "read the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.Handler.ServeHTTP(&refusal{ResponseWriter: w, handler: f, body: body}, r)
}

// refusal captures a response, which the handler writes in a single call.
type refusal struct {
	http.ResponseWriter

	handler fieldNaming
	body    []byte
}

// Write implements io.Writer.
func (w *refusal) Write(answer []byte) (int, error) {
	if len(answer) <= refusals {
		if better := w.handler.namedField(w.body, answer); better != nil {
			if _, err := w.ResponseWriter.Write(better); err != nil {
				return 0, err
			}
			return len(answer), nil
		}
	}
	return w.ResponseWriter.Write(answer)
}

// namedField returns a response that names a field; nil if the given one is just as good.
func (f fieldNaming) namedField(request, answer []byte) []byte {
	var asked, review apiextensionsv1.ConversionReview
	if json.Unmarshal(answer, &review) != nil || review.Response == nil || review.Response.Result.Status != metav1.StatusFailure ||
		json.Unmarshal(request, &asked) != nil || asked.Request == nil {
		return nil
	}
	for _, o := range asked.Request.Objects {
		path, err := f.firstInvalid(o)
		if err == nil {
			continue
		}
		review.Response.Result.Message = fmt.Sprintf("%s: %v", path, err)
		better, err := json.Marshal(review)
		if err != nil {
			return nil
		}
		return better
	}
	return nil
}

// firstInvalid returns the first field of an object that can't be decoded, and why; nil if all can be.
func (f fieldNaming) firstInvalid(o runtime.RawExtension) (*field.Path, error) {
	var whole map[string]any
	if err := json.Unmarshal(o.Raw, &whole); err != nil {
		return nil, err
	}
	// Each field is decoded without the fields beside it: the types require none of them.
	alone := func(key string, value any) error {
		raw, err := json.Marshal(map[string]any{"apiVersion": whole["apiVersion"], "kind": whole["kind"], key: value})
		if err == nil {
			_, _, err = f.decoder.Decode(raw)
		}
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(whole)) {
		if err := alone(key, whole[key]); err != nil && key != "apiVersion" && key != "kind" {
			path, err := narrow(field.NewPath(key), whole[key], err, func(value any) error { return alone(key, value) })
			return path, err
		}
	}
	return nil, nil
}

// narrow returns the field within a value that can't be decoded, by decoding each of its fields separately, along with the error.
func narrow(path *field.Path, value any, failed error, read func(any) error) (*field.Path, error) {
	switch node := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			within := func(value any) error { return read(map[string]any{key: value}) }
			if err := within(node[key]); err != nil {
				return narrow(path.Child(key), node[key], err, within)
			}
		}
	case []any:
		for i := range node {
			within := func(value any) error { return read([]any{value}) }
			if err := within(node[i]); err != nil {
				return narrow(path.Index(i), node[i], err, within)
			}
		}
	}
	return path, failed
}
