package propagation

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
)

// united returns a UnitedDeployment named web that has rolled out all of its 3 pods. workload is its template, and more is added to its spec.
func united(t *testing.T, workload, more string) *unstructured.Unstructured {
	t.Helper()
	return parsed(t, `{apiVersion: apps.kruise.io/v1beta1, kind: UnitedDeployment, metadata: {namespace: shop, name: web, generation: 2},
  spec: {template: {`+workload+`}`+more+`}, status: {observedGeneration: 2, replicas: 3, updatedReplicas: 3}}`)
}

// cloneSets returns a template whose pods need that ConfigMap.
func cloneSets(config string) string {
	return `cloneSetTemplate: {spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, envFrom: [{configMapRef: {name: ` + config + `}}]}]}}}}`
}

func TestWhatTheSubsetsOfAUnitedDeploymentNeed(t *testing.T) {
	t.Parallel()
	const pod = "template: {metadata: {labels: {app: web}}, spec: {serviceAccountName: web, containers: [{name: main}]}}"
	subset := func(patch string) string {
		return `, topology: {subsets: [{name: a, cluster: east}, {name: b, cluster: west, patch: ` + patch + `}]}`
	}
	for _, tt := range []struct{ name, workload, more, want string }{
		{"a CloneSet", cloneSets("a"), "", "ConfigMap/a"},
		{"a Deployment", "deploymentTemplate: {spec: {" + pod + "}}", "", "ServiceAccount/web"},
		{"a StatefulSet", "statefulSetTemplate: {spec: {serviceName: db, " + pod + "}}", "", "Service/db ServiceAccount/web"},
		{"a workload of Kruise", "advancedStatefulSetTemplate: {spec: {serviceName: db, " + pod + "}}", "", "Service/db ServiceAccount/web"},
		{"no template", "", "", ""},
		{
			"a container that a subset changes", cloneSets("a"),
			subset("{spec: {containers: [{name: main, envFrom: [{configMapRef: {name: b}}]}]}}"), "ConfigMap/a ConfigMap/b",
		},
		{
			"a volume that a subset adds", cloneSets("a"), subset("{spec: {volumes: [{name: v, secret: {secretName: s}}]}}"),
			"ConfigMap/a Secret/s",
		},
		{"a patch that does not fit", cloneSets("a"), subset("{spec: {containers: text}}"), "ConfigMap/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			live := united(t, tt.workload, tt.more)
			before := live.DeepCopy()
			var n needs
			n.add(live)
			require.Equal(t, tt.want, n.names())
			require.Equal(t, before, live)
		})
	}
	var n needs
	n.add(united(t, cloneSets("a"), ""))
	budget, ok := dependencyKindOf(schema.GroupKind{Group: "policy.kruise.io", Kind: "PodUnavailableBudget"})
	require.True(t, ok)
	for spec, want := range map[string]bool{
		"{selector: {matchLabels: {app: web}}}":                                                       true,
		"{selector: {matchLabels: {app: db}}}":                                                        false,
		"{targetRef: {apiVersion: apps.kruise.io/v1alpha1, kind: UnitedDeployment, name: web}}":       true,
		"{targetRef: {apiVersion: apps.kruise.io/v1alpha1, kind: UnitedDeployment, name: other-web}}": false,
	} {
		require.Equal(t, want, n.uses(budget, "budget", parsed(t, "{spec: "+spec+"}")), spec)
	}
}

func TestPodsOfAFormerTemplateMayRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, status string
		want         bool
	}{
		{"all pods are updated", "{observedGeneration: 2, replicas: 3, updatedReplicas: 3}", false},
		{"there are no pods", "{observedGeneration: 2}", false},
		{"the hub has not seen the change", "{observedGeneration: 1, replicas: 3, updatedReplicas: 3}", true},
		{"some pods are not updated", "{observedGeneration: 2, replicas: 3, updatedReplicas: 2}", true},
		{"a cluster does not answer", "{observedGeneration: 2, replicas: 3, updatedReplicas: 3, staleClusters: 1}", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			live := united(t, cloneSets("a"), "")
			live.Object["status"] = parsed(t, "{status: "+tt.status+"}").Object["status"]
			require.Equal(t, tt.want, mayRunOldPods(live))
		})
	}
}

// needingUnited returns a world that selects a UnitedDeployment for its dependencies.
func needingUnited(t *testing.T, live ...*unstructured.Unstructured) *world {
	t.Helper()
	w := newWorld(t, "east", "west")
	w.spec.Dependencies = fleetv1alpha1.DependenciesOnly
	w.spec.Selectors = []fleetv1alpha1.PropagationSelector{{APIVersion: "apps.kruise.io/v1beta1", Kind: "UnitedDeployment", Name: "web"}}
	w.objects, w.united = nil, live
	return w
}

func TestTheDependenciesOfAUnitedDeploymentArePlacedWithoutIt(t *testing.T) {
	t.Parallel()
	w := needingUnited(t, united(t, cloneSets("a"), ""))
	c := clientWith(t, configMap("a", "blue"), configMap("b", "blue"))
	require.NoError(t, w.observeDependencies(t.Context(), served{simObjects{Reader: c}, []string{"ConfigMap"}}, shop))
	require.Equal(t, "+a@east +a@west", outcome(plan(w.observed, w.Now)))

	w = needingUnited(t)
	p := plan(w.observed, w.Now)
	require.Equal(t, "//:NoObject", outcome(p))

	w = needingUnited(t, united(t, cloneSets("a"), ""))
	s := fleetStatus(w)
	require.Equal(t, "Healthy=True Healthy; Placed=True Placed; Ready=True Ready", conditionsOf(s), "no dependency is required")
}

func conditionsOf(s fleetv1alpha1.PropagationStatus) string {
	text := ""
	for _, c := range s.Conditions {
		if text != "" {
			text += "; "
		}
		text += c.Type + "=" + string(c.Status) + " " + c.Reason
	}
	return text
}

func TestUnitedDeploymentsAreSelectedForTheirDependenciesOnly(t *testing.T) {
	t.Parallel()
	united, other := unitedKind().WithVersion("v1beta1"), configMaps.WithVersion("v1")
	for _, tt := range []struct {
		policy   fleetv1alpha1.DependencyPolicy
		kind     schema.GroupVersionKind
		selected bool
	}{
		{fleetv1alpha1.DependenciesOnly, united, true},
		{fleetv1alpha1.DependenciesAuto, united, false},
		{"", united, false},
		{fleetv1alpha1.DependenciesOnly, other, false},
		{fleetv1alpha1.DependenciesAuto, other, true},
		{"", other, true},
	} {
		why := misplaced(&fleetv1alpha1.PropagationSpec{Dependencies: tt.policy}, tt.kind)
		require.Equal(t, tt.selected, why == nil, "%s %s", tt.policy, tt.kind)
	}
}

// What a UnitedDeployment needed is withdrawn once the apiserver says that no pod can need it anymore.
func TestAnUnusedDependencyOfAUnitedDeploymentStaysUntilItsPodsAreUpdated(t *testing.T) {
	t.Parallel()
	done := func() *unstructured.Unstructured { return united(t, cloneSets("b"), "") }
	with := func(n int64, fields ...string) *unstructured.Unstructured {
		o := done()
		require.NoError(t, unstructured.SetNestedField(o.Object, n, fields...))
		return o
	}
	begun := with(1, "status", "updatedReplicas")
	back := united(t, cloneSets("a"), "")
	const kept, gone = "", "-a@east(Delete)"
	for _, tt := range []struct {
		name           string
		cached, stored []*unstructured.Unstructured
		unread         bool
		want           string
		lives          int // reads of UnitedDeployments from the apiserver
	}{
		{name: "All pods are new.", cached: []*unstructured.Unstructured{done()}, stored: []*unstructured.Unstructured{done()}, want: gone, lives: 1},
		{name: "Some pods are old.", cached: []*unstructured.Unstructured{begun}, stored: []*unstructured.Unstructured{done()}, want: kept},
		{name: "Some pods are old, and the cache is behind.", cached: []*unstructured.Unstructured{done()}, stored: []*unstructured.Unstructured{begun}, want: kept, lives: 1},
		{name: "The status is older than the template.", cached: []*unstructured.Unstructured{with(9, "metadata", "generation")}, want: kept},
		{name: "A cluster does not answer.", cached: []*unstructured.Unstructured{with(1, "status", "staleClusters")}, want: kept},
		{name: "The UnitedDeployment needs it again, and the cache is behind.", cached: []*unstructured.Unstructured{done()}, stored: []*unstructured.Unstructured{back}, want: kept, lives: 1},
		{name: "The object is gone.", want: gone, lives: 1},
		{name: "The UnitedDeployment is only missing from the cache.", stored: []*unstructured.Unstructured{back}, want: kept, lives: 1},
		{name: "The UnitedDeployment can't be read.", unread: true, stored: []*unstructured.Unstructured{back}, want: kept},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := needingUnited(t, tt.cached...)
			w.row("east", "a")
			w.current = func(row.Want, *fleetv1alpha1.MemberWork) bool { return true }
			if tt.unread {
				kind := unitedKind().WithVersion("v1beta1")
				w.unreadable = []unreadableKind{{kind, *notServed(kind)}}
			}
			for _, live := range tt.cached {
				w.deps.add(live)
			}
			b := fake.NewClientBuilder().WithScheme(dependencyScheme(t)).WithObjects(configMap("a", "blue"))
			for _, live := range tt.stored {
				b.WithObjects(live.DeepCopy())
			}
			lives := 0
			live := b.WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if o.GetObjectKind().GroupVersionKind().Kind == unitedKind().Kind {
						lives++
					}
					return c.Get(ctx, key, o, opts...)
				},
			}).Build()
			require.NoError(t, w.observeLost(t.Context(), placement.Client{Client: live, Live: live}, true))
			p := plan(w.observed, w.Now)
			p.problems = nil
			require.Equal(t, tt.want, outcome(p))
			require.Equal(t, tt.lives, lives)
		})
	}
}

// The hub writes the Propagation of a UnitedDeployment, whose user's permissions were already checked.
func TestTheHubNeedsNoRightsForAUnitedDeployment(t *testing.T) {
	t.Parallel()
	rules, mapper := newRules(t)
	w := &Webhook[*fleetv1alpha1.Propagation]{Clusters: rules, Mapper: mapper, Kinds: allowedResources(), Self: "hub"}
	p := propagation("web-dependencies", fleetv1alpha1.PropagationSelector{APIVersion: "apps.kruise.io/v1beta1", Kind: "UnitedDeployment", Name: "web"})
	p.Namespace, p.Spec.Dependencies = "team-a", fleetv1alpha1.DependenciesOnly
	p.Spec.Clusters = fleetv1alpha1.PropagationClusters{Names: []string{"east"}}
	owned := p.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps.kruise.io/v1beta1", Kind: "UnitedDeployment", Name: "web", UID: "u", Controller: new(true),
	}}
	foreign := owned.DeepCopy()
	foreign.OwnerReferences[0].Kind = "CloneSet"
	wrong := owned.DeepCopy()
	wrong.Spec.Dependencies = fleetv1alpha1.DependenciesAuto
	as := func(user string) context.Context {
		return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			UserInfo: authenticationv1.UserInfo{Username: user},
		}})
	}
	for _, tt := range []struct {
		name, user string
		p          *fleetv1alpha1.Propagation
		refused    string
	}{
		{"The hub, for a Propagation of a UnitedDeployment.", "hub", owned, ""},
		{"The hub, for a Propagation without an owner.", "hub", p, `user "hub" may not get uniteddeployments`},
		{"The hub, for a Propagation with an owner of another kind.", "hub", foreign, `user "hub" may not get uniteddeployments`},
		{"Another user.", "nobody", owned, `user "nobody" may not get uniteddeployments`},
		{"An invalid spec.", "hub", wrong, "a UnitedDeployment names its own clusters"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := w.ValidateCreate(as(tt.user), tt.p.DeepCopy())
			if tt.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.refused)
		})
	}
	_, err := (&Webhook[*fleetv1alpha1.Propagation]{Clusters: rules, Mapper: mapper, Kinds: allowedResources()}).ValidateCreate(as(""), owned)
	require.ErrorContains(t, err, "may not get uniteddeployments", "a hub without a known username is not recognized")
}
