package sim

import (
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apply performs a server-side apply, which creates the object if it doesn't exist. Lists are atomic, because there are no schemas.
func (s *store) apply(r *Request, before client.Object) (client.Object, error) {
	want := &unstructured.Unstructured{}
	if err := json.Unmarshal(r.Data, want); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	want.SetNamespace(r.Key.Namespace) // The namespace includes the cluster.
	live := ofKind(r.Kind)
	switch {
	case before != nil:
		if err := s.checkPreconditions(Request{Verb: Apply, Kind: r.Kind, Key: r.Key}, before, want); err != nil {
			return nil, err
		}
		var err error
		if live, err = unstructuredOf(r.Kind, before); err != nil {
			return nil, err
		}
	case want.GetUID() != "":
		return nil, apierrors.NewConflict(resourceOf(r.Kind), r.Key.Name, fmt.Errorf("uid mismatch: %s is given, and there is no object", want.GetUID()))
	default:
		live.SetNamespace(want.GetNamespace())
		live.SetName(want.GetName())
	}
	managed, err := managerOf(r.Kind)
	if err != nil {
		return nil, err
	}
	after, err := managed.Apply(live, want, r.Manager, r.Force)
	if err != nil {
		return nil, err
	}
	current, err := s.typed(r.Kind, after.(client.Object))
	if err != nil {
		return nil, err
	}
	clearTimes(current)
	if before != nil {
		return s.update(*r, before, current)
	}
	current.SetResourceVersion("") // It would be a precondition, but there is no object yet.
	r.Object = current
	_, current, err = s.create(r)
	return current, err
}

// manage records which fields a write other than an apply has changed, and who owns them. It does so only after the first apply: before that
// no field can conflict.
func (s *store) manage(r Request, before, current client.Object) (client.Object, error) {
	if r.Verb == Apply || !applied(before) || !applied(current) {
		return current, nil
	}
	managed, err := managerOf(r.Kind)
	if err != nil {
		return nil, err
	}
	old, err := unstructuredOf(r.Kind, before)
	if err != nil {
		return nil, err
	}
	next, err := unstructuredOf(r.Kind, current)
	if err != nil {
		return nil, err
	}
	after, err := managed.Update(old, next, user)
	if err != nil {
		return nil, err
	}
	if current, err = s.typed(r.Kind, after.(client.Object)); err == nil {
		clearTimes(current)
	}
	return current, err
}

// applied reports whether the object was ever applied.
func applied(o client.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Operation == metav1.ManagedFieldsOperationApply
	})
}

// clearTimes removes the times from managedFields, because they come from the real clock.
func clearTimes(o client.Object) {
	entries := o.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	o.SetManagedFields(entries)
}

// typed returns an object in the type in which the store holds it.
func (s *store) typed(kind schema.GroupVersionKind, o client.Object) (client.Object, error) {
	like, err := s.scheme.New(kind)
	if err != nil {
		return nil, noResource(Request{Kind: kind})
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", o.GetName(), err)
	}
	return decode(raw, like.(client.Object))
}

func ofKind(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

func unstructuredOf(kind schema.GroupVersionKind, o client.Object) (*unstructured.Unstructured, error) {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", o.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: out}
	u.SetGroupVersionKind(kind)
	// Unset times are null here, but absent on the wire.
	if o.GetCreationTimestamp() == (metav1.Time{}) {
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	}
	return u, nil
}

// managerOf returns the field manager that merges applies to objects of a kind.
func managerOf(kind schema.GroupVersionKind) (*managedfields.FieldManager, error) {
	return managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), oneVersion{}, oneVersion{}, oneVersion{},
		kind, kind.GroupVersion(), "", nil)
}

// oneVersion creates, converts and defaults objects of kinds with one version and no defaults.
type oneVersion struct{}

func (oneVersion) Default(runtime.Object) {}

func (oneVersion) New(kind schema.GroupVersionKind) (runtime.Object, error) { return ofKind(kind), nil }

func (oneVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (oneVersion) Convert(_, _, _ any) error { return errNotServed }

func (oneVersion) ConvertFieldLabel(_ schema.GroupVersionKind, _, _ string) (label, value string, err error) {
	return "", "", errNotServed
}
