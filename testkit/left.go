package testkit

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// ReadTakeover reads a file with what another controller left in a cluster: a workload, which is read into owner, its revisions and its pods.
func ReadTakeover(tb testing.TB, file string, owner metav1.Object) (revisions []*appsv1.ControllerRevision, pods []*corev1.Pod) {
	tb.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // The test names the file.
	require.NoError(tb, err)
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		require.NoError(tb, yaml.Unmarshal(doc, &kind))
		var into any
		switch kind.Kind {
		case "ControllerRevision":
			r := &appsv1.ControllerRevision{}
			revisions, into = append(revisions, r), r
		case "Pod":
			p := &corev1.Pod{}
			pods, into = append(pods, p), p
		default:
			into = owner
		}
		require.NoError(tb, yaml.Unmarshal(doc, into))
	}
	require.NotEmpty(tb, pods)
	for _, p := range pods {
		require.True(tb, metav1.IsControlledBy(p, owner), p.Name)
	}
	return revisions, pods
}
