//go:build integration

package charts_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// TestIntegrationNodeDaemonIsConfined uses a real token of the daemon's pod on node-1 to do what the daemon may do, and tries what it may not
// do: in CVE-2023-30617, the token of one node's daemon gave access to the Secrets of the whole cluster.
func TestIntegrationNodeDaemonIsConfined(t *testing.T) {
	t.Parallel()
	cfg, err := lab.StartT(t, lab.Config{ControlPlaneOnly: true}).REST()
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	require.NoError(t, appsv1alpha1.AddToScheme(scheme))
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	admin, err := client.New(cfg, client.Options{Scheme: scheme})
	require.NoError(t, err)
	text, err := os.ReadFile("member/files/crds/apps.kruise.io_containerrecreaterequests.yaml")
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.Unmarshal(text, crd))
	require.NoError(t, admin.Create(t.Context(), crd))

	const account = "flotilla-noded"
	pod := func(namespace, name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"config": "one"},
			},
			Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: account, Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		}
	}
	daemon, here, there, nowhere := pod(namespace, "noded-1", "node-1"), pod("default", "here", "node-1"), pod("default", "there", "node-2"), pod("default", "nowhere", "")
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	lease := func(namespace, node string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "flotilla-noded." + node, Labels: map[string]string{"fleet.kruise.io/node-daemon": ""},
		}}
	}
	other := lease(namespace, "node-2")
	event := func(from, instance string) *eventsv1.Event {
		return &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "here-"}, EventTime: metav1.NowMicro(),
			Type: "Normal", Reason: "Killing", Action: "Restart", Note: "stopping", ReportingController: from, ReportingInstance: instance,
			Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "here"},
		}
	}
	foreign, neighbour := event("kubelet", "node-1"), event(account, account+"-noded-2")
	foreign.Name, neighbour.Name = "of-the-kubelet", "of-another-daemon"
	label := func(e *eventsv1.Event) func(client.Client) error {
		return func(c client.Client) error {
			return c.Patch(t.Context(), e.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"seen":"yes"}}}`)), client.DryRunAll)
		}
	}
	standing := lease(namespace, "node-1")
	standing.Annotations = map[string]string{"fleet.kruise.io/other-node-daemon": "kruise-system/kruise-daemon-x"}
	held := lease(namespace, "node-1")
	held.Finalizers = []string{"example.com/hold"}
	series := event(account, account+"-noded-1")
	series.Name = "of-this-daemon"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}},
		serviceAccount, daemon, here, there, nowhere, other, foreign, neighbour, series, secret,
	} {
		require.NoError(t, admin.Create(t.Context(), o))
	}
	nodeImage := func(node string) *appsv1beta1.NodeImage {
		return &appsv1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"disk": "ssd"}}}
	}
	probes := func(node string) *appsv1alpha1.NodePodProbe {
		return &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"disk": "ssd"}}}
	}
	request, neighbours := recreateRequest(t, admin, "here", "node-1"), recreateRequest(t, admin, "there", "node-2")
	out := render(t, "member")
	for _, crd := range decode[apiextensionsv1.CustomResourceDefinition](t, out, "CustomResourceDefinition") {
		if crd.Spec.Group != appsv1beta1.GroupVersion.Group || crd.Spec.Names.Kind != "NodeImage" && crd.Spec.Names.Kind != "NodePodProbe" {
			continue
		}
		crd.Spec.Conversion = nil // No manager runs to convert, and the two versions have the same fields.
		require.NoError(t, admin.Create(t.Context(), &crd))
	}
	for _, name := range []string{"node-1", "node-2"} {
		require.Eventually(t, func() bool { return admin.Create(t.Context(), nodeImage(name)) == nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the CRD is served")
		require.Eventually(t, func() bool { return admin.Create(t.Context(), probes(name)) == nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the CRD is served")
	}
	createKind[rbacv1.ClusterRole](t, admin, out, "ClusterRole")
	createKind[rbacv1.Role](t, admin, out, "Role")
	createKind[rbacv1.ClusterRoleBinding](t, admin, out, "ClusterRoleBinding")
	createKind[rbacv1.RoleBinding](t, admin, out, "RoleBinding")
	createPolicies(t, admin, out)
	// as returns a client with a token of the account, which is bound to a pod unless that is nil.
	as := func(bound *corev1.Pod) client.Client {
		q := &authenticationv1.TokenRequest{}
		if bound != nil {
			q.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: bound.Name, UID: bound.UID}
		}
		require.NoError(t, admin.SubResource("token").Create(t.Context(), serviceAccount, q))
		own := rest.AnonymousClientConfig(cfg)
		own.BearerToken = q.Status.Token
		c, err := client.New(own, client.Options{Scheme: scheme})
		require.NoError(t, err)
		return c
	}
	me, loose := as(daemon), as(nil)

	status := func(c client.Client, p *corev1.Pod, patch string) error {
		return c.Status().Patch(t.Context(), p.DeepCopy(), client.RawPatch("application/strategic-merge-patch+json", []byte(patch)),
			&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
	}
	patch := func(p *corev1.Pod, text string) func(client.Client) error {
		return func(c client.Client) error { return status(c, p, text) }
	}
	create := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error {
			return c.Create(t.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll)
		}
	}
	update := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error {
			return c.Update(t.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll)
		}
	}
	pulled := func(node, text string) func(client.Client) error {
		return func(c client.Client) error {
			return c.Status().Patch(t.Context(), nodeImage(node), client.RawPatch("application/merge-patch+json", []byte(text)),
				&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
		}
	}
	probed := func(node, text string) func(client.Client) error {
		return func(c client.Client) error {
			return c.Status().Patch(t.Context(), probes(node), client.RawPatch("application/merge-patch+json", []byte(text)),
				&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
		}
	}
	remove := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error { return c.Delete(t.Context(), o, client.DryRunAll) }
	}
	recreate := func(o *unstructured.Unstructured, subresource bool, patch string) func(client.Client) error {
		return func(c client.Client) error {
			o, p := o.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch))
			if subresource {
				return c.Status().Patch(t.Context(), o, p, &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
			}
			return c.Patch(t.Context(), o, p, client.DryRunAll)
		}
	}
	const results = `{"status":{"podProbeStatuses":[{"namespace":"default","name":"here","uid":"u1"}]}}`
	const begun = `{"status":{"phase":"Recreating"}}`
	const report = `{"metadata":{"annotations":{"apps.kruise.io/runtime-containers-meta":"{}"}}}`
	require.Eventually(t, func() bool {
		return apierrors.IsInvalid(status(me, there, report)) || apierrors.IsForbidden(status(me, there, report))
	},
		testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")

	const rbac = "cannot "
	for _, tc := range []struct {
		name string
		as   client.Client // nil is the daemon of node-1
		do   func(client.Client) error
		want string // expected in the refusal; empty: allowed
	}{
		{"it may report on a pod of its node", nil, patch(here, report), ""},
		{"not on a pod of another node", nil, patch(there, report), "only on pods of its own node"},
		{"not on a pod without a node", nil, patch(nowhere, report), "only on pods of its own node"},
		{"not with a token without a node", loose, patch(here, report), "which names its node"},
		{"it may not change another annotation", nil, patch(here, `{"metadata":{"annotations":{"config":"two"}}}`), "only annotation apps.kruise.io/runtime-containers-meta"},
		{"it may not add another annotation", nil, patch(here, `{"metadata":{"annotations":{"more":""}}}`), "only annotation apps.kruise.io/runtime-containers-meta"},
		{"it may not remove another annotation", nil, patch(here, `{"metadata":{"annotations":{"config":null}}}`), "only annotation apps.kruise.io/runtime-containers-meta"},
		{"it may not change a label", nil, patch(here, `{"metadata":{"labels":{"app":"other"}}}`), "only annotation apps.kruise.io/runtime-containers-meta"},
		{"it may not add a finalizer", nil, patch(here, `{"metadata":{"finalizers":["example.com/hold"]}}`), "only annotation apps.kruise.io/runtime-containers-meta"},
		{"it may not change a condition", nil, patch(here, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), "only annotation apps.kruise.io/runtime-containers-meta"},
		{"it may not change the phase", nil, patch(here, `{"status":{"phase":"Failed"}}`), "only annotation apps.kruise.io/runtime-containers-meta"},
		{"it may not update the pod", nil, update(here), rbac + "update resource"},
		{"it may not delete the pod", nil, remove(here), rbac + "delete resource"},
		{"it may not create a pod", nil, create(pod("default", "new", "node-1")), rbac + "create resource"},
		{"it may report on a ContainerRecreateRequest of its node", nil, recreate(request, true, begun), ""},
		{"not on a request of another node", nil, recreate(neighbours, true, begun), "only the status of ContainerRecreateRequests for pods of its own node"},
		{"not by changing the node of the request", nil, recreate(neighbours, true, `{"metadata":{"labels":{"crr.apps.kruise.io/node-name":"node-1"}},"status":{"phase":"Recreating"}}`), "for pods of its own node"},
		{"not with a token without a node", loose, recreate(request, true, begun), "which names its node"},
		{"it may not change the request", nil, recreate(request, false, `{"metadata":{"labels":{"more":""}}}`), rbac + "patch resource"},
		{"it may not create a ContainerRecreateRequest", nil, create(recreateObject("new", "node-1")), rbac + "create resource"},
		{"it may not delete the request", nil, remove(request), rbac + "delete resource"},
		{"it may create the Lease of its node", nil, create(lease(namespace, "node-1")), ""},
		{"it may name on the Lease for whom it steps back", nil, create(standing), ""},
		{"not the Lease of another node", nil, create(lease(namespace, "node-3")), "only the Lease of its own node"},
		{"it may not renew the Lease of another node", nil, update(other), "only the Lease of its own node"},
		{"it may not delete the Lease of another node", nil, remove(other), rbac + "delete resource"},
		{"not a Lease with an owner or finalizer", nil, create(held), "only the Lease of its own node"},
		{"not a Lease in another namespace", nil, create(lease("default", "node-1")), rbac + "create resource"},
		{"not with a token without a node", loose, create(lease(namespace, "node-1")), "which names its node"},
		{"it may report the images that it has pulled", nil, pulled("node-1", `{"status":{"desired":1}}`), ""},
		{"not the NodeImage of another node", nil, pulled("node-2", `{"status":{"desired":1}}`), "only the status of the NodeImage of its own node"},
		{"not with a token without a node", loose, pulled("node-1", `{"status":{"desired":1}}`), "which names its node"},
		{"it may not change the images to pull", nil, func(c client.Client) error {
			return c.Patch(t.Context(), nodeImage("node-1"), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"images":null}}`)), client.DryRunAll)
		}, rbac + "patch resource"},
		{"it may not delete its NodeImage", nil, remove(nodeImage("node-1")), rbac + "delete resource"},
		{"it may not create a NodeImage", nil, create(nodeImage("node-3")), rbac + "create resource"},
		{"it may report the results of probes", nil, probed("node-1", results), ""},
		{"not the NodePodProbe of another node", nil, probed("node-2", results), "only the status of the NodePodProbe of its own node"},
		{"not with a token without a node", loose, probed("node-1", results), "which names its node"},
		{"it may not change the probes", nil, func(c client.Client) error {
			return c.Patch(t.Context(), probes("node-1"), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"podProbes":null}}`)), client.DryRunAll)
		}, rbac + "patch resource"},
		{"it may not delete its NodePodProbe", nil, remove(probes("node-1")), rbac + "delete resource"},
		{"it may not create a NodePodProbe", nil, create(probes("node-3")), rbac + "create resource"},
		{"it may create its own events", nil, create(event(account, account+"-noded-1")), ""},
		{"it may update the count of its events", nil, label(series), ""},
		{"not events of another component", nil, create(event("kubelet", "node-1")), "only its own events"},
		{"not events in the name of another daemon", nil, create(event(account, account+"-noded-2")), "only its own events"},
		{"it may not change events of another component", nil, label(foreign), "only its own events"},
		{"it may not change events of another daemon", nil, label(neighbour), "only its own events"},
		{"it may not read a Secret", nil, func(c client.Client) error {
			return c.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{})
		}, rbac + "get resource"},
		{"it may not list Secrets", nil, func(c client.Client) error { return c.List(t.Context(), &corev1.SecretList{}) }, rbac + "list resource"},
		{"it may not list Secrets of its own namespace", nil, func(c client.Client) error {
			return c.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace))
		}, rbac + "list resource"},
		{"it may not read a node", nil, func(c client.Client) error {
			return c.Get(t.Context(), client.ObjectKeyFromObject(node), &corev1.Node{})
		}, rbac + "get resource"},
		{"it may not change a node", nil, func(c client.Client) error {
			return c.Patch(t.Context(), node.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`)), client.DryRunAll)
		}, rbac + "patch resource"},
		{"it may not create tokens", nil, func(c client.Client) error {
			return c.SubResource("token").Create(t.Context(), serviceAccount.DeepCopy(), &authenticationv1.TokenRequest{})
		}, rbac + "create resource"},
		{"it may not grant permissions", nil, create(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "mine"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		}), rbac + "create resource"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := tc.as
			if c == nil {
				c = me
			}
			err := tc.do(c)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
	owned := here.DeepCopy()
	require.NoError(t, me.Status().Patch(t.Context(), owned, client.RawPatch("application/strategic-merge-patch+json",
		[]byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"node-1","uid":"x"}]}}`))))
	require.Empty(t, owned.OwnerReferences, "the apiserver does not change owners by this subresource")
	mine := nodeImage("node-1")
	require.NoError(t, me.Status().Patch(t.Context(), mine, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"disk":"hdd"}},"spec":{"images":{"app":{"tags":[{"tag":"1"}]}}},"status":{"desired":1}}`))))
	require.EqualValues(t, 1, mine.Status.Desired)
	require.Empty(t, mine.Spec.Images, "the spec has not changed")
	require.Equal(t, "ssd", mine.Labels["disk"], "labels have not changed")
	found := probes("node-1")
	require.NoError(t, me.Status().Patch(t.Context(), found, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"disk":"hdd"}},"spec":{"podProbes":[{"namespace":"default","name":"here","uid":"u1","IP":"10.0.0.1"}]},`+results[1:]))))
	require.Len(t, found.Status.PodProbeStatuses, 1)
	require.Empty(t, found.Spec.PodProbes)
	require.Equal(t, "ssd", found.Labels["disk"])
	// Others may do what is rejected above.
	require.NoError(t, patch(there, report)(admin))
	require.NoError(t, update(other)(admin))
}

// recreateObject returns a ContainerRecreateRequest for a pod of a node.
func recreateObject(name, node string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"podName": name, "containers": []any{map[string]any{"name": "app"}},
	}}}
	o.SetAPIVersion("apps.kruise.io/v1beta1")
	o.SetKind("ContainerRecreateRequest")
	o.SetNamespace("default")
	o.SetName(name)
	o.SetLabels(map[string]string{"crr.apps.kruise.io/node-name": node})
	return o
}

// recreateRequest creates a ContainerRecreateRequest as soon as the kind is served.
func recreateRequest(t *testing.T, admin client.Client, name, node string) *unstructured.Unstructured {
	t.Helper()
	o := recreateObject(name, node)
	require.Eventually(t, func() bool { return admin.Create(t.Context(), o) == nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the kind is served")
	return o
}
