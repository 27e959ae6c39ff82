package containerrecreaterequest

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

// A request stored by OpenKruise reads as before in both versions, can be written, and is removed after its TTL.
func TestARequestOfOpenKruiseIsTakenOver(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	stored, seen, live := &appsv1beta1.ContainerRecreateRequest{}, &appsv1alpha1.ContainerRecreateRequest{}, &appsv1alpha1.ContainerRecreateRequest{}
	first, second, found := bytes.Cut(text, []byte("\n---\n"))
	require.True(t, found)
	require.NoError(t, yaml.UnmarshalStrict(first, stored))
	require.NoError(t, yaml.UnmarshalStrict(second, seen))
	require.NoError(t, appsv1alpha1.ContainerRecreateRequestFromHub(t.Context(), stored, live))
	live.TypeMeta = seen.TypeMeta
	require.Empty(t, cmp.Diff(seen, live))

	w, next := &Webhook{}, stored.DeepCopy()
	require.NoError(t, w.Default(webhooktest.Requested(t, stored), next))
	require.Equal(t, stored, next)
	_, err = w.ValidateUpdate(t.Context(), stored, next)
	require.NoError(t, err)

	at := stored.Status.CompletionTime.Add(10 * time.Minute)
	require.Equal(t, planned{recheck: time.Second}, plan(observed{request: stored}, at.Add(-time.Second)))
	require.Equal(t, stepRemove, plan(observed{request: stored}, at).step)
}
