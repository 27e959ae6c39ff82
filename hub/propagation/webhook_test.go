package propagation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

// servedKinds are the kinds that the hub serves in the tests. The value is true for namespaced kinds.
var servedKinds = map[string]bool{
	"v1 ConfigMap": true, "v1 Service": true, "v1 Secret": true, "v1 Namespace": false, "v1 Pod": true, "apps/v1 Deployment": true,
	"apps/v1 StatefulSet": true, "apps.kruise.io/v1beta1 CloneSet": true, "scheduling.k8s.io/v1 PriorityClass": false,
	"networking.k8s.io/v1 Ingress": true, "coordination.k8s.io/v1 Lease": true, "rbac.authorization.k8s.io/v1 ClusterRole": false, "v1 ServiceAccount": true,
	"autoscaling/v2 HorizontalPodAutoscaler": true, "apps.kruise.io/v1beta1 UnitedDeployment": true,
}

// grants are what the users in the tests may do: verb, resource and namespace, "*" for any.
var grants = map[string][]string{
	"admin":     {"* * *"},
	"team-a":    {"use east team-a", "get configmaps/web team-a", "create configmaps team-a"},
	"deployer":  {"use east team-a", "list deployments.apps team-a", "get deployments.apps/web team-a", "create deployments.apps team-a"},
	"reader":    {"* memberclusters *", "get configmaps/web team-a", "list configmaps team-a"},
	"writer":    {"* memberclusters *", "create configmaps team-a"},
	"elsewhere": {"* memberclusters *", "* configmaps team-b"},
	"games":     {"use east team-a", "* gameservers.game.example.com team-a"},
	"gamer":     {"use east team-a", "* gameservers.game.example.com team-a", "* gameserversets.game.example.com team-a"},
	"nobody":    {"* memberclusters *"},
	"shipper": {
		"use east team-a", "* deployments.apps team-a", "list configmaps team-a", "create configmaps team-a", "list services team-a", "create services team-a",
	},
	"united":  {"use east team-a", "* uniteddeployments.apps.kruise.io team-a"},
	"halfway": {"* memberclusters *", "* deployments.apps team-a", "* configmaps team-a", "list services team-a"},
	"classes": {"use * ", "* priorityclasses.scheduling.k8s.io "},
}

// hasPermission answers a review.
func hasPermission(user string, what *authorizationv1.ResourceAttributes) bool {
	resource := schema.GroupResource{Group: what.Group, Resource: what.Resource}.String()
	names := []string{"*", resource}
	if what.Name != "" {
		names = append(names, resource+"/"+what.Name)
	}
	if what.Resource == "memberclusters" {
		names = []string{"*", what.Resource}
		if what.Name != "" {
			names = append(names, what.Name)
		}
	}
	return slices.ContainsFunc(grants[user], func(grant string) bool {
		g := strings.Split(grant, " ")
		return (g[0] == "*" || g[0] == what.Verb) && slices.Contains(names, g[1]) && (g[2] == "*" || g[2] == what.Namespace)
	})
}

func newRules(t *testing.T) (placement.ClusterRules, meta.RESTMapper) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	require.NoError(t, authorizationv1.AddToScheme(scheme))
	require.NoError(t, appsv1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	workload := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "team-a", Name: name, Labels: labels}
	}
	workloads := []client.Object{
		&appsv1.Deployment{ObjectMeta: workload("plain", map[string]string{"app": "web"})},
		&appsv1.Deployment{ObjectMeta: workload("template", map[string]string{"app": "template", keys.FleetTemplate: "true"})},
		&appsv1beta1.CloneSet{ObjectMeta: workload("plain", nil)},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "templates", Labels: map[string]string{keys.FleetTemplate: "true"}}},
	}
	east := &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: fleetv1alpha1.MemberClusterSpec{Accepted: true},
		Status: fleetv1alpha1.MemberClusterStatus{Conditions: []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}},
	}
	west := east.DeepCopy()
	west.Name = "west"
	south := east.DeepCopy()
	south.Name, south.Status = "south", fleetv1alpha1.MemberClusterStatus{}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(east, west, south).WithObjects(workloads...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review := o.(*authorizationv1.SubjectAccessReview)
			review.Status.Allowed = hasPermission(review.Spec.User, review.Spec.ResourceAttributes)
			return nil
		},
	}).Build()
	var versions []schema.GroupVersion
	for text := range servedKinds {
		apiVersion, kind, _ := strings.Cut(text, " ")
		versions = append(versions, schema.FromAPIVersionAndKind(apiVersion, kind).GroupVersion())
	}
	mapper := meta.NewDefaultRESTMapper(versions)
	for text, namespaced := range servedKinds {
		apiVersion, kind, _ := strings.Cut(text, " ")
		scope := meta.RESTScopeRoot
		if namespaced {
			scope = meta.RESTScopeNamespace
		}
		mapper.Add(schema.FromAPIVersionAndKind(apiVersion, kind), scope)
	}
	return placement.ClusterRules{Client: c, Cache: c, Live: c}, mapper
}

// allowedResources is the setting propagation.kinds in the tests.
func allowedResources() []schema.GroupResource {
	var out []schema.GroupResource
	for _, text := range []string{
		"configmaps", "services", "pods", "deployments.apps", "statefulsets.apps", "clonesets.apps.kruise.io", "priorityclasses.scheduling.k8s.io",
		"gameservers.game.example.com", "gameserversets.game.example.com", "secrets", "namespaces", "clusterroles.rbac.authorization.k8s.io",
		"horizontalpodautoscalers.autoscaling",
	} {
		out = append(out, schema.ParseGroupResource(text))
	}
	return out
}

// asUser returns the context of a user's request.
func asUser(t *testing.T, user string) context.Context {
	t.Helper()
	return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UserInfo: authenticationv1.UserInfo{Username: user},
	}})
}

// review lets the webhook of either kind review a creation, or an update if there is an old spec. A spec without a namespace is for a
// ClusterPropagation.
func review(t *testing.T, user, namespace, old, spec string, local bool) (admission.Warnings, error) {
	t.Helper()
	rules, mapper := newRules(t)
	read := func(text string) (s fleetv1alpha1.PropagationSpec) {
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &s))
		return s
	}
	if namespace == "" {
		w := &Webhook[*fleetv1alpha1.ClusterPropagation]{Clusters: rules, Mapper: mapper, Kinds: allowedResources(), LocalMember: local}
		parse := func(text string) *fleetv1alpha1.ClusterPropagation {
			return &fleetv1alpha1.ClusterPropagation{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: read(text)}
		}
		if old != "" {
			return w.ValidateUpdate(asUser(t, user), parse(old), parse(spec))
		}
		return w.ValidateCreate(asUser(t, user), parse(spec))
	}
	w := &Webhook[*fleetv1alpha1.Propagation]{Clusters: rules, Mapper: mapper, Kinds: allowedResources(), LocalMember: local}
	parse := func(text string) *fleetv1alpha1.Propagation {
		return &fleetv1alpha1.Propagation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: read(text)}
	}
	if old != "" {
		return w.ValidateUpdate(asUser(t, user), parse(old), parse(spec))
	}
	return w.ValidateCreate(asUser(t, user), parse(spec))
}

// places returns a spec that places an object, or objects with a label, in clusters.
func places(apiVersion, kind, name, clusters string, further ...string) string {
	which := fmt.Sprintf("name: %q", name)
	if name == "" {
		which = "labelSelector: {matchLabels: {app: web}}"
	}
	return fmt.Sprintf("{selectors: [{apiVersion: %q, kind: %q, %s}], clusters: {%s}%s}", apiVersion, kind, which, clusters,
		strings.Join(append([]string{""}, further...), ", "))
}

// TestI34WhoMayPlaceWhatWhere is about tenants: nobody can reach something through a Propagation that they can't reach directly.
func TestI34WhoMayPlaceWhatWhere(t *testing.T) {
	t.Parallel()
	const inEast, inAll = "names: [east]", "all: true"
	web := places("v1", "ConfigMap", "web", inEast)
	for _, tt := range []struct {
		name, user, namespace string
		old, spec             string
		local                 bool
		refused               string // expected in the refusal; empty if accepted
		warned                string // expected in the only warning
	}{
		{name: "A user who may read and create it, and use the cluster.", user: "team-a", namespace: "team-a", spec: web},
		{
			name: "A user without permission in this namespace.", user: "team-a", namespace: "team-b", spec: web,
			refused: `spec.selectors[0]: Forbidden: user "team-a" may not get configmaps web in namespace team-b: placing objects in clusters`,
		},
		{
			name: "A user with permission in another namespace only.", user: "elsewhere", namespace: "team-a", spec: web,
			refused: `spec.selectors[0]: Forbidden: user "elsewhere" may not get configmaps web in namespace team-a`,
		},
		{
			name: "A user who may only read it.", user: "reader", namespace: "team-a", spec: web,
			refused: `spec.selectors[0]: Forbidden: user "reader" may not create configmaps in namespace team-a`,
		},
		{
			name: "A user who may only create it could read it in the member.", user: "writer", namespace: "team-a", spec: web,
			refused: `user "writer" may not get configmaps web in namespace team-a`,
		},
		{
			name: "A user with permission for another name.", user: "team-a", namespace: "team-a", spec: places("v1", "ConfigMap", "other", inEast),
			refused: `user "team-a" may not get configmaps other`,
		},
		{
			name: "A selector by labels requires permission for all objects of the kind.", user: "team-a", namespace: "team-a", spec: places("v1", "ConfigMap", "", inEast),
			refused: `user "team-a" may not list configmaps in namespace team-a`,
		},
		{name: "A user who may list and create them.", user: "deployer", namespace: "team-a", spec: places("apps/v1", "Deployment", "", inEast), warned: "create it with label"},
		{
			name: "A user with permission for another kind.", user: "deployer", namespace: "team-a", spec: web,
			refused: `user "deployer" may not get configmaps web in namespace team-a`,
		},
		{
			name: "A cluster that the user may not use.", user: "team-a", namespace: "team-a", spec: places("v1", "ConfigMap", "web", "names: [east, south]"),
			refused: `spec.clusters.names[1]: Forbidden: user "team-a" may not use member cluster south`,
		},
		{
			name: "All clusters require permission to use any cluster.", user: "team-a", namespace: "team-a", spec: places("v1", "ConfigMap", "web", inAll),
			refused: `spec.clusters.all: Forbidden: user "team-a" may not use all member clusters`,
		},
		{
			name: "Clusters selected by labels require permission to use any cluster.", user: "team-a", namespace: "team-a",
			spec:    places("v1", "ConfigMap", "web", "selector: {matchLabels: {region: eu}}"),
			refused: `spec.clusters.selector: Forbidden: user "team-a" may not use all member clusters`,
		},
		{
			name: "A cluster-scoped kind in a Propagation.", user: "admin", namespace: "team-a", spec: places("scheduling.k8s.io/v1", "PriorityClass", "web", inEast),
			refused: "spec.selectors[0].kind: Forbidden: kind PriorityClass is cluster-scoped: select it in a ClusterPropagation",
		},
		{
			name: "A namespaced kind in a ClusterPropagation.", user: "admin", spec: places("v1", "ConfigMap", "web", inAll),
			refused: "spec.selectors[0].kind: Forbidden: kind ConfigMap is namespaced: select it in a Propagation in its namespace",
		},
		{name: "A user who may create cluster-scoped objects.", user: "classes", spec: places("scheduling.k8s.io/v1", "PriorityClass", "web", inEast)},
		{
			name: "A user who may not create cluster-scoped objects.", user: "team-a", spec: places("scheduling.k8s.io/v1", "PriorityClass", "web", inEast),
			refused: `user "team-a" may not get priorityclasses.scheduling.k8s.io web at the cluster scope`,
		},
		{
			name: "RBAC objects are never placed.", user: "admin", spec: places("rbac.authorization.k8s.io/v1", "ClusterRole", "web", inAll),
			refused: "spec.selectors[0].kind: Forbidden: objects of kind ClusterRole decide what others may do",
		},
		{
			name: "Rows of a member are never placed.", user: "admin", namespace: "fleet-east", spec: places("fleet.kruise.io/v1alpha1", "MemberWork", "web", inAll),
			refused: "objects of kind MemberWork are the fleet's own",
		},
		{
			name: "Nodes are never placed.", user: "admin", spec: places("v1", "Node", "web", inAll), refused: "objects of kind Node belong to the cluster",
		},
		{
			name: "Secrets are never placed.", user: "admin", namespace: "team-a", spec: places("v1", "Secret", "web", inAll),
			refused: "objects of kind Secret are not read by a hub: place them by a ResourceDistribution with targets.clusters",
		},
		{
			name: "Kinds that node daemons act on are never placed.", user: "admin", spec: places("apps.kruise.io/v1alpha1", "NodePodProbe", "web", inAll),
			refused: "objects of kind NodePodProbe have the node daemons act in pods of all namespaces",
		},
		{name: "Namespaces are never placed.", user: "admin", spec: places("v1", "Namespace", "web", inAll), refused: "a hub does not create namespaces"},
		{
			name: "A UnitedDeployment has clusters of its own.", user: "admin", namespace: "team-a",
			spec: places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inAll),
			refused: "spec.selectors[0].kind: Forbidden: a UnitedDeployment names its own clusters, in spec.topology.subsets: set " +
				"spec.topology.dependencies: Auto to place what its pods need",
		},
		{
			name: "A UnitedDeployment is not placed with its dependencies either.", user: "admin", namespace: "team-a",
			spec: places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inAll, "dependencies: Auto"), refused: "a UnitedDeployment names its own clusters",
		},
		{
			name: "Its dependencies are placed without it for users who may read and create all of them.", user: "admin", namespace: "team-a",
			spec: places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inAll, "dependencies: Only"),
		},
		{
			name: "Its dependencies are refused for other users.", user: "united", namespace: "team-a",
			spec:    places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inEast, "dependencies: Only"),
			refused: `spec.dependencies: Forbidden: user "united" may not list configmaps in namespace team-a`,
		},
		{
			name: "Its dependencies are refused for users who may not read the object.", user: "shipper", namespace: "team-a",
			spec:    places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inEast, "dependencies: Only"),
			refused: `spec.selectors[0]: Forbidden: user "shipper" may not get uniteddeployments.apps.kruise.io web in namespace team-a`,
		},
		{
			name: "Dependencies alone are placed for UnitedDeployments only.", user: "admin", namespace: "team-a",
			spec:    places("apps/v1", "Deployment", "web", inAll, "dependencies: Only"),
			refused: "spec.selectors[0].kind: Forbidden: dependencies: Only is for UnitedDeployments, and does not place the selected objects themselves",
		},
		{
			name: "Replicas of a UnitedDeployment are not divided.", user: "admin", namespace: "team-a",
			spec:    places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inAll, "dependencies: Only", "replicas: {division: Weighted}"),
			refused: "spec.replicas: Forbidden: dependencies: Only places no workloads",
		},
		{
			name: "Overrides of a UnitedDeployment are refused.", user: "admin", namespace: "team-a",
			spec: places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inAll, "dependencies: Only",
				"overrides: [{clusters: [east], kind: UnitedDeployment, patches: [{op: replace, path: /spec/replicas, value: 3}]}]"),
			refused: "spec.overrides[0].kind: Forbidden: dependencies: Only does not place the UnitedDeployment",
		},
		{
			name: "A WorkloadSpread has clusters of its own.", user: "admin", namespace: "team-a",
			spec: places("apps.kruise.io/v1alpha1", "WorkloadSpread", "web", inAll), refused: "names its own clusters, in spec.subsets",
		},
		{
			name: "A ResourceDistribution has clusters of its own.", user: "admin",
			spec: places("apps.kruise.io/v1beta1", "ResourceDistribution", "web", inAll), refused: "names its own clusters, in spec.targets.clusters",
		},
		{
			name: "A kind that the administrator has not listed.", user: "admin", namespace: "team-a", spec: places("networking.k8s.io/v1", "Ingress", "web", inAll),
			refused: "spec.selectors[0].kind: Forbidden: this hub does not place objects of kind Ingress.networking.k8s.io: its administrator can add the resource to propagation.kinds",
		},
		{
			name: "A kind of a group that is neither served nor listed.", user: "admin", namespace: "team-a", spec: places("other.example.com/v1", "Thing", "web", inAll),
			refused: "this hub does not place objects of kind Thing.other.example.com",
		},
		{
			name: "A kind that is not served yet, for a user with permission for each resource of its group.", user: "gamer", namespace: "team-a",
			spec:   places("game.example.com/v1", "GameServer", "web", inEast),
			warned: "spec.selectors[0]: this hub does not serve GameServer.game.example.com in version v1: objects are placed once it does",
		},
		{
			name: "A kind that is not served yet, for a user with permission for one resource of its group.", user: "games", namespace: "team-a", spec: places("game.example.com/v1", "GameServer", "web", inEast),
			refused: `user "games" may not get gameserversets.game.example.com web in namespace team-a`,
		},
		{
			name: "A version that is not served still requires permission.", user: "nobody", namespace: "team-a", spec: places("v2", "ConfigMap", "web", inEast),
			refused: `user "nobody" may not get configmaps web`,
		},
		{name: "A version that is not served is a warning.", user: "admin", namespace: "team-a", spec: places("v2", "ConfigMap", "web", inEast), warned: "in version v2"},
		{name: "An unchanged spec requires no permission.", user: "nobody", namespace: "team-a", old: web, spec: places("v1", "ConfigMap", "web", inEast, "suspend: {all: true}")},
		{
			name: "A new selector requires permission.", user: "nobody", namespace: "team-a", old: web,
			spec:    "{selectors: [{apiVersion: v1, kind: ConfigMap, name: web}, {apiVersion: v1, kind: Service, name: web}], clusters: {names: [east]}}",
			refused: `spec.selectors[1]: Forbidden: user "nobody" may not get services web`,
		},
		{
			name: "An override requires permission.", user: "nobody", namespace: "team-a", old: web,
			spec:    places("v1", "ConfigMap", "web", inEast, "overrides: [{clusters: [east], patches: [{op: add, path: /data/a, value: b}]}]"),
			refused: `spec.selectors[0]: Forbidden: user "nobody" may not get configmaps web`,
		},
		{
			name: "Another adoption requires permission.", user: "nobody", namespace: "team-a", old: web,
			spec:    places("v1", "ConfigMap", "web", inEast, "apply: {adoption: Full}"),
			refused: `spec.selectors[0]: Forbidden: user "nobody" may not get configmaps web`,
		},
		{
			name: "A division of replicas requires permission.", user: "nobody", namespace: "team-a", old: web,
			spec:    places("v1", "ConfigMap", "web", inEast, "replicas: {division: Weighted}"),
			refused: `spec.selectors[0]: Forbidden: user "nobody" may not get configmaps web`,
		},
		{
			name: "A cluster without a share gets no replicas.", user: "admin", namespace: "team-a",
			spec:   places("v1", "ConfigMap", "web", "names: [east, west]", "replicas: {division: Weighted, shares: [{clusters: [east]}]}"),
			warned: "spec.replicas.shares: clusters in no share get no replicas: west",
		},
		{
			name: "A share of a cluster that is not selected.", user: "admin", namespace: "team-a",
			spec:   places("v1", "ConfigMap", "web", "names: [east]", "replicas: {division: Weighted, shares: [{clusters: [east, wset]}]}"),
			warned: "spec.replicas.shares: clusters not in clusters.names have no effect: wset",
		},
		{
			name: "Another cluster requires permission to read the objects.", user: "nobody", namespace: "team-a", old: web,
			spec: places("v1", "ConfigMap", "web", "names: [east, south]"), refused: `user "nobody" may not get configmaps web in namespace team-a`,
		},
		{
			name: "Dependencies, for a user with permission for all of their kinds.", user: "shipper", namespace: "team-a",
			spec: places("apps/v1", "Deployment", "template", inEast, "dependencies: Auto"),
		},
		{
			name: "Dependencies require permission for all ConfigMaps of the namespace.", user: "deployer", namespace: "team-a",
			spec:    places("apps/v1", "Deployment", "web", inEast, "dependencies: Auto"),
			refused: `spec.dependencies: Forbidden: user "deployer" may not list configmaps in namespace team-a`,
		},
		{
			name: "Dependencies, for a user who may read all but only create some.", user: "halfway", namespace: "team-a",
			spec:    places("apps/v1", "Deployment", "template", inEast, "dependencies: Auto"),
			refused: `spec.dependencies: Forbidden: user "halfway" may not create services in namespace team-a`,
		},
		{
			name: "Switching dependencies on requires permission.", user: "nobody", namespace: "team-a", old: web, spec: places("v1", "ConfigMap", "web", inEast, "dependencies: Auto"),
			refused: `spec.dependencies: Forbidden: user "nobody" may not list configmaps`,
		},
		{
			name: "Another selector requires permission for dependencies.", user: "deployer", namespace: "team-a",
			old: places("v1", "ConfigMap", "web", inEast, "dependencies: Auto"),
			spec: "{selectors: [{apiVersion: v1, kind: ConfigMap, name: web}, {apiVersion: apps/v1, kind: Deployment, name: web}], clusters: {names: [east]}, " +
				"dependencies: Auto}",
			refused: `spec.dependencies: Forbidden: user "deployer" may not list configmaps`,
		},
		{
			name: "An override requires permission for dependencies.", user: "deployer", namespace: "team-a", old: places("apps/v1", "Deployment", "web", inEast, "dependencies: Auto"),
			spec: places("apps/v1", "Deployment", "web", inEast, "dependencies: Auto",
				"overrides: [{clusters: [east], patches: [{op: add, path: /spec/replicas, value: 1}]}]"),
			refused: `spec.dependencies: Forbidden: user "deployer" may not list configmaps`,
		},
		{
			name: "Switching dependencies off requires no permission.", user: "nobody", namespace: "team-a", old: places("v1", "ConfigMap", "web", inEast, "dependencies: Auto"),
			spec: places("v1", "ConfigMap", "web", inEast, "dependencies: Off"),
		},
		{
			name: "Other changes with dependencies require no permission.", user: "nobody", namespace: "team-a", old: places("v1", "ConfigMap", "web", inEast, "dependencies: Auto"),
			spec: places("v1", "ConfigMap", "web", inEast, "dependencies: Auto", "suspend: {all: true}"),
		},
		{
			name: "A cluster that does not exist yet is a warning.", user: "admin", namespace: "team-a", spec: places("v1", "ConfigMap", "web", "names: [north]"),
			warned: "spec.clusters.names[0]: there is no member cluster north: it gets the objects once a MemberCluster of that name has joined",
		},
		{
			name: "An override of another object's namespace.", user: "admin", namespace: "team-a",
			spec:    places("v1", "ConfigMap", "web", inEast, "overrides: [{clusters: [east], patches: [{op: replace, path: /metadata/namespace, value: team-b}]}]"),
			refused: "spec.overrides[0].patches[0].path: Forbidden",
		},
		{
			name: "A workload of Kubernetes also runs in the hub's cluster.", user: "admin", namespace: "team-a", spec: places("apps/v1", "StatefulSet", "web", inEast),
			warned: "spec.selectors[0]: a StatefulSet also takes effect in the hub's own cluster",
		},
		{name: "In a namespace for templates it does not run.", user: "admin", namespace: "templates", spec: places("apps/v1", "StatefulSet", "web", inEast)},
		{name: "A CloneSet does not run in the hub's cluster.", user: "admin", namespace: "team-a", spec: places("apps.kruise.io/v1beta1", "CloneSet", "web", inEast)},
		{
			name: "A Deployment that is not a template also runs in the hub's cluster.", user: "admin", namespace: "team-a", spec: places("apps/v1", "Deployment", "plain", inEast),
			warned: `create it with label fleet.kruise.io/template: "true"`,
		},
		{name: "A template does not run in the hub's cluster.", user: "admin", namespace: "team-a", spec: places("apps/v1", "Deployment", "template", inEast)},
		{
			name: "Templates selected by labels do not run in the hub's cluster.", user: "admin", namespace: "team-a",
			spec: "{selectors: [{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: template}}}], clusters: {names: [east]}}",
		},
		{name: "A Deployment that does not exist yet causes no warning.", user: "admin", namespace: "team-a", spec: places("apps/v1", "Deployment", "later", inEast)},
		{
			name: "A CloneSet also runs in the hub's cluster if the member stack does.", user: "admin", namespace: "team-a", spec: places("apps.kruise.io/v1beta1", "CloneSet", "plain", inEast),
			local: true, warned: `create it with label fleet.kruise.io/template: "true"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			warnings, err := review(t, tt.user, tt.namespace, tt.old, tt.spec, tt.local)
			if tt.refused != "" {
				require.ErrorContains(t, err, tt.refused)
				return
			}
			require.NoError(t, err)
			if tt.warned == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], tt.warned)
		})
	}
}

func TestAttack33MoreClustersNeedTheRightToReadWhatGoesThere(t *testing.T) {
	t.Parallel()
	const tainted = "tolerations: [{key: a}]"
	for _, tt := range []struct {
		name, old, spec string
		more            []string
		refused         bool
	}{
		{name: "another name", old: "names: [east]", spec: "names: [east, west]", refused: true},
		{name: "a name removed", old: "names: [east, west]", spec: "names: [east]"},
		{name: "all", old: "names: [east]", spec: "all: true", refused: true},
		{name: "names instead of all", old: "all: true", spec: "names: [east]"},
		{name: "a selector", old: "names: [east]", spec: "selector: {matchLabels: {a: b}}", refused: true},
		{name: "another selector", old: "selector: {matchLabels: {a: a}}", spec: "selector: {matchLabels: {a: b}}", refused: true},
		{name: "a cluster that is no longer excluded", old: "all: true, excluded: [west]", spec: "all: true", refused: true},
		{name: "a cluster that is now excluded", old: "all: true", spec: "all: true, excluded: [west]"},
		{name: "a toleration", old: "all: true", spec: "all: true", more: []string{tainted}, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := review(t, "nobody", "team-a", places("v1", "ConfigMap", "web", tt.old), places("v1", "ConfigMap", "web", tt.spec, tt.more...), false)
			if tt.refused {
				require.ErrorContains(t, err, `user "nobody" may not get configmaps web`)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestWhatAdmissionRefusesFromAnyone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, spec, want string }{
		{"an apiVersion of three parts", places("a/b/c", "ConfigMap", "web", "all: true"), "spec.selectors[0].apiVersion: Invalid value"},
		{"an apiVersion without a version", places("/v1", "ConfigMap", "web", "all: true"), "spec.selectors[0].apiVersion: Invalid value"},
		{
			"a cluster in two shares", places("v1", "ConfigMap", "web", "all: true", "replicas: {division: Weighted, shares: [{clusters: [east]}, {clusters: [east]}]}"),
			`spec.replicas.shares[1].clusters[0]: Invalid value: "east": shares[0] lists it too, and the first one counts: remove east from one of them`,
		},
		{
			"a share of what can't be a cluster", places("v1", "ConfigMap", "web", "all: true", "replicas: {division: Weighted, shares: [{clusters: [East_1]}]}"),
			"spec.replicas.shares[0].clusters[0]: Invalid value",
		},
		{
			"weights of which none counts", places("v1", "ConfigMap", "web", "all: true", "replicas: {division: Weighted, shares: [{clusters: [east], weight: 0}]}"),
			`spec.replicas.shares: Invalid value: "weight: 0": no cluster gets replicas if all weights are 0`,
		},
		{
			"a Job that is to be divided", places("batch/v1", "Job", "web", "all: true", "replicas: {division: Weighted}"),
			"spec.selectors[0].kind: Forbidden: a Job has no replicas to divide, so each cluster would run all of it",
		},
		{
			"replicas that an override sets too", places("apps/v1", "Deployment", "web", "all: true", "replicas: {division: Weighted}",
				"overrides: [{clusters: [east], patches: [{op: replace, path: /spec/replicas, value: 1}]}]"),
			"spec.overrides[0].patches[0].path: Forbidden: /spec/replicas: the Propagation divides the replicas",
		},
		{
			"a spec that an override replaces", places("apps/v1", "Deployment", "web", "all: true", "replicas: {division: Weighted}",
				"overrides: [{clusters: [east], kind: Deployment, patches: [{op: replace, path: /spec, value: {}}]}]"),
			"spec.overrides[0].patches[0].path: Forbidden: /spec: the Propagation divides the replicas",
		},
		{
			"replicas that are left to others", places("apps/v1", "Deployment", "web", "all: true", "replicas: {division: Weighted}", "apply: {ignore: [spec.replicas]}"),
			"spec.apply.ignore[0]: Forbidden: spec.replicas: the Propagation divides the replicas",
		},
		{
			"replicas that others own", places("apps/v1", "Deployment", "web", "all: true", "replicas: {division: Weighted}", "apply: {adoption: OwnFields}"),
			"spec.apply.adoption: Forbidden: OwnFields leaves replicas to other owners",
		},
		{"a name that is a path", places("v1", "ConfigMap", "a/b", "all: true"), "spec.selectors[0].name: Invalid value"},
		{
			"a selector that can't be read", "{selectors: [{apiVersion: v1, kind: ConfigMap, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}], clusters: {all: true}}",
			"spec.selectors[0].labelSelector.matchExpressions[0].operator: Invalid value",
		},
		{"an invalid cluster name", places("v1", "ConfigMap", "web", "names: [East_1]"), "spec.clusters.names[0]: Invalid value"},
		{"a cluster that is excluded", places("v1", "ConfigMap", "web", "names: [east], excluded: [east]"), "spec.clusters.names[0]: Invalid value: \"east\": excluded lists it too"},
		{"an invalid cluster selector", places("v1", "ConfigMap", "web", "selector: {matchLabels: {a b: c}}"), "spec.clusters.selector.matchLabels: Invalid value"},
		{"an invalid name of a suspended cluster", places("v1", "ConfigMap", "web", "all: true", "suspend: {clusters: [a.b]}"), "spec.suspend.clusters[0]: Invalid value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := review(t, "admin", "team-a", "", tt.spec, false)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestAdmissionAllowsUpdatesOfAnObjectThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	rules, mapper := newRules(t)
	w := &Webhook[*fleetv1alpha1.Propagation]{Clusters: rules, Mapper: mapper}
	p := &fleetv1alpha1.Propagation{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}
	p.Spec.Selectors = []fleetv1alpha1.PropagationSelector{{APIVersion: "v1", Kind: "Secret", Name: "web"}}
	warnings, err := w.ValidateUpdate(asUser(t, "nobody"), &fleetv1alpha1.Propagation{}, p)
	require.NoError(t, err)
	require.Empty(t, warnings)
}

func TestExamples(t *testing.T) {
	t.Parallel()
	rules, mapper := newRules(t)
	answer := func(t *testing.T, text []byte) ([]string, error) {
		t.Helper()
		for doc := range strings.SplitSeq(string(text), "---\n") {
			switch {
			case strings.Contains(doc, "\nkind: ClusterPropagation\n"):
				p := &fleetv1alpha1.ClusterPropagation{}
				require.NoError(t, yaml.UnmarshalStrict([]byte(doc), p))
				w := &Webhook[*fleetv1alpha1.ClusterPropagation]{Clusters: rules, Mapper: mapper, Kinds: allowedResources()}
				return w.ValidateCreate(asUser(t, "admin"), p)
			case strings.Contains(doc, "kind: Propagation\n"):
				p := &fleetv1alpha1.Propagation{}
				require.NoError(t, yaml.UnmarshalStrict([]byte(doc), p))
				w := &Webhook[*fleetv1alpha1.Propagation]{Clusters: rules, Mapper: mapper, Kinds: allowedResources()}
				p.Namespace = "team-a"
				return w.ValidateCreate(asUser(t, "admin"), p)
			}
		}
		t.Fatal("no Propagation")
		return nil, nil
	}
	webhooktest.Examples(t, "../../e2e/examples", "propagation",
		[]string{
			"name-and-labels", "empty-selector", "no-clusters", "suspend-all-and-some", "dependencies", "division-without-order",
			"division-duplicated-shares", "division-weight-in-order", "division-share-of-nobody", "division-empty-selector",
		}, answer)
	webhooktest.Examples(t, "../../e2e/examples", "clusterpropagation", []string{"dependencies", "division"}, answer)
}
