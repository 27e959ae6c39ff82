package propagation

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// worldFromFile returns the world for a file with a Propagation and the objects that it selects, with clusters.
func worldFromFile(t *testing.T, file string, clusters ...string) *world {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	w := newWorld(t, clusters...)
	w.objects = nil
	for in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
		document := &unstructured.Unstructured{}
		err := in.Decode(&document.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if document.GetKind() == sourceKind {
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(document.Object, w.p))
			w.p.UID, w.p.Finalizers = "web", []string{keys.FleetRow}
			continue
		}
		ref := fleetv1alpha1.WorkObject{APIVersion: document.GetAPIVersion(), Kind: document.GetKind(), Name: document.GetName()}
		w.objects = append(w.objects, object{WorkObject: ref, row: fleetv1alpha1.ObjectRowName(ref, document.GetNamespace()), live: document})
	}
	return w
}

func TestAJobWithATTLIsNotPlaced(t *testing.T) {
	t.Parallel()
	w := worldFromFile(t, "jobs.yaml", "east", "west")
	p := plan(w.observed, w.Now)
	require.Equal(t, "+migrate@east east/Job/once:Invalid", outcome(p))
	require.Contains(t, string(p.Wants[0].Patch), `"suspend":false`)
	require.Equal(t, "spec.ttlSecondsAfterFinished: each cluster would delete the Job and get it again: omit the field, or remove it with an "+
		"override, and delete the object on the hub when it is no longer needed", p.problems[0].Message)
}

func TestAnObjectThatDeletesItselfIsNotPlaced(t *testing.T) {
	t.Parallel()
	const ttl = "ttlSecondsAfterFinished"
	for _, tt := range []struct {
		apiVersion, kind string
		path             []string
	}{
		{"batch/v1", "Job", []string{"spec", ttl}},
		{"apps.kruise.io/v1alpha1", "BroadcastJob", []string{"spec", "completionPolicy", ttl}},
		{"apps.kruise.io/v1beta1", "BroadcastJob", []string{"spec", "completionPolicy", ttl}},
		{"apps.kruise.io/v1beta1", "ImagePullJob", []string{"spec", "completionPolicy", ttl}},
		{"apps.kruise.io/v1beta1", "ImageListPullJob", []string{"spec", "completionPolicy", ttl}},
		{"apps.kruise.io/v1alpha1", "EphemeralJob", []string{"spec", ttl}},
		{"apps.kruise.io/v1beta1", "ContainerRecreateRequest", []string{"spec", ttl}},
		{"jobset.x-k8s.io/v1alpha2", "JobSet", []string{"spec", ttl}},
		{"kubeflow.org/v1", "PyTorchJob", []string{"spec", "runPolicy", ttl}},
		{"argoproj.io/v1alpha1", "Workflow", []string{"spec", "ttlStrategy"}},
		{"sparkoperator.k8s.io/v1beta2", "SparkApplication", []string{"spec", "timeToLiveSeconds"}},
		{"velero.io/v1", "Backup", []string{"spec", "ttl"}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			newOne := func(with bool) *world {
				w := newWorld(t, "east", "west")
				w.objects = w.objects[:1]
				one := &w.objects[0]
				one.APIVersion, one.Kind = tt.apiVersion, tt.kind
				one.live.SetAPIVersion(tt.apiVersion)
				one.live.SetKind(tt.kind)
				require.NoError(t, unstructured.SetNestedField(one.live.Object, map[string]any{"a": "b"}, tt.path[:len(tt.path)-1]...))
				if with {
					require.NoError(t, unstructured.SetNestedField(one.live.Object, int64(60), tt.path...))
				}
				return w
			}
			override := func(w *world, patch fleetv1alpha1.PropagationPatch) {
				patch.Path = "/" + strings.Join(tt.path, "/")
				w.spec.Overrides = []fleetv1alpha1.PropagationOverride{{Clusters: []string{"west"}, Patches: []fleetv1alpha1.PropagationPatch{patch}}}
			}

			w := newOne(true)
			w.row("east", "a")
			require.Equal(t, "/"+tt.kind+"/a:Invalid", outcome(plan(w.observed, w.Now)), "placed objects stay as they are")
			override(w, fleetv1alpha1.PropagationPatch{Op: fleetv1alpha1.PatchRemove})
			require.Equal(t, "+a@west east/"+tt.kind+"/a:Invalid", outcome(plan(w.observed, w.Now)), "an override removes the field in one cluster")

			w = newOne(false)
			require.Equal(t, "+a@east +a@west", outcome(plan(w.observed, w.Now)))
			override(w, fleetv1alpha1.PropagationPatch{Op: fleetv1alpha1.PatchAdd, Value: rawJSON("5")})
			require.Equal(t, "+a@east west/"+tt.kind+"/a:Invalid", outcome(plan(w.observed, w.Now)), "an override adds it in one cluster")
		})
	}
}
