package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// crd returns a CRD as OpenKruise's chart installs it: with two versions, of which v1beta1 is the storage version, and a conversion webhook.
func crd(kind, plural string, change ...func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	apiGroup := group
	if kind == "PodUnavailableBudget" {
		apiGroup = "policy.kruise.io"
	}
	out := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + apiGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: apiGroup, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha1", Served: true}, {Name: "v1beta1", Served: true, Storage: true}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1beta1"}},
	}
	for _, c := range change {
		c(out)
	}
	return out
}

func TestCheckKnowsEveryKindOfTheMemberChart(t *testing.T) {
	files, err := filepath.Glob("../../charts/member/files/crds/*.kruise.io_*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var parsed apiextensionsv1.CustomResourceDefinition
		require.NoError(t, yaml.Unmarshal(text, &parsed))
		d := definition{group: parsed.Spec.Group, kind: parsed.Spec.Names.Kind}
		require.Equal(t, slices.Contains(groups(), d.group), d.served(), "%s of %s", d.kind, d.group)
		if d.served() {
			require.Equal(t, len(parsed.Spec.Versions) == 1, d.single(), d.kind)
		}
	}
}

func converted(d *apiextensionsv1.CustomResourceDefinition) {
	d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{
			Service: &apiextensionsv1.ServiceReference{Namespace: "kruise-system", Name: oldWebhooks},
		}},
	}
}

func byHelm(name, namespace string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Labels = map[string]string{helmManagedBy: "Helm"}
		if name == "flotilla-member" {
			d.Labels["app.kubernetes.io/part-of"] = "flotilla"
			d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/convert")}},
			}
		}
		d.Annotations = map[string]string{helmRelease: name, helmNamespace: namespace}
	}
}

// sample returns an object of a kind that is not served.
func sample(kind, version, name string) client.Object {
	o := &unstructured.Unstructured{}
	apiGroup := group
	if kind == "PodUnavailableBudget" {
		apiGroup = "policy.kruise.io"
	}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: apiGroup, Version: version, Kind: kind})
	o.SetName(name)
	o.SetNamespace("default")
	return o
}

// endpoints returns the endpoints of the Service for OpenKruise's webhooks.
func endpoints(ready bool) []client.Object {
	meta := metav1.ObjectMeta{Namespace: "kruise-system", Name: oldWebhooks, Labels: map[string]string{discoveryv1.LabelServiceName: oldWebhooks}}
	return []client.Object{
		&corev1.Service{ObjectMeta: meta},
		&discoveryv1.EndpointSlice{ObjectMeta: meta, Endpoints: []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}},
	}
}

func podHook() *admissionv1.MutatingWebhookConfiguration {
	rule := func(apiGroup, resource string) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Rule: admissionv1.Rule{APIGroups: []string{apiGroup}, Resources: []string{resource}}}}
	}
	at := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "kruise-system", Name: oldWebhooks}}
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "kruise-mutating-webhook-configuration"},
		Webhooks: []admissionv1.MutatingWebhook{
			{Name: "mpod.kb.io", ClientConfig: at, Rules: rule("", "pods")},
			{Name: "mcloneset.kb.io", ClientConfig: at, Rules: rule(group, "clonesets")},
			{Name: "msidecarset.kb.io", ClientConfig: at, Rules: rule(group, "sidecarsets"), FailurePolicy: new(admissionv1.Ignore)},
		},
	}
}

// foreignHook returns a third-party webhook with a missing Service, for our kinds or for others.
func foreignHook(apiGroup string) *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "policy"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:         "policy.example.com",
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "policy", Name: "policy"}},
			Rules:        []admissionv1.RuleWithOperations{{Rule: admissionv1.Rule{APIGroups: []string{apiGroup}, Resources: []string{"*"}}}},
		}},
	}
}

func managerOf(name, namespace string, ready int32) client.Object {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2))}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready},
	}
}

// webhooksOnly returns our manager as it runs during the move.
func webhooksOnly(args ...string) client.Object {
	d := managerOf(ourManager, "flotilla-system", 2).(*appsv1.Deployment)
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Args: append([]string{"--leader-elect"}, args...)}}
	return d
}

func nodeDaemon(name, namespace string) client.Object {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, NumberReady: 3},
	}
}

func lease(renewed time.Duration) client.Object {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: oldLease, Namespace: "kruise-system"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("manager-0"), LeaseDurationSeconds: new(int32(15)),
			RenewTime: &metav1.MicroTime{Time: created.Add(time.Hour - renewed)},
		},
	}
}

// helmSecret returns a release as helm stores it. config holds the values that the user has set, if any.
func helmSecret(t *testing.T, chart, name, namespace string, revision int, status, manifest string, config ...map[string]any) client.Object {
	t.Helper()
	values := map[string]any{}
	for _, section := range config {
		values = section
	}
	body, err := json.Marshal(map[string]any{
		"name": name, "version": revision, "manifest": manifest, "config": values,
		"chart": map[string]any{"metadata": map[string]any{"name": chart, "version": "1.9.0"}},
		"hooks": []map[string]any{{"kind": "Job", "events": []string{"pre-delete"}}, {"kind": "ClusterRole", "events": []string{"pre-delete"}}},
	})
	require.NoError(t, err)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err = w.Write(body)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, revision), Namespace: namespace,
			Labels: map[string]string{"owner": "helm", "name": name, "status": status},
		},
		Type: "helm.sh/release.v1", Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(zipped.Bytes()))},
	}
}

// manifest contains CRDs. A + in front of a name adds the annotation that keeps the CRD.
func manifest(names ...string) string {
	docs := []string{"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: kruise-system\n"}
	for _, name := range names {
		name, keep := strings.CutPrefix(name, "+")
		doc := "# Source: kruise/templates/crd.yaml\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + name + "\n"
		if keep {
			doc += "  annotations:\n    helm.sh/resource-policy: keep\n"
		}
		docs = append(docs, doc)
	}
	return strings.Join(docs, "---\n")
}

// failingLists makes lists of a kind in these versions fail, as if its conversion webhook were missing.
func failingLists(kind string, versions ...string) interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		gvk := list.GetObjectKind().GroupVersionKind()
		for _, v := range versions {
			if gvk.Kind == kind+"List" && gvk.Version == v {
				return errors.New("conversion webhook failed: service \"kruise-webhook-service\" not found")
			}
		}
		return c.List(ctx, list, options...)
	}}
}

func TestMigrateCheck(t *testing.T) {
	t.Parallel()
	jobs := func(change ...func(*apiextensionsv1.CustomResourceDefinition)) client.Object {
		return crd("PodMarker", "podmarkers", append(change, converted)...)
	}
	clones := crd("CloneSet", "clonesets", byHelm("flotilla-member", "flotilla-system"))
	member := helmSecret(t, "flotilla-member", "flotilla-member", "flotilla-system", 1, "deployed", manifest("+clonesets.apps.kruise.io"))
	both := func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Status.StoredVersions = []string{"v1alpha1", "v1beta1"}
	}
	const none = `kubectl patch crd podmarkers.apps.kruise.io --type merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'`
	for _, c := range []struct {
		name    string
		objects []client.Object
		broken  interceptor.Funcs
		// want holds LEVEL REASON OBJECT for each finding. says is part of the output.
		want []string
		says []string
	}{
		{name: "nothing is installed", says: []string{"OpenKruise was not found."}},
		{
			name:    "a conversion webhook without its Service, with all objects in the stored version",
			objects: []client.Object{jobs(), sample("PodMarker", "v1beta1", "a"), sample("PodMarker", "v1beta1", "b")},
			want:    []string{"Block ConversionUnreachable crd podmarkers.apps.kruise.io", "Warn KindNotServed crd podmarkers.apps.kruise.io"},
			says: []string{
				"Service kruise-system/kruise-webhook-service, which does not exist: lists in versions other than v1beta1 fail",
				"All objects are stored in v1beta1, so they need no conversion", none, "objects: 2; Flotilla does not serve the kind",
			},
		},
		{
			name:    "a conversion webhook without pods",
			objects: append(endpoints(false), jobs(), sample("PodMarker", "v1beta1", "a")),
			want:    []string{"Block ConversionUnreachable crd podmarkers.apps.kruise.io", "Warn KindNotServed crd podmarkers.apps.kruise.io"},
			says:    []string{"which has no ready endpoint", none},
		},
		{
			name:    "a conversion webhook that answers",
			objects: append(endpoints(true), jobs(), sample("PodMarker", "v1beta1", "a")),
			want:    []string{"Warn KindNotServed crd podmarkers.apps.kruise.io"},
		},
		{
			name:    "no objects, so no conversion is needed",
			objects: []client.Object{jobs()},
			want:    []string{"Warn ConversionUnreachable crd podmarkers.apps.kruise.io"},
			says:    []string{"there are no objects", "kubectl delete crd podmarkers.apps.kruise.io"},
		},
		{
			name:    "all objects are stored in the old version",
			objects: []client.Object{jobs(both), sample("PodMarker", "v1alpha1", "a")},
			broken:  failingLists("PodMarker", "v1beta1"),
			want: []string{
				"Block ConversionUnreachable crd podmarkers.apps.kruise.io", "Warn KindNotServed crd podmarkers.apps.kruise.io",
				"Info StoredVersions crd podmarkers.apps.kruise.io",
			},
			says: []string{"All objects are stored in v1alpha1", "kubectl get podmarkers.v1alpha1.apps.kruise.io -A -o yaml > podmarkers.yaml\n" + none},
		},
		{
			name:    "both versions were stored before, and all objects are stored in the current one",
			objects: []client.Object{jobs(both), sample("PodMarker", "v1beta1", "a")},
			broken:  failingLists("PodMarker", "v1alpha1"),
			want: []string{
				"Block ConversionUnreachable crd podmarkers.apps.kruise.io", "Warn KindNotServed crd podmarkers.apps.kruise.io",
				"Info StoredVersions crd podmarkers.apps.kruise.io",
			},
			says: []string{"All objects are stored in v1beta1, so they need no conversion", "\n" + none},
		},
		{
			name:    "objects are stored in both versions",
			objects: []client.Object{jobs(both)},
			broken:  failingLists("PodMarker", "v1alpha1", "v1beta1"),
			want:    []string{"Block ConversionUnreachable crd podmarkers.apps.kruise.io", "Info StoredVersions crd podmarkers.apps.kruise.io"},
			says:    []string{"lists fail in every version", "Objects are stored in v1alpha1 and v1beta1", "start OpenKruise's manager again", none},
		},
		{
			name:    "a kind that Flotilla serves is converted by its manager once installed",
			objects: []client.Object{crd("CloneSet", "clonesets", converted), demo()},
			want: []string{
				"Block ConversionUnreachable crd clonesets.apps.kruise.io", "Warn NotInRelease crds of apps.kruise.io", "Warn NoManager cluster",
			},
			says: []string{
				"# install chart flotilla-member, whose manager converts them", "belong to no release: helm refuses",
				"# take them over as docs/start/from-openkruise.md says, first with manager.webhooksOnly=true and crds.managed=false, " +
					"then with crds.managed=true and --take-ownership",
				"no manager acts on 1 CloneSets",
			},
		},
		{
			name:    "webhooks that refuse requests",
			objects: []client.Object{podHook(), foreignHook("apps.kruise.io")},
			want: []string{
				"Block WebhookUnreachable mutatingwebhookconfiguration kruise-mutating-webhook-configuration",
				"Block WebhookUnreachable validatingwebhookconfiguration policy",
			},
			says: []string{
				"requests for clonesets, pods are refused", "kubectl delete mutatingwebhookconfiguration kruise-mutating-webhook-configuration",
				"# find out why Service policy/policy does not answer",
			},
		},
		{
			name:    "webhooks that answer, and another's webhooks for other groups",
			objects: append(endpoints(true), podHook(), foreignHook("batch")),
			says:    []string{"OpenKruise was not found."},
		},
		{
			name: "OpenKruise runs, by helm",
			objects: append(endpoints(true), crd("CloneSet", "clonesets", converted, byHelm("kruise", "default")), jobs(byHelm("kruise", "default")),
				demo(), sample("PodMarker", "v1beta1", "a"), managerOf(oldManager, "kruise-system", 2), nodeDaemon(oldDaemon, "kruise-system"), lease(0),
				helmSecret(t, "kruise", "kruise", "default", 1, "superseded", manifest()),
				helmSecret(t, "kruise", "kruise", "default", 2, "deployed", manifest("clonesets.apps.kruise.io", "podmarkers.apps.kruise.io")),
				helmSecret(t, "other", "other", "default", 1, "deployed", manifest("things.example.com"))),
			want: []string{
				"Block ReleaseDeletesCRDs release default/kruise", "Warn NotInRelease crds of apps.kruise.io",
				"Warn KindNotServed crd podmarkers.apps.kruise.io", "Info Installed deployment kruise-system/kruise-controller-manager",
				"Info Installed daemonset kruise-system/kruise-daemon", "Info Leads lock kruise-manager",
			},
			says: []string{
				"chart kruise 1.9.0: deleting it deletes its 2 CRDs, with all 2 objects and their pods", "2 of 2 pods are ready",
				"kubectl annotate --overwrite crd clonesets.apps.kruise.io podmarkers.apps.kruise.io helm.sh/resource-policy=keep\n" +
					"helm upgrade kruise openkruise/kruise --version 1.9.0 --namespace default --reuse-values --set crds.managed=false\n",
				"helm uninstall kruise --namespace default --no-hooks", "belong to release default/kruise: helm refuses",
				"an OpenKruise manager is the leader: manager-0",
			},
		},
		{
			name: "the stored release counts, not an annotation on the CRD",
			objects: []client.Object{
				clones, member, managerOf(ourManager, "flotilla-system", 2),
				helmSecret(t, "kruise", "kruise", "default", 2, "deployed", manifest("clonesets.apps.kruise.io")),
			},
			want: []string{
				"Block ReleaseDeletesCRDs release default/kruise", "Info ReleaseKeepsCRDs release flotilla-system/flotilla-member",
				"Info Installed deployment flotilla-system/flotilla-member",
			},
		},
		{
			name: "both managers and both daemons run",
			objects: []client.Object{
				clones, member, demo(), managerOf(ourManager, "flotilla-system", 2), managerOf(oldManager, "kruise-system", 1),
				nodeDaemon(oldDaemon, "kruise-system"), nodeDaemon(ourDaemon, "flotilla-system"),
			},
			want: []string{
				"Block TwoManagers cluster", "Warn TwoDaemons cluster", "Info ReleaseKeepsCRDs release flotilla-system/flotilla-member",
				"Info Installed deployment kruise-system/kruise-controller-manager", "Info Installed deployment flotilla-system/flotilla-member",
				"Info Installed daemonset kruise-system/kruise-daemon", "Info Installed daemonset flotilla-system/flotilla-noded",
			},
			says: []string{
				"kubectl delete --ignore-not-found validatingwebhookconfiguration kruise-validating-webhook-configuration\n" +
					"kubectl scale deployment kruise-controller-manager --namespace kruise-system --replicas 0\n",
				"kubectl delete daemonset kruise-daemon --namespace kruise-system",
			},
		},
		{
			name:    "an old manager that runs elsewhere is recognized by its lock",
			objects: []client.Object{clones, member, managerOf(ourManager, "flotilla-system", 2), lease(10 * time.Second)},
			want: []string{
				"Block TwoManagers cluster", "Info ReleaseKeepsCRDs release flotilla-system/flotilla-member",
				"Info Installed deployment flotilla-system/flotilla-member", "Info Leads lock kruise-manager",
			},
		},
		{
			name: "an old lock in a ConfigMap counts too",
			objects: []client.Object{clones, member, managerOf(ourManager, "flotilla-system", 2), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: oldLease, Namespace: "kruise-system", Annotations: map[string]string{
					"control-plane.alpha.kubernetes.io/leader": `{"holderIdentity":"manager-1","leaseDurationSeconds":15,"renewTime":"2026-01-02T04:04:00Z"}`,
				},
			}}},
			want: []string{
				"Block TwoManagers cluster", "Info ReleaseKeepsCRDs release flotilla-system/flotilla-member",
				"Info Installed deployment flotilla-system/flotilla-member", "Info Leads lock kruise-manager",
			},
			says: []string{"an OpenKruise manager is the leader: manager-1"},
		},
		{
			name: "between steps 3 and 4 of the guide, Flotilla's manager only serves webhooks",
			objects: []client.Object{
				crd("CloneSet", "clonesets", byHelm("kruise", "default")), demo(), webhooksOnly("--webhooks-only"),
				managerOf(oldManager, "kruise-system", 2), lease(0),
			},
			want: []string{
				"Warn NotInRelease crds of apps.kruise.io", "Info Installed deployment kruise-system/kruise-controller-manager",
				"Info Installed deployment flotilla-system/flotilla-member", "Info Leads lock kruise-manager", "Info WebhooksOnly cluster",
			},
			says: []string{"# continue with step 4 of docs/start/from-openkruise.md; don't scale OpenKruise's manager down before step 5"},
		},
		{
			name: "between steps 4 and 5, both managers run",
			objects: []client.Object{
				clones, member, demo(), webhooksOnly("--webhooks-only=true"), managerOf(oldManager, "kruise-system", 2), lease(0),
			},
			want: []string{
				"Info ReleaseKeepsCRDs release flotilla-system/flotilla-member",
				"Info Installed deployment kruise-system/kruise-controller-manager", "Info Installed deployment flotilla-system/flotilla-member",
				"Info Leads lock kruise-manager", "Info WebhooksOnly cluster",
			},
			says: []string{
				"Flotilla's manager runs with --webhooks-only and reconciles nothing: only OpenKruise's manager does", "# continue with step 5 of",
			},
		},
		{
			name: "between steps 5 and 6, no manager acts",
			objects: []client.Object{
				clones, member, demo(), webhooksOnly("--webhooks-only"),
			},
			want: []string{
				"Warn NoManager cluster", "Info ReleaseKeepsCRDs release flotilla-system/flotilla-member",
				"Info Installed deployment flotilla-system/flotilla-member",
			},
			says: []string{
				"UnitedDeployments: Flotilla's runs with --webhooks-only", "# continue with step 6 of docs/start/from-openkruise.md",
			},
		},
		{
			name:    "a manager that is told to reconcile again acts",
			objects: []client.Object{clones, member, webhooksOnly("--webhooks-only=false"), lease(0)},
			want: []string{
				"Block TwoManagers cluster", "Info ReleaseKeepsCRDs release flotilla-system/flotilla-member",
				"Info Installed deployment flotilla-system/flotilla-member", "Info Leads lock kruise-manager",
			},
		},
		{
			name:    "after the move",
			objects: []client.Object{clones, member, demo(), managerOf(ourManager, "flotilla-system", 2), managerOf(oldManager, "kruise-system", 0), lease(time.Minute)},
			want: []string{
				"Info ReleaseKeepsCRDs release flotilla-system/flotilla-member", "Info Installed deployment kruise-system/kruise-controller-manager",
				"Info Installed deployment flotilla-system/flotilla-member",
			},
		},
		{
			name: "features that are served once their gates are on",
			objects: []client.Object{
				clones, member, managerOf(ourManager, "flotilla-system", 2),
				demo(func(set *appsv1beta1.CloneSet) {
					set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "KRUISE_CONTAINER_PRIORITY", Value: "1"}}
					set.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{
						ImagePreDownloadTimeoutSeconds: new(int32(60)),
					}
				}),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"policy.kruise.io/delete-protection": "Cascading"}}},
				&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
					Name: "db", Namespace: "shop", Labels: map[string]string{"policy.kruise.io/delete-protection": "Always"},
				}},
				&batchv1.CronJob{
					ObjectMeta: metav1.ObjectMeta{Name: "report", Namespace: "shop"},
					Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"apps.kruise.io/using-enhanced-liveness": "true"}},
						Spec: corev1.PodSpec{Containers: []corev1.Container{{
							Name: "proxy", Env: []corev1.EnvVar{{Name: "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", Value: "true"}},
						}}},
					}}}},
				},
			},
			want: []string{
				"Info ReleaseKeepsCRDs release flotilla-system/flotilla-member", "Info Installed deployment flotilla-system/flotilla-member",
				"Info FeatureOptional Namespace shop", "Info FeatureOptional CronJob shop/report", "Info FeatureOptional CloneSet default/demo",
				"Info FeatureOptional CronJob shop/report",
			},
			says: []string{
				"uses deletion protection (label policy.kruise.io/delete-protection) (objects in total: 2)",
				"to keep it, set ResourcesDeletionProtection=true in featureGates",
				"uses sidecar termination in jobs (objects in total: 1)", "to keep it, set SidecarTerminator=true in featureGates",
				"uses image pre-download (objects in total: 1)", "uses enhanced liveness probes (objects in total: 1)",
			},
		},
		{
			name: "kinds that are not served and unknown kinds are reported",
			objects: []client.Object{
				crd("PodMarker", "podmarkers"),
				sample("PodMarker", "v1beta1", "p"), crd("GameSet", "gamesets"), sample("GameSet", "v1beta1", "g"),
			},
			want: []string{
				"Warn KindNotServed crd gamesets.apps.kruise.io", "Warn KindNotServed crd podmarkers.apps.kruise.io",
			},
			says: []string{"nothing acts on them"},
		},
		{
			name:    "kinds that may not be read are reported",
			objects: []client.Object{clones, managerOf(ourManager, "flotilla-system", 2)},
			broken: interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if _, ok := list.(*corev1.SecretList); ok {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no"))
				}
				return c.List(ctx, list, options...)
			}},
			want: []string{"Warn NotChecked cluster", "Info Installed deployment flotilla-system/flotilla-member"},
			says: []string{"could not be read, so what depends on it was not checked: Secrets in which helm stores releases: secrets is forbidden"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := clusterBuilder(t, c.objects...).WithInterceptorFuncs(c.broken).Build()
			out, err := run(t, k, "migrate", "check")
			for _, says := range c.says {
				require.Contains(t, out, says)
			}
			data, failed := run(t, k, "migrate", "check", "-o", "json")
			require.Equal(t, err, failed)
			var found checkOutput
			require.NoError(t, json.Unmarshal([]byte(data), &found))
			var got []string
			for _, f := range found.Findings {
				got = append(got, fmt.Sprintf("%s %s %s", f.Level, f.Reason, f.Object))
			}
			require.Equal(t, c.want, got, out)
			blocks := len(c.want) > 0 && strings.HasPrefix(c.want[0], "Block")
			require.Equal(t, blocks, found.Blocked)
			if blocks {
				require.ErrorContains(t, err, "blocking findings: ")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// The check names the same way out as the chart when it refuses to install.
func TestMigrateCheckAgreesWithTheChart(t *testing.T) {
	t.Parallel()
	template, err := os.ReadFile(filepath.Join("..", "..", "charts", "member", "templates", "crds.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(template), takeOver)
	_, err = os.Stat(filepath.Join("..", "..", filepath.FromSlash(guide)))
	require.NoError(t, err)
}

// After the way back, helm has left our label on the CRDs: it doesn't remove labels that OpenKruise's chart doesn't have. The chart decides
// by the conversion webhook, and helm by the release.
func TestMigrateCheckAgreesWithTheChartAfterTheWayBack(t *testing.T) {
	t.Parallel()
	back := func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
		d.Annotations = map[string]string{helmRelease: "kruise", helmNamespace: "default"}
	}
	ours := byHelm("flotilla-member", "flotilla-system")
	single := func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha1", Served: true, Storage: true}}
	}
	kruise := helmSecret(t, "kruise", "kruise", "default", 1, "deployed", manifest("clonesets.apps.kruise.io", "ephemeraljobs.apps.kruise.io"))
	out, _ := run(t, clusterBuilder(t, kruise, crd("CloneSet", "clonesets", ours, back, single), crd("EphemeralJob", "ephemeraljobs", ours, back, single)).Build(),
		"migrate", "check")
	require.Contains(t, out, "clonesets.apps.kruise.io, ephemeraljobs.apps.kruise.io belong to release default/kruise: helm refuses")

	unconverted := func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Conversion = nil }
	out, _ = run(t, clusterBuilder(t, crd("CloneSet", "clonesets", ours, unconverted)).Build(), "migrate", "check")
	require.Contains(t, out, "NotInRelease", "the chart refuses if its webhook was removed")
	out, _ = run(t, clusterBuilder(t, crd("EphemeralJob", "ephemeraljobs", ours, single, unconverted)).Build(), "migrate", "check")
	require.NotContains(t, out, "NotInRelease", "a kind with one version is not converted")
}

func TestMigrateCheckPrints(t *testing.T) {
	t.Parallel()
	k := clusterBuilder(t, crd("PodMarker", "podmarkers", converted), sample("PodMarker", "v1beta1", "a"), podHook(),
		managerOf(ourManager, "flotilla-system", 2)).Build()
	table, err := run(t, k, "migrate", "check")
	require.EqualError(t, err, "blocking findings: 2 of 4")
	golden(t, "migrate-check", table)
	text, err := run(t, k, "migrate", "check", "-o", "yaml")
	require.EqualError(t, err, "blocking findings: 2 of 4")
	var fromYAML, fromJSON checkOutput
	require.NoError(t, yaml.Unmarshal([]byte(text), &fromYAML))
	text, err = run(t, k, "migrate", "check", "-o", "json")
	require.Error(t, err)
	require.NoError(t, json.Unmarshal([]byte(text), &fromJSON))
	require.Equal(t, fromJSON, fromYAML)
	require.Len(t, fromYAML.Findings, 4)

	_, err = run(t, k, "migrate", "check", "-o", "name")
	require.EqualError(t, err, "--output=name: must be json or yaml")
}

func TestPodTemplatesAreFoundWhereverAnObjectHasThem(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"template", "jobTemplate.spec.template", "template.jobTemplate.spec.template", "template.broadcastJobTemplate.spec.template",
		"template.cloneSetTemplate.spec.template",
	} {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		fields := append([]string{"spec"}, strings.Split(path, ".")...)
		require.NoError(t, unstructured.SetNestedField(object.Object, "pods", append(fields, "metadata", "name")...))
		found := templates(object)
		require.Contains(t, found, map[string]any{"metadata": map[string]any{"name": "pods"}}, path)
	}
}
