//go:build integration

package sidecarset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

func apiserver(t *testing.T) (c client.Client, namespace string) {
	t.Helper()
	s := testenv.Start(t, testenv.Config{Scheme: func(*runtime.Scheme) error { return nil }})
	c, err := client.New(s.REST(), client.Options{})
	require.NoError(t, err)
	return c, s.Namespace(t)
}

// TestDefaultsInCluster repeats TestDefaultsAreThoseOfOpenKruise with the defaults of a real apiserver. The hashes depend on them.
func TestDefaultsInCluster(t *testing.T) {
	t.Parallel()
	c, namespace := apiserver(t)
	known := openKruise(t)
	for name, manifest := range manifests() {
		want, got := known.sets[name], &appsv1beta1.SidecarSet{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(manifest), got))
		h := &Webhook{Client: c, Namespace: namespace}
		require.NoError(t, h.Default(requested(t, nil), got))
		require.Empty(t, cmp.Diff(want.Spec, got.Spec))
		require.Equal(t, want.Annotations, got.Annotations)
	}
}

// TestPodsInCluster creates pods with sidecars by dry runs.
func TestPodsInCluster(t *testing.T) {
	t.Parallel()
	c, namespace := apiserver(t)
	h := &Webhook{Client: c, Namespace: namespace}
	for name, tc := range map[string]struct{ change, refused string }{
		"a container":               {change: `{}`},
		"two containers":            {change: `{spec: {containers: [{name: log, image: "log:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}}]}}`},
		"native sidecars":           {change: `{spec: {updateStrategy: {type: NotUpdate}, containers: null, initContainers: [{name: proxy, image: "p:1", restartPolicy: Always, upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}}]}}`},
		"shared volumes":            {change: `{spec: {volumes: [{name: logs, emptyDir: {}}], containers: [{name: log, image: "log:1", shareVolumePolicy: {type: enabled}, volumeMounts: [{name: logs, mountPath: /logs}]}]}}`},
		"patches":                   {change: `{spec: {patchPodMetadata: [{annotations: {a: b}}]}}`},
		"computed resources":        {change: `{spec: {containers: [{name: log, image: "log:1", resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: ".*", resourcesExpr: {requests: {cpu: "max(cpu, 33m)"}}}}]}}`},
		"a missing volume":          {change: `{spec: {containers: [{name: log, image: "log:1", volumeMounts: [{name: gone, mountPath: /gone}]}]}}`, refused: `spec.containers[0].volumeMounts[0].name: Not found: "gone"`},
		"a name with dots":          {change: `{spec: {containers: [{name: a.b, image: "log:1"}]}}`, refused: "spec.containers[0].name"},
		"a name that gets too long": {change: `{spec: {containers: [{name: a123456789a123456789a123456789a123456789a123456789a123456789a12, image: "log:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}}]}}`, refused: "it would make pods invalid: pod.spec.containers[0].name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setOf(t, tc.change)
			err := h.Default(requested(t, nil), s)
			if err == nil {
				faults, failed := h.validatePod(t.Context(), s)
				require.NoError(t, failed)
				err = faults.ToAggregate()
			}
			if tc.refused != "" {
				require.ErrorContains(t, err, tc.refused)
				return
			}
			require.NoError(t, err)
			in, err := currentInjection(s)
			require.NoError(t, err)
			pod := podOf(t, basePod)
			pod.Namespace = namespace
			_, err = inject(pod, []injection{in}, options{now: metav1.NewTime(noon)})
			require.NoError(t, err)
			var account corev1.ServiceAccount // No pod is admitted without it.
			account.Name, account.Namespace = "default", namespace
			require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &account)))
			require.NoError(t, c.Create(t.Context(), pod, client.DryRunAll))
		})
	}
}
