//go:build e2e

package real

import (
	"context"
	"log"
	"os"
	"testing"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

// env is the fleet that all tests share. It is nil if real nodes can't run.
var env *fleet.Fleet

// heartbeat is fast, so that tests with unresponsive members take seconds. It is slow enough for replacing a manager and for a busy machine:
// a member that seems unhealthy a few times counts as unsteady, and gets nothing for ten minutes.
var heartbeat = fleetv1alpha1.Heartbeat{LeaseSeconds: 9, FailAfterSeconds: 15, RecoverAfterSeconds: 3}

// provider is the credential provider plugin of the fleet's nodes.
var provider *plugin

func TestMain(m *testing.M) {
	var err error
	if provider, err = newPlugin(context.Background()); err != nil { //nolint:forbidigo // No test runs yet.
		log.Fatal(err)
	}
	o := fleet.Options{
		Prefix: "e2e-real-", Nodes: "real:2", Heartbeat: &heartbeat, Volumes: true,
		MemberGates: []string{
			"InPlaceWorkloadVerticalScaling=true", "StatefulSetAutoResizePVCGate=true", "ImagePullJobGate=true", "PreDownloadImageForInPlaceUpdate=true",
			"ResourceDistributionGate=true", "SidecarTerminator=true", "EnhancedLivenessProbe=true", "PodUnavailableBudgetUpdateGate=true",
		},
		MemberValues: []string{
			"--set", "resourceDistribution.secrets={registry}", "--set", "imagePullJob.secrets={login}",
			"--set", "daemon.credentialProviders.configFile=" + provider.config(), "--set", "daemon.credentialProviders.binDir=" + provider.bin(),
		},
		MemberKinds: []string{"configmaps", "persistentvolumeclaims", "horizontalpodautoscalers.autoscaling"},
		HubValues: []string{
			"--set", "propagation.kinds[0].resources={configmaps,persistentvolumeclaims}",
			"--set", "propagation.kinds[1].group=autoscaling", "--set", "propagation.kinds[1].resources={horizontalpodautoscalers}",
			"--set", "propagation.kinds[2].group=apps", "--set", "propagation.kinds[2].resources={deployments}",
		},
	}
	os.Exit(fleet.Main(m, o, func(f *fleet.Fleet) { env = f })) //nolint:forbidigo // A TestMain ends its program.
}
