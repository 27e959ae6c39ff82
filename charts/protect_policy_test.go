//go:build integration

package charts_test

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/protect"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// protectedKind is a kind that deletion protection covers.
type protectedKind struct {
	api, kind string
	cluster   bool           // without a namespace
	content   map[string]any // beside metadata
	spec      map[string]any // of one that holds others, beside content's
	status    map[string]any // the same
}

// protectedKinds are all protected kinds, with the content that makes the label value Cascading protect an object.
func protectedKinds() []protectedKind {
	labels := map[string]any{"app": "web"}
	selector := map[string]any{"matchLabels": labels}
	pod := map[string]any{
		"metadata": map[string]any{"labels": labels},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": "app:1"}}},
	}
	workload := func(more map[string]any) map[string]any {
		spec := map[string]any{"selector": selector, "template": pod}
		maps.Copy(spec, more)
		return map[string]any{"spec": spec}
	}
	none, three := map[string]any{"replicas": int64(0)}, map[string]any{"replicas": int64(3)}
	stateful := map[string]any{"replicas": int64(0), "serviceName": "web"}
	scheduled := map[string]any{
		"currentNumberScheduled": int64(2), "numberMisscheduled": int64(0), "desiredNumberScheduled": int64(2), "numberReady": int64(0),
		"daemonSetHash": "1", "updatedNumberScheduled": int64(0),
	}
	united := func(more map[string]any) map[string]any {
		spec := map[string]any{
			"selector": selector, "topology": map[string]any{"subsets": []any{map[string]any{"name": "a"}}},
			"template": map[string]any{"cloneSetTemplate": map[string]any{
				"metadata": map[string]any{"labels": labels}, "spec": workload(nil)["spec"],
			}},
		}
		maps.Copy(spec, more)
		return map[string]any{"spec": spec}
	}
	ingress := map[string]any{"spec": map[string]any{"defaultBackend": map[string]any{
		"service": map[string]any{"name": "web", "port": map[string]any{"number": int64(80)}},
	}}}
	claim := map[string]any{"spec": map[string]any{
		"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
	}}
	volume := map[string]any{"spec": map[string]any{
		"accessModes": []any{"ReadWriteOnce"}, "capacity": map[string]any{"storage": "1Gi"}, "hostPath": map[string]any{"path": "/data"},
	}}
	bound := map[string]any{"phase": "Bound"}
	sidecars := map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}, "containers": []any{map[string]any{"name": "log", "image": "log:1"}},
	}}
	injected := map[string]any{"matchedPods": int64(4), "updatedPods": int64(4), "readyPods": int64(4)}
	return []protectedKind{
		{api: "apps/v1", kind: "Deployment", content: workload(none), spec: three},
		{api: "apps/v1", kind: "ReplicaSet", content: workload(none), spec: three},
		{api: "apps/v1", kind: "StatefulSet", content: workload(stateful), spec: three},
		{api: "apps/v1", kind: "DaemonSet", content: workload(nil), status: scheduled},
		{api: "apps.kruise.io/v1beta1", kind: "CloneSet", content: workload(none), spec: three},
		{api: "apps.kruise.io/v1beta1", kind: "StatefulSet", content: workload(stateful), spec: three},
		{api: "apps.kruise.io/v1beta1", kind: "DaemonSet", content: workload(nil), status: scheduled},
		{api: "apps.kruise.io/v1beta1", kind: "UnitedDeployment", content: united(none), spec: three},
		{api: "apps.kruise.io/v1beta1", kind: "SidecarSet", cluster: true, content: sidecars, status: injected},
		{api: "v1", kind: "Service", content: map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}}},
		{api: "networking.k8s.io/v1", kind: "Ingress", content: ingress},
		{api: "v1", kind: "ConfigMap"},
		{api: "v1", kind: "Secret"},
		{api: "v1", kind: "PersistentVolumeClaim", content: claim, status: bound},
		{api: "v1", kind: "PersistentVolume", cluster: true, content: volume, status: bound},
		{api: "v1", kind: "Namespace", cluster: true},
	}
}

func (k protectedKind) object(name, value string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(k.content)}
	if o.Object == nil {
		o.Object = map[string]any{}
	}
	o.SetAPIVersion(k.api)
	o.SetKind(k.kind)
	o.SetName(name)
	if !k.cluster {
		o.SetNamespace("shop")
	}
	if value != "" {
		o.SetLabels(map[string]string{keys.DeleteProtection: value})
	}
	return o
}

// warningCollector collects the apiserver's warnings.
type warningCollector struct {
	mu   sync.Mutex
	text []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (h *warningCollector) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.Contains(text, keys.DeleteProtection) {
		h.text = append(h.text, text)
	}
}

// take returns the warnings since the last call.
func (h *warningCollector) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.text
	h.text = nil
	return out
}

// TestIntegrationLabelledObjectsAreProtected deletes an object of each kind while no manager runs. The policy must decide the same as package
// protect, which agents use.
func TestIntegrationLabelledObjectsAreProtected(t *testing.T) {
	t.Parallel()
	cfg, err := lab.StartT(t, lab.Config{ControlPlaneOnly: true}).REST()
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	user := func(t *testing.T) (client.Client, *warningCollector) {
		t.Helper()
		warnings, cfg := &warningCollector{}, rest.CopyConfig(cfg)
		cfg.WarningHandler = warnings
		c, err := client.New(cfg, client.Options{Scheme: scheme})
		require.NoError(t, err)
		return c, warnings
	}
	c, warnings := user(t)

	text := render(t, "member", "--set=featureGates=ResourcesDeletionProtection=true")
	for _, crd := range decode[apiextensionsv1.CustomResourceDefinition](t, text, "CustomResourceDefinition") {
		crd.Spec.Conversion = nil // No manager answers here.
		require.NoError(t, c.Create(t.Context(), &crd))
	}
	require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	createPolicies(t, c, text)
	remove := func(c client.Client, o client.Object) error {
		return c.Delete(t.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll)
	}
	probe := protectedKind{api: "v1", kind: "ConfigMap"}.object("probe", protect.Always)
	require.NoError(t, c.Create(t.Context(), probe))
	require.Eventually(t, func() bool { return remove(c, probe) != nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")
	wrong := protectedKind{api: "v1", kind: "ConfigMap"}.object("wrong", "Sometimes")
	require.Eventually(t, func() bool {
		return c.Create(t.Context(), wrong.DeepCopy(), client.DryRunAll) == nil && len(warnings.take()) > 0
	}, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy for warnings takes effect")

	for _, k := range protectedKinds() {
		t.Run(k.api+" "+k.kind, func(t *testing.T) {
			t.Parallel()
			c, warnings := user(t)
			lower := strings.ToLower(k.kind) + "-"
			require.Eventually(t, func() bool {
				err := c.Create(t.Context(), k.object(lower+"bare", ""))
				return err == nil || apierrors.IsAlreadyExists(err)
			}, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the kind is served")
			require.NoError(t, remove(c, k.object(lower+"bare", "")), "without the label")
			for _, value := range []string{protect.Always, protect.Cascading, "Sometimes"} {
				for _, holds := range []bool{false, true} {
					name := lower + strings.ToLower(value)
					o := k.object(name, value)
					if holds {
						o = k.object(name+"-holds", value)
						for field, value := range k.spec {
							require.NoError(t, unstructured.SetNestedField(o.Object, value, "spec", field))
						}
					}
					warnings.take()
					require.NoError(t, c.Create(t.Context(), o))
					noEffect := value == protect.Cascading && k.status == nil && k.spec == nil && k.kind != "Namespace"
					if warned := warnings.take(); value == "Sometimes" {
						require.Equal(t, []string{`Validation failed for ValidatingAdmissionPolicy 'flotilla-member-protect-warn' with binding ` +
							`'flotilla-member-protect-warn': metadata.labels[` + keys.DeleteProtection +
							`]: "Sometimes" protects nothing: write Always or Cascading`}, warned)
					} else if noEffect {
						require.Len(t, warned, 1)
						require.Contains(t, warned[0], "Cascading protects no "+k.kind)
					} else {
						require.Empty(t, warned)
					}
					if holds && k.status != nil {
						patch := &unstructured.Unstructured{Object: map[string]any{"status": k.status}}
						body, err := patch.MarshalJSON()
						if err == nil {
							err = c.Status().Patch(t.Context(), o, client.RawPatch(types.MergePatchType, body))
						}
						require.NoError(t, err)
					}
					got, want := remove(c, o), protect.Why(o)
					require.Equal(t, value == protect.Always || value == protect.Cascading && holds && (k.spec != nil || k.status != nil), want != "")
					if want == "" {
						require.NoError(t, got)
						continue
					}
					require.ErrorContains(t, got, protect.Forbidden+want)
					require.Equal(t, int32(http.StatusForbidden), got.(apierrors.APIStatus).Status().Code)
					if !k.cluster {
						err := c.DeleteAllOf(t.Context(), k.object("", ""), client.InNamespace("shop"), client.DryRunAll,
							client.MatchingLabels{keys.DeleteProtection: value})
						require.ErrorContains(t, err, "protects "+k.kind+" shop/"+lower, "an object in a collection")
					}
					require.NoError(t, c.Patch(t.Context(), o, client.RawPatch(types.MergePatchType,
						[]byte(`{"metadata":{"labels":{"`+keys.DeleteProtection+`":null}}}`))), "the way out")
					require.NoError(t, remove(c, o))
				}
			}
		})
	}

	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "sidecarsets.apps.kruise.io"}}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	label := func(value string) client.Patch {
		return client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+keys.DeleteProtection+`":"`+value+`"}}}`))
	}
	require.NoError(t, c.Patch(t.Context(), crd, label(protect.Always)))
	require.ErrorContains(t, remove(c, crd), "protects CustomResourceDefinition sidecarsets.apps.kruise.io: to delete it, remove the label first")

	held := protectedKind{api: "v1", kind: "ConfigMap"}.object("held", protect.Always)
	held.SetFinalizers([]string{"example.com/hold"})
	require.NoError(t, c.Create(t.Context(), held))
	require.NoError(t, c.Patch(t.Context(), held, label("Sometimes")))
	warnings.take()
	require.NoError(t, c.Patch(t.Context(), held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`))))
	require.Empty(t, warnings.take(), "a write of a controller")
	require.NoError(t, c.Delete(t.Context(), held))
	require.NoError(t, c.Patch(t.Context(), held, label(protect.Always)))
	require.NoError(t, c.Delete(t.Context(), held), "an object that is already being deleted")

	// While the gate is off.
	off := render(t, "member", "--set=featureGates=null")
	for _, p := range decode[admissionv1.ValidatingAdmissionPolicy](t, off, "ValidatingAdmissionPolicy") {
		if p.Name == "flotilla-member-protect-warn" {
			p.Name = "off"
			require.NoError(t, c.Create(t.Context(), &p))
		}
	}
	for _, b := range decode[admissionv1.ValidatingAdmissionPolicyBinding](t, off, "ValidatingAdmissionPolicyBinding") {
		if b.Name == "flotilla-member-protect-warn" {
			b.Name, b.Spec.PolicyName = "off", "off"
			b.Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"gate": "off"}, // The objects above don't have this label.
			}}
			require.NoError(t, c.Create(t.Context(), &b))
		}
	}
	o := protectedKind{api: "v1", kind: "Secret"}.object("off", protect.Always)
	o.SetLabels(map[string]string{keys.DeleteProtection: protect.Always, "gate": "off"})
	var warned []string
	require.Eventually(t, func() bool {
		require.NoError(t, c.Create(t.Context(), o.DeepCopy(), client.DryRunAll))
		warned = warnings.take()
		return len(warned) > 0
	}, testtimeout.Scale(30*time.Second), 100*time.Millisecond)
	require.Contains(t, warned[0], "Always protects nothing: feature gate ResourcesDeletionProtection of flotilla-member is off")
}

// TestIntegrationTheGateSwitchesProtection renders the chart with each way to set the gate.
func TestIntegrationTheGateSwitchesProtection(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		on   bool
	}{
		{"by default", nil, false},
		{"without the value", []string{"--set=featureGates=null"}, false},
		{"on", []string{"--set=featureGates=ResourcesDeletionProtection=true"}, true},
		{"off", []string{"--set=featureGates=ResourcesDeletionProtection=false"}, false},
		{"among other gates", []string{`--set=featureGates=TemplateNoDefaults=true\,ResourcesDeletionProtection=true`}, true},
		{"with its stage", []string{"--set=featureGates=AllBeta=true"}, true},
		{"with another stage", []string{"--set=featureGates=AllAlpha=true"}, false},
		{"its own value takes precedence over its stage", []string{`--set=featureGates=ResourcesDeletionProtection=false\,AllBeta=true`}, false},
		{"by a flag", []string{"--set=manager.extraArgs={--feature-gates=ResourcesDeletionProtection=1}"}, true},
		{"by a flag that is off", []string{"--set=manager.extraArgs={--feature-gates=ResourcesDeletionProtection=0}"}, false},
		{"without flags", []string{"--set=manager.extraArgs=null"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := render(t, "member", append(tc.args, "--set=crds.managed=false")...)
			require.Equal(t, tc.on, strings.Contains(out, "name: flotilla-member-protect\n"))
			require.Equal(t, tc.on, strings.Contains(out, "vdeleteprotection.kb.io"))
			require.Equal(t, tc.on, strings.Contains(out, "mdeleteprotection.kb.io"))
		})
	}
	const resources = "--set-json=deletionProtection.customResources=[{\"apiGroups\":[\"game.kruise.io\"],\"resources\":[\"gameserversets\"]}]"
	role := func(args ...string) (out []rbacv1.PolicyRule) {
		for _, r := range decode[rbacv1.ClusterRole](t, render(t, "member", append(args, resources)...), "ClusterRole") {
			if r.Name == "flotilla-member-protect" {
				out = r.Rules
			}
		}
		return out
	}
	require.Empty(t, role(), "nothing is listed while the gate is off")
	require.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{"game.kruise.io"}, Resources: []string{"gameserversets"}, Verbs: []string{"list"}}},
		role("--set=featureGates=DeletionProtectionForCRDCascadingGate=true"))
}
