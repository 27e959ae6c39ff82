package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/kindwatch"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// finder reads objects whose kind might not be served.
type finder struct {
	reader client.Reader
	// mapper may know kinds that are no longer served.
	mapper meta.RESTMapper
}

// notServed reports whether a request failed because the apiserver does not serve the kind in that version. A missing object is different: the
// apiserver answers with a Status of its own.
func notServed(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && link.CauseOf(err) == link.NotServed
}

// notServedError explains why an object can't be read: its kind is not served in the requested version.
type notServedError struct {
	gvk schema.GroupVersionKind
	// versions lists the versions that are served, sorted.
	versions []string
	// mayExist says why objects of the kind may exist nevertheless. It is empty if there can't be any because nothing defines the kind.
	mayExist string
}

func (u *notServedError) Error() string {
	if len(u.versions) > 0 {
		return fmt.Sprintf("this cluster serves %s of %s in %s only, not in %s: install a release of it that does, or use one of these versions on the hub",
			u.gvk.Kind, groupName(u.gvk.Group), strings.Join(u.versions, ", "), u.gvk.Version)
	}
	return fmt.Sprintf("this cluster doesn't serve %s of %s: install it there, or place the object elsewhere", u.gvk.Kind, u.gvk.GroupVersion())
}

func groupName(group string) string {
	if group == "" {
		return "the core group"
	}
	return "group " + group
}

// get reads an object. The error is *notServedError if the kind is not served in that version; otherwise it is the reader's error.
func (f finder) get(ctx context.Context, gvk schema.GroupVersionKind, at client.ObjectKey) (*unstructured.Unstructured, error) {
	live := kindwatch.OfKind(gvk)
	err := f.reader.Get(ctx, at, live)
	switch {
	case err == nil:
		return live, nil
	case !notServed(err):
		return nil, err // The caller wraps it.
	}
	u := &notServedError{gvk: gvk}
	if u.versions, err = f.versions(ctx, gvk, at); err != nil {
		return nil, err
	}
	return nil, u
}

// versions returns the other versions in which a kind is served, sorted: those that the mapper knows and the apiserver confirms.
func (f finder) versions(ctx context.Context, gvk schema.GroupVersionKind, at client.ObjectKey) ([]string, error) {
	if m, ok := f.mapper.(*mapper); ok {
		if err := m.forget(); err != nil {
			return nil, err
		}
	}
	mappings, err := f.mapper.RESTMappings(gvk.GroupKind())
	if err != nil && !notServed(err) {
		return nil, fmt.Errorf("find the versions of %s: %w", gvk.Kind, err)
	}
	var versions []string
	for _, m := range mappings {
		version := m.GroupVersionKind.Version
		if version == gvk.Version {
			continue
		}
		err := f.reader.Get(ctx, at, kindwatch.OfKind(gvk.GroupKind().WithVersion(version)))
		switch {
		case err == nil, apierrors.IsNotFound(err) && !notServed(err), apierrors.IsForbidden(err):
			versions = append(versions, version)
		case !notServed(err):
			return nil, fmt.Errorf("get %s %s in %s: %w", gvk.Kind, at, version, err)
		}
	}
	slices.Sort(versions)
	return versions, nil
}

// getAnyVersion reads an object that was applied in that version, in whichever version is served now. If none is, the error is *notServedError
// and says whether the object may still exist.
//
// An apiserver that does not serve a version still has the objects, but answers "not found" for each of them. Such an answer proves nothing, and
// neither does discovery. A missing CRD does: an apiserver deletes all objects of a CRD before the CRD.
func (f finder) getAnyVersion(ctx context.Context, gvk schema.GroupVersionKind, at client.ObjectKey) (*unstructured.Unstructured, error) {
	live, err := f.get(ctx, gvk, at)
	u := (*notServedError)(nil)
	if !errors.As(err, &u) {
		return live, err
	}
	for _, version := range u.versions {
		live = kindwatch.OfKind(gvk.GroupKind().WithVersion(version))
		switch err := f.reader.Get(ctx, at, live); {
		case err == nil:
			return live, nil
		case !notServed(err):
			return nil, err // The caller wraps it.
		}
	}
	u.mayExist, err = f.definedBy(ctx, gvk.GroupKind())
	if err != nil {
		return nil, err
	}
	return nil, u
}

// definedBy says what may define a kind that the apiserver does not serve; "" if nothing does.
func (f finder) definedBy(ctx context.Context, gk schema.GroupKind) (string, error) {
	if clientgoscheme.Scheme.IsGroupRegistered(gk.Group) {
		return "it is a built-in kind, which the apiserver may serve again", nil
	}
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(crdKind().GroupVersion().WithKind(crdKind().Kind + "List"))
	err := f.reader.List(ctx, all)
	if apierrors.IsForbidden(err) {
		return "the agent isn't allowed to look up its CRD (install the flotilla-member chart of the agent's version)", nil
	}
	if err != nil {
		return "", fmt.Errorf("list CRDs: %w", err)
	}
	for i := range all.Items {
		name := all.Items[i].Name
		if !strings.HasSuffix(name, "."+gk.Group) {
			continue
		}
		crd := kindwatch.OfKind(crdKind())
		if err := f.reader.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return "", fmt.Errorf("get CRD %s: %w", name, err)
		}
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if (schema.GroupKind{Group: group, Kind: kind}) == gk {
			return "its CRD " + name + " exists", nil
		}
	}
	return "", nil
}

func crdKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}
