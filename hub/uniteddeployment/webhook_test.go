package uniteddeployment

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// newWebhook returns a webhook that knows the clusters east (ready), west (ready, but not in the cache yet), north (not ready) and south (not
// accepted). A request about the cluster down fails.
func newWebhook(t *testing.T) *Webhook {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	member := func(name string, accepted bool, ready metav1.ConditionStatus) client.Object {
		return &fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       fleetv1alpha1.MemberClusterSpec{Accepted: accepted},
			Status:     fleetv1alpha1.MemberClusterStatus{Conditions: []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: ready}}},
		}
	}
	cached := []client.Object{
		member("east", true, metav1.ConditionTrue), member("north", true, metav1.ConditionUnknown), member("south", false, metav1.ConditionTrue),
	}
	live := append([]client.Object{member("west", true, metav1.ConditionTrue)}, cached...)
	reader := func(known []client.Object) client.Client {
		return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(known...).Build(), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if key.Name == "down" {
					return errors.New("connection refused")
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
	}
	dry := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			if review, ok := o.(*authorizationv1.SubjectAccessReview); ok {
				return decide(review)
			}
			return nil
		},
	})
	return &Webhook{
		Webhook:  united.Webhook{Client: dry, Options: united.Options{AllowClusters: true}},
		Clusters: placement.ClusterRules{Client: dry, Cache: reader(cached), Live: reader(live)},
	}
}

// decide allows the user admin to use any cluster, and tenant to use only east, and only for the namespace shop.
func decide(review *authorizationv1.SubjectAccessReview) error {
	what := review.Spec.ResourceAttributes
	if what.Group != "fleet.kruise.io" || what.Resource != "memberclusters" || what.Verb != "use" {
		return fmt.Errorf("asked for %v", what)
	}
	switch review.Spec.User {
	case "admin":
		review.Status.Allowed = true
	case "tenant":
		review.Status.Allowed = what.Name == "east" && what.Namespace == "shop"
	default:
		return errors.New("the authorizer is down")
	}
	return nil
}

// asUser returns the context of a request by that user.
func asUser(t *testing.T, user string) context.Context {
	t.Helper()
	return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UserInfo: authenticationv1.UserInfo{Username: user},
	}})
}

// over returns an object with one subset for each cluster. An empty name stands for a subset without a cluster.
func over(clusters ...string) *appsv1beta1.UnitedDeployment {
	labels := map[string]string{"app": "web"}
	ud := &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: ptr.To[int32](3),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: appsv1beta1.CloneSetSpec{Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
				}},
			}},
		},
	}
	for i, cluster := range clusters {
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, appsv1beta1.Subset{Name: string(rune('a' + i)), Cluster: cluster})
	}
	return ud
}

func TestWebhookValidatesClusters(t *testing.T) {
	t.Parallel()
	selected := over("")
	selected.Spec.Topology.Subsets[0].ClusterSelector = &metav1.LabelSelector{}
	broken := over("nowhere")
	broken.Spec.Replicas = ptr.To[int32](-1)
	tests := []struct {
		name    string
		old, ud *appsv1beta1.UnitedDeployment // old is nil on creation
		local   bool
		refused []string // parts of the refusal
		warning string
	}{
		{name: "a cluster that is ready is accepted", ud: over("east")},
		{name: "a cluster that the cache lacks is looked up", ud: over("east", "west")},
		{name: "selected clusters are not named", ud: selected},
		{
			name: "a cluster that does not exist causes a warning", ud: over("east", "nowhere"),
			warning: "spec.topology.subsets[1].cluster: there is no member cluster nowhere: the subset gets its replicas once a MemberCluster of that name has joined; create it, or name another one",
		},
		{
			name: "a cluster that does not exist and is named by an update causes a warning", old: over("east"), ud: over("east", "nowhere"),
			warning: "there is no member cluster nowhere",
		},
		{name: "the rules are checked first", ud: broken, refused: []string{"spec.replicas"}},
		{name: "a cluster that has left does not block a change", old: over("gone"), ud: over("gone", "east")},
		{name: "a cluster that has left does not block a change of a label", old: over("gone"), ud: over("gone")},
		{
			name: "clusters that get no replicas at the moment cause a warning", ud: over("east", "south", "north"),
			warning: "not accepted or not ready: north, south",
		},
		{name: "only clusters that an update adds cause a warning", old: over("north"), ud: over("north", "east")},
		{name: "without clusters nothing runs the object", ud: over(""), warning: "nothing runs this object: give each subset cluster or clusterSelector"},
		{name: "removing all clusters causes the same warning", old: over("east"), ud: over(""), warning: "no subset names a cluster"},
		{name: "an object without clusters is run by the member stack in the hub's cluster", ud: over(""), local: true},
		{
			name: "an object that the member stack in the hub's cluster runs can't be moved to clusters", old: over(""), ud: over("east"), local: true,
			refused: []string{"spec.topology.subsets", "this cluster itself runs the object", "under another name"},
		},
		{
			name: "an object that clusters run can't be moved to the member stack in the hub's cluster", old: over("east"), ud: over(""), local: true,
			refused: []string{"spec.topology.subsets", "member clusters run the object", "under another name"},
		},
		{name: "without a member stack in the hub's cluster, clusters can be named later", old: over(""), ud: over("east")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWebhook(t)
			w.LocalMember = tt.local
			warnings, err := w.ValidateCreate(asUser(t, "admin"), tt.ud)
			if tt.old != nil {
				warnings, err = w.ValidateUpdate(asUser(t, "admin"), tt.old, tt.ud)
			}
			if len(tt.refused) > 0 {
				require.True(t, apierrors.IsInvalid(err), "%v", err)
				for _, part := range tt.refused {
					require.ErrorContains(t, err, part)
				}
				return
			}
			require.NoError(t, err)
			if tt.warning == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], tt.warning)
		})
	}
}

func TestWarningsOfTheTemplateAndOfClusters(t *testing.T) {
	t.Parallel()
	w := newWebhook(t)
	w.Options.StatefulSetWarnings = func(s *appsv1beta1.StatefulSetSpec, _ *field.Path) admission.Warnings {
		return admission.Warnings{"service " + s.ServiceName}
	}
	stateful := func(service string, clusters ...string) *appsv1beta1.UnitedDeployment {
		ud := over(clusters...)
		c := ud.Spec.Template.CloneSetTemplate
		ud.Spec.Template = appsv1beta1.SubsetTemplate{AdvancedStatefulSetTemplate: &appsv1beta1.AdvancedStatefulSetTemplateSpec{
			ObjectMeta: c.ObjectMeta, Spec: appsv1beta1.StatefulSetSpec{Template: c.Spec.Template, ServiceName: service},
		}}
		return ud
	}
	const wait = "subsets wait for member clusters that are not accepted or not ready: north"
	got, err := w.ValidateCreate(asUser(t, "admin"), stateful("db", "north"))
	require.NoError(t, err)
	require.Equal(t, admission.Warnings{"service db", wait}, got)
	got, err = w.ValidateUpdate(asUser(t, "admin"), stateful("db", "east"), stateful("db", "east", "north"))
	require.NoError(t, err)
	require.Equal(t, admission.Warnings{wait}, got, "the template's warning is not repeated")
}

func TestWebhookReturnsErrorsOfReads(t *testing.T) {
	t.Parallel()
	_, err := newWebhook(t).ValidateCreate(asUser(t, "admin"), over("down"))
	require.ErrorContains(t, err, "get member cluster down: connection refused")
	require.False(t, apierrors.IsInvalid(err), "a failed read is not a rejection")
}

func TestAttack03TenantUsesOnlyClustersThatItMayUse(t *testing.T) {
	t.Parallel()
	selecting := func(label string) *appsv1beta1.UnitedDeployment {
		ud := over("")
		ud.Spec.Topology.Subsets[0].ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": label}}
		return ud
	}
	elsewhere := over("east")
	elsewhere.Namespace = "other"
	scaled := over("west")
	scaled.Spec.Replicas = ptr.To[int32](9)
	for _, tt := range []struct {
		name    string
		user    string
		old, ud *appsv1beta1.UnitedDeployment // old is nil on creation
		refused []string
	}{
		{name: "a cluster that the user may use", user: "tenant", ud: over("east")},
		{
			name: "a cluster that the user may not use", user: "tenant", ud: over("east", "west"),
			refused: []string{"spec.topology.subsets[1].cluster", `user "tenant" may not use member cluster west`, `"use"`, "namespace shop"},
		},
		{name: "permission in another namespace", user: "tenant", ud: elsewhere, refused: []string{"may not use member cluster east"}},
		{name: "a cluster that does not exist is refused with the same message", user: "tenant", ud: over("nowhere"), refused: []string{"may not use member cluster nowhere"}},
		{
			name: "a selector requires permission for all clusters", user: "tenant", ud: selecting("web"),
			refused: []string{"spec.topology.subsets[0].clusterSelector", "all member clusters"},
		},
		{name: "a user with permission for all clusters may use a selector", user: "admin", ud: selecting("web")},
		{name: "a cluster that an update adds", user: "tenant", old: over("east"), ud: over("east", "west"), refused: []string{"member cluster west"}},
		{name: "a selector that an update changes", user: "tenant", old: selecting("web"), ud: selecting("db"), refused: []string{"all member clusters"}},
		{name: "a cluster that was already named does not block a scale", user: "tenant", old: over("west"), ud: scaled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWebhook(t)
			_, err := w.ValidateCreate(asUser(t, tt.user), tt.ud)
			if tt.old != nil {
				_, err = w.ValidateUpdate(asUser(t, tt.user), tt.old, tt.ud)
			}
			if len(tt.refused) == 0 {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.NotContains(t, err.Error(), "there is no member cluster")
			for _, part := range tt.refused {
				require.ErrorContains(t, err, part)
			}
		})
	}
	_, err := newWebhook(t).ValidateCreate(asUser(t, "stranger"), over("east"))
	require.ErrorContains(t, err, "the authorizer is down", "a review that fails admits nothing")
}

func TestPermissionToUseAllClustersIsReviewedOnce(t *testing.T) {
	t.Parallel()
	selecting := over("east", "west", "")
	selecting.Spec.Topology.Subsets[2].ClusterSelector = &metav1.LabelSelector{}
	for _, tt := range []struct {
		name    string
		user    string
		old, ud *appsv1beta1.UnitedDeployment // old is nil on creation
		want    []string                      // the clusters asked for; "" means all
	}{
		{name: "all clusters", user: "admin", ud: over("east", "west", "north"), want: []string{""}},
		{name: "all clusters, for a selector too", user: "admin", ud: selecting, want: []string{""}},
		{name: "clusters one by one, if not all are allowed", user: "tenant", ud: over("east", "west", "east"), want: []string{"", "east", "west"}},
		{name: "clusters one by one, besides a selector", user: "tenant", ud: selecting, want: []string{"", "east", "west"}},
		{name: "only what an update adds", user: "tenant", old: over("west"), ud: over("west", "east"), want: []string{"", "east"}},
		{name: "nothing for an update that adds none", user: "tenant", old: over("east", "west"), ud: over("west")},
		{name: "nothing for an object that names no cluster", user: "tenant", ud: over("")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWebhook(t)
			var asked []string
			w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if review, ok := o.(*authorizationv1.SubjectAccessReview); ok {
						asked = append(asked, review.Spec.ResourceAttributes.Name)
					}
					return c.Create(ctx, o, opts...)
				},
			})
			w.Clusters.Client = w.Client
			if tt.old == nil {
				_, _ = w.ValidateCreate(asUser(t, tt.user), tt.ud)
			} else {
				_, _ = w.ValidateUpdate(asUser(t, tt.user), tt.old, tt.ud)
			}
			require.Equal(t, tt.want, asked)
		})
	}
}

func TestAWaveWithoutClustersIsAWarning(t *testing.T) {
	t.Parallel()
	w := newWebhook(t)
	ud := over("east", "north")
	ud.Spec.Topology.Subsets[0].Name = "a"
	ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{Type: appsv1beta1.WavesUpdateStrategyType, Rollout: &pods.RolloutPlan{
		Waves: []pods.RolloutWave{
			{Name: "first", Subsets: []string{"a"}},
			{Name: "again", Clusters: []string{"east"}},
			{Name: "elsewhere", Clusters: []string{"south"}},
			{Name: "second", ClusterSelector: &metav1.LabelSelector{}},
		},
	}}
	warnings, err := w.warnOfWaves(t.Context(), ud)
	require.NoError(t, err)
	require.Len(t, warnings, 2)
	require.Contains(t, warnings[0], "spec.updateStrategy.rollout.waves[1]: no member cluster belongs to wave again now")
	require.Contains(t, warnings[1], "spec.updateStrategy.rollout.waves[2]: no member cluster belongs to wave elsewhere now")
}
