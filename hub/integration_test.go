//go:build integration

package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

func TestMain(m *testing.M) {
	testenv.MainWithoutLeaks(m,
		// It has an event for a metadata watch that has ended, and client-go doesn't stop it.
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))
}

// unserved is a webhook server without a listener.
type unserved struct{ webhook.Server }

func (unserved) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// A replica that is being stopped answers for some more seconds. By then its caches have been stopped, and a cache that is started only by a
// request never syncs.
func TestIntegrationReplicaThatStopsAnswersItsFirstRequest(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	require.NoError(t, err)
	s := testenv.Start(t, testenv.Config{Scheme: func(to *runtime.Scheme) error { return Kinds().AddToScheme(to) }})
	namespace := s.Namespace(t)
	cluster := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	require.NoError(t, s.Create(t.Context(), cluster))
	t.Cleanup(func() { require.NoError(t, s.Delete(context.WithoutCancel(t.Context()), cluster)) })
	now := metav1.NowMicro()
	require.NoError(t, s.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "leader"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("another"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: new(int32(0)),
		},
	}))
	gates, err := feature.New(Kinds().Gates()...)
	require.NoError(t, err)
	hooks := unserved{webhook.NewServer(webhook.Options{})}
	mgr, err := ctrl.NewManager(s.REST(), Restrict(ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, WebhookServer: hooks,
		Controller:     config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
		LeaderElection: true, LeaderElectionNamespace: namespace, LeaderElectionID: "leader",
	}))
	require.NoError(t, err)
	require.NoError(t, Setup(t.Context(), mgr, Options{
		Namespace: namespace, Gates: gates, Identity: "hub-0", Version: "v0.3.0", Clock: clock.RealClock{},
		RunAgent: func(context.Context, link.Link) error { return nil },
	}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	require.True(t, mgr.GetCache().WaitForCacheSync(t.Context()))
	stop()
	require.NoError(t, <-ended)

	labels := map[string]string{"app": "web"}
	ud := &appsv1beta1.UnitedDeployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1beta1.GroupVersion.String(), Kind: "UnitedDeployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "a", Cluster: cluster.Name}}},
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: appsv1beta1.CloneSetSpec{Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
				}},
			}},
		},
	}
	raw, err := json.Marshal(ud)
	require.NoError(t, err)
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "review", Operation: admissionv1.Create, Namespace: namespace, Name: ud.Name, Object: runtime.RawExtension{Raw: raw},
			UserInfo: authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:masters"}},
		},
	})
	require.NoError(t, err)
	patience, end := context.WithTimeout(t.Context(), 10*time.Second) // as long as the apiserver waits
	defer end()
	gvk := appsv1beta1.GroupVersion.WithKind("UnitedDeployment")
	request := httptest.NewRequestWithContext(patience, http.MethodPost, admit.ValidatePath(gvk), bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	hooks.WebhookMux().ServeHTTP(answer, request)
	review := admissionv1.AdmissionReview{}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &review))
	require.True(t, review.Response.Allowed, "%v", review.Response.Result)
	require.NoError(t, patience.Err())
}
