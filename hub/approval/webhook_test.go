package approval

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// web returns a UnitedDeployment with waves canary and eu that is rolled out to web-2. The second one has a gate of type Approval.
func web() *appsv1beta1.UnitedDeployment {
	return &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web-uid"},
		Spec: appsv1beta1.UnitedDeploymentSpec{UpdateStrategy: appsv1beta1.UnitedDeploymentUpdateStrategy{
			Type: appsv1beta1.WavesUpdateStrategyType,
			Rollout: &pods.RolloutPlan{Waves: []pods.RolloutWave{
				{Name: "canary", Clusters: []string{"east"}, Gates: []pods.RolloutGate{{Type: pods.SoakGate, Seconds: new(int32(60))}}},
				{Name: "eu", Subsets: []string{"eu"}, Gates: []pods.RolloutGate{
					{Type: pods.SoakGate, Seconds: new(int32(60))}, {Type: pods.ApprovalGate},
				}},
			}},
		}},
		Status: appsv1beta1.UnitedDeploymentStatus{Rollout: &pods.RolloutStatus{Revision: "web-2", Wave: "canary"}},
	}
}

// newWebhook returns the webhook of a hub with these objects. Reads fail while down is true.
func newWebhook(t *testing.T, down bool, objects ...client.Object) *Webhook {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	return &Webhook{Live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if down {
				return errors.New("no answer")
			}
			return c.Get(ctx, key, o, options...)
		},
	}).Build()}
}

// by returns the context of a request of a user. old is the object before an update; nil if it is created.
func by(t *testing.T, user string, old *fleetv1alpha1.RolloutApproval) context.Context {
	t.Helper()
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: "shop", Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: user},
	}}
	if old != nil {
		raw, err := json.Marshal(old)
		require.NoError(t, err)
		req.Operation, req.OldObject.Raw = admissionv1.Update, raw
	}
	return admission.NewContextWithRequest(t.Context(), req)
}

// sent returns what alice sends to approve wave eu.
func sent() *fleetv1alpha1.RolloutApproval {
	a := given()
	a.Namespace, a.Spec.User, a.Spec.Target.UID = "", "", "" // Clients may leave the namespace to the path of the request.
	return &a
}

func TestAttack37AnApprovalIsOfTheUserWhoCreatesItAndOfTheObjectThatExists(t *testing.T) {
	t.Parallel()
	w := newWebhook(t, false, web())
	forged := sent()
	forged.Spec.User, forged.Spec.Target.UID = "bob", "another"
	forged.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "keeps-it", UID: "c", Controller: new(true)}}
	for _, a := range []*fleetv1alpha1.RolloutApproval{sent(), forged} {
		require.NoError(t, w.Default(by(t, "alice", nil), a))
		require.Equal(t, given().Spec, a.Spec)
		require.Equal(t, []metav1.OwnerReference{{
			APIVersion: "apps.kruise.io/v1beta1", Kind: "UnitedDeployment", Name: "web", UID: "web-uid", Controller: new(true),
		}}, a.OwnerReferences)
		_, err := w.ValidateCreate(by(t, "alice", nil), a)
		require.NoError(t, err)
	}
	// Another webhook, or none, may have written these before the validation.
	stamped := given()
	_, err := w.ValidateCreate(by(t, "mallory", nil), &stamped)
	require.ErrorContains(t, err, `spec.user: Invalid value: "alice": the request is made by "mallory": leave user out, and the hub fills it in`)
	_, err = w.ValidateCreate(by(t, "", nil), &stamped)
	require.ErrorContains(t, err, `spec.user: Invalid value: "alice"`)
	stamped.Spec.Target.UID = "earlier-uid"
	_, err = w.ValidateCreate(by(t, "alice", nil), &stamped)
	require.ErrorContains(t, err, `spec.target.uid: Invalid value: "earlier-uid": the UID of UnitedDeployment web is web-uid: leave uid out`)
}

func TestAnUpdateKeepsWhatWasStamped(t *testing.T) {
	t.Parallel()
	w, old, applied := newWebhook(t, true), given(), sent() // The target may be gone.
	require.NoError(t, w.Default(by(t, "bob", &old), applied))
	require.Equal(t, old.Spec, applied.Spec, "the same manifest may be applied again, by another user too")
	applied.Spec.User, applied.Spec.Target.UID = "bob", "another"
	require.NoError(t, w.Default(by(t, "bob", &old), applied))
	require.Equal(t, old.Spec, applied.Spec)
	_, err := w.ValidateUpdate(by(t, "bob", &old), &old, applied)
	require.NoError(t, err)
	_, err = w.ValidateDelete(by(t, "bob", &old), &old)
	require.NoError(t, err)
}

func TestWhatMayBeApproved(t *testing.T) {
	t.Parallel()
	type approval = fleetv1alpha1.RolloutApproval
	type object = appsv1beta1.UnitedDeployment
	plan := func(change func(*pods.RolloutPlan)) func(*object) {
		return func(ud *object) { change(ud.Spec.UpdateStrategy.Rollout) }
	}
	ungated := plan(func(p *pods.RolloutPlan) { p.Waves[1].Gates = nil })
	gatedForAll := plan(func(p *pods.RolloutPlan) { p.Gates = []pods.RolloutGate{{Type: pods.ApprovalGate}} })
	wave := func(name string) func(*approval) { return func(a *approval) { a.Spec.Wave = name } }
	for _, tt := range []struct {
		name   string
		target func(*object)
		change func(*approval)
		want   string
	}{
		{name: "a wave that has not begun"},
		{name: "a wave that has only the gates of all waves", target: gatedForAll, change: wave("canary")},
		{
			name: "an object that doesn't exist", change: func(a *approval) { a.Spec.Target.Name = "api" },
			want: `spec.target.name: Invalid value: "api": there is no such UnitedDeployment in namespace shop: create the approval in the namespace of its target, on the hub`,
		},
		{
			name: "an object that is being deleted", target: func(ud *object) {
				ud.DeletionTimestamp, ud.Finalizers = new(metav1.Now()), []string{"fleet.kruise.io/rows"}
			},
			want: `spec.target.name: Invalid value: "web": it is being deleted`,
		},
		{
			name: "another type", target: func(ud *object) { ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{} },
			want: `spec.target.name: Invalid value: "web": its updateStrategy.type is Manual, which has no gates: only a rollout of type Waves waits for approvals`,
		},
		{
			name: "no plan", target: func(ud *object) { ud.Spec.UpdateStrategy.Rollout = nil },
			want: `spec.target.name: Invalid value: "web": it has no waves, so its rollout doesn't wait for approvals: add them to updateStrategy.rollout.waves`,
		},
		{
			name: "a plan without waves", target: plan(func(p *pods.RolloutPlan) { p.Waves = nil }),
			want: `spec.target.name: Invalid value: "web": it has no waves`,
		},
		{
			name: "a wave that the plan doesn't have", change: wave("us"),
			want: `spec.wave: Invalid value: "us": UnitedDeployment web has no such wave: name one of canary, eu`,
		},
		{
			name: "a wave without a gate of type Approval", change: wave("canary"),
			want: `spec.wave: Invalid value: "canary": this wave of UnitedDeployment web has no gate of type Approval: add one to its gates, or name one of eu`,
		},
		{
			name: "a plan without such a gate", target: ungated,
			want: `spec.wave: Invalid value: "eu": no wave of UnitedDeployment web has a gate of type Approval: add one to its gates, or to rollout.gates for all waves`,
		},
		{
			name: "a revision that is not rolled out", change: func(a *approval) { a.Spec.Revision = "web-1" },
			want: `spec.revision: Invalid value: "web-1": UnitedDeployment web is rolled out to revision web-2: name that one, which is in its status.rollout.revision`,
		},
		{
			name: "no rollout", target: func(ud *object) { ud.Status.Rollout = nil },
			want: `spec.revision: Invalid value: "web-2": no rollout of UnitedDeployment web with waves is in progress: wait until its status.rollout.revision names this revision`,
		},
		{
			name: "a rollout that had no waves yet", target: func(ud *object) { ud.Status.Rollout.Revision = "" },
			want: `spec.revision: Invalid value: "web-2": no rollout of UnitedDeployment web with waves is in progress`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ud, a := web(), sent()
			if tt.target != nil {
				tt.target(ud)
			}
			if tt.change != nil {
				tt.change(a)
			}
			w, ctx := newWebhook(t, false, ud), by(t, "alice", nil)
			require.NoError(t, w.Default(ctx, a), "the validation says what is wrong")
			_, err := w.ValidateCreate(ctx, a)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestWithoutAnAnswerNothingIsApproved(t *testing.T) {
	t.Parallel()
	w, a := newWebhook(t, true, web()), sent()
	require.ErrorContains(t, w.Default(by(t, "alice", nil), a), "get UnitedDeployment shop/web: no answer")
	_, err := w.ValidateCreate(by(t, "alice", nil), a)
	require.ErrorContains(t, err, "get UnitedDeployment shop/web: no answer")
	require.ErrorContains(t, w.Default(t.Context(), a), "read the request's user")
	_, err = w.ValidateCreate(t.Context(), a)
	require.ErrorContains(t, err, "read the request's user")
}
