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

// may answers a review.
func may(user string, what *authorizationv1.ResourceAttributes) bool {
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
			review.Status.Allowed = may(review.Spec.User, review.Spec.ResourceAttributes)
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

// by returns the context of a user's request.
func by(t *testing.T, user string) context.Context {
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
		of := func(text string) *fleetv1alpha1.ClusterPropagation {
			return &fleetv1alpha1.ClusterPropagation{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: read(text)}
		}
		if old != "" {
			return w.ValidateUpdate(by(t, user), of(old), of(spec))
		}
		return w.ValidateCreate(by(t, user), of(spec))
	}
	w := &Webhook[*fleetv1alpha1.Propagation]{Clusters: rules, Mapper: mapper, Kinds: allowedResources(), LocalMember: local}
	of := func(text string) *fleetv1alpha1.Propagation {
		return &fleetv1alpha1.Propagation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: read(text)}
	}
	if old != "" {
		return w.ValidateUpdate(by(t, user), of(old), of(spec))
	}
	return w.ValidateCreate(by(t, user), of(spec))
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
		{name: "Who may read and create it, and use the cluster.", user: "team-a", namespace: "team-a", spec: web},
		{
			name: "In another namespace there is no such right.", user: "team-a", namespace: "team-b", spec: web,
			refused: `spec.selectors[0]: Forbidden: user "team-a" may not get configmaps web in namespace team-b: who places objects in clusters`,
		},
		{
			name: "Nor by a right in another namespace.", user: "elsewhere", namespace: "team-a", spec: web,
			refused: `spec.selectors[0]: Forbidden: user "elsewhere" may not get configmaps web in namespace team-a`,
		},
		{
			name: "Who may read it only.", user: "reader", namespace: "team-a", spec: web,
			refused: `spec.selectors[0]: Forbidden: user "reader" may not create configmaps in namespace team-a`,
		},
		{
			name: "Who may create it only: it would be read in the member.", user: "writer", namespace: "team-a", spec: web,
			refused: `user "writer" may not get configmaps web in namespace team-a`,
		},
		{
			name: "Another name.", user: "team-a", namespace: "team-a", spec: places("v1", "ConfigMap", "other", inEast),
			refused: `user "team-a" may not get configmaps other`,
		},
		{
			name: "By labels all of the kind could be read.", user: "team-a", namespace: "team-a", spec: places("v1", "ConfigMap", "", inEast),
			refused: `user "team-a" may not list configmaps in namespace team-a`,
		},
		{name: "Who may list them.", user: "deployer", namespace: "team-a", spec: places("apps/v1", "Deployment", "", inEast), warned: "create it with label"},
		{
			name: "Another kind.", user: "deployer", namespace: "team-a", spec: web,
			refused: `user "deployer" may not get configmaps web in namespace team-a`,
		},
		{
			name: "Another cluster.", user: "team-a", namespace: "team-a", spec: places("v1", "ConfigMap", "web", "names: [east, south]"),
			refused: `spec.clusters.names[1]: Forbidden: user "team-a" may not use member cluster south`,
		},
		{
			name: "All clusters.", user: "team-a", namespace: "team-a", spec: places("v1", "ConfigMap", "web", inAll),
			refused: `spec.clusters.all: Forbidden: user "team-a" may not use all member clusters`,
		},
		{
			name: "Clusters by labels may be any.", user: "team-a", namespace: "team-a",
			spec:    places("v1", "ConfigMap", "web", "selector: {matchLabels: {region: eu}}"),
			refused: `spec.clusters.selector: Forbidden: user "team-a" may not use all member clusters`,
		},
		{
			name: "What is in no namespace.", user: "admin", namespace: "team-a", spec: places("scheduling.k8s.io/v1", "PriorityClass", "web", inEast),
			refused: "spec.selectors[0].kind: Forbidden: objects of kind PriorityClass are in no namespace: select them in a ClusterPropagation",
		},
		{
			name: "What is in namespaces, of all of them.", user: "admin", spec: places("v1", "ConfigMap", "web", inAll),
			refused: "spec.selectors[0].kind: Forbidden: objects of kind ConfigMap are in namespaces: select them in a Propagation in theirs",
		},
		{name: "Who may create it in no namespace.", user: "classes", spec: places("scheduling.k8s.io/v1", "PriorityClass", "web", inEast)},
		{
			name: "Who may not.", user: "team-a", spec: places("scheduling.k8s.io/v1", "PriorityClass", "web", inEast),
			refused: `user "team-a" may not get priorityclasses.scheduling.k8s.io web in all namespaces`,
		},
		{
			name: "Rights.", user: "admin", spec: places("rbac.authorization.k8s.io/v1", "ClusterRole", "web", inAll),
			refused: "spec.selectors[0].kind: Forbidden: objects of kind ClusterRole decide what others may do",
		},
		{
			name: "Rows of a member.", user: "admin", namespace: "fleet-east", spec: places("fleet.kruise.io/v1alpha1", "MemberWork", "web", inAll),
			refused: "objects of kind MemberWork are the fleet's own",
		},
		{
			name: "Nodes.", user: "admin", spec: places("v1", "Node", "web", inAll), refused: "objects of kind Node belong to the cluster",
		},
		{
			name: "Secrets.", user: "admin", namespace: "team-a", spec: places("v1", "Secret", "web", inAll),
			refused: "objects of kind Secret are not read by a hub: place them by a ResourceDistribution with targets.clusters",
		},
		{
			name: "What node daemons act on.", user: "admin", spec: places("apps.kruise.io/v1alpha1", "NodePodProbe", "web", inAll),
			refused: "objects of kind NodePodProbe have the node daemons act in pods of all namespaces",
		},
		{name: "Namespaces.", user: "admin", spec: places("v1", "Namespace", "web", inAll), refused: "a hub creates no namespaces"},
		{
			name: "A kind with clusters of its own.", user: "admin", namespace: "team-a",
			spec: places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inAll),
			refused: "spec.selectors[0].kind: Forbidden: a UnitedDeployment has clusters itself: name them in spec.topology.subsets, and set " +
				"spec.topology.dependencies: Auto for what its pods need",
		},
		{
			name: "It is placed neither with its dependencies.", user: "admin", namespace: "team-a",
			spec: places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inAll, "dependencies: Auto"), refused: "a UnitedDeployment has clusters itself",
		},
		{
			name: "Its dependencies alone are, for who may have any.", user: "admin", namespace: "team-a",
			spec: places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inAll, "dependencies: Only"),
		},
		{
			name: "And for nobody else.", user: "united", namespace: "team-a",
			spec:    places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inEast, "dependencies: Only"),
			refused: `spec.dependencies: Forbidden: user "united" may not list configmaps in namespace team-a`,
		},
		{
			name: "Nor for who may not read the object.", user: "shipper", namespace: "team-a",
			spec:    places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inEast, "dependencies: Only"),
			refused: `spec.selectors[0]: Forbidden: user "shipper" may not get uniteddeployments.apps.kruise.io web in namespace team-a`,
		},
		{
			name: "Other kinds are placed with theirs.", user: "admin", namespace: "team-a",
			spec:    places("apps/v1", "Deployment", "web", inAll, "dependencies: Only"),
			refused: "spec.selectors[0].kind: Forbidden: with dependencies: Only the objects themselves are not placed, which is for UnitedDeployments",
		},
		{
			name: "No replicas are divided.", user: "admin", namespace: "team-a",
			spec:    places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inAll, "dependencies: Only", "replicas: {division: Weighted}"),
			refused: "spec.replicas: Forbidden: with dependencies: Only no workload is placed",
		},
		{
			name: "No UnitedDeployment is changed.", user: "admin", namespace: "team-a",
			spec: places("apps.kruise.io/v1beta1", "UnitedDeployment", "web", inAll, "dependencies: Only",
				"overrides: [{clusters: [east], kind: UnitedDeployment, patches: [{op: replace, path: /spec/replicas, value: 3}]}]"),
			refused: "spec.overrides[0].kind: Forbidden: with dependencies: Only no UnitedDeployment is placed",
		},
		{
			name: "Another one.", user: "admin", namespace: "team-a",
			spec: places("apps.kruise.io/v1alpha1", "WorkloadSpread", "web", inAll), refused: "name them in spec.subsets",
		},
		{
			name: "And the third.", user: "admin",
			spec: places("apps.kruise.io/v1beta1", "ResourceDistribution", "web", inAll), refused: "name them in spec.targets.clusters",
		},
		{
			name: "A kind that the administrator has not listed.", user: "admin", namespace: "team-a", spec: places("networking.k8s.io/v1", "Ingress", "web", inAll),
			refused: "spec.selectors[0].kind: Forbidden: this hub places no objects of kind Ingress.networking.k8s.io: its administrator can add their resource to propagation.kinds",
		},
		{
			name: "One of a group that is not served, and not listed.", user: "admin", namespace: "team-a", spec: places("other.example.com/v1", "Thing", "web", inAll),
			refused: "this hub places no objects of kind Thing.other.example.com",
		},
		{
			name: "A kind that is not served yet, for who may have it whatever its resource is.", user: "gamer", namespace: "team-a",
			spec:   places("game.example.com/v1", "GameServer", "web", inEast),
			warned: "spec.selectors[0]: this hub does not serve GameServer.game.example.com in version v1: objects are placed once it does",
		},
		{
			name: "For who may have one of them only.", user: "games", namespace: "team-a", spec: places("game.example.com/v1", "GameServer", "web", inEast),
			refused: `user "games" may not get gameserversets.game.example.com web in namespace team-a`,
		},
		{
			name: "A version that is not served is no way round.", user: "nobody", namespace: "team-a", spec: places("v2", "ConfigMap", "web", inEast),
			refused: `user "nobody" may not get configmaps web`,
		},
		{name: "It waits for the version.", user: "admin", namespace: "team-a", spec: places("v2", "ConfigMap", "web", inEast), warned: "in version v2"},
		{name: "What was there needs no right.", user: "nobody", namespace: "team-a", old: web, spec: places("v1", "ConfigMap", "web", inEast, "suspend: {all: true}")},
		{
			name: "A selector more does.", user: "nobody", namespace: "team-a", old: web,
			spec:    "{selectors: [{apiVersion: v1, kind: ConfigMap, name: web}, {apiVersion: v1, kind: Service, name: web}], clusters: {names: [east]}}",
			refused: `spec.selectors[1]: Forbidden: user "nobody" may not get services web`,
		},
		{
			name: "So does an override, which changes what is sent.", user: "nobody", namespace: "team-a", old: web,
			spec:    places("v1", "ConfigMap", "web", inEast, "overrides: [{clusters: [east], patches: [{op: add, path: /data/a, value: b}]}]"),
			refused: `spec.selectors[0]: Forbidden: user "nobody" may not get configmaps web`,
		},
		{
			name: "And another adoption, which changes what is there.", user: "nobody", namespace: "team-a", old: web,
			spec:    places("v1", "ConfigMap", "web", inEast, "apply: {adoption: Full}"),
			refused: `spec.selectors[0]: Forbidden: user "nobody" may not get configmaps web`,
		},
		{
			name: "And a division of replicas.", user: "nobody", namespace: "team-a", old: web,
			spec:    places("v1", "ConfigMap", "web", inEast, "replicas: {division: Weighted}"),
			refused: `spec.selectors[0]: Forbidden: user "nobody" may not get configmaps web`,
		},
		{
			name: "A cluster without a share gets no replicas.", user: "admin", namespace: "team-a",
			spec:   places("v1", "ConfigMap", "web", "names: [east, west]", "replicas: {division: Weighted, shares: [{clusters: [east]}]}"),
			warned: "spec.replicas.shares: in no share, so objects have no replicas there: west",
		},
		{
			name: "A share of a cluster that is not selected.", user: "admin", namespace: "team-a",
			spec:   places("v1", "ConfigMap", "web", "names: [east]", "replicas: {division: Weighted, shares: [{clusters: [east, wset]}]}"),
			warned: "spec.replicas.shares: not in clusters.names, so without effect: wset",
		},
		{
			name: "A further cluster needs the right to read what goes there.", user: "nobody", namespace: "team-a", old: web,
			spec: places("v1", "ConfigMap", "web", "names: [east, south]"), refused: `user "nobody" may not get configmaps web in namespace team-a`,
		},
		{
			name: "Dependencies, for who may have all that may be one.", user: "shipper", namespace: "team-a",
			spec: places("apps/v1", "Deployment", "template", inEast, "dependencies: Auto"),
		},
		{
			name: "A template may name whatever is in the namespace.", user: "deployer", namespace: "team-a",
			spec:    places("apps/v1", "Deployment", "web", inEast, "dependencies: Auto"),
			refused: `spec.dependencies: Forbidden: user "deployer" may not list configmaps in namespace team-a`,
		},
		{
			name: "Who may read all and create some.", user: "halfway", namespace: "team-a",
			spec:    places("apps/v1", "Deployment", "template", inEast, "dependencies: Auto"),
			refused: `spec.dependencies: Forbidden: user "halfway" may not create services in namespace team-a`,
		},
		{
			name: "Whoever switches them on.", user: "nobody", namespace: "team-a", old: web, spec: places("v1", "ConfigMap", "web", inEast, "dependencies: Auto"),
			refused: `spec.dependencies: Forbidden: user "nobody" may not list configmaps`,
		},
		{
			name: "A further selector brings those of other templates.", user: "deployer", namespace: "team-a",
			old: places("v1", "ConfigMap", "web", inEast, "dependencies: Auto"),
			spec: "{selectors: [{apiVersion: v1, kind: ConfigMap, name: web}, {apiVersion: apps/v1, kind: Deployment, name: web}], clusters: {names: [east]}, " +
				"dependencies: Auto}",
			refused: `spec.dependencies: Forbidden: user "deployer" may not list configmaps`,
		},
		{
			name: "An override changes them too.", user: "deployer", namespace: "team-a", old: places("apps/v1", "Deployment", "web", inEast, "dependencies: Auto"),
			spec: places("apps/v1", "Deployment", "web", inEast, "dependencies: Auto",
				"overrides: [{clusters: [east], patches: [{op: add, path: /spec/replicas, value: 1}]}]"),
			refused: `spec.dependencies: Forbidden: user "deployer" may not list configmaps`,
		},
		{
			name: "To switch them off needs no right.", user: "nobody", namespace: "team-a", old: places("v1", "ConfigMap", "web", inEast, "dependencies: Auto"),
			spec: places("v1", "ConfigMap", "web", inEast, "dependencies: Off"),
		},
		{
			name: "Nor does anything else with them.", user: "nobody", namespace: "team-a", old: places("v1", "ConfigMap", "web", inEast, "dependencies: Auto"),
			spec: places("v1", "ConfigMap", "web", inEast, "dependencies: Auto", "suspend: {all: true}"),
		},
		{
			name: "A cluster that is not there yet.", user: "admin", namespace: "team-a", spec: places("v1", "ConfigMap", "web", "names: [north]"),
			warned: "spec.clusters.names[0]: there is no member cluster north: it gets the objects when a MemberCluster of that name has joined",
		},
		{
			name: "An override of another object's namespace.", user: "admin", namespace: "team-a",
			spec:    places("v1", "ConfigMap", "web", inEast, "overrides: [{clusters: [east], patches: [{op: replace, path: /metadata/namespace, value: team-b}]}]"),
			refused: "spec.overrides[0].patches[0].path: Forbidden",
		},
		{
			name: "A workload of Kubernetes runs here too.", user: "admin", namespace: "team-a", spec: places("apps/v1", "StatefulSet", "web", inEast),
			warned: "spec.selectors[0]: a StatefulSet takes effect in the hub's own cluster too",
		},
		{name: "None does in a namespace of templates.", user: "admin", namespace: "templates", spec: places("apps/v1", "StatefulSet", "web", inEast)},
		{name: "A CloneSet does not.", user: "admin", namespace: "team-a", spec: places("apps.kruise.io/v1beta1", "CloneSet", "web", inEast)},
		{
			name: "A Deployment does, if it is no template.", user: "admin", namespace: "team-a", spec: places("apps/v1", "Deployment", "plain", inEast),
			warned: `create it with label fleet.kruise.io/template: "true"`,
		},
		{name: "A template does not.", user: "admin", namespace: "team-a", spec: places("apps/v1", "Deployment", "template", inEast)},
		{
			name: "Nor do templates by labels.", user: "admin", namespace: "team-a",
			spec: "{selectors: [{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: template}}}], clusters: {names: [east]}}",
		},
		{name: "One that is not there yet is not known.", user: "admin", namespace: "team-a", spec: places("apps/v1", "Deployment", "later", inEast)},
		{
			name: "It does beside the member stack.", user: "admin", namespace: "team-a", spec: places("apps.kruise.io/v1beta1", "CloneSet", "plain", inEast),
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
		name, old, is string
		more          []string
		refused       bool
	}{
		{name: "another name", old: "names: [east]", is: "names: [east, west]", refused: true},
		{name: "a name less", old: "names: [east, west]", is: "names: [east]"},
		{name: "all", old: "names: [east]", is: "all: true", refused: true},
		{name: "names of all", old: "all: true", is: "names: [east]"},
		{name: "a selector", old: "names: [east]", is: "selector: {matchLabels: {a: b}}", refused: true},
		{name: "another selector", old: "selector: {matchLabels: {a: a}}", is: "selector: {matchLabels: {a: b}}", refused: true},
		{name: "one that is not excluded any more", old: "all: true, excluded: [west]", is: "all: true", refused: true},
		{name: "one that is excluded", old: "all: true", is: "all: true, excluded: [west]"},
		{name: "a toleration", old: "all: true", is: "all: true", more: []string{tainted}, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := review(t, "nobody", "team-a", places("v1", "ConfigMap", "web", tt.old), places("v1", "ConfigMap", "web", tt.is, tt.more...), false)
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
		{"one without a version", places("/v1", "ConfigMap", "web", "all: true"), "spec.selectors[0].apiVersion: Invalid value"},
		{
			"a cluster in two shares", places("v1", "ConfigMap", "web", "all: true", "replicas: {division: Weighted, shares: [{clusters: [east]}, {clusters: [east]}]}"),
			`spec.replicas.shares[1].clusters[0]: Invalid value: "east": shares[0] has it too, and the first one holds: remove east from one`,
		},
		{
			"a share of what can't be a cluster", places("v1", "ConfigMap", "web", "all: true", "replicas: {division: Weighted, shares: [{clusters: [East_1]}]}"),
			"spec.replicas.shares[0].clusters[0]: Invalid value",
		},
		{
			"weights of which none counts", places("v1", "ConfigMap", "web", "all: true", "replicas: {division: Weighted, shares: [{clusters: [east], weight: 0}]}"),
			`spec.replicas.shares: Invalid value: "weight: 0": with no weight above 0 no cluster gets replicas`,
		},
		{
			"a Job that is to be divided", places("batch/v1", "Job", "web", "all: true", "replicas: {division: Weighted}"),
			"spec.selectors[0].kind: Forbidden: a Job has no replicas to divide, and each cluster would run all of it",
		},
		{
			"replicas that an override sets too", places("apps/v1", "Deployment", "web", "all: true", "replicas: {division: Weighted}",
				"overrides: [{clusters: [east], patches: [{op: replace, path: /spec/replicas, value: 1}]}]"),
			"spec.overrides[0].patches[0].path: Forbidden: /spec/replicas: replicas divides the replicas",
		},
		{
			"a spec that an override replaces", places("apps/v1", "Deployment", "web", "all: true", "replicas: {division: Weighted}",
				"overrides: [{clusters: [east], kind: Deployment, patches: [{op: replace, path: /spec, value: {}}]}]"),
			"spec.overrides[0].patches[0].path: Forbidden: /spec: replicas divides the replicas",
		},
		{
			"replicas that are left to others", places("apps/v1", "Deployment", "web", "all: true", "replicas: {division: Weighted}", "apply: {ignore: [spec.replicas]}"),
			"spec.apply.ignore[0]: Forbidden: spec.replicas: replicas divides the replicas",
		},
		{
			"replicas that others own", places("apps/v1", "Deployment", "web", "all: true", "replicas: {division: Weighted}", "apply: {adoption: OwnFields}"),
			"spec.apply.adoption: Forbidden: OwnFields leaves replicas to others that own them",
		},
		{"a name that is a path", places("v1", "ConfigMap", "a/b", "all: true"), "spec.selectors[0].name: Invalid value"},
		{
			"a selector that can't be read", "{selectors: [{apiVersion: v1, kind: ConfigMap, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}], clusters: {all: true}}",
			"spec.selectors[0].labelSelector.matchExpressions[0].operator: Invalid value",
		},
		{"a name that is no cluster's", places("v1", "ConfigMap", "web", "names: [East_1]"), "spec.clusters.names[0]: Invalid value"},
		{"a cluster that is excluded", places("v1", "ConfigMap", "web", "names: [east], excluded: [east]"), "spec.clusters.names[0]: Invalid value: \"east\": excluded has it too"},
		{"labels of clusters that can't be", places("v1", "ConfigMap", "web", "selector: {matchLabels: {a b: c}}"), "spec.clusters.selector.matchLabels: Invalid value"},
		{"what is suspended is a cluster", places("v1", "ConfigMap", "web", "all: true", "suspend: {clusters: [a.b]}"), "spec.suspend.clusters[0]: Invalid value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := review(t, "admin", "team-a", "", tt.spec, false)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestAnObjectThatIsBeingDeletedIsLetGo(t *testing.T) {
	t.Parallel()
	rules, mapper := newRules(t)
	w := &Webhook[*fleetv1alpha1.Propagation]{Clusters: rules, Mapper: mapper}
	p := &fleetv1alpha1.Propagation{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}
	p.Spec.Selectors = []fleetv1alpha1.PropagationSelector{{APIVersion: "v1", Kind: "Secret", Name: "web"}}
	warnings, err := w.ValidateUpdate(by(t, "nobody"), &fleetv1alpha1.Propagation{}, p)
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
				return w.ValidateCreate(by(t, "admin"), p)
			case strings.Contains(doc, "kind: Propagation\n"):
				p := &fleetv1alpha1.Propagation{}
				require.NoError(t, yaml.UnmarshalStrict([]byte(doc), p))
				w := &Webhook[*fleetv1alpha1.Propagation]{Clusters: rules, Mapper: mapper, Kinds: allowedResources()}
				p.Namespace = "team-a"
				return w.ValidateCreate(by(t, "admin"), p)
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
