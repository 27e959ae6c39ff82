package propagation

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
)

// parsed returns an object from YAML.
func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	o := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal(raw, &o.Object)) // Integers stay integers, as with a client.
	return o
}

// templated returns a Deployment named web whose template has that pod spec, given as one line of YAML.
func templated(t *testing.T, pod string) *unstructured.Unstructured {
	t.Helper()
	return parsed(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: web, labels: {app: web}},
  spec: {template: {metadata: {labels: {app: web}}, spec: `+pod+`}}}`)
}

// names returns the names of what is needed. Optional ones have a question mark.
func (n *needs) names() string {
	var out []string
	for key, who := range n.named {
		optional := ""
		if who == (workload{}) {
			optional = "?"
		}
		out = append(out, key.kind+"/"+key.name+optional)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestWhatAPodTemplateNeeds(t *testing.T) {
	t.Parallel()
	container := func(fields string) string { return "{containers: [{name: main, " + fields + "}]}" }
	volume := func(fields string) string {
		return "{containers: [{name: main}], volumes: [{name: v, " + fields + "}]}"
	}
	for _, tt := range []struct{ name, pod, want string }{
		{"nothing", container("env: [{name: A, value: b}]"), ""},
		{"a ServiceAccount", "{containers: [], serviceAccountName: web}", "ServiceAccount/web"},
		{"a ServiceAccount in the deprecated field", "{containers: [], serviceAccount: web}", "ServiceAccount/web"},
		{"the default ServiceAccount, which each namespace has", "{containers: [], serviceAccountName: default}", ""},
		{"image pull Secrets", "{containers: [], imagePullSecrets: [{name: a}, {name: b}, {}]}", "Secret/a Secret/b"},
		{"envFrom", container("envFrom: [{configMapRef: {name: a}}, {secretRef: {name: b}}]"), "ConfigMap/a Secret/b"},
		{"optional references", container("envFrom: [{configMapRef: {name: a, optional: true}}, {secretRef: {name: b, optional: true}}]"), "ConfigMap/a? Secret/b?"},
		{
			"single keys", container("env: [{name: A, valueFrom: {configMapKeyRef: {name: a, key: k}}}, {name: B, valueFrom: {secretKeyRef: {name: b, key: k, optional: true}}}]"),
			"ConfigMap/a Secret/b?",
		},
		{"init and ephemeral containers", "{containers: [], initContainers: [{envFrom: [{configMapRef: {name: a}}]}], ephemeralContainers: [{envFrom: [{configMapRef: {name: b}}]}]}", "ConfigMap/a ConfigMap/b"},
		{"required in one place and optional in another", container("envFrom: [{configMapRef: {name: a, optional: true}}, {configMapRef: {name: a}}, {configMapRef: {name: a, optional: true}}]"), "ConfigMap/a"},
		{"a ConfigMap as volume", volume("configMap: {name: a}"), "ConfigMap/a"},
		{"the root CA ConfigMap, which each namespace has", volume("configMap: {name: kube-root-ca.crt}"), ""},
		{"a Secret as volume", volume("secret: {secretName: a}"), "Secret/a"},
		{"an optional Secret as volume", volume("secret: {secretName: a, optional: true}"), "Secret/a?"},
		{"a PersistentVolumeClaim", volume("persistentVolumeClaim: {claimName: a}"), "PersistentVolumeClaim/a"},
		{
			"a projection", volume("projected: {sources: [{configMap: {name: a}}, {secret: {name: b, optional: true}}, {serviceAccountToken: {path: t}}, {downwardAPI: {items: []}}]}"),
			"ConfigMap/a Secret/b?",
		},
		{"a CSI driver", volume("csi: {driver: d, nodePublishSecretRef: {name: a}}"), "Secret/a"},
		{"Azure", volume("azureFile: {secretName: a, shareName: s}"), "Secret/a"},
		{"an in-tree driver", volume("iscsi: {secretRef: {name: a}}"), "Secret/a"},
		{"no reference", volume("emptyDir: {}, configMap: text, secret: [1]"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var n needs
			n.add(templated(t, tt.pod))
			require.Equal(t, tt.want, n.names())
		})
	}
}

func TestWhereAPodTemplateIs(t *testing.T) {
	t.Parallel()
	const pod = "metadata: {labels: {app: web}}, spec: {serviceAccountName: web, containers: [{name: main}]}"
	for _, tt := range []struct{ name, object, want string }{
		{"a Pod", "{apiVersion: v1, kind: Pod, " + pod + "}", "ServiceAccount/web"},
		{"a Deployment", "{apiVersion: apps/v1, kind: Deployment, spec: {template: {" + pod + "}}}", "ServiceAccount/web"},
		{"a StatefulSet", "{apiVersion: apps/v1, kind: StatefulSet, spec: {serviceName: db, template: {" + pod + "}}}", "Service/db ServiceAccount/web"},
		{"a workload of Kruise", "{apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet, spec: {serviceName: db, template: {" + pod + "}}}", "Service/db ServiceAccount/web"},
		{"a CronJob", "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {" + pod + "}}}}}", "ServiceAccount/web"},
		{"an AdvancedCronJob", "{apiVersion: apps.kruise.io/v1beta1, kind: AdvancedCronJob, spec: {template: {jobTemplate: {spec: {template: {" + pod + "}}}}}}", "ServiceAccount/web"},
		{"an AdvancedCronJob with a BroadcastJob", "{apiVersion: apps.kruise.io/v1beta1, kind: AdvancedCronJob, spec: {template: {broadcastJobTemplate: {spec: {template: {" + pod + "}}}}}}", "ServiceAccount/web"},
		{"a custom resource", "{apiVersion: example.com/v1, kind: Game, spec: {template: {" + pod + "}}}", "ServiceAccount/web"},
		{"a template that is not a pod template", "{apiVersion: example.com/v1, kind: Page, spec: {template: {spec: {serviceAccountName: web}}}}", ""},
		{"an autoscaler", "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {scaleTargetRef: {kind: Deployment, name: web}}}", ""},
		{"a kind called Pod", "{apiVersion: example.com/v1, kind: Pod, " + pod + "}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var n needs
			n.add(parsed(t, tt.object))
			require.Equal(t, tt.want, n.names())
			require.Equal(t, tt.want != "", len(n.labels) == 1 && n.labels[0]["app"] == "web")
		})
	}
}

func TestWhichBudgetsAreOfThePods(t *testing.T) {
	t.Parallel()
	kind, ok := dependencyKindOf(schema.GroupKind{Group: "policy.kruise.io", Kind: "PodUnavailableBudget"})
	require.True(t, ok)
	var n needs
	n.add(templated(t, "{containers: [{name: main}]}"))
	for _, tt := range []struct {
		spec string
		want bool
	}{
		{"{selector: {matchLabels: {app: web}}}", true},
		{"{selector: {matchExpressions: [{key: app, operator: Exists}]}}", true},
		{"{selector: {}}", true},
		{"{selector: {matchLabels: {app: db}}}", false},
		{"{selector: {matchExpressions: [{key: app, operator: Like}]}}", false},
		{"{selector: {matchLabels: 1}}", false},
		{"{}", false},
		{"{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}", true},
		{"{targetRef: {apiVersion: apps.kruise.io/v1beta1, kind: Deployment, name: web}}", false},
		{"{targetRef: {apiVersion: apps/v1, kind: Deployment, name: db}}", false},
	} {
		require.Equal(t, tt.want, n.uses(kind, "web", parsed(t, "{spec: "+tt.spec+"}")), tt.spec)
	}
	require.False(t, n.uses(kind, "web", nil), "a missing ConfigMap")
}

// served reads objects from a client, if the hub places their kinds.
type served struct {
	simObjects
	kinds []string
}

func (s served) readable(_ context.Context, kind schema.GroupVersionKind) (*problem, error) {
	if slices.Contains(s.kinds, kind.Kind) {
		return nil, nil
	}
	return &problem{Kind: kind.Kind, Reason: fleetv1alpha1.ReasonKindNotAllowed, Message: "this hub places none"}, nil
}

// worldNeeding returns a world with a Deployment instead of ConfigMaps, whose template has that pod spec.
func worldNeeding(t *testing.T, pod string) *world {
	t.Helper()
	w := newWorld(t, "east", "west")
	w.spec.Dependencies = fleetv1alpha1.DependenciesAuto
	w.objects = []object{workloadOf(templated(t, pod))}
	return w
}

func workloadOf(live *unstructured.Unstructured) object {
	ref := fleetv1alpha1.WorkObject{APIVersion: live.GetAPIVersion(), Kind: live.GetKind(), Name: live.GetName()}
	return object{WorkObject: ref, row: fleetv1alpha1.ObjectRowName(ref, shop), live: live}
}

func dependencyScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	return scheme
}

// clientWith returns a client with these objects, for a single test that doesn't change them.
func clientWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(dependencyScheme(t)).WithObjects(objects...).Build()
}

func TestWhatIsPlacedWithAWorkload(t *testing.T) {
	t.Parallel()
	const pod = "{serviceAccountName: web, imagePullSecrets: [{name: pull}], containers: [{name: main, envFrom: [{configMapRef: {name: a}}, " +
		"{configMapRef: {name: maybe, optional: true}}, {secretRef: {name: s}}, {secretRef: {name: t, optional: true}}]}]}"
	all := []string{"ConfigMap", "ServiceAccount", "PersistentVolumeClaim", "Service", "PodDisruptionBudget"}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "q"}}}
	budget := func(name, app string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		}
	}
	for _, tt := range []struct {
		name    string
		kinds   []string
		objects []client.Object
		change  func(w *world)
		want    string // what else is placed
		tells   string
		secrets string
	}{
		{
			name: "all exist", kinds: all, objects: []client.Object{account, configMap("a", "blue"), configMap("unrelated", "blue"), budget("web", "web"), budget("db", "db")},
			want: "ConfigMap/a ServiceAccount/web PodDisruptionBudget/web", secrets: "/Secret/pull:SecretNotPlaced /Secret/q:SecretNotPlaced /Secret/s:SecretNotPlaced",
		},
		{
			name: "an optional object that exists", kinds: all, objects: []client.Object{account, configMap("a", "blue"), configMap("maybe", "blue")},
			want: "ConfigMap/a ConfigMap/maybe ServiceAccount/web", secrets: "/Secret/pull:SecretNotPlaced /Secret/q:SecretNotPlaced /Secret/s:SecretNotPlaced",
		},
		{
			name: "a required object is missing", kinds: all, tells: "/ConfigMap/a:DependencyNotFound /ServiceAccount/web:DependencyNotFound",
			secrets: "/Secret/pull:SecretNotPlaced /Secret/s:SecretNotPlaced",
		},
		{
			name: "kinds that the hub does not place", kinds: []string{"ServiceAccount"}, objects: []client.Object{account, configMap("a", "blue")},
			want: "ServiceAccount/web", tells: "/ConfigMap/a:KindNotAllowed",
			secrets: "/Secret/pull:SecretNotPlaced /Secret/q:SecretNotPlaced /Secret/s:SecretNotPlaced",
		},
		{name: "nothing by default", kinds: all, objects: []client.Object{account, configMap("a", "blue")}, change: func(w *world) { w.spec.Dependencies = "" }},
		{
			name: "an object that is also selected is placed once", kinds: all, objects: []client.Object{configMap("a", "blue"), account},
			change: func(w *world) {
				a := objectOf(t, configMap("a", "blue"))
				w.objects = append(w.objects, a)
			},
			want: "ServiceAccount/web", secrets: "/Secret/pull:SecretNotPlaced /Secret/q:SecretNotPlaced /Secret/s:SecretNotPlaced",
		},
		{
			name: "an object that an override names in one cluster", kinds: all, objects: []client.Object{account, configMap("a", "blue"), configMap("b", "blue")},
			change: func(w *world) {
				require.NoError(t, yaml.Unmarshal([]byte(`[{clusters: [west], kind: Deployment, patches: [
{op: replace, path: /spec/template/spec/containers/0/envFrom/0/configMapRef/name, value: b}]}]`), &w.spec.Overrides))
			},
			want: "ConfigMap/a ConfigMap/b ServiceAccount/web", secrets: "/Secret/pull:SecretNotPlaced /Secret/q:SecretNotPlaced /Secret/s:SecretNotPlaced",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := worldNeeding(t, pod)
			if tt.change != nil {
				tt.change(w)
			}
			var objects []client.Object
			for _, o := range tt.objects {
				objects = append(objects, o.DeepCopyObject().(client.Object))
			}
			c := clientWith(t, objects...)
			require.NoError(t, w.observeDependencies(t.Context(), served{simObjects{Reader: c}, tt.kinds}, shop))
			var got []string
			for _, one := range w.objects {
				if one.dependency {
					got = append(got, one.Kind+"/"+one.Name)
				}
			}
			require.Equal(t, tt.want, strings.Join(got, " "))
			require.Equal(t, tt.secrets, formatProblems(w.deps.secrets))
			p := plan(w.observed, w.Now)
			require.Equal(t, tt.tells, formatProblems(p.problems))
			require.Len(t, p.Wants, 2*len(w.objects), "problems don't prevent other placements")
			s := status(w.observed, p, placement.Summarize(w.Fleet, p.Plan, placement.Result{}), w.Now)
			require.Equal(t, strings.TrimSpace(tt.tells+" "+tt.secrets), formatProblems(s.Problems))
		})
	}
}

// rollout gives the workload of a world its row in east in the desired state, with the status that the member reports. It also gives
// ConfigMap "a" a row that nothing needs.
func (w *world) rollout(change func(*fleetv1alpha1.MemberWork)) {
	w.objects = w.objects[:1]
	w.row("east", "a")
	r := w.Rows["east/"+rowName("a")].DeepCopy()
	r.Name, r.UID, r.Spec.Object = w.objects[0].row, "web", &w.objects[0].WorkObject
	r.Status.Counts = fleetv1alpha1.WorkCounts{Replicas: 3, Updated: 3}
	if change != nil {
		change(r)
	}
	w.Rows[row.Place(r)] = r
	w.lost[rowName("a")] = fate{unused: true}
	if w.current == nil {
		w.current = func(row.Want, *fleetv1alpha1.MemberWork) bool { return true }
	}
}

func TestADependencyStaysUntilThePodsOfTheOldTemplateAreGone(t *testing.T) {
	t.Parallel()
	const pod = "{containers: [{name: main}]}"
	const kept, gone = "+web@east +web@west", "+web@east +web@west -a@east(Delete)"
	status := func(change func(*fleetv1alpha1.MemberWorkStatus)) func(*world) {
		return func(w *world) { w.rollout(func(r *fleetv1alpha1.MemberWork) { change(&r.Status) }) }
	}
	for _, tt := range []struct {
		name   string
		change func(w *world)
		want   string
	}{
		{"All pods are new.", func(w *world) { w.rollout(nil) }, gone},
		{"The new template is not written yet.", func(w *world) {
			w.current = func(row.Want, *fleetv1alpha1.MemberWork) bool { return false }
			w.rollout(nil)
		}, kept},
		{"The member has not applied it.", status(func(s *fleetv1alpha1.MemberWorkStatus) { s.ObservedGeneration = 0 }), kept},
		{"It is rolled out.", status(func(s *fleetv1alpha1.MemberWorkStatus) { s.Phase = fleetv1alpha1.WorkProgressing }), kept},
		{"The new pods fail.", status(func(s *fleetv1alpha1.MemberWorkStatus) { s.Phase = fleetv1alpha1.WorkDegraded }), kept},
		{"It is healthy with a partition.", status(func(s *fleetv1alpha1.MemberWorkStatus) { s.Counts.Updated = 1 }), kept},
		{"It is suspended.", func(w *world) { w.rollout(func(r *fleetv1alpha1.MemberWork) { r.Spec.Suspend = true }) }, kept},
		{"The workload is withdrawn.", func(w *world) {
			w.rollout(nil)
			w.lost[w.objects[0].row], w.objects = fate{gone: true}, nil
		}, "-web@east(Delete) //:NoObject"},
		{"The workload is being deleted.", func(w *world) {
			w.rollout(func(r *fleetv1alpha1.MemberWork) {
				r.DeletionTimestamp, r.Spec.DeletionPolicy = new(metav1.Unix(1, 0)), fleetv1alpha1.LeaveDelete
			})
		}, "+web@west -web@east(Delete)"},
		{"There is no workload in that cluster.", func(w *world) {
			w.rollout(nil)
			delete(w.Rows, "east/"+w.objects[0].row)
		}, gone},
		{"A DaemonSet updates its pods when they are deleted.", func(w *world) {
			w.objects = []object{workloadOf(parsed(t, `{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: shop, name: web},
  spec: {updateStrategy: {type: OnDelete}, template: {spec: {containers: []}}}}`))}
			w.rollout(nil)
		}, kept},
		{"I13: a cluster that is missing keeps it.", func(w *world) {
			w.rollout(nil)
			delete(w.Clusters, "east")
		}, "+web@west"},
		{"The object stays with deletionPolicy Orphan.", func(w *world) {
			w.spec.DeletionPolicy = fleetv1alpha1.LeaveOrphan
			w.rollout(nil)
		}, "+web@east +web@west -a@east(Orphan)"},
		{"It was deleted with its namespace.", func(w *world) {
			w.rollout(nil)
			w.lost[rowName("a")], w.namespaceTerminating = fate{unused: true, gone: true}, true
		}, "+web@east +web@west -a@east(Orphan)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := worldNeeding(t, pod)
			tt.change(w)
			require.Equal(t, tt.want, outcome(plan(w.observed, w.Now)))
		})
	}
	w := worldNeeding(t, pod)
	w.rollout(func(r *fleetv1alpha1.MemberWork) { r.Status.Phase = fleetv1alpha1.WorkProgressing })
	delete(w.Clusters, "west")
	s := fleetStatus(w)
	require.Equal(t, []int32{1, 1}, []int32{s.Objects, s.Desired}, "objects that are only kept do not count as desired")
	require.Equal(t, int64(1), s.ObservedGeneration)
}

// fleetStatus returns the status if nothing had to be written.
func fleetStatus(w *world) fleetv1alpha1.PropagationStatus {
	p := plan(w.observed, w.Now)
	return status(w.observed, p, placement.Summarize(w.Fleet, p.Plan, placement.Result{Rows: w.Rows}), w.Now)
}

func TestADependencyThatAnotherPropagationPlacesIsLeftToIt(t *testing.T) {
	t.Parallel()
	newest := func() *world {
		w := worldNeeding(t, "{containers: [{name: main, envFrom: [{configMapRef: {name: a}}]}]}")
		a := objectOf(t, configMap("a", "blue"))
		a.dependency = true
		w.objects = append(w.objects, a)
		return w
	}
	w := newest()
	w.heldBy["east/"+rowName("a")] = "Propagation other"
	p := plan(w.observed, w.Now)
	require.Equal(t, "+web@east +web@west +a@west", outcome(p), "it is not a conflict")
	require.Len(t, p.places, 3)

	w = newest()
	w.heldBy["east/"+rowName("a")] = "a source of another kind (such as a WorkloadSpread)"
	require.Equal(t, "+web@east +web@west +a@west east/ConfigMap/a:Conflict", outcome(plan(w.observed, w.Now)))

	w = newest()
	w.olderSources = []olderSource{{name: "older", spec: &propagation("older", named("a")).Spec}}
	require.Equal(t, "+web@east +web@west", outcome(plan(w.observed, w.Now)), "the Propagation that selects it places it")

	w = newest()
	w.row("east", "a")
	w.olderSources = []olderSource{{name: "older", spec: &propagation("older", named("a")).Spec}}
	require.Equal(t, "+web@east +web@west +a@east", outcome(plan(w.observed, w.Now)), "the Propagation that has placed it keeps it")
}

func TestTheApiserverSaysWhetherADependencyIsUnused(t *testing.T) {
	t.Parallel()
	const without, with = "{containers: [{name: main}]}", "{containers: [{name: main, envFrom: [{configMapRef: {name: a}}]}]}"
	for _, tt := range []struct {
		name           string
		cached, stored string // templates
		config         bool   // the apiserver has it
		unread         bool
		change         func(w *world)
		want           fate
	}{
		{name: "It is unused.", cached: without, stored: without, config: true, want: fate{unused: true}},
		{name: "It is unused and gone.", cached: without, stored: without, want: fate{unused: true, gone: true}},
		{name: "It is needed and gone.", cached: with, stored: with, want: fate{gone: true}},
		{name: "It is needed, and the cache is behind.", cached: with, stored: with, config: true, want: fate{behind: true}},
		{name: "It is needed by a template that the cache does not have.", cached: without, stored: with, config: true, want: fate{behind: true}},
		{
			name: "Templates are not read while pods change.", cached: without, stored: with, config: true, want: fate{unused: true},
			change: func(w *world) { w.Rows["east/"+w.objects[0].row].Status.Phase = fleetv1alpha1.WorkProgressing },
		},
		{
			name: "Its kind can't be read.", cached: with, stored: with, config: true,
			change: func(w *world) {
				w.deps.unreadable = map[schema.GroupKind]problem{configMaps: {Kind: "ConfigMap", Reason: fleetv1alpha1.ReasonForbidden}}
			},
			want: fate{wait: problem{Kind: "ConfigMap", Reason: fleetv1alpha1.ReasonForbidden}},
		},
		{
			name: "Dependencies are off.", cached: with, stored: with, config: true, want: fate{},
			change: func(w *world) { w.spec.Dependencies = fleetv1alpha1.DependenciesOff },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := worldNeeding(t, tt.cached)
			w.spec.Selectors = []fleetv1alpha1.PropagationSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}
			w.rollout(nil)
			w.lost = map[string]fate{}
			w.deps.add(w.objects[0].live)
			if tt.change != nil {
				tt.change(w)
			}
			objects := []client.Object{templated(t, tt.stored)}
			if tt.config {
				objects = append(objects, configMap("a", "blue"))
			}
			require.NoError(t, w.observeLost(t.Context(), placement.Client{Live: clientWith(t, objects...)}, false))
			require.Equal(t, tt.want, w.lost[rowName("a")])
		})
	}
}

// Kinds of others have no count of updated pods, so they are rolled out as soon as they are healthy.
func TestOnlyWorkloadsOfKnownGroupsHaveToUpdateTheirPods(t *testing.T) {
	t.Parallel()
	for apiVersion, want := range map[string]bool{"apps/v1": false, "example.com/v1": true} {
		r := &fleetv1alpha1.MemberWork{}
		r.Spec.Object = &fleetv1alpha1.WorkObject{APIVersion: apiVersion, Kind: "Deployment", Name: "web"}
		r.Status = fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkHealthy, Counts: fleetv1alpha1.WorkCounts{Replicas: 2}}
		require.Equal(t, want, finished(r), apiVersion)
	}
}
