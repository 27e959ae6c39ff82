package sidecarset

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// stored are objects as OpenKruise stores them, by name.
type stored struct {
	sets      map[string]*appsv1beta1.SidecarSet
	revisions map[string]*appsv1.ControllerRevision
	pods      map[string]*corev1.Pod
}

// openKruise reads what OpenKruise has stored.
func openKruise(t *testing.T) stored {
	t.Helper()
	text, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	out := stored{map[string]*appsv1beta1.SidecarSet{}, map[string]*appsv1.ControllerRevision{}, map[string]*corev1.Pod{}}
	for in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<16); ; {
		var raw runtime.RawExtension
		if err := in.Decode(&raw); errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		var kind struct{ Kind string }
		require.NoError(t, yaml.Unmarshal(raw.Raw, &kind))
		switch kind.Kind {
		case "SidecarSet":
			s := &appsv1beta1.SidecarSet{}
			require.NoError(t, yaml.Unmarshal(raw.Raw, s))
			out.sets[s.Name] = s
		case "ControllerRevision":
			r := &appsv1.ControllerRevision{}
			require.NoError(t, yaml.Unmarshal(raw.Raw, r))
			out.revisions[r.Labels[keys.SidecarSetName]] = r
		case "Pod":
			p := &corev1.Pod{}
			require.NoError(t, yaml.Unmarshal(raw.Raw, p))
			out.pods[p.Name] = p
		}
	}
}

func TestHashesAreThoseOfOpenKruise(t *testing.T) {
	t.Parallel()
	sets := openKruise(t).sets
	require.Len(t, sets, 3)
	for name, s := range sets {
		got, err := hashesOf(&s.Spec)
		require.NoError(t, err)
		require.Equal(t, s.Annotations[keys.SidecarSetHash], got.full, name)
		require.Equal(t, s.Annotations[keys.SidecarSetHashWithoutImage], got.withoutImage, name)
	}
}
