//go:build integration

package protection

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

const ofTest = "lab.flotilla.io/protection-test"

func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: apiextensionsv1.AddToScheme})
	shop := s.Namespace(t)
	site, _, _ := strings.Cut(shop, "-")
	s.Run(t, "protection-under-test", corev1.SchemeGroupVersion.WithKind("PodTemplate"), func(mgr ctrl.Manager) {
		gates, err := feature.New(Gates()...)
		require.NoError(t, err)
		require.NoError(t, gates.Set("DeletionProtectionForCRDCascadingGate=true"))
		require.NoError(t, Setup(mgr, gates))
	})
	// The Env's webhooks are for another kind, but have the address and the CA of the manager.
	env := &admissionv1.ValidatingWebhookConfiguration{}
	require.NoError(t, s.Get(t.Context(), client.ObjectKey{Name: "validate-podtemplate-" + site}, env))
	call := func(path string) admissionv1.WebhookClientConfig {
		c := *env.Webhooks[0].ClientConfig.DeepCopy()
		c.URL = new(strings.TrimSuffix(*c.URL, "/validate-podtemplate") + path)
		return c
	}
	deletions := func(group string, resources ...string) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Delete},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: resources},
		}
	}
	labelled := &metav1.LabelSelector{
		MatchLabels:      map[string]string{ofTest: site},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: keys.DeleteProtection, Operator: metav1.LabelSelectorOpExists}},
	}
	kinds := "games." + site + ".example.com"
	for _, o := range []client.Object{
		&admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "protection-" + site},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "vdeleteprotection.kb.io", ClientConfig: call(pathValidate), ObjectSelector: labelled,
				Rules:       []admissionv1.RuleWithOperations{deletions("", "namespaces"), deletions(apiextensionsv1.GroupName, "customresourcedefinitions")},
				SideEffects: new(admissionv1.SideEffectClassNoneOnDryRun), AdmissionReviewVersions: []string{"v1"},
			}},
		},
		&admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "protection-" + site},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name: "mdeleteprotection.kb.io", ClientConfig: call(pathReport), ObjectSelector: labelled,
				Rules:       []admissionv1.RuleWithOperations{deletions("", "configmaps")},
				SideEffects: new(admissionv1.SideEffectClassNoneOnDryRun), AdmissionReviewVersions: []string{"v1"},
			}},
		},
		&apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: kinds, Labels: map[string]string{keys.DeleteProtection: "Cascading", ofTest: site}},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: site + ".example.com", Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "games", Singular: "game", Kind: "Game", ListKind: "GameList"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
				}},
			},
		},
	} {
		require.NoError(t, s.Create(t.Context(), o))
		t.Cleanup(func() {
			label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+keys.DeleteProtection+`":null}}}`))
			_ = s.Patch(context.WithoutCancel(t.Context()), o, label)
			require.NoError(t, client.IgnoreNotFound(s.Delete(context.WithoutCancel(t.Context()), o)))
		})
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}
	label := func(value string) client.Patch {
		return client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+keys.DeleteProtection+`":`+value+`,"`+ofTest+`":"`+site+`"}}}`))
	}
	require.NoError(t, s.Patch(t.Context(), ns, label(`"Cascading"`)))
	t.Cleanup(func() { require.NoError(t, s.Patch(context.WithoutCancel(t.Context()), ns, label("null"))) }) // This must come before the Env deletes it.
	remove := func(o client.Object) error {
		return s.Delete(t.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll)
	}
	awaitEvent := func(namespace, name, want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			list := &eventsv1.EventList{}
			require.NoError(t, s.List(t.Context(), list, client.InNamespace(namespace)))
			for _, e := range list.Items {
				if e.Regarding.Name == name && e.Reason == reasonProtected && strings.Contains(e.Note, want) {
					return true
				}
			}
			return false
		}, testenv.Long, testenv.Poll)
	}

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web", Finalizers: []string{"example.com/hold"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"no": "node"}, Containers: []corev1.Container{{Name: "app", Image: "app:1"}},
		},
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "elsewhere",
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	require.NoError(t, s.Create(t.Context(), pod))
	// It may take a moment until a new selector takes effect in the apiserver.
	require.Eventually(t, func() bool { return remove(ns) != nil }, testenv.Long, testenv.Poll)
	err := s.Delete(t.Context(), ns.DeepCopy())
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "it contains a pod, "+shop+"/web")
	awaitEvent("default", shop, "it contains a pod")
	require.NoError(t, s.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	require.NoError(t, remove(ns), "a pod that is being deleted does not count")
	require.NoError(t, s.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	done := pod.DeepCopy()
	done.ObjectMeta = metav1.ObjectMeta{Namespace: shop, Name: "done"}
	require.NoError(t, s.Create(t.Context(), done))
	require.ErrorContains(t, remove(ns), "it contains a pod, "+shop+"/done")
	require.NoError(t, s.Status().Patch(t.Context(), done, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))))
	require.NoError(t, remove(ns), "a pod that has ended does not count")
	require.NoError(t, s.Create(t.Context(), claim))
	require.NoError(t, remove(ns), "a pending PVC does not count")
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data-" + site},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			ClaimRef:               &corev1.ObjectReference{Namespace: shop, Name: "bound"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}
	require.NoError(t, s.Create(t.Context(), volume))
	t.Cleanup(func() { require.NoError(t, s.Delete(context.WithoutCancel(t.Context()), volume)) })
	bound := claim.DeepCopy()
	bound.ObjectMeta, bound.Spec.VolumeName, bound.Spec.StorageClassName = metav1.ObjectMeta{Namespace: shop, Name: "bound"}, volume.Name, new("")
	require.NoError(t, s.Create(t.Context(), bound))
	require.NoError(t, s.Status().Patch(t.Context(), bound, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Bound"}}`))))
	require.ErrorContains(t, remove(ns), "it contains a bound PVC, bound")

	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kinds}}
	game := &unstructured.Unstructured{Object: map[string]any{"apiVersion": site + ".example.com/v1", "kind": "Game"}}
	game.SetNamespace(shop)
	game.SetName("chess")
	require.Eventually(t, func() bool { return s.Create(t.Context(), game) == nil }, testenv.Long, testenv.Poll, "the kind is served")
	require.ErrorContains(t, remove(crd), "protects CustomResourceDefinition "+kinds+": it has a Game, "+shop+"/chess")
	require.NoError(t, s.Delete(t.Context(), game))
	require.NoError(t, remove(crd))

	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: shop, Name: "config", Labels: map[string]string{keys.DeleteProtection: "Always", ofTest: site},
	}}
	require.NoError(t, s.Create(t.Context(), config))
	require.NoError(t, s.Delete(t.Context(), config), "the policy of the chart, which is not here, refuses it")
	awaitEvent(shop, "config", "label policy.kruise.io/delete-protection=Always protects ConfigMap "+shop+"/config")
}
