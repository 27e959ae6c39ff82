//go:build integration

package charts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// TestIntegrationAttack22PullAgentHasRightsOfItsOwn uses a real token of a pull member's manager. While it impersonates the agent, it can place
// what hub.kinds allows and nothing else, and it can't impersonate anybody else.
func TestIntegrationAttack22PullAgentHasRightsOfItsOwn(t *testing.T) {
	t.Parallel()
	cfg, err := lab.StartT(t, lab.Config{ControlPlaneOnly: true}).REST()
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, appsv1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	connect := func(cfg *rest.Config) client.Client {
		c, err := client.New(cfg, client.Options{Scheme: scheme})
		require.NoError(t, err)
		return c
	}
	admin := connect(cfg)
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	text := render(t, "member", append([]string{"--set=hub.kinds[0].resources={configmaps}"}, pull...)...)
	createKind[apiextensionsv1.CustomResourceDefinition](t, admin, text, "CustomResourceDefinition")
	createKind[corev1.ServiceAccount](t, admin, text, "ServiceAccount")
	createKind[rbacv1.ClusterRole](t, admin, text, "ClusterRole")
	createKind[rbacv1.ClusterRoleBinding](t, admin, text, "ClusterRoleBinding")
	createKind[rbacv1.Role](t, admin, text, "Role")
	createKind[rbacv1.RoleBinding](t, admin, text, "RoleBinding")
	createPolicies(t, admin, text)

	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "flotilla-member"}}
	require.NoError(t, admin.SubResource("token").Create(t.Context(), account, request))
	as := func(user string) client.Client {
		own := rest.AnonymousClientConfig(cfg)
		own.BearerToken, own.Impersonate = request.Status.Token, rest.ImpersonationConfig{UserName: user}
		return connect(own)
	}
	manager, agent := as(""), as("system:serviceaccount:"+namespace+":flotilla-agent")
	row := map[string]string{keys.FleetRowUID: "row"}
	meta := func(in string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: in, Name: "web", Annotations: row}
	}
	labels := map[string]string{"app": "web"}
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-a-tenant"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	require.NoError(t, admin.Create(t.Context(), claim))

	create := func(c client.Client, o client.Object) error {
		return c.Create(t.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, create(agent, &corev1.ConfigMap{ObjectMeta: meta("default")}))
	}, testtimeout.Scale(30*time.Second), 100*time.Millisecond,
		"what hub.kinds allows")
	require.NoError(t, create(agent, &appsv1.Deployment{
		ObjectMeta: meta("default"), Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}), "what each hub may place")
	probe := &appsv1alpha1.NodePodProbe{ObjectMeta: meta("")}
	for name, o := range map[string]client.Object{
		"a pod":                   &corev1.Pod{ObjectMeta: meta("default"), Spec: pod},
		"a claim":                 &corev1.PersistentVolumeClaim{ObjectMeta: meta("default"), Spec: claim.Spec},
		"a NodePodProbe":          probe,
		"a Secret":                &corev1.Secret{ObjectMeta: meta("default")},
		"a Secret of the release": &corev1.Secret{ObjectMeta: meta(namespace)},
	} {
		require.True(t, apierrors.IsForbidden(create(agent, o)), name)
	}
	require.True(t, apierrors.IsForbidden(agent.Delete(t.Context(), claim, client.DryRunAll)), "a claim of the member's tenants")
	require.True(t, apierrors.IsForbidden(agent.Get(t.Context(), client.ObjectKeyFromObject(claim), claim.DeepCopy())))
	require.True(t, apierrors.IsForbidden(agent.List(t.Context(), &corev1.SecretList{})))
	require.NoError(t, manager.Delete(t.Context(), claim, client.DryRunAll), "the manager has permissions that the agent does not have")

	for _, who := range []authorizationv1.ResourceAttributes{
		{Resource: "users", Name: "admin"},
		{Resource: "groups", Name: "system:masters"},
		{Resource: "serviceaccounts", Namespace: namespace, Name: "default"},
		{Resource: "serviceaccounts", Namespace: "kube-system", Name: "flotilla-agent"},
	} {
		who.Verb = "impersonate"
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &who}}
		require.NoError(t, manager.Create(t.Context(), review))
		require.False(t, review.Status.Allowed, "%v", who)
	}
	for _, name := range []string{"flotilla-agent", "flotilla-member"} {
		account.Name = name
		require.True(t, apierrors.IsForbidden(manager.SubResource("token").Create(t.Context(), account, &authenticationv1.TokenRequest{})), "a token would allow more than the manager may do")
	}

	refused := "which is not in hub.kinds of this cluster's chart flotilla-member"
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.ErrorContains(c, create(admin, &corev1.PersistentVolumeClaim{ObjectMeta: meta("default"), Spec: claim.Spec}), refused)
	}, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")
	require.ErrorContains(t, create(admin, probe), refused, "whatever account a hub uses")
	require.ErrorContains(t, create(manager, &corev1.Pod{ObjectMeta: meta("default"), Spec: pod}), refused)
	marked := claim.DeepCopy()
	marked.Annotations = row
	adopt := func(c client.Client) error {
		return c.Patch(t.Context(), marked.DeepCopy(), client.MergeFrom(claim), client.DryRunAll)
	}
	require.ErrorContains(t, adopt(manager), refused, "nothing is taken over either")
	require.ErrorContains(t, adopt(admin), refused)

	controlled := meta("default")
	controlled.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid", Controller: new(true)}}
	set := &appsv1.ReplicaSet{ObjectMeta: controlled, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
	require.NoError(t, create(admin, set), "the controller of Deployments copies their annotations")
	require.NoError(t, create(admin, &corev1.ConfigMap{ObjectMeta: meta("default")}))
}
