//go:build e2e

package suite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// TestAKindThatAMemberLacksIsPlacedWhenItComes uses rows as the hub writes them, for a kind that hub.kinds in the member's chart allows.
func TestAKindThatAMemberLacksIsPlacedWhenItComes(t *testing.T) {
	s := parallel(t)
	// The rows belong to the test, so it does what the hub does with them.
	row := func(name string, apply *fleetv1alpha1.WorkApply) *fleetv1alpha1.MemberWork {
		row := &fleetv1alpha1.MemberWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.Namespace("east"), Name: "widget-" + name, Finalizers: []string{keys.FleetRow}},
			Spec: fleetv1alpha1.MemberWorkSpec{
				Source: fleetv1alpha1.WorkSource{APIVersion: "example.com/v1", Kind: "Widget", Namespace: s.namespace, Name: name, UID: "u"},
				Content: fleetv1alpha1.WorkContentSource{Ref: fleetv1alpha1.InlineContent, Inline: fmt.Sprintf(
					`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"namespace":%q,"name":%q},"spec":{"replicas":2,"colour":"red"}}`, s.namespace, name)},
				Apply: apply, Withdrawn: true,
			},
		}
		if apply != nil {
			row.Spec.Content.Ref = fleetv1alpha1.ApplyContent + fleetv1alpha1.InlineContent
		}
		require.NoError(t, env.Hub.Client.Create(t.Context(), row))
		return row
	}
	await := func(row *fleetv1alpha1.MemberWork, what string, met func(fleetv1alpha1.MemberWorkStatus) bool) {
		t.Helper()
		s.until(func(ctx context.Context) string {
			if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(row), row); err != nil {
				return err.Error()
			}
			if !met(row.Status) {
				return fmt.Sprintf("the row is not %s: %+v", what, row.Status)
			}
			return ""
		})
	}
	applied := func(s fleetv1alpha1.MemberWorkStatus) bool { return s.Phase == fleetv1alpha1.WorkApplied }
	spec := func(name string) map[string]any {
		t.Helper()
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
		require.NoError(t, env.East.Client.Get(t.Context(), s.key(name), o))
		spec, _, err := unstructured.NestedMap(o.Object, "spec")
		require.NoError(t, err)
		return spec
	}
	change := func(name, patch string) {
		t.Helper()
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
		o.SetNamespace(s.namespace)
		o.SetName(name)
		require.NoError(t, env.East.Client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("somebody")))
	}

	plain := row("plain", nil)
	scaled := row("scaled", &fleetv1alpha1.WorkApply{Adoption: fleetv1alpha1.AdoptNever, Ignore: []string{"spec.replicas"}})
	for _, row := range []*fleetv1alpha1.MemberWork{plain, scaled} {
		await(row, "blocked", func(s fleetv1alpha1.MemberWorkStatus) bool {
			return s.Phase == fleetv1alpha1.WorkBlocked && s.Reason == fleetv1alpha1.ReasonKindNotServed && strings.Contains(s.Message, "install it there")
		})
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	}
	require.NoError(t, env.East.Client.Create(t.Context(), crd))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(env.East.Client.Delete(context.WithoutCancel(t.Context()), crd)))
	})
	await(plain, "applied", applied)
	await(scaled, "applied", applied)
	require.Equal(t, map[string]any{"replicas": int64(2), "colour": "red"}, spec("plain"))
	require.Equal(t, map[string]any{"colour": "red"}, spec("scaled"), "an ignored field is not written")
	s.until(func(ctx context.Context) string {
		mc := &fleetv1alpha1.MemberCluster{}
		if err := env.Hub.Client.Get(ctx, client.ObjectKey{Name: "east"}, mc); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(mc.Status.Kinds, func(k fleetv1alpha1.ServedKind) bool { return k.Group == "example.com" && k.Kind == "Widget" }) {
			return fmt.Sprintf("the cluster does not report the kind: %v", mc.Status.Kinds)
		}
		return ""
	})

	for _, name := range []string{"plain", "scaled"} {
		change(name, `{"spec":{"replicas":7}}`)
		change(name, `{"spec":{"colour":"blue"}}`)
	}
	s.until(func(context.Context) string {
		p, c := spec("plain"), spec("scaled")
		if p["colour"] != "red" || p["replicas"] != int64(2) || c["colour"] != "red" {
			return fmt.Sprintf("drift is not reverted: %v, %v", p, c)
		}
		return ""
	})
	require.Equal(t, map[string]any{"replicas": int64(7), "colour": "red"}, spec("scaled"), "an ignored field is not reverted")

	for _, row := range []*fleetv1alpha1.MemberWork{plain, scaled} {
		require.NoError(t, env.Hub.Client.Delete(t.Context(), row))
		s.until(func(ctx context.Context) string {
			if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(row), row); apierrors.IsNotFound(err) {
				return ""
			}
			return fmt.Sprintf("the row is not withdrawn: %+v", row.Status)
		})
	}
}

// TestAttack22RowsOfKindsThatAPullMemberDoesNotAllow uses rows as a compromised hub could write them: the manager of a pull member may write
// these kinds, and its agent may not.
func TestAttack22RowsOfKindsThatAPullMemberDoesNotAllow(t *testing.T) {
	s := parallel(t)
	east := env.East.Client
	for name, manifest := range map[string]string{
		"pod": `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":%q,"name":"taken"},"spec":{"containers":[{"name":"app","image":"app:1"}]}}`,
		"claim": `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":%q,"name":"taken"},"spec":{"accessModes":["ReadWriteOnce"],` +
			`"resources":{"requests":{"storage":"1Gi"}}}}`,
		"probe":  `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"NodePodProbe","metadata":{"name":%q}}`,
		"secret": `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"taken"}}`,
	} {
		o := &unstructured.Unstructured{}
		require.NoError(t, o.UnmarshalJSON(fmt.Appendf(nil, manifest, s.namespace)))
		row := &fleetv1alpha1.MemberWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.Namespace("east"), Name: name + "-" + s.namespace, Finalizers: []string{keys.FleetRow}},
			Spec: fleetv1alpha1.MemberWorkSpec{
				Source:  fleetv1alpha1.WorkSource{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: s.namespace, Name: name, UID: "u"},
				Content: fleetv1alpha1.WorkContentSource{Ref: fleetv1alpha1.ApplyContent + fleetv1alpha1.InlineContent, Inline: fmt.Sprintf(manifest, s.namespace)},
				Apply:   &fleetv1alpha1.WorkApply{Adoption: fleetv1alpha1.AdoptFull}, Withdrawn: true,
			},
		}
		require.NoError(t, env.Hub.Client.Create(t.Context(), row))
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			require.NoError(t, env.Hub.Client.Patch(ctx, row, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			require.NoError(t, client.IgnoreNotFound(env.Hub.Client.Delete(ctx, row)))
		})
		s.until(func(ctx context.Context) string {
			if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(row), row); err != nil {
				return err.Error()
			}
			if row.Status.Phase != fleetv1alpha1.WorkBlocked || row.Status.Reason != fleetv1alpha1.ReasonKindNotAllowed {
				return fmt.Sprintf("the row of the %s is not blocked: %+v", name, row.Status)
			}
			return ""
		})
		require.True(t, apierrors.IsNotFound(east.Get(t.Context(), client.ObjectKeyFromObject(o), o)), name)
	}
	mc := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, env.Hub.Client.Get(t.Context(), client.ObjectKey{Name: "east"}, mc))
	require.False(t, slices.ContainsFunc(mc.Status.Kinds, func(k fleetv1alpha1.ServedKind) bool { return k.Group == "" && k.Kind == "Pod" }), "the member doesn't report Pods as a kind that it serves")
}
