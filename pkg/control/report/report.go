package report

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
)

// Writer writes statuses and sends events. It may be used concurrently.
type Writer struct {
	// Client sends the writes.
	Client client.StatusClient
	// Expect records every write, and tracks terminating namespaces.
	Expect *expect.Store
	// Events sends events.
	Events event.Recorder
	// Owner is the field owner of the write; empty means the client's.
	Owner client.FieldOwner
}

// Write writes the new status of o, unless it equals the old one, and sends the events, even after an error. Both statuses are the kind's status
// struct; o isn't changed. It is not an error if the object is gone or has changed: the watch event starts the next reconcile, which writes its
// status. In a terminating namespace it does neither: the API server rejects events there.
func (w Writer) Write(ctx context.Context, o client.Object, old, status any, events []event.Event) (wrote bool, err error) {
	if w.Expect.Terminating(o.GetUID()) > 0 {
		return false, nil
	}
	defer func() {
		for _, e := range events {
			w.Events.Record(o, e)
		}
	}()
	if apiequality.Semantic.DeepEqual(old, status) {
		return false, nil
	}
	data, err := patch(o.GetResourceVersion(), old, status)
	if err != nil {
		return false, err
	}
	next := o.DeepCopyObject().(client.Object)
	err = w.Client.Status().Patch(ctx, next, client.RawPatch(types.MergePatchType, data), w.Owner)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("patch status: %w", err)
	}
	w.Expect.Written(next.GetUID(), next)
	return true, nil
}

// patch contains the whole status: zero numbers that JSON omits as 0, and other omitted fields as null, as well as the fields of structs and the
// map keys that only the old status has.
func patch(version string, old, status any) ([]byte, error) {
	fields, nested := map[string]any{}, false
	for field := range reflect.TypeOf(status).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[name] = nil
		kind := field.Type.Kind()
		if kind == reflect.Pointer {
			kind = field.Type.Elem().Kind()
		}
		nested = nested || kind == reflect.Map || kind == reflect.Struct
		if field.Type.Kind() == reflect.Int32 {
			fields[name] = 0
		}
	}
	if err := toFields(fields, status); err != nil {
		return nil, err
	}
	if nested {
		oldFields := map[string]any{}
		if err := toFields(oldFields, old); err != nil {
			return nil, err
		}
		addNulls(oldFields, fields)
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "status": fields})
	if err != nil {
		return nil, fmt.Errorf("marshal status: %w", err)
	}
	return data, nil
}

// toFields adds the JSON fields of a status to fields.
func toFields(fields map[string]any, status any) error {
	raw, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("marshal status: %w", err)
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	return nil
}

// addNulls sets what is no longer in an object to null, at all depths: a merge patch leaves unchanged what it doesn't mention.
func addNulls(old, fields map[string]any) {
	for key, value := range old {
		now, has := fields[key]
		if !has {
			fields[key] = nil
			continue
		}
		before, wasObject := value.(map[string]any)
		after, isObject := now.(map[string]any)
		if wasObject && isObject {
			addNulls(before, after)
		}
	}
}
