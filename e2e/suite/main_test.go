//go:build e2e

package suite

import (
	"os"
	"testing"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

// env is the fleet that all tests share.
var env *fleet.Fleet

// heartbeat is fast, so that tests with unresponsive members take seconds.
var heartbeat = fleetv1alpha1.Heartbeat{LeaseSeconds: 2, FailAfterSeconds: 4, RecoverAfterSeconds: 3}

// patient is a heartbeat that tolerates a busy machine, where an apiserver takes seconds to answer, and the time until the Lease of a killed
// manager expires. An apiserver has a third of the Lease's duration to report that it is ready.
var patient = fleetv1alpha1.Heartbeat{LeaseSeconds: 9, FailAfterSeconds: 40, RecoverAfterSeconds: 3}

func TestMain(m *testing.M) {
	o := fleet.Options{
		Prefix: "e2e-", Heartbeat: &heartbeat, Volumes: true,
		MemberGates: []string{"ImagePullJobGate=true", "ResourceDistributionGate=true", "ResourcesDeletionProtection=true"},
		// As in the chart, where the first one is the default. NodeImages are created with the nodes, and not while the first tests expect no
		// writes.
		MemberFlags: []string{
			"--pod-webhook-ignore-failures=PodUnavailableBudgetAnnotations", "--resourcedistribution-secrets=registry", "--imagepulljob-secrets=registry",
			"--nodeimage-creation-delay=0s",
		},
		MemberValues: []string{
			"--set", "resourceDistribution.secrets={registry}", "--set", "imagePullJob.secrets={registry}",
		},
		MemberKinds: []string{
			"widgets.example.com", "gadgets.example.com", "configmaps", "services", "advancedcronjobs.apps.kruise.io", "broadcastjobs.apps.kruise.io",
			"ephemeraljobs.apps.kruise.io", "sidecarsets.apps.kruise.io", "jobs.batch",
		},
		HubFlags: []string{"--propagation-kinds=configmaps,services,advancedcronjobs.apps.kruise.io,broadcastjobs.apps.kruise.io,ephemeraljobs.apps.kruise.io,sidecarsets.apps.kruise.io,deployments.apps,jobs.batch,gadgets.example.com,priorityclasses.scheduling.k8s.io"},
		HubValues: []string{
			"--set", "propagation.kinds[0].resources={configmaps,services}", "--set", "propagation.kinds[1].group=apps",
			"--set", "propagation.kinds[1].resources={deployments}", "--set", "propagation.kinds[2].group=example.com",
			"--set", "propagation.kinds[2].resources={gadgets}", "--set", "propagation.kinds[3].group=scheduling.k8s.io",
			"--set", "propagation.kinds[3].resources={priorityclasses}", "--set", "propagation.kinds[4].group=apps.kruise.io",
			"--set", "propagation.kinds[4].resources={advancedcronjobs,broadcastjobs,ephemeraljobs,sidecarsets}",
			"--set", "propagation.kinds[5].group=batch", "--set", "propagation.kinds[5].resources={jobs}",
		},
	}
	os.Exit(fleet.Main(m, o, func(f *fleet.Fleet) { env = f })) //nolint:forbidigo // A TestMain ends its program.
}
