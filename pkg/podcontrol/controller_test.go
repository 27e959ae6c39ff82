package podcontrol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestControllersAreNamedAsInOpenKruise(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"CloneSet": "cloneset-controller", "StatefulSet": "statefulset-controller", "DaemonSet": "daemonset-controller",
		"UnitedDeployment": "uniteddeployment-controller",
	} {
		require.Equal(t, want, ControllerName(kind))
	}
}
