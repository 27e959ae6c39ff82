package workloadspread

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

// webhook returns the webhook of a hub whose only cluster is east, for a user who may or may not use clusters.
func webhook(t *testing.T, may bool) *Webhook {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	require.NoError(t, authorizationv1.AddToScheme(scheme))
	east := newWorld(1).cluster("east").o.slices.Clusters["east"]
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(east).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			o.(*authorizationv1.SubjectAccessReview).Status.Allowed = may
			return nil
		},
	}).Build()
	return &Webhook{Clusters: placement.ClusterRules{Client: c, Cache: c, Live: c}}
}

func requested(t *testing.T) context.Context {
	t.Helper()
	return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "shop"}})
}

func TestWhatTheHubRefuses(t *testing.T) {
	t.Parallel()
	target := func(apiVersion, kind string) func(ws *appsv1beta1.WorkloadSpread) {
		return func(ws *appsv1beta1.WorkloadSpread) {
			ws.Spec.TargetRef.APIVersion, ws.Spec.TargetRef.Kind = apiVersion, kind
		}
	}
	for _, tt := range []struct {
		name   string
		change func(ws *appsv1beta1.WorkloadSpread)
		want   string
	}{
		{"a StatefulSet", target("apps/v1", "StatefulSet"), "spec.targetRef.kind: Invalid value: \"StatefulSet\": nothing keeps this cluster from running"},
		{"a StatefulSet of apps.kruise.io", target("apps.kruise.io/v1beta1", "StatefulSet"), "use a UnitedDeployment"},
		{"a Job", target("batch/v1", "Job"), "completions of a Job can't be divided"},
		{"a ReplicaSet", target("apps/v1", "ReplicaSet"), "use a Deployment or a CloneSet"},
		{"another kind", target("example.com/v1", "Game"), "the hub can't divide objects of this kind"},
		{"a filter", func(ws *appsv1beta1.WorkloadSpread) { ws.Spec.TargetFilter = &appsv1beta1.WorkloadSpreadTargetFilter{} }, "spec.targetFilter: Forbidden"},
		{"pods in no subset", func(ws *appsv1beta1.WorkloadSpread) { ws.Spec.OverflowPolicy = appsv1beta1.OverflowCreate }, "spec.overflowPolicy: Unsupported value"},
		{"an invalid name", func(ws *appsv1beta1.WorkloadSpread) { ws.Spec.Subsets[0].Name = "Zone_A" }, "spec.subsets[0].name: Invalid value"},
		{"too many subsets of a cluster", func(ws *appsv1beta1.WorkloadSpread) {
			for len(ws.Spec.Subsets) <= fleetv1alpha1.SubsetsPerRow {
				ws.Spec.Subsets = append(ws.Spec.Subsets, subsetIn("x", "east", ""))
			}
		}, "at most 20 subsets may name the same cluster"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ws := newWorld(1, subsetIn("a", "east", "")).o.ws
			tt.change(ws)
			_, err := webhook(t, true).ValidateCreate(requested(t), ws)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestI34AUserNeedsTheRightToUseAllItsClusters(t *testing.T) {
	t.Parallel()
	ws := newWorld(1, subsetIn("a", "east", "")).o.ws
	_, err := webhook(t, false).ValidateCreate(requested(t), ws)
	require.ErrorContains(t, err, `it needs the verb "use" on memberclusters.fleet.kruise.io`)
	_, err = webhook(t, true).ValidateCreate(requested(t), ws)
	require.NoError(t, err)
}

func TestAClusterThatIsNotThereYetIsAWarning(t *testing.T) {
	t.Parallel()
	warnings, err := webhook(t, true).ValidateCreate(requested(t), newWorld(1, subsetIn("a", "south", "")).o.ws)
	require.NoError(t, err)
	require.Equal(t, admission.Warnings{"spec.subsets[0].cluster: there is no member cluster south: the subset gets its replicas once a MemberCluster of that name has joined; create it, or name another one"}, warnings)
}

func TestAnObjectCannotSwitchBetweenClustersAndNone(t *testing.T) {
	t.Parallel()
	here, there := newWorld(1, subsetIn("a", "", "")).o.ws, newWorld(1, subsetIn("a", "east", "")).o.ws
	for _, pair := range [][2]*appsv1beta1.WorkloadSpread{{here, there}, {there, here}} {
		_, err := webhook(t, true).ValidateUpdate(requested(t), pair[0], pair[1])
		require.ErrorContains(t, err, "spec.subsets: Forbidden")
	}
}

func TestADeploymentThatIsATemplateIsPaused(t *testing.T) {
	t.Parallel()
	deployment := func(label, wish string, paused bool) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Paused: paused}}
		if label != "" {
			d.Labels = map[string]string{keys.FleetTemplate: label}
		}
		if wish != "" {
			d.Annotations = map[string]string{keys.FleetPaused: wish}
		}
		return d
	}
	for _, tt := range []struct {
		name     string
		old, new *appsv1.Deployment
		// refused is the reason. If it is empty, the result is as given.
		refused string
		paused  bool
		wish    string
	}{
		{"a new template", nil, deployment("true", "", false), "", true, ""},
		{"a template created paused keeps that in the annotation", nil, deployment("true", "", true), "", true, "true"},
		{"an update without paused", deployment("true", "", true), deployment("true", "", false), "", true, ""},
		{"an update keeps the annotation", deployment("true", "true", true), deployment("true", "true", false), "", true, "true"},
		{"a label with another value", nil, deployment("yes", "", false), "Unsupported value", false, ""},
		{"an annotation with another value", nil, deployment("true", "maybe", false), "Unsupported value", false, ""},
		{"a Deployment with label false in a namespace for templates", nil, deployment("false", "", false), "", false, ""},
		{"a label that becomes false", deployment("true", "", true), deployment("false", "", true), "keep the label", false, ""},
		{"a label that was false", deployment("false", "", false), deployment("", "", false), "", false, ""},
		{"a label that was false and is added", deployment("false", "", false), deployment("true", "", false), "create it with the label", false, ""},
		{"a label that is added", deployment("", "", false), deployment("true", "", false), "create it with the label", false, ""},
		{"a label that is removed", deployment("true", "", true), deployment("", "", true), "keep the label", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			raw := func(d *appsv1.Deployment) runtime.RawExtension {
				if d == nil {
					return runtime.RawExtension{}
				}
				data, err := json.Marshal(d)
				require.NoError(t, err)
				return runtime.RawExtension{Raw: data}
			}
			req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: raw(tt.new), OldObject: raw(tt.old)}}
			response := deploymentWebhook{}.Handle(t.Context(), req)
			if tt.refused != "" {
				require.False(t, response.Allowed)
				require.Contains(t, response.Result.Message, tt.refused)
				return
			}
			require.True(t, response.Allowed)
			patch, err := json.Marshal(response.Patches)
			require.NoError(t, err)
			changes, err := jsonpatch.DecodePatch(patch)
			require.NoError(t, err)
			data, err := changes.Apply(req.Object.Raw)
			require.NoError(t, err)
			stored := &appsv1.Deployment{}
			require.NoError(t, json.Unmarshal(data, stored))
			require.Equal(t, tt.paused, stored.Spec.Paused)
			require.Equal(t, tt.wish, stored.Annotations[keys.FleetPaused])
			copied, err := deployments().manifest(stored)
			require.NoError(t, err)
			require.Contains(t, string(copied), `"paused":`+map[bool]string{true: "true", false: "false"}[tt.wish == "true"])
			require.NotContains(t, string(copied), keys.FleetTemplate)
		})
	}
}

func TestExamples(t *testing.T) {
	t.Parallel()
	webhooktest.Examples(t, "../../e2e/examples", "spread-over-clusters", nil, func(t *testing.T, text []byte) ([]string, error) {
		t.Helper()
		ws := webhooktest.Read(t, text, appsv1alpha1.WorkloadSpreadToHub)
		warnings, err := webhook(t, true).ValidateCreate(requested(t), ws)
		return slices.DeleteFunc(warnings, func(w string) bool { return strings.Contains(w, "west") }), err // Only east exists.
	})
}
