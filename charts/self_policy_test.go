//go:build integration

package charts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// withPolicies returns a function that creates clients for users of a cluster with the policies of a chart. Everybody has all rights there, so that
// only the policies restrict them.
func withPolicies(t *testing.T, chart string, args ...string) (as func(user string) client.Client) {
	t.Helper()
	users := usersOf(t, lab.Config{ControlPlaneOnly: true}, apiextensionsv1.AddToScheme, appsv1beta1.AddToScheme)
	as = func(user string) client.Client { return users(user, "system:masters") }
	admin := as("admin")
	text := render(t, chart, args...)
	createKind[apiextensionsv1.CustomResourceDefinition](t, admin, text, "CustomResourceDefinition")
	for _, w := range decode[admissionv1.ValidatingWebhookConfiguration](t, text, "ValidatingWebhookConfiguration") {
		for i := range w.Webhooks { // No manager answers here.
			w.Webhooks[i].FailurePolicy = new(admissionv1.Ignore)
			w.Webhooks[i].TimeoutSeconds = new(int32(1))
		}
		require.NoError(t, admin.Create(t.Context(), &w))
	}
	createPolicies(t, admin, text)
	return as
}

func TestIntegrationAttack08ManagersChangeOnlyTheirCallee(t *testing.T) {
	t.Parallel()
	for chart, crdName := range map[string]string{"hub": "memberclusters.fleet.kruise.io", "member": "clonesets.apps.kruise.io"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			as := withPolicies(t, chart)
			name := "flotilla-" + chart
			admin, manager := as("admin"), as("system:serviceaccount:"+namespace+":"+name)
			config := &admissionv1.ValidatingWebhookConfiguration{}
			require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: name}, config))
			if chart == "hub" { // Its webhooks have no term to remove.
				config.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "own", Operator: metav1.LabelSelectorOpDoesNotExist}},
				}
				require.NoError(t, admin.Update(t.Context(), config))
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: crdName}, crd))
			webhooks := func(edit func(*admissionv1.ValidatingWebhook)) func(client.Client) error {
				next := config.DeepCopy()
				edit(&next.Webhooks[0])
				return func(c client.Client) error {
					return c.Patch(t.Context(), next.DeepCopy(), client.MergeFrom(config), client.DryRunAll)
				}
			}
			definition := func(edit func(*apiextensionsv1.CustomResourceDefinition)) func(client.Client) error {
				next := crd.DeepCopy()
				next.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
					Strategy: apiextensionsv1.WebhookConverter,
					Webhook: &apiextensionsv1.WebhookConversion{
						ConversionReviewVersions: []string{"v1"},
						ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{
							Namespace: namespace, Name: name, Path: new("/convert"), Port: new(int32(443)),
						}},
					},
				}
				edit(next)
				return func(c client.Client) error {
					return c.Patch(t.Context(), next.DeepCopy(), client.MergeFrom(crd), client.DryRunAll)
				}
			}
			create := func(o client.Object) func(client.Client) error {
				return func(c client.Client) error {
					return c.Create(t.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll)
				}
			}
			secret := func(kind corev1.SecretType) *corev1.Secret {
				return &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: "default", Name: "s", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
					},
					Type: kind, Data: map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}},
				}
			}
			everything := webhooks(func(w *admissionv1.ValidatingWebhook) {
				w.Rules[0].APIGroups, w.Rules[0].APIVersions, w.Rules[0].Resources = []string{"*"}, []string{"*"}, []string{"*"}
			})
			require.Eventually(t, func() bool { return everything(manager) != nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")
			another := config.DeepCopy()
			another.ObjectMeta = metav1.ObjectMeta{Name: "another"}
			for _, tc := range []struct {
				name string
				do   func(client.Client) error
				want string // expected in the refusal; empty: allowed
			}{
				{"its CA bundle", webhooks(func(w *admissionv1.ValidatingWebhook) { w.ClientConfig.CABundle = bundle }), ""},
				{"rules for everything", everything, "only clientConfig"},
				{"another selector", webhooks(func(w *admissionv1.ValidatingWebhook) {
					w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
				}), "only clientConfig"},
				{"an exclusion that another writer adds", webhooks(func(w *admissionv1.ValidatingWebhook) {
					if w.NamespaceSelector == nil {
						w.NamespaceSelector = &metav1.LabelSelector{}
					}
					w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, excluded()...)
				}), ""},
				{"a term that selects some namespaces", webhooks(func(w *admissionv1.ValidatingWebhook) {
					w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpExists}}}
				}), "only clientConfig"},
				{"an exclusion that replaces others", webhooks(func(w *admissionv1.ValidatingWebhook) {
					w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: excluded()}
				}), "only clientConfig"},
				{"an exclusion of pods", webhooks(func(w *admissionv1.ValidatingWebhook) {
					w.ObjectSelector = &metav1.LabelSelector{MatchExpressions: excluded()}
				}), "only clientConfig"},
				{"another failure policy", webhooks(func(w *admissionv1.ValidatingWebhook) { w.FailurePolicy = new(admissionv1.Fail) }), "only clientConfig"},
				{"another name", webhooks(func(w *admissionv1.ValidatingWebhook) { w.Name = "x.kb.io" }), "only clientConfig"},
				{"another URL", webhooks(func(w *admissionv1.ValidatingWebhook) {
					w.ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://192.0.2.1/x")}
				}), "only itself called"},
				{"another Service", webhooks(func(w *admissionv1.ValidatingWebhook) { w.ClientConfig.Service.Namespace = "default" }), "only itself called"},
				{"another configuration", create(another), "creates no webhook configuration"},
				{"the conversion of its CRD", definition(func(*apiextensionsv1.CustomResourceDefinition) {}), ""},
				{"a conversion by another Service", definition(func(c *apiextensionsv1.CustomResourceDefinition) {
					c.Spec.Conversion.Webhook.ClientConfig.Service.Name = "x"
				}), "only itself called"},
				{"the schema of its CRD", definition(func(c *apiextensionsv1.CustomResourceDefinition) {
					c.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "another one"
				}), "only the conversion"},
				{"a Secret with a certificate", create(secret(corev1.SecretTypeTLS)), ""},
				{"a Secret for which Kubernetes makes a token", create(secret(corev1.SecretTypeServiceAccountToken)), "token of an account"},
			} {
				t.Run(tc.name, func(t *testing.T) {
					t.Parallel()
					require.NoError(t, tc.do(admin), "other users are not restricted")
					if err := tc.do(manager); tc.want != "" {
						require.ErrorContains(t, err, tc.want)
					} else {
						require.NoError(t, err)
					}
				})
			}
		})
	}
}

// excluded are the terms that the Admissions Enforcer of AKS adds.
func excluded() []metav1.LabelSelectorRequirement {
	return []metav1.LabelSelectorRequirement{
		{Key: "control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
		{Key: "kubernetes.azure.com/managedby", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"aks"}},
	}
}

// bundle is an empty CA bundle that the apiserver accepts.
var bundle = []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")

func TestIntegrationAttack03MemberLimitsNamespaces(t *testing.T) {
	t.Parallel()
	as := withPolicies(t, "member", "--set=agent.push=true", "--set=hub.allowedNamespaces={shop,kube-system}")
	admin, agent := as("admin"), as("system:serviceaccount:"+namespace+":flotilla-agent")
	for _, name := range []string{"shop", "bank", namespace} {
		require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	slice := func(namespace string) *appsv1beta1.UnitedDeployment {
		labels := map[string]string{"app": "web"}
		return &appsv1beta1.UnitedDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: map[string]string{keys.FleetRowUID: "row"}},
			Spec: appsv1beta1.UnitedDeploymentSpec{
				Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "a"}}},
				Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: appsv1beta1.CloneSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
					}},
				}},
			},
		}
	}
	create := func(c client.Client, o *appsv1beta1.UnitedDeployment) error {
		return c.Create(t.Context(), o, client.DryRunAll)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.NoError(c, create(agent, slice("shop"))) }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the kind is served")
	require.Eventually(t, func() bool { return create(agent, slice("bank")) != nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")
	require.NoError(t, create(agent, slice("shop")))
	require.ErrorContains(t, create(agent, slice("bank")), "add it to hub.allowedNamespaces")
	require.ErrorContains(t, create(agent, slice("kube-system")), "hub.deniedNamespaces", "a denial takes precedence")
	require.ErrorContains(t, create(agent, slice(namespace)), "hub.deniedNamespaces", "the release's own namespace is always denied")
	require.ErrorContains(t, create(admin, slice("bank")), "add it", "objects with the annotation are refused for any account")
	unmarked := slice("bank")
	unmarked.Annotations = nil
	require.ErrorContains(t, create(agent, unmarked), "add it", "the agent's account can't leave the annotation out")

	placed := slice("bank")
	placed.Annotations = nil
	require.NoError(t, admin.Create(t.Context(), placed), "objects of users are not restricted")
	require.ErrorContains(t, agent.Delete(t.Context(), placed, client.DryRunAll), "add it", "the hub may not delete objects of users")
	marked := placed.DeepCopy()
	marked.Annotations = map[string]string{keys.FleetRowUID: "row"}
	require.ErrorContains(t, agent.Patch(t.Context(), marked, client.MergeFrom(placed), client.DryRunAll), "add it", "the hub may not take over objects of users")
	marked = placed.DeepCopy()
	marked.Annotations = map[string]string{keys.FleetRowUID: "row"}
	require.NoError(t, admin.Patch(t.Context(), marked, client.MergeFrom(placed)), "an object placed before the namespace was denied")
	placed = marked
	change := func(edit func(*appsv1beta1.UnitedDeployment)) error {
		next := placed.DeepCopy()
		next.Annotations = map[string]string{keys.FleetRowUID: "row"}
		edit(next)
		return agent.Patch(t.Context(), next, client.MergeFrom(placed), client.DryRunAll)
	}
	require.NoError(t, change(func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = new(int32(1)) }), "placed replicas can be moved away")
	require.NoError(t, change(func(ud *appsv1beta1.UnitedDeployment) { ud.Finalizers = []string{"example.com/x"} }))
	require.Error(t, change(func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = new(int32(4)) }))
	require.Error(t, change(func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
	}))
	subset := func(edit func(*appsv1beta1.Subset)) func(*appsv1beta1.UnitedDeployment) {
		return func(ud *appsv1beta1.UnitedDeployment) { edit(&ud.Spec.Topology.Subsets[0]) }
	}
	require.NoError(t, change(subset(func(s *appsv1beta1.Subset) { s.Replicas = new(intstr.FromInt32(1)) })), "replicas of a subset too")
	require.Error(t, change(subset(func(s *appsv1beta1.Subset) {
		s.Patch = &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"app","image":"app:2"}]}}`)}
	})), "a subset's patch changes what its pods run")
	require.Error(t, change(func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, appsv1beta1.Subset{Name: "b"})
	}), "a new subset runs new pods")
	require.NoError(t, agent.Delete(t.Context(), placed, client.DryRunAll))

	template := slice("").Spec.Template.CloneSetTemplate.Spec
	for _, newObject := range []func(metav1.ObjectMeta) client.Object{
		func(m metav1.ObjectMeta) client.Object {
			return &appsv1beta1.CloneSet{ObjectMeta: m, Spec: template}
		},
		func(m metav1.ObjectMeta) client.Object {
			return &appsv1.Deployment{ObjectMeta: m, Spec: appsv1.DeploymentSpec{Selector: template.Selector, Template: template.Template}}
		},
		func(m metav1.ObjectMeta) client.Object {
			return &appsv1beta1.WorkloadSpread{ObjectMeta: m, Spec: appsv1beta1.WorkloadSpreadSpec{
				TargetRef: appsv1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
				Subsets:   []appsv1beta1.WorkloadSpreadSubset{{Name: "a"}},
			}}
		},
	} {
		require.NoError(t, agent.Create(t.Context(), newObject(metav1.ObjectMeta{Namespace: "shop", Name: "web"}), client.DryRunAll))
		require.ErrorContains(t, agent.Create(t.Context(), newObject(metav1.ObjectMeta{Namespace: "bank", Name: "web"}), client.DryRunAll), "add it")
	}
}
