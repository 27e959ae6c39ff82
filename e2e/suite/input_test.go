//go:build e2e

package suite

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

// warnings collects the apiserver's warnings.
type warnings struct {
	mu   sync.Mutex
	text []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

// except returns the warnings except those about feature gates that the example says must be on.
func (w *warnings) except(example string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return webhooktest.WithoutGates(example, w.text)
}

func (w *warnings) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.text, "\n")
}

// manifests lists the manifests in a folder of e2e/examples.
func manifests(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(env.Root, "e2e", "examples", folder, "*.yaml"))
	require.NoError(t, err)
	return files
}

// namesClusters reports whether a WorkloadSpread names clusters.
func namesClusters(o *unstructured.Unstructured) bool {
	subsets, _, _ := unstructured.NestedSlice(o.Object, "spec", "subsets")
	return slices.ContainsFunc(subsets, func(s any) bool {
		subset, _ := s.(map[string]any)
		return subset["cluster"] != nil || subset["clusterSelector"] != nil
	})
}

// clusterOf returns the cluster for an example's object: a member for workloads, otherwise the hub.
func clusterOf(o *unstructured.Unstructured) *fleet.Cluster {
	if _, placed := o.GetLabels()[keys.FleetTemplate]; placed || namesClusters(o) {
		return env.Hub
	}
	if slices.Contains([]string{
		"AdvancedCronJob", "BroadcastJob", "CloneSet", "StatefulSet", "DaemonSet", "EphemeralJob", "ContainerRecreateRequest", "ImagePullJob",
		"ImageListPullJob", "NodeImage", "PersistentPodState", "PodProbeMarker", "PodUnavailableBudget", "ResourceDistribution", "SidecarSet",
		"WorkloadSpread",
	}, o.GetKind()) {
		return env.East
	}
	return env.Hub
}

// ofHub reports whether an example is for the hub although members have its kind too.
func ofHub(file string) bool { return strings.HasPrefix(filepath.Base(file), "distribute-") }

// TestInvalidExamplesAreAnsweredAsExpected applies each manifest in e2e/examples/invalid in a dry run: workloads in a member, everything else
// on the hub. The first line of each manifest is the expected answer: "# refused: TEXT" or "# warned: TEXT".
func TestInvalidExamplesAreAnsweredAsExpected(t *testing.T) {
	s := parallel(t)
	files := manifests(t, "invalid")
	require.Greater(t, len(files), 15)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			first, _, _ := strings.Cut(string(text), "\n")
			verb, want, found := strings.Cut(strings.TrimPrefix(first, "# "), ": ")
			require.True(t, found, "the first line is the expected answer")
			objects, err := fleet.Decode(text)
			require.NoError(t, err)
			require.Len(t, objects, 1)

			c := clusterOf(objects[0])
			if ofHub(file) {
				c = env.Hub
			}
			heard := &warnings{}
			cfg := rest.CopyConfig(c.Config)
			cfg.WarningHandler = heard
			user, err := fleet.NewClient(cfg)
			require.NoError(t, err)
			if objects[0].GetNamespace() != "" {
				objects[0].SetNamespace(s.namespace)
			}
			err = user.Create(t.Context(), objects[0], client.DryRunAll)
			switch verb {
			case "refused":
				require.ErrorContains(t, err, want)
			case "warned":
				require.NoError(t, err)
				require.Contains(t, heard.all(), want)
			default:
				require.Failf(t, "unknown expectation", "%q", verb)
			}
		})
	}
}

func TestValidExamplesAreAcceptedWithoutAWarning(t *testing.T) {
	s := parallel(t)
	files := manifests(t, ".")
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			objects, err := fleet.Decode(text)
			require.NoError(t, err)
			for _, o := range objects {
				c := clusterOf(o)
				if slices.Contains([]string{"uniteddeployment-zones.yaml", "uniteddeployment-adaptive.yaml"}, filepath.Base(file)) {
					c = env.East
				}
				if ofHub(file) {
					c = env.Hub
				}
				heard := &warnings{}
				cfg := rest.CopyConfig(c.Config)
				cfg.WarningHandler = heard
				user, err := fleet.NewClient(cfg)
				require.NoError(t, err)
				if o.GetNamespace() != "" {
					o.SetNamespace(s.namespace)
				}
				err = user.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("user"), client.ForceOwnership, client.DryRunAll)
				if filepath.Base(file) == "membercluster-cluster-api.yaml" { // This hub has the chart's default. hub/cluster tests it with the value.
					require.ErrorContains(t, err, "add it to clusterAPI.namespaces")
					continue
				}
				require.NoError(t, err)
				if filepath.Base(file) == "placed-cloneset.yaml" { // The object that places it is not stored in a dry run.
					require.Contains(t, heard.all(), "the hub does not run this CloneSet")
					continue
				}
				require.Empty(t, heard.except(string(text)))
			}
		})
	}
}

func TestObjectWithoutClustersReportsItOnAHubWithoutMemberStack(t *testing.T) {
	s := parallel(t)
	s.create(united("web", 2, appsv1beta1.Subset{Name: "one"}))
	s.until(func(context.Context) string {
		for _, c := range s.get("web").Status.Conditions {
			if c.Status == corev1.ConditionTrue && c.Type == appsv1beta1.SubsetFailure && strings.Contains(c.Message, "no subset names a cluster") {
				return ""
			}
		}
		return "no condition reports that nothing runs the object"
	})
}
