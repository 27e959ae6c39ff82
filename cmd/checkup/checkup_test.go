package checkup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-io/flotilla/cmd/checkup"
)

var errDenied = errors.New(`admission webhook "v.kb.io" denied the request: not so`)

// world is the cluster to check. Its fake webhooks default and reject objects by name.
type world struct {
	deployment *appsv1.Deployment
	holder     string
	// deploymentName is the name given to the check; empty means the manager's name.
	deploymentName string
	// still means that the Lease is not renewed, lax that nothing is rejected, and bare that no defaults are set.
	still, lax, bare bool
	// refusal replaces the webhook's rejection of the bad object.
	refusal error
}

func whole() world {
	return world{holder: "replica-1", deployment: &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ships", Name: "manager", Generation: 3},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2))},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
	}}
}

func (w world) check(t *testing.T, limit time.Duration) (string, error) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ships", Name: "manager"}}
	lease.Spec.HolderIdentity = &w.holder
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(lease, w.deployment).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if l, ok := o.(*coordinationv1.Lease); ok && !w.still {
					if err := c.Get(ctx, key, l); err != nil {
						return err
					}
					require.NoError(t, c.Update(ctx, l)) // Its holder renews it.
				}
				return c.Get(ctx, key, o, opts...)
			},
			Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				require.Equal(t, []client.CreateOption{client.DryRunAll}, opts)
				if o.GetName() == "bad" && !w.lax {
					return errors.Join(w.refusal)
				}
				if !w.bare {
					o.SetLabels(map[string]string{"default": "set"})
				}
				return nil
			},
		}).Build()
	object := func(name string) client.Object { return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	return checkup.Check{Client: c, Namespace: "ships", Name: "manager", Deployment: w.deploymentName, Probe: checkup.Probe{
		Good: object("good"), Bad: object("bad"),
		Complete: func(o client.Object) string {
			if o.GetLabels()["default"] == "" {
				return "no label"
			}
			return ""
		},
	}}.Run(t.Context(), limit)
}

func TestAManagerThatWorksIsReported(t *testing.T) {
	t.Parallel()
	w := whole()
	w.refusal = errDenied
	said, err := w.check(t, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "manager: 2 of 2 replicas are available, replica-1 leads, the webhooks set defaults, and reject invalid objects", said)
}

func TestWhatIsMissingIsReported(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		spoil      func(*world)
	}{
		{"there is no such Deployment", `get Deployment ships/manager`, func(w *world) { w.deployment.Name = "another" }},
		{"a replica of a Deployment with another name is not available", "deployment ships/captain: 2 of 2", func(w *world) {
			w.deploymentName, w.deployment.Name, w.deployment.Status.AvailableReplicas = "captain", "captain", 1
		}},
		{"a replica is not available", "2 of 2 replicas are updated and 1 are available", func(w *world) { w.deployment.Status.AvailableReplicas = 1 }},
		{"an old replica still exists", "2 of 2 replicas are updated", func(w *world) { w.deployment.Status.Replicas = 3 }},
		{"the Deployment's controller has not seen the change", "2 of 2 replicas", func(w *world) { w.deployment.Generation = 4 }},
		{"no replica is the leader", "no replica is the leader", func(w *world) { w.holder = "" }},
		{"the leader does not renew its Lease", "replica-1 does not renew it", func(w *world) { w.still = true }},
		{"no defaults are set", "the defaulting webhook was not called: no label", func(w *world) { w.bare = true }},
		{"an invalid object is admitted", "an invalid object was admitted", func(w *world) { w.lax = true }},
		{"the webhook can't be called", "no endpoints available", func(w *world) { w.refusal = errors.New("no endpoints available for service") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := whole()
			w.refusal = errDenied
			tc.spoil(&w)
			_, err := w.check(t, 1500*time.Millisecond)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
