package launchpriority

import (
	"context"

	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// Registration registers launch priorities with a member's manager. They have no CRD: pods ask for them.
func Registration() setup.Kind {
	const name = "containerlaunchpriority"
	return setup.Kind{
		Name: name, Gates: []featuregate.Feature{feature.PodWebhook},
		Controller: func(_ context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setUp(mgr, o.Control(name))
		},
		Pods: func(setup.Options) []podwebhook.Step { return []podwebhook.Step{step()} },
	}
}
