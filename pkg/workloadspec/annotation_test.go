package workloadspec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/workloadspec"
)

func TestPullAnnotations(t *testing.T) {
	t.Parallel()
	require.Empty(t, workloadspec.PullAnnotations(map[string]string{"mine": "1"}))
	require.Equal(t, []string{
		"annotation apps.kruise.io/image-predownload-parallelism has no effect: no image is pulled before an update",
		"annotation apps.kruise.io/image-predownload-timeout-seconds has no effect: no image is pulled before an update",
	}, workloadspec.PullAnnotations(map[string]string{keys.ImagePreDownloadTimeoutSeconds: "", keys.ImagePreDownloadParallelism: "2"}))
}
