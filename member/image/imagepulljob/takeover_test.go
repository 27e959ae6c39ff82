package imagepulljob

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// openKruise reads what OpenKruise has stored.
func openKruise(t *testing.T) (jobs []*appsv1beta1.ImagePullJob, nodes []*appsv1beta1.NodeImage) {
	t.Helper()
	text, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	for in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<16); ; {
		var raw runtime.RawExtension
		if err := in.Decode(&raw); errors.Is(err, io.EOF) {
			return jobs, nodes
		}
		require.NoError(t, err)
		var kind struct{ Kind string }
		require.NoError(t, yaml.Unmarshal(raw.Raw, &kind))
		switch kind.Kind {
		case "ImagePullJob":
			job := &appsv1beta1.ImagePullJob{}
			require.NoError(t, yaml.UnmarshalStrict(raw.Raw, job))
			jobs = append(jobs, job)
		case "NodeImage":
			n := &appsv1beta1.NodeImage{}
			require.NoError(t, yaml.UnmarshalStrict(raw.Raw, n))
			nodes = append(nodes, n)
		}
	}
}

func TestStoredJobsHaveTheirDefaults(t *testing.T) {
	t.Parallel()
	jobs, _ := openKruise(t)
	require.Len(t, jobs, 3)
	for _, job := range jobs {
		defaulted := job.DeepCopy()
		require.NoError(t, (&Webhook{}).Default(t.Context(), defaulted))
		require.Equal(t, job, defaulted)
		_, err := (&Webhook{}).ValidateCreate(t.Context(), defaulted)
		require.NoError(t, err)
	}
}

// Nothing is pulled twice, and no entry is written, because the entries are already as the job wants them.
func TestEntriesThatOpenKruiseHasWrittenStay(t *testing.T) {
	t.Parallel()
	jobs, nodes := openKruise(t)
	now := time.Date(2026, 11, 22, 16, 50, 0, 0, time.UTC)
	for _, job := range jobs {
		p := plan(observed{job: job, nodes: nodes}, now)
		require.Empty(t, p.steps, job.Name)
		if job.Status.CompletionTime == nil {
			require.Equal(t, 1, p.active, job.Name)
		}
	}
}
