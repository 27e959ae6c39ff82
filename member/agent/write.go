package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// A list that is merged by keys may have two items with the same key, such as two names for one port of a container, or a variable that is set
// twice. Create and update accept that; apply does not. Such an object is written the way create and update do it.

// hasDuplicateKeys reports whether an apply failed on such a list. The status is 500, and only the text says why.
func hasDuplicateKeys(err error) bool {
	return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && strings.Contains(err.Error(), "duplicate entries for key")
}

// errDuplicateKeys means that others own fields of such an object, and that the fields would have to be left to them.
var errDuplicateKeys = errors.New("a list has several items with the same key, so fields of other managers can't be left to them: give the items " +
	"different keys, or choose an adoption policy other than OwnFields")

// isAgentWrite reports whether an entry was made by writer.write.
func isAgentWrite(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == link.AgentManager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == ""
}

// writeOption is an option that applies to every kind of write.
type writeOption interface {
	client.CreateOption
	client.PatchOption
}

// createOrPatch creates or patches an object without an apply, and returns the result. Lists are taken from the manifest; entries that others added to
// maps stay. A field that only the agent owns and that is no longer wanted is removed, unless it is ignored.
func (w writer) createOrPatch(
	ctx context.Context, want, live *unstructured.Unstructured, ignored [][]string, options ...writeOption,
) (*unstructured.Unstructured, error) {
	now := want.DeepCopy()
	if live == nil {
		create := append(make([]client.CreateOption, 0, 1+len(options)), client.FieldOwner(link.AgentManager))
		for _, o := range options {
			create = append(create, o)
		}
		err := w.client.Create(ctx, now, create...)
		if apierrors.IsAlreadyExists(err) { // The next plan treats it as a foreign object.
			err = apierrors.NewConflict(schema.GroupResource{Resource: want.GetKind()}, want.GetName(), err)
		}
		return now, err
	}
	unwanted, err := unwantedFields(want, live, ignored)
	if err != nil {
		return nil, err
	}
	content := want.DeepCopy()
	content.SetUID(live.GetUID())
	content.SetResourceVersion(live.GetResourceVersion()) // The field owners must not have changed.
	addNulls(content.Object, unwanted)
	raw, err := json.Marshal(content.Object)
	if err != nil {
		return nil, fmt.Errorf("encode the patch of %s: %w", describe(want), err)
	}
	patch := append(make([]client.PatchOption, 0, 1+len(options)), client.FieldOwner(link.AgentManager))
	for _, o := range options {
		patch = append(patch, o)
	}
	return now, w.client.Patch(ctx, now, client.RawPatch(types.MergePatchType, raw), patch...)
}

// unwantedFields returns, as a merge patch, the fields of live that only the agent owns and that are no longer wanted.
func unwantedFields(want, live *unstructured.Unstructured, ignored [][]string) (map[string]any, error) {
	mine, err := fieldsOf(live, isAgentApply)
	if err != nil {
		return nil, err
	}
	others, err := fieldsOf(live, func(e metav1.ManagedFieldsEntry) bool { return !isAgentApply(e) })
	if err != nil {
		return nil, err
	}
	patch := unwantedIn(want.Object, live.Object, mine.Difference(others))
	removeFields(patch, ignored)
	return patch, nil
}

func unwantedIn(want, live map[string]any, set *fieldpath.Set) map[string]any {
	patch := map[string]any{}
	for name, value := range live {
		at := fieldpath.PathElement{FieldName: &name}
		wanted, keep := want[name]
		below, deeper := set.Children.Get(at)
		inLive, isMap := value.(map[string]any)
		switch {
		case deeper && isMap:
			inWant, _ := wanted.(map[string]any)
			if unwanted := unwantedIn(inWant, inLive, below); len(unwanted) > 0 {
				patch[name] = unwanted
			}
		case !keep && (deeper || set.Members.Has(at)):
			patch[name] = nil
		}
	}
	return patch
}

// addNulls adds the nulls of one merge patch to another.
func addNulls(patch, nulls map[string]any) {
	for name, more := range nulls {
		below, isMap := more.(map[string]any)
		if nested, ok := patch[name].(map[string]any); ok && isMap {
			addNulls(nested, below)
			continue
		}
		patch[name] = more
	}
}

// moveToApplyEntry returns live with the fields that the agent wrote without an apply moved into its apply entry. Otherwise they would count
// as another manager's fields, and stay when they are no longer wanted.
func (w writer) moveToApplyEntry(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !slices.ContainsFunc(live.GetManagedFields(), isAgentWrite) {
		return live, nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(link.AgentManager), link.AgentManager)
	if err != nil {
		return nil, fmt.Errorf("merge the managedFields of %s: %w", describe(live), err)
	}
	now := live.DeepCopy()
	return now, w.client.Patch(ctx, now, client.RawPatch(types.JSONPatchType, patch))
}
