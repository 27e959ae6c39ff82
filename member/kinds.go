package member

import (
	"slices"

	"k8s.io/component-base/featuregate"

	"github.com/flotilla-io/flotilla/member/pod/launchpriority"
	"github.com/flotilla-io/flotilla/member/pod/persistentpodstate"
	"github.com/flotilla-io/flotilla/member/pod/podunavailablebudget"
	"github.com/flotilla-io/flotilla/member/pod/sidecarset"
	"github.com/flotilla-io/flotilla/member/pod/sidecarterminator"
	"github.com/flotilla-io/flotilla/member/pod/workloadspread"
	"github.com/flotilla-io/flotilla/member/protection"
	"github.com/flotilla-io/flotilla/member/resource/resourcedistribution"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/member/workload/daemonset"
	"github.com/flotilla-io/flotilla/member/workload/statefulset"
	"github.com/flotilla-io/flotilla/member/workload/uniteddeployment"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/ordinal"
	"github.com/flotilla-io/flotilla/pkg/setup"
	"github.com/flotilla-io/flotilla/pkg/united"
)

// Gates are the feature gates of a member.
func Gates() []featuregate.Feature {
	return slices.Compact(slices.Sorted(slices.Values(append(Kinds().Gates(), protection.Gates()...))))
}

// Kinds are the kinds that a member runs: a new kind is a folder and a line here. Each call returns new ones, at the defaults
// of their flags.
func Kinds() setup.Kinds {
	return setup.Kinds{
		cloneset.Registration(),
		daemonset.Registration(),
		launchpriority.Registration(),
		persistentpodstate.Registration(),
		podunavailablebudget.Registration(),
		resourcedistribution.Registration(),
		sidecarset.Registration(),
		sidecarterminator.Registration(),
		statefulset.Registration(),
		uniteddeployment.Registration(func(o setup.Options) united.Options {
			return united.Options{
				CloneSet: cloneset.ValidateSpec, StatefulSet: statefulset.ValidateSpec,
				StatefulSetWarnings: statefulset.GatesOf(o.Gates).Warnings, CountOrdinals: ordinal.Count,
				Unprotected: !o.Gates.Enabled(feature.ResourcesDeletionProtection),
			}
		}),
		workloadspread.Registration(),
	}
}
