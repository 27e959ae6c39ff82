package persistentpodstate

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

func newWebhook(c client.Reader) *Webhook {
	return &Webhook{Client: c, Namespace: "flotilla-system", Exempt: []string{"kube-system", "flotilla-system"}}
}

// listing returns the ConfigMap with this text as the list of kinds.
func listing(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "flotilla-system", Name: scaletarget.ConfigMap},
		Data:       map[string]string{scaletarget.KeyPersistentPodState: text},
	}
}

const gameServers = `{"workloads":[{"Group":"game.kruise.io","Version":"v1","Kind":"GameServerSet"}]}`

// cached returns a client with these objects that behaves like a cache with the indexes.
func cached(tb testing.TB, objects ...client.Object) client.Client {
	tb.Helper()
	return fake.NewClientBuilder().WithScheme(scheme(tb)).WithObjects(testkit.Copies(objects)...).WithStatusSubresource(&appsv1beta1.PersistentPodState{}).
		WithIndex(&appsv1beta1.PersistentPodState{}, targetIndex, targetOf).Build()
}

func withName(name string, pps *appsv1beta1.PersistentPodState) *appsv1beta1.PersistentPodState {
	pps.Name = name
	return pps
}

func TestTargetsOfNewObjects(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		known   []client.Object
		pps     *appsv1beta1.PersistentPodState
		refused string
	}{
		{name: "a StatefulSet of apps.kruise.io", pps: states(advanced(1))},
		{name: "a StatefulSet of apps", pps: states(native(1))},
		{name: "a StatefulSet of each group with the same name", known: []client.Object{withName("a", states(native(1)))}, pps: withName("b", states(advanced(1)))},
		{
			name: "a second PersistentPodState for the same workload", known: []client.Object{withName("a", states(advanced(1)))}, pps: withName("b", states(advanced(1))),
			refused: "it is already the target of a, and a workload can have only one",
		},
		{
			name: "a second PersistentPodState with another API version", known: []client.Object{withName("a", states(advanced(1)))},
			pps: withName("b", states(advanced(1), func(s *appsv1beta1.PersistentPodStateSpec) {
				s.TargetRef.APIVersion = "apps.kruise.io/v1alpha1"
			})),
			refused: "it is already the target of a",
		},
		{name: "a kind that is not listed", pps: states(advanced(1), games), refused: "is neither a StatefulSet of apps or apps.kruise.io nor listed in ConfigMap"},
		{name: "a listed kind in any version", known: []client.Object{listing(gameServers)}, pps: states(advanced(1), games)},
		{
			name: "a whitelist that can't be read", known: []client.Object{listing("no JSON")}, pps: states(advanced(1), games),
			refused: "ConfigMap flotilla-system/kruise-configuration: data[PPS_Watch_Custom_Workload_WhiteList]",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			warnings, err := newWebhook(cached(t, tc.known...)).ValidateCreate(webhooktest.Requested[corev1.Pod](t, nil), tc.pps)
			require.Empty(t, warnings)
			if tc.refused == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.refused)
			}
		})
	}
}

func TestAnExemptNamespaceIsWarnedAbout(t *testing.T) {
	t.Parallel()
	pps := states(advanced(1))
	pps.Namespace = "kube-system"
	warnings, err := newWebhook(cached(t)).ValidateCreate(t.Context(), pps)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "pods in kube-system are exempt from the pod webhook")
}

func TestWhatAnObjectHadBeforeIsAWarning(t *testing.T) {
	t.Parallel()
	weightless := func(s *appsv1beta1.PersistentPodStateSpec) {
		s.PreferredPersistentTopology = []appsv1beta1.PreferredTopologyTerm{{Preference: appsv1beta1.NodeTopologyTerm{Keys: []string{zone}}}}
	}
	w := newWebhook(nil)
	warnings, err := w.ValidateUpdate(t.Context(), states(advanced(1), weightless), states(advanced(1), weightless, keepAll))
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	_, err = w.ValidateUpdate(t.Context(), states(advanced(1)), states(advanced(1), weightless))
	require.ErrorContains(t, err, "must be a weight from 1 to 100")
	warnings, err = w.ValidateDelete(t.Context(), states(advanced(1)))
	require.NoError(t, errors.Join(err))
	require.Empty(t, warnings)
}
