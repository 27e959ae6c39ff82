package propagation

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// reviewTemplate lets a webhook review an object. namespace is "" for cluster-scoped objects, and old is "" for a new object.
func reviewTemplate(t *testing.T, labels bool, old, object, namespace string) admission.Response {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	web := &fleetv1alpha1.Propagation{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}}
	web.Spec.Selectors = []fleetv1alpha1.PropagationSelector{
		{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "placed"},
		{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "placed"}}},
	}
	all := &fleetv1alpha1.ClusterPropagation{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	all.Spec.Selectors = []fleetv1alpha1.PropagationSelector{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "SidecarSet", Name: "placed"}}
	spread := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}}
	spread.Spec.TargetRef = appsv1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "spread"}
	spread.Spec.Subsets = []appsv1beta1.WorkloadSpreadSubset{{Name: "a", Cluster: "east"}}
	here := spread.DeepCopy()
	here.Name, here.Spec.TargetRef.Name, here.Spec.Subsets[0].Cluster = "here", "here", ""
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(web, all, spread, here).Build()
	raw := func(text string) runtime.RawExtension {
		if text == "" {
			return runtime.RawExtension{}
		}
		out, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(t, err)
		return runtime.RawExtension{Raw: out}
	}
	var head metav1.TypeMeta
	require.NoError(t, yaml.Unmarshal([]byte(object), &head))
	kind := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind(kind), Namespace: namespace, Operation: admissionv1.Create, Object: raw(object), OldObject: raw(old),
	}}
	if old != "" {
		req.Operation = admissionv1.Update
	}
	response := (&templateWebhook{Reader: c, Labels: labels}).Handle(t.Context(), req)
	require.True(t, response.Allowed, response.Result)
	return response
}

func TestCreatingAnObjectThatNothingRunsIsAWarning(t *testing.T) {
	t.Parallel()
	const kruise = "apiVersion: apps.kruise.io/v1beta1\n"
	for _, tt := range []struct {
		name, object string
		inNone       bool
		warned       string
	}{
		{"a CloneSet that nothing selects", kruise + "kind: CloneSet\nmetadata: {name: web}", false, "the hub does not run this CloneSet: select it in a Propagation"},
		{"a CloneSet that labels select", kruise + "kind: CloneSet\nmetadata: {name: web, labels: {app: placed}}", false, ""},
		{"a kind that is not selected", kruise + "kind: StatefulSet\nmetadata: {name: placed}", false, "the hub does not run this StatefulSet"},
		{"a budget", "apiVersion: policy.kruise.io/v1beta1\nkind: PodUnavailableBudget\nmetadata: {name: web}", false, "the hub does not run this PodUnavailableBudget"},
		{"a SidecarSet", kruise + "kind: SidecarSet\nmetadata: {name: web}", true, "the hub does not run this SidecarSet: select it in a ClusterPropagation"},
		{"a SidecarSet that is selected in another version", kruise + "kind: SidecarSet\nmetadata: {name: placed}", true, ""},
		{"an object with a controller", kruise + "kind: BroadcastJob\nmetadata: {name: a, ownerReferences: [{apiVersion: v1, kind: X, name: x, uid: x, controller: true}]}", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			namespace := shop
			if tt.inNone {
				namespace = ""
			}
			got := reviewTemplate(t, false, "", tt.object, namespace)
			require.Empty(t, got.Patches)
			if tt.warned == "" {
				require.Empty(t, got.Warnings)
				return
			}
			require.Len(t, got.Warnings, 1)
			require.Contains(t, got.Warnings[0], tt.warned)
		})
	}
}

func TestWorkloadsOfANamespaceOfTemplates(t *testing.T) {
	t.Parallel()
	const (
		deployment = "apiVersion: apps/v1\nkind: Deployment\n"
		label      = `[{"op":"add","path":"/metadata/labels","value":{"fleet.kruise.io/template":"true"}}]`
		nothing    = "the hub does not run this "
	)
	for _, tt := range []struct {
		name, old, object string
		patch, warned     string
	}{
		{"a Deployment gets the label", "", deployment + "metadata: {name: web}", label, nothing + "Deployment"},
		{"a CloneSet gets the label", "", "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet\nmetadata: {name: web}", label, nothing + "CloneSet"},
		{"a Deployment that a WorkloadSpread places gets the label", "", deployment + "metadata: {name: spread}", label, ""},
		{"a WorkloadSpread for pods of this cluster does not place it", "", deployment + "metadata: {name: here}", label, nothing + "Deployment"},
		{"a Deployment that has the label", "", deployment + "metadata: {name: spread, labels: {fleet.kruise.io/template: 'true'}}", "", ""},
		{
			"a Deployment that is replaced without the label keeps it", deployment + "metadata: {name: web, labels: {fleet.kruise.io/template: 'true'}}",
			deployment + "metadata: {name: web}", label, "",
		},
		{"an existing Deployment without the label does not get it", deployment + "metadata: {name: web}", deployment + "metadata: {name: web}", "", ""},
		{"a StatefulSet does not get the label", "", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: placed}", "", ""},
		{"a StatefulSet that is not selected is not placed", "", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}", "", nothing + "StatefulSet"},
		{"a Job", "", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: web}", "", nothing + "Job"},
		{
			"an own label wins, and its pods have it", "", deployment + "metadata: {name: web, labels: {fleet.kruise.io/template: 'false'}}\nspec: {template: {spec: {}}}",
			`[{"op":"add","path":"/spec/template/metadata","value":{"labels":{"fleet.kruise.io/template":"false"}}}]`, "",
		},
		{
			"and so do the Jobs of a CronJob", "",
			"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a, labels: {fleet.kruise.io/template: 'false'}}\nspec: {jobTemplate: {metadata: {labels: {a: b}}, spec: {template: {metadata: {labels: {a: b}}}}}}",
			`[{"op":"add","path":"/spec/jobTemplate/metadata/labels/fleet.kruise.io~1template","value":"false"},` +
				`{"op":"add","path":"/spec/jobTemplate/spec/template/metadata/labels/fleet.kruise.io~1template","value":"false"}]`, "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := reviewTemplate(t, true, tt.old, tt.object, shop)
			patch, err := json.Marshal(got.Patches)
			require.NoError(t, err)
			if tt.patch == "" {
				require.Empty(t, got.Patches)
			} else if len(got.Patches) > 1 { // In any order.
				var want, actual []any
				require.NoError(t, json.Unmarshal([]byte(tt.patch), &want))
				require.NoError(t, json.Unmarshal(patch, &actual))
				require.ElementsMatch(t, want, actual)
			} else {
				require.JSONEq(t, tt.patch, string(patch))
			}
			if tt.warned == "" {
				require.Empty(t, got.Warnings)
				return
			}
			require.Len(t, got.Warnings, 1)
			require.Contains(t, got.Warnings[0], tt.warned)
		})
	}
}
