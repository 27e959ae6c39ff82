package podset

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// TestTakeover: the pods in testdata were left by OpenKruise in the middle of an in-place update. Of four pods, with a partition of two, one has
// its new image and waits for its readiness gate.
func TestTakeover(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/takeover.yaml")
	require.NoError(t, err)
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	var pods []rollout.Pod
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		var pod corev1.Pod
		err := docs.Decode(&pod)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		f := View(&pod, Rules{}, now)
		updated := pod.Labels[keys.PodTemplateHash] == "c97bf6d65"
		require.Equal(t, updated, AtRevision(&pod, "take-clone-c97bf6d65"))
		require.Equal(t, !updated, f.Available)
		if updated {
			require.Equal(t, inplace.Outcome{Done: true}, inplace.Progress(&pod, now))
		}
		pods = append(pods, f.Pod(!updated))
	}
	require.Len(t, pods, 4)

	goal := rollout.Goal{Replicas: 4, MaxUnavailable: 1, Partition: 2, Mode: rollout.InPlaceIfPossible}
	s := rollout.Next(goal, pods, now)
	require.Equal(t, []rollout.Step{{
		Kind: rollout.StepMarkReady, Key: "take-clone-s5k87", Reason: rollout.ReasonUpdated, Why: "the update is complete",
	}}, s.Steps, "the next pod has to wait until this one is ready")
}
