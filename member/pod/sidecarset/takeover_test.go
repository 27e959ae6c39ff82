package sidecarset

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

// stored holds objects as OpenKruise stores them, by name.
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

// submittedPod returns a pod as it was submitted to OpenKruise's webhook.
func submittedPod(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.Spec.Containers = slices.DeleteFunc(out.Spec.Containers, func(c corev1.Container) bool { return isInjected(&c) })
	out.Spec.Volumes = slices.DeleteFunc(out.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "v" })
	for key := range out.Annotations {
		if strings.Contains(key, "sidecarset") {
			delete(out.Annotations, key)
		}
	}
	return out
}

// withoutTokens returns a pod without the token mounts that an apiserver adds after webhooks.
func withoutTokens(pod *corev1.Pod) *corev1.Pod {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(m.Name, "kube-api-access") })
		if len(c.VolumeMounts) == 0 {
			c.VolumeMounts = nil
		}
	}
	return pod
}

// A pod gets the same sidecars as from OpenKruise, with the feature gate that sorts containers.
func TestPodsGetWhatTheyGotFromOpenKruise(t *testing.T) {
	t.Parallel()
	for set, name := range map[string]string{"take-sidecar": "take-sidecar-xx4cp", "side-a1": "spread-8q8tn"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := openKruise(t)
			want, s := known.pods[name], known.sets[set]
			recorded := podRecordsIn(want, keys.SidecarSetHash)[set]
			in, err := currentInjection(s)
			require.NoError(t, err)
			in.revision = recorded.ControllerRevision // The first pod is older than the first revision.
			got := submittedPod(want)
			outcomes, err := inject(got, []injection{in}, options{byName: true, now: recorded.UpdateTimestamp})
			require.NoError(t, err)
			require.False(t, outcomes[0].skipped)
			require.Empty(t, outcomes[0].faults)
			require.Equal(t, want.Annotations, got.Annotations)
			require.Empty(t, cmp.Diff(withoutTokens(want).Spec.Containers, withoutTokens(got).Spec.Containers))
			require.ElementsMatch(t, want.Spec.Volumes, got.Spec.Volumes)
		})
	}
}

func TestRevisionsAreThoseOfOpenKruise(t *testing.T) {
	t.Parallel()
	known := openKruise(t)
	require.Len(t, known.revisions, 3)
	for name, want := range known.revisions {
		got, err := newRevision(known.sets[name], "kruise-system")
		require.NoError(t, err)
		require.Equal(t, want.Name, got.Name)
		require.Equal(t, want.Labels, got.Labels)
		require.Equal(t, want.Annotations, got.Annotations)
		require.Equal(t, want.OwnerReferences, got.OwnerReferences)
		require.JSONEq(t, string(want.Data.Raw), string(got.Data.Raw))
		require.True(t, revision.Equal(want, got))

		in, err := injectionOf(known.sets[name], want)
		require.NoError(t, err)
		latest, err := currentInjection(known.sets[name])
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(latest.spec, in.spec), "the stored revision is the current one")
		require.Equal(t, latest.hashes, in.hashes)
	}
}
