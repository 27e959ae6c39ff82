package testkit

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kstatus returns the status that helm --wait and Flux compute for an object.
func Kstatus(tb testing.TB, o client.Object) status.Status {
	tb.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(tb, err)
	result, err := status.Compute(&unstructured.Unstructured{Object: fields})
	require.NoError(tb, err)
	return result.Status
}
