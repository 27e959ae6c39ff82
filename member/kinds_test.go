package member

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/testkit"
)

// files is the chart's folder of generated files.
var files = filepath.Join("..", "charts", "member", "files")

// documents reads the objects of one type from a generated file.
func documents[T any](t *testing.T, path, kind string) []T {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []T
	for doc := range bytes.SplitSeq(text, []byte("---\n")) {
		var meta metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal(doc, &meta))
		if meta.Kind != kind {
			continue
		}
		var o T
		require.NoError(t, yaml.UnmarshalStrict(doc, &o))
		out = append(out, o)
	}
	return out
}

// fakeManager has only what registering webhooks needs.
type fakeManager struct {
	ctrl.Manager
	scheme   *runtime.Scheme
	client   client.Client
	server   webhook.Server
	registry conversion.Registry
}

func (m fakeManager) GetScheme() *runtime.Scheme                { return m.scheme }
func (m fakeManager) GetClient() client.Client                  { return m.client }
func (m fakeManager) GetAPIReader() client.Reader               { return m.client }
func (m fakeManager) GetWebhookServer() webhook.Server          { return m.server }
func (m fakeManager) GetConverterRegistry() conversion.Registry { return m.registry }

func TestTheChartHasTheWebhooksOfEachKind(t *testing.T) {
	t.Parallel()
	path := filepath.Join(files, "manifests.yaml")
	var paths []string
	for _, c := range documents[admissionv1.MutatingWebhookConfiguration](t, path, "MutatingWebhookConfiguration") {
		for _, w := range c.Webhooks {
			paths = append(paths, *w.ClientConfig.Service.Path)
		}
	}
	for _, c := range documents[admissionv1.ValidatingWebhookConfiguration](t, path, "ValidatingWebhookConfiguration") {
		for _, w := range c.Webhooks {
			paths = append(paths, *w.ClientConfig.Service.Path)
		}
	}
	scheme, err := Scheme()
	require.NoError(t, err)
	served := map[string]bool{}
	for _, kind := range Kinds() {
		// Only its own gates exist: reading another one panics.
		gates, err := feature.New(kind.Gates...)
		require.NoError(t, err)
		m := fakeManager{
			scheme: scheme, client: fake.NewClientBuilder().WithScheme(scheme).Build(),
			server: webhook.NewServer(webhook.Options{}), registry: conversion.NewRegistry(),
		}
		if kind.Webhooks == nil { // It has no kind of its own, or one that users don't write.
			require.NotContains(t, paths, "/validate-apps-kruise-io-"+kind.Name)
			continue
		}
		require.NoError(t, kind.Webhooks(m, setup.Options{Gates: gates}))
		for _, path := range append(slices.Clone(paths), "/convert") {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, path, nil)
			require.NoError(t, err)
			if _, pattern := m.server.WebhookMux().Handler(r); pattern == path {
				served[path] = true
				if path == "/convert" {
					require.True(t, kind.Converts, kind.Name)
				} else {
					require.True(t, strings.HasSuffix(path, "-"+kind.Name), "%s serves %s", kind.Name, path)
				}
			} else {
				require.False(t, path == "/convert" && kind.Converts, "%s does not convert", kind.Name)
				require.False(t, strings.HasSuffix(path, "-"+kind.Name), "%s does not serve %s", kind.Name, path)
			}
		}
	}
	for _, path := range paths {
		require.True(t, served[path], "no kind serves %s", path)
	}
}

func TestTheChartHasTheCRDOfEachKindAndTheRightToItsCABundle(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		if kind.CRD == "" {
			continue
		}
		resource, group, _ := strings.Cut(kind.CRD, ".")
		crds := documents[apiextensionsv1.CustomResourceDefinition](t,
			filepath.Join(files, "crds", group+"_"+resource+".yaml"), "CustomResourceDefinition")
		require.Len(t, crds, 1)
		require.Equal(t, kind.CRD, crds[0].Name)
		require.Equal(t, kind.Name, crds[0].Spec.Names.Singular)
		require.Equal(t, kind.Converts, len(crds[0].Spec.Versions) > 1, kind.Name)
	}
	var named []string
	for _, role := range documents[rbacv1.ClusterRole](t, filepath.Join(files, "role.yaml"), "ClusterRole") {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "customresourcedefinitions") {
				named = append(named, rule.ResourceNames...)
			}
		}
	}
	require.ElementsMatch(t, Kinds().ConvertedCRDs(), named)
}

func TestEveryGateIsRead(t *testing.T) {
	t.Parallel()
	require.Equal(t, feature.All(), Gates())
}

// TestTheCacheHoldsWhatEachKindDeclares uses the options of the manager's cache.
func TestTheCacheHoldsWhatEachKindDeclares(t *testing.T) {
	t.Parallel()
	o := Restrict(ctrl.Options{LeaderElectionNamespace: "ours"})
	pod, node := testkit.Fill(&corev1.Pod{}), testkit.Fill(&corev1.Node{})
	whole, wholeNode := pod.DeepCopy(), node.DeepCopy()
	for object, by := range o.Cache.ByObject {
		var err error
		switch object.(type) {
		case *corev1.Pod:
			_, err = by.Transform(pod)
		case *corev1.Node:
			_, err = by.Transform(node)
		case *batchv1.Job:
			job := testkit.Fill(&batchv1.Job{})
			completions := *job.Spec.Completions
			_, err = by.Transform(job)
			require.Empty(t, job.Spec.Template, "no kind reads it")
			require.Equal(t, completions, *job.Spec.Completions)
			require.NotEmpty(t, job.Annotations)
			require.NotEmpty(t, job.Status.Conditions)
		case *coordinationv1.Lease:
			require.Contains(t, by.Namespaces, "ours")
		}
		require.NoError(t, err)
	}
	require.Empty(t, pod.ManagedFields)
	require.Nil(t, pod.Spec.SecurityContext, "no kind reads it")
	for _, kind := range Kinds() {
		want, got := whole.DeepCopy(), pod.DeepCopy()
		kind.Fields.Strip(want)
		kind.Fields.Strip(got)
		require.Empty(t, cmp.Diff(want, got), kind.Name)
		wantNode, gotNode := wholeNode.DeepCopy(), node.DeepCopy()
		kind.Fields.StripNode(wantNode)
		kind.Fields.StripNode(gotNode)
		require.Empty(t, cmp.Diff(wantNode, gotNode), kind.Name)
	}
	require.IsType(t, &corev1.Secret{}, o.Client.Cache.DisableFor[0])
}
