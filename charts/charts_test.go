//go:build integration

package charts_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/flotilla-io/flotilla/charts"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// namespace is where releases are installed. It isn't the default namespace, to find places that hard-code that one.
const namespace = "ships"

var (
	hash = "sha256:" + strings.Repeat("0a", 32)
	pull = []string{"--set=hub.url=https://hub.example:6443", "--set=hub.cluster=east", "--set=hub.token=once", "--set=hub.caHash=" + hash}
)

// configuration is a way to use a chart. Its golden file contains only what differs from the configuration from; without one it is whole.
type configuration struct {
	name, chart, from string
	args              []string
}

// renders are the configurations in which charts are used.
var renders = []configuration{
	{"hub", "hub", "", nil},
	{"hub-local-member", "hub", "hub", []string{"--set=localMember=true"}},
	{"hub-cluster-api", "hub", "hub", []string{"--set=clusterAPI.namespaces={team-a,team-b}", "--set=clusterAPI.refuseDeletion=true"}},
	{"hub-no-profiles", "hub", "hub", []string{"--set=clusterProfiles.namespace="}},
	{"hub-propagation", "hub", "hub", []string{
		"--set=propagation.kinds[0].resources={configmaps,services}",
		"--set=propagation.kinds[1].group=apps", "--set=propagation.kinds[1].resources={deployments}",
	}},
	{"hub-outside", "hub", "hub", []string{"--set=manager.url=https://127.0.0.1:9443"}},
	{"member", "member", "", nil},
	{"member-pull", "member", "member", pull},
	{"member-local-hub", "member", "member", []string{"--set=hub.local=true"}},
	{"member-push", "member", "member", []string{"--set=agent.push=true"}},
	{"member-kinds", "member", "member-pull", append([]string{
		"--set=hub.kinds[0].resources={configmaps,persistentvolumeclaims}",
		"--set=hub.kinds[1].group=game.kruise.io", "--set=hub.kinds[1].resources={gameserversets}",
	}, pull...)},
	{"member-outside", "member", "member", []string{"--set=manager.url=https://127.0.0.1:9443"}},
	{"hub-adapted", "hub", "hub", adapted},
	{"member-adapted", "member", "member", append([]string{
		"--set=daemon.podLabels.team=fleet", "--set-string=daemon.podAnnotations.scrape=true", "--set-string=daemon.log.level=4",
	}, adapted...)},
	{"member-tuned", "member", "member", []string{
		"--set=manager.replicas=3", "--set=manager.image.digest=" + hash, "--set=daemon.image.digest=" + hash, "--set=networkPolicy.enabled=true",
		"--set=networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring", "--set=manager.log.level=4", "--set=manager.pprofAddr=localhost:8090",
		`--set=featureGates=TemplateNoDefaults=true\,ResourcesDeletionProtection=true\,DeletionProtectionForCRDCascadingGate=true\,ResourceDistributionGate=true`, "--set=resourceDistribution.secrets={registry,ca}", "--set=imagePullSecrets={registry}", "--set=manager.extraArgs={--cloneset-workers=9}",
		"--set=manager.nodeSelector.pool=system", "--set=manager.tolerations[0].operator=Exists", "--set=manager.affinity.nodeAffinity=null",
		"--set=daemon.credentialProviders.configFile=/etc/kubernetes/providers.yaml", "--set=daemon.credentialProviders.binDir=/opt/providers",
		"--set=daemon.socketFile=crio/crio.sock", "--set=daemon.socketLocation=/run", "--set=daemon.enablePprof=true", "--set=daemon.seLinuxOptions.type=spc_t",
		"--set=daemon.extraEnvs[0].name=TZ", "--set=daemon.extraEnvs[0].value=UTC", "--set=daemon.affinity=null", "--set=daemon.maxUnavailable=3",
		"--set=serviceAccount.annotations.team=fleet", "--set=webhookConfiguration.failurePolicy=Ignore", "--set=manager.webhooksOnly=true",
		"--set=podWebhook.exemptNamespaces={kube-system,infra}", "--set=podWebhook.failurePolicy.persistentPodState=Ignore",
		"--set=customWorkloads[0].apiGroups={game.kruise.io}", "--set=customWorkloads[0].resources={gameserversets}",
		"--set=deletionProtection.customResources[0].apiGroups={game.kruise.io}",
		"--set=deletionProtection.customResources[0].resources={gameserversets}",
	}},
}

// adapted are values of both charts that adapt an installation to a cluster's own rules, such as labels and names.
var adapted = []string{
	"--set=nameOverride=fleet", "--set=commonLabels.cost-center=42x", "--set=serviceAccount.name=pilot", "--set=serviceAccount.annotations.role=pilot",
	"--set=imagePullSecrets[0]=registry", "--set=imagePullSecrets[1].name=mirror", "--set-string=manager.log.level=4",
	"--set=manager.extraEnvs[0].name=HTTPS_PROXY", "--set=manager.extraEnvs[0].value=http://proxy:8080",
	"--set=manager.podLabels.team=fleet", "--set=manager.podLabels.cost-center=43x", "--set-string=manager.podAnnotations.scrape=true",
	"--set=manager.hostNetwork=true", "--set=manager.podDisruptionBudget.enabled=false",
	"--set=manager.topologySpreadConstraints[0].maxSkew=1", "--set=manager.topologySpreadConstraints[0].topologyKey=zone",
	"--set=manager.topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
	"--set=manager.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1",
	"--set=manager.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key=pool",
	"--set=manager.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator=Exists",
	"--set=tenantRoles.enabled=true", "--set=tenantRoles.aggregateTo={edit,view}",
	"--set=externalCerts.secretName=webhook-cert", "--set=webhookConfiguration.aksIntegration=true",
}

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	bin, err := lab.Binaries(t.Context(), nil)
	require.NoError(t, err)
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), bin.Path("helm"), args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return out.String(), errors.New(failed.String())
	}
	return out.String(), err
}

// rendered caches helm's output by chart and arguments, because many tests use the same ones.
var rendered sync.Map

func render(t *testing.T, chart string, args ...string) string {
	t.Helper()
	args = append([]string{"template", "flotilla", chart, "--namespace=" + namespace}, args...)
	once, _ := rendered.LoadOrStore(strings.Join(args, "\x00"), sync.OnceValues(func() (string, error) { return helm(t, args...) }))
	out, err := once.(func() (string, error))()
	require.NoError(t, err)
	return out
}

// kindLine is the line of an object's text that names its kind.
var kindLine = regexp.MustCompile(`(?m)^kind: (\w+)$`)

// decode returns the objects of one kind. It doesn't parse the others: most of the text is CRDs.
func decode[T any](t *testing.T, text, kind string) []T {
	t.Helper()
	var out []T
	for _, doc := range documents(t, text) {
		found := kindLine.FindSubmatch(doc)
		require.NotNil(t, found, "no kind in %s", doc)
		if string(found[1]) != kind {
			continue
		}
		var object T
		require.NoError(t, yaml.UnmarshalStrict(doc, &object), "%s", doc)
		out = append(out, object)
	}
	return out
}

func TestIntegrationLint(t *testing.T) {
	t.Parallel()
	for _, r := range renders {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			out, err := helm(t, append([]string{"lint", "--strict", r.chart}, r.args...)...)
			require.NoError(t, err, out)
		})
	}
}

// TestIntegrationRender compares everything that a chart installs except the CRDs, which are generated files already. The golden file of a
// chart with its default values is whole. Those of other values contain only the difference, so a change of a chart shows once.
func TestIntegrationRender(t *testing.T) {
	t.Parallel()
	text := func(t *testing.T, c configuration) string {
		t.Helper()
		return render(t, c.chart, append(slices.Clone(c.args), "--set=crds.managed=false")...)
	}
	for _, r := range renders {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			got := text(t, r)
			require.NotContains(t, got, "flotilla-system", "everything is in the release's namespace")
			if r.from == "" {
				golden.Equal(t, r.name, got)
				return
			}
			from := renders[slices.IndexFunc(renders, func(c configuration) bool { return c.name == r.from })]
			heading := "How " + r.name + " differs from " + r.from + ". It is rendered with\n  " + strings.Join(r.args, "\n  ") + "\n"
			golden.Equal(t, r.name+".diff", heading+difference(t, text(t, from), got))
		})
	}
}

func TestIntegrationCRDs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, chart string
		args        []string
		// want maps each CRD to whether it has a conversion webhook.
		want map[string]bool
	}{
		{"hub", "hub", nil, map[string]bool{
			"clonesets.apps.kruise.io": true, "resourcedistributions.apps.kruise.io": true,
			"uniteddeployments.apps.kruise.io": true, "workloadspreads.apps.kruise.io": true,
			"memberclusters.fleet.kruise.io": false, "memberworks.fleet.kruise.io": false, "workcontents.fleet.kruise.io": false,
			"propagations.fleet.kruise.io": false, "clusterpropagations.fleet.kruise.io": false, "rolloutapprovals.fleet.kruise.io": false,
		}},
		{"a hub next to a member leaves the CRD to the member", "hub", []string{"--set=localMember=true"}, map[string]bool{
			"memberclusters.fleet.kruise.io": false, "memberworks.fleet.kruise.io": false, "workcontents.fleet.kruise.io": false,
			"propagations.fleet.kruise.io": false, "clusterpropagations.fleet.kruise.io": false, "rolloutapprovals.fleet.kruise.io": false,
		}},
		{"member", "member", nil, map[string]bool{
			"advancedcronjobs.apps.kruise.io": true, "broadcastjobs.apps.kruise.io": true, "clonesets.apps.kruise.io": true,
			"containerrecreaterequests.apps.kruise.io": true,
			"daemonsets.apps.kruise.io":                true, "ephemeraljobs.apps.kruise.io": false, "imagelistpulljobs.apps.kruise.io": true,
			"imagepulljobs.apps.kruise.io": true, "nodeimages.apps.kruise.io": true, "nodepodprobes.apps.kruise.io": false,
			"podprobemarkers.apps.kruise.io": false, "persistentpodstates.apps.kruise.io": true,
			"podunavailablebudgets.policy.kruise.io": true, "resourcedistributions.apps.kruise.io": true,
			"sidecarsets.apps.kruise.io": true, "statefulsets.apps.kruise.io": true,
			"uniteddeployments.apps.kruise.io": true, "workloadspreads.apps.kruise.io": true,
			"memberships.fleet.kruise.io": false, "appliedworks.fleet.kruise.io": false,
		}},
		{"CRDs may be managed elsewhere", "member", []string{"--set=crds.managed=false"}, map[string]bool{}},
		{"a manager outside the cluster converts by URL", "member", []string{"--set=manager.url=https://127.0.0.1:9443"}, map[string]bool{
			"advancedcronjobs.apps.kruise.io": true, "broadcastjobs.apps.kruise.io": true, "clonesets.apps.kruise.io": true,
			"containerrecreaterequests.apps.kruise.io": true,
			"daemonsets.apps.kruise.io":                true, "ephemeraljobs.apps.kruise.io": false, "imagelistpulljobs.apps.kruise.io": true,
			"imagepulljobs.apps.kruise.io": true, "nodeimages.apps.kruise.io": true, "nodepodprobes.apps.kruise.io": false,
			"podprobemarkers.apps.kruise.io": false, "persistentpodstates.apps.kruise.io": true,
			"podunavailablebudgets.policy.kruise.io": true, "resourcedistributions.apps.kruise.io": true,
			"sidecarsets.apps.kruise.io": true, "statefulsets.apps.kruise.io": true,
			"uniteddeployments.apps.kruise.io": true, "workloadspreads.apps.kruise.io": true,
			"memberships.fleet.kruise.io": false, "appliedworks.fleet.kruise.io": false,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := map[string]bool{}
			for _, crd := range decode[apiextensionsv1.CustomResourceDefinition](t, render(t, tc.chart, tc.args...), "CustomResourceDefinition") {
				require.Equal(t, "keep", crd.Annotations["helm.sh/resource-policy"], "objects stay when the release is removed")
				got[crd.Name] = crd.Spec.Conversion != nil
				if crd.Spec.Conversion == nil {
					continue
				}
				client := crd.Spec.Conversion.Webhook.ClientConfig
				if slices.Contains(tc.args, "--set=manager.url=https://127.0.0.1:9443") {
					require.Equal(t, "https://127.0.0.1:9443/convert", *client.URL)
				} else {
					require.Equal(t, namespace, client.Service.Namespace)
					require.Equal(t, "/convert", *client.Service.Path)
				}
			}
			require.Equal(t, tc.want, got)
		})
	}
}

// TestIntegrationRolesAreNarrow checks that no role has a wildcard and no role reads all Secrets of the cluster.
func TestIntegrationRolesAreNarrow(t *testing.T) {
	t.Parallel()
	for _, r := range renders {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			out := render(t, r.chart, r.args...)
			clusterRoles := decode[rbacv1.ClusterRole](t, out, "ClusterRole")
			require.NotEmpty(t, clusterRoles)
			for _, role := range clusterRoles {
				checkRules(t, role.Name, role.Rules)
				for _, rule := range role.Rules {
					if slices.Contains(rule.Resources, "secrets") {
						require.NotEmpty(t, rule.ResourceNames, "%s: Secrets are for roles of one namespace, or by name", role.Name)
					}
					require.NotContains(t, rule.Verbs, "escalate", role.Name)
					require.NotContains(t, rule.Verbs, "impersonate", role.Name)
					if slices.Contains(rule.Verbs, "bind") || slices.Contains(rule.Verbs, "approve") {
						require.NotEmpty(t, rule.ResourceNames, "%s may bind or approve by name only", role.Name)
					}
				}
			}
			roles := decode[rbacv1.Role](t, out, "Role")
			require.NotEmpty(t, roles)
			for _, role := range roles {
				checkRules(t, role.Name, role.Rules)
				where := []string{namespace, "fleet-system"}
				if role.Name == "flotilla-hub-cluster-api" {
					where = []string{"team-a", "team-b"} // The namespaces in the value.
				}
				if role.Annotations["helm.sh/hook"] == "test" {
					where = append(where, "default") // It creates objects there in dry runs.
				}
				require.Contains(t, where, role.Namespace)
			}
		})
	}
}

func checkRules(t *testing.T, role string, rules []rbacv1.PolicyRule) {
	t.Helper()
	require.NotEmpty(t, rules, role)
	for _, rule := range rules {
		all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.ResourceNames, rule.NonResourceURLs)
		require.False(t, slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "*") }), "%s has a wildcard: %v", role, rule)
		require.NotEmpty(t, rule.Verbs, role)
	}
}

// sendingPods are the webhooks of members that, before an object is stored, make sure that its pods are sent to the pod webhook.
var sendingPods = []string{
	"vpersistentpodstate.kb.io", "vpodprobemarker.kb.io", "vpodunavailablebudget.kb.io", "vsidecarset.kb.io", "vworkloadspread.kb.io",
}

func TestIntegrationWebhooksAreForOurObjectsOnly(t *testing.T) {
	t.Parallel()
	for _, r := range renders {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			out := render(t, r.chart, r.args...)
			var hooks []admissionv1.ValidatingWebhook
			for _, c := range decode[admissionv1.ValidatingWebhookConfiguration](t, out, "ValidatingWebhookConfiguration") {
				hooks = append(hooks, c.Webhooks...)
			}
			for _, c := range decode[admissionv1.MutatingWebhookConfiguration](t, out, "MutatingWebhookConfiguration") {
				for _, m := range c.Webhooks {
					hooks = append(hooks, admissionv1.ValidatingWebhook{
						Name: m.Name, Rules: m.Rules, FailurePolicy: m.FailurePolicy, SideEffects: m.SideEffects, MatchPolicy: m.MatchPolicy,
						TimeoutSeconds: m.TimeoutSeconds, NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector,
					})
				}
			}
			require.NotEmpty(t, hooks)
			for _, h := range hooks {
				require.NotNil(t, h.FailurePolicy, h.Name)
				require.Equal(t, admissionv1.Equivalent, *h.MatchPolicy, h.Name)
				require.LessOrEqual(t, *h.TimeoutSeconds, int32(30), h.Name)
				if protects(t, h) {
					continue
				}
				effects := admissionv1.SideEffectClassNone
				if r.chart == "member" && slices.Contains(sendingPods, h.Name) {
					effects = admissionv1.SideEffectClassNoneOnDryRun
				}
				require.Equal(t, effects, *h.SideEffects, h.Name)
				require.Len(t, h.Rules, 1, h.Name)
				checkScope(t, h)
			}
		})
	}
}

// TestIntegrationTheHubWarnsOfEachKindOfMembers checks that users who apply such an object to the hub, which doesn't run it, are warned.
func TestIntegrationTheHubWarnsOfEachKindOfMembers(t *testing.T) {
	t.Parallel()
	watched := []string{"nodeimages", "nodepodprobes"} // Only managers write them.
	for _, crd := range decode[apiextensionsv1.CustomResourceDefinition](t, render(t, "hub"), "CustomResourceDefinition") {
		watched = append(watched, crd.Spec.Names.Plural)
	}
	for _, c := range decode[admissionv1.ValidatingWebhookConfiguration](t, render(t, "hub"), "ValidatingWebhookConfiguration") {
		for _, w := range c.Webhooks {
			if strings.HasPrefix(w.Name, "vunrun") {
				watched = append(watched, w.Rules[0].Resources...)
			}
		}
	}
	for _, crd := range decode[apiextensionsv1.CustomResourceDefinition](t, render(t, "member"), "CustomResourceDefinition") {
		if crd.Spec.Group != "fleet.kruise.io" {
			require.Contains(t, watched, crd.Spec.Names.Plural, "charts/hub/templates/webhooks.yaml")
		}
	}
}

// protects reports whether a webhook is for deletion protection, and checks that it is called only for deletions of labeled objects.
func protects(t *testing.T, h admissionv1.ValidatingWebhook) bool {
	t.Helper()
	if !strings.HasSuffix(h.Name, "deleteprotection.kb.io") {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(h.ObjectSelector)
	require.NoError(t, err)
	require.False(t, selector.Matches(labels.Set{"app": "web"}), h.Name)
	require.True(t, selector.Matches(labels.Set{"policy.kruise.io/delete-protection": "Cascading"}), h.Name)
	for _, rule := range h.Rules {
		require.Equal(t, []admissionv1.OperationType{admissionv1.Delete}, rule.Operations, h.Name)
		require.NotContains(t, rule.Resources, "secrets", h.Name)
	}
	return true
}

// checkScope checks that a webhook is for one of our kinds outside our namespace, or for objects with our label.
func checkScope(t *testing.T, h admissionv1.ValidatingWebhook) {
	t.Helper()
	rule := h.Rules[0]
	if !strings.HasSuffix(rule.APIGroups[0], ".kruise.io") {
		if h.Name == "mtemplate.kb.io" { // It is for workloads in namespaces of templates, which can't be the cluster's own namespaces.
			require.Equal(t, metav1.LabelSelectorRequirement{
				Key: "fleet.kruise.io/template", Operator: metav1.LabelSelectorOpIn, Values: []string{"true"},
			}, h.NamespaceSelector.MatchExpressions[0])
			require.Equal(t, []string{namespace, "default", "kube-system", "kube-public", "kube-node-lease"}, h.NamespaceSelector.MatchExpressions[1].Values)
			return
		}
		require.NotNil(t, h.ObjectSelector, h.Name)
		want := map[string]string{"namespaces": "fleet.kruise.io/cluster", "deployments": "fleet.kruise.io/template"}[rule.Resources[0]]
		require.Equal(t, want, h.ObjectSelector.MatchExpressions[0].Key, h.Name)
		return
	}
	if slices.Equal(rule.Resources, []string{"rolloutapprovals"}) { // The hub creates none, and none may be stored without the name of its user.
		require.Nil(t, h.NamespaceSelector, h.Name)
		require.Equal(t, admissionv1.Fail, *h.FailurePolicy, h.Name)
		return
	}
	if rule.Scope == nil || *rule.Scope != admissionv1.ClusterScope {
		require.Equal(t, []metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{namespace}},
		}, h.NamespaceSelector.MatchExpressions, h.Name)
	}
}

// TestIntegrationFlagsExist compares the arguments of each Deployment with the help of its program.
func TestIntegrationFlagsExist(t *testing.T) {
	t.Parallel()
	for _, r := range renders {
		help, err := os.ReadFile(filepath.Join("..", "cmd", r.chart, "testdata", "help.golden"))
		require.NoError(t, err)
		for _, d := range decode[appsv1.Deployment](t, render(t, r.chart, r.args...), "Deployment") {
			pod := d.Spec.Template.Spec
			require.True(t, *pod.SecurityContext.RunAsNonRoot)
			require.NotEmpty(t, pod.Containers[0].Args)
			for _, arg := range pod.Containers[0].Args {
				name, _, _ := strings.Cut(arg, "=")
				require.Regexp(t, `(?m)^ .*`+regexp.QuoteMeta(name)+`( |$)`, string(help), "%s: %s", r.name, arg)
			}
		}
	}
}

// TestIntegrationHelmTestIsSeparate checks that the objects of "helm test" are not part of the release, and that its pod is not an
// endpoint of the manager's Service.
func TestIntegrationHelmTestIsSeparate(t *testing.T) {
	t.Parallel()
	for _, r := range renders {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			out := render(t, r.chart, r.args...)
			pods := decode[corev1.Pod](t, out, "Pod")
			services := decode[corev1.Service](t, out, "Service")
			if len(services) == 0 { // The manager runs outside the cluster.
				require.Empty(t, pods)
				return
			}
			require.Len(t, pods, 1)
			require.Equal(t, "test", pods[0].Annotations["helm.sh/hook"])
			for _, s := range services {
				require.False(t, labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pods[0].Labels)), s.Name)
			}
			for _, role := range decode[rbacv1.ClusterRole](t, out, "ClusterRole") {
				require.NotContains(t, role.Annotations, "helm.sh/hook", "the test has permissions in two namespaces")
			}
		})
	}
}

// TestIntegrationProbeIsNotInTheReleasesNamespace installs a release in the namespace that "helm test" would otherwise probe.
func TestIntegrationProbeIsNotInTheReleasesNamespace(t *testing.T) {
	t.Parallel()
	out, err := helm(t, "template", "flotilla", "member", "--namespace=default")
	require.NoError(t, err)
	require.Contains(t, decode[corev1.Pod](t, out, "Pod")[0].Spec.Containers[0].Args, "--probe-namespace=kube-public")
}

func TestIntegrationValuesAreChecked(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, chart, set, want string }{
		{"an unknown value", "hub", "replicas=3", "additional properties 'replicas' not allowed"},
		{"a member's value for the hub", "hub", "hub.local=true", "additional properties 'hub' not allowed"},
		{"no replica", "member", "manager.replicas=0", "at '/manager/replicas': minimum: got 0, want 1"},
		{"an invalid replica count", "member", "manager.replicas=two", "got string, want integer"},
		{"an invalid port", "hub", "manager.metrics.port=70000", "maximum: got 70,000, want 65,535"},
		{"an unknown log format", "hub", "manager.log.format=xml", "value must be one of 'json', 'console'"},
		{"an unknown failure policy", "member", "webhookConfiguration.failurePolicy=Never", "value must be one of 'Fail', 'Ignore'"},
		{"a manager's address with a path", "member", "manager.url=https://127.0.0.1:9443/x", "at '/manager/url'"},
		{"an invalid list of feature gates", "member", "featureGates=Yes", "at '/featureGates'"},
		{"a hub without the cluster's name", "member", "hub.url=https://hub:6443,hub.caHash=" + hash, "at '/hub/cluster'"},
		{"a hub without its CA", "member", "hub.url=https://hub:6443,hub.cluster=east", "at '/hub/caHash': minLength"},
		{"a truncated hash of the hub's CA", "member", "hub.caHash=sha256:abc", "at '/hub/caHash'"},
		{"push and pull at once", "member", "agent.push=true,hub.url=https://hub:6443,hub.cluster=east,hub.caHash=" + hash, "at '/agent/push': value must be false"},
		{"an image with its tag in the name", "hub", "manager.image.repository=example.com/hub:1", "at '/manager/image/repository'"},
		{"an invalid tag", "member", "manager.image.tag=a/b", "at '/manager/image/tag'"},
		{"an invalid memory quantity", "hub", "manager.resources.limits.memory=lots", "at '/manager/resources/limits/memory'"},
		{"an absolute path of a runtime's socket", "member", "daemon.socketFile=/run/containerd.sock", "at '/daemon/socketFile'"},
		{"credential providers without their programs", "member", "daemon.credentialProviders.configFile=/etc/kubernetes/providers.yaml", "at '/daemon/credentialProviders/binDir'"},
		{"programs of credential providers without a configuration", "member", "daemon.credentialProviders.binDir=/opt/providers", "at '/daemon/credentialProviders/binDir'"},
		{"no node without a daemon at a time", "member", "daemon.maxUnavailable=0", "at '/daemon/maxUnavailable': minimum: got 0, want 1"},
		{"an invalid port of the daemon", "member", "daemon.port=0", "at '/daemon/port'"},
		{"a label of the chart", "hub", "commonLabels.app\\.kubernetes\\.io/name=web", "at '/commonLabels/app.kubernetes.io~1name'"},
		{"a label of the chart for pods", "member", "manager.podLabels.app\\.kubernetes\\.io/name=web", "at '/manager/podLabels/app.kubernetes.io~1name'"},
		{"an invalid log level", "member", "manager.log.level=debug", "at '/manager/log/level'"},
		{"a pull secret without a name", "hub", "imagePullSecrets[0].secret=registry", "at '/imagePullSecrets/0'"},
		{"the account of the agent", "member", "serviceAccount.name=flotilla-agent", "at '/serviceAccount/name'"},
		{"the account of all pods", "hub", "serviceAccount.name=default", "at '/serviceAccount/name'"},
		{"a name with capitals", "member", "nameOverride=Fleet", "at '/nameOverride'"},
		{"an invalid argument", "member", "manager.extraArgs={start}", "at '/manager/extraArgs/0'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := helm(t, "template", "flotilla", tc.chart, "--set", tc.set)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// TestIntegrationAdaptedCharts checks the effects of the values in adapted that a golden file shows but doesn't explain.
func TestIntegrationAdaptedCharts(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"hub", "member"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			out := render(t, chart, adapted...)
			d := decode[appsv1.Deployment](t, out, "Deployment")[0]
			require.Equal(t, "fleet", d.Name)
			pods, template := labels.Set(d.Spec.Template.Labels), d.Spec.Template.Spec
			require.Equal(t, "43x", pods["cost-center"], "labels of pods take precedence over common ones")
			require.Equal(t, "true", d.Spec.Template.Annotations["scrape"])
			require.Equal(t, "ClusterFirstWithHostNet", string(template.DNSPolicy))
			require.Equal(t, int32(0), d.Spec.Strategy.RollingUpdate.MaxSurge.IntVal)
			require.Equal(t, []corev1.LocalObjectReference{{Name: "registry"}, {Name: "mirror"}}, template.ImagePullSecrets)
			require.Contains(t, template.Containers[0].Args, "--v=4")
			require.NotNil(t, template.Affinity.NodeAffinity)
			require.True(t, labels.SelectorFromSet(
				template.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector.MatchLabels,
			).Matches(pods), "the default stays in addition to another affinity")
			require.True(t, labels.SelectorFromSet(d.Spec.Selector.MatchLabels).Matches(pods))
			for _, s := range decode[corev1.Service](t, out, "Service") {
				require.Contains(t, []string{"flotilla-" + chart, "flotilla-" + chart + "-metrics"}, s.Name, "the manager knows the name")
				require.True(t, labels.SelectorFromSet(s.Spec.Selector).Matches(pods))
			}
			require.NotContains(t, out, "kind: PodDisruptionBudget")

			require.Equal(t, "pilot", template.ServiceAccountName)
			accounts := map[string]bool{}
			for _, a := range decode[corev1.ServiceAccount](t, out, "ServiceAccount") {
				accounts[a.Name] = true
			}
			require.True(t, accounts["pilot"])
			bound := func(subjects []rbacv1.Subject) {
				for _, s := range subjects {
					require.True(t, accounts[s.Name], "%s has permissions but is not an account", s.Name)
				}
			}
			for _, b := range decode[rbacv1.ClusterRoleBinding](t, out, "ClusterRoleBinding") {
				bound(b.Subjects)
			}
			for _, b := range decode[rbacv1.RoleBinding](t, out, "RoleBinding") {
				bound(b.Subjects)
			}
			require.NotContains(t, out, ":flotilla-"+chart+"'", "policies name the account")
			require.Contains(t, out, ":pilot'")

			for _, doc := range documents(t, out) {
				var o metav1.PartialObjectMetadata
				require.NoError(t, yaml.Unmarshal(doc, &o))
				require.Equal(t, "42x", o.Labels["cost-center"], "%s %s", o.Kind, o.Name)
				if strings.HasSuffix(o.Kind, "WebhookConfiguration") {
					require.Equal(t, "true", o.Labels["admissions.enforcer/disabled"], o.Kind)
				}
			}
		})
	}
}

// TestIntegrationFormerValues renders the member's chart with values of OpenKruise's chart: helm reports the replacement of each value that
// differs, and accepts all others.
func TestIntegrationFormerValues(t *testing.T) {
	t.Parallel()
	_, err := helm(t, "template", "flotilla", "member", "--values=testdata/openkruise-values.yaml")
	require.ErrorContains(t, err, "values of OpenKruise's chart and their replacements")
	former, fault := charts.Former()
	require.NoError(t, fault)
	for value, instead := range former {
		require.ErrorContains(t, err, "  "+value+": "+instead)
	}
	require.Len(t, former, strings.Count(err.Error(), "\n  "))
	render(t, "member", "--values=../cmd/kubectl-kruise/testdata/openkruise-values.golden") // The plugin's output for the same file.
}

// TestIntegrationFormerValuesAreDocumented checks that the migration page has a table row for each replaced value.
func TestIntegrationFormerValuesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/start/from-openkruise.md")
	require.NoError(t, err)
	former, err := charts.Former()
	require.NoError(t, err)
	for value := range former {
		require.Contains(t, string(page), "\n| `"+value+"` |")
	}
}
