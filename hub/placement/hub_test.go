package placement

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// manager is a manager without a cluster.
type manager struct{ ctrl.Manager }

func (manager) GetClient() client.Client                     { return nil }
func (manager) GetAPIReader() client.Reader                  { return nil }
func (manager) GetScheme() *runtime.Scheme                   { return nil }
func (manager) GetEventRecorder(string) events.EventRecorder { return nil }

func TestAllKindsShareTheLimitsOfANamespace(t *testing.T) {
	t.Parallel()
	h := NewHub(manager{}, []byte("key"), false, clock.RealClock{})
	require.Same(t, h.Options(manager{}, setup.Options{}, "propagation").Store, h.Options(manager{}, setup.Options{}, "uniteddeployment").Store)
}
