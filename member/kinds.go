package member

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/featuregate"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/member/image/imagelistpulljob"
	"github.com/flotilla-io/flotilla/member/image/imagepulljob"
	"github.com/flotilla-io/flotilla/member/image/nodeimage"
	"github.com/flotilla-io/flotilla/member/image/predownload"
	"github.com/flotilla-io/flotilla/member/pod/containerrecreaterequest"
	"github.com/flotilla-io/flotilla/member/pod/enhancedliveness"
	"github.com/flotilla-io/flotilla/member/pod/ephemeraljob"
	"github.com/flotilla-io/flotilla/member/pod/launchpriority"
	"github.com/flotilla-io/flotilla/member/pod/nodepodprobe"
	"github.com/flotilla-io/flotilla/member/pod/persistentpodstate"
	"github.com/flotilla-io/flotilla/member/pod/podprobemarker"
	"github.com/flotilla-io/flotilla/member/pod/podunavailablebudget"
	"github.com/flotilla-io/flotilla/member/pod/probedpod"
	"github.com/flotilla-io/flotilla/member/pod/sidecarset"
	"github.com/flotilla-io/flotilla/member/pod/sidecarterminator"
	"github.com/flotilla-io/flotilla/member/pod/workloadspread"
	"github.com/flotilla-io/flotilla/member/protection"
	"github.com/flotilla-io/flotilla/member/resource/resourcedistribution"
	"github.com/flotilla-io/flotilla/member/workload/advancedcronjob"
	"github.com/flotilla-io/flotilla/member/workload/broadcastjob"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/member/workload/daemonset"
	"github.com/flotilla-io/flotilla/member/workload/statefulset"
	"github.com/flotilla-io/flotilla/member/workload/uniteddeployment"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/plan/ordinal"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// Gates returns the feature gates of a member.
func Gates() []featuregate.Feature {
	return slices.Compact(slices.Sorted(slices.Values(append(Kinds().Gates(), protection.Gates()...))))
}

// Kinds returns the kinds that a member runs. A new kind needs a folder and a line here. Each call returns new values, with the defaults of
// their flags.
func Kinds() setup.Kinds {
	return setup.Kinds{
		advancedcronjob.Registration(func(o setup.Options) advancedcronjob.Templates {
			return advancedcronjob.Templates{
				BroadcastJob: broadcastjob.ValidateSpec, PullsOff: !feature.PullsImages(o.Gates),
				ImageListPullJob: func(s *appsv1beta1.ImageListPullJobSpec, path *field.Path) field.ErrorList {
					return imagelistpulljob.ValidateSpec(s, o.PullSecrets, path)
				},
			}
		}),
		broadcastjob.Registration(),
		cloneset.Registration(),
		containerrecreaterequest.Registration(),
		daemonset.Registration(),
		enhancedliveness.Registration(),
		ephemeraljob.Registration(),
		imagelistpulljob.Registration(),
		imagepulljob.Registration(),
		launchpriority.Registration(),
		nodeimage.Registration(),
		nodepodprobe.Registration(),
		persistentpodstate.Registration(),
		podprobemarker.Registration(),
		podunavailablebudget.Registration(),
		predownload.Registration(),
		probedpod.Registration(),
		resourcedistribution.Registration(),
		sidecarset.Registration(),
		sidecarterminator.Registration(),
		statefulset.Registration(),
		uniteddeployment.Registration(func(o setup.Options) united.Options {
			return united.Options{
				CloneSet: cloneset.ValidateSpec, StatefulSet: statefulset.ValidateSpec,
				StatefulSetWarnings: statefulset.GatesOf(o.Gates).Warnings, CountOrdinals: ordinal.Count,
				Unprotected: !o.Gates.Enabled(feature.ResourcesDeletionProtection),
				Off:         workloadspec.Off{PreDownload: feature.Off(o.Gates, feature.PreDownloadForInPlaceUpdate), Liveness: feature.LivenessOff(o.Gates)},
			}
		}),
		workloadspread.Registration(),
	}
}
