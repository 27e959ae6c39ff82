package feature

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"
)

// Gates for templates.
const (
	// TemplateNoDefaults leaves pod templates and PVC templates as users wrote them, instead of storing them with the API server's defaults.
	//
	// Alpha, off: 0.1.
	TemplateNoDefaults featuregate.Feature = "TemplateNoDefaults"
)

// Gates for CloneSet, and for in-place updates of all kinds.
const (
	// CloneSetShortHash makes new pods record their revision by its hash only, without the CloneSet's name before it. Names that are too long
	// for a label are shortened in any case.
	//
	// Alpha, off: 0.2.
	CloneSetShortHash featuregate.Feature = "CloneSetShortHash"

	// CloneSetPartitionRollback rolls updated pods back to the current revision when the partition is raised.
	//
	// Alpha, off: 0.2.
	CloneSetPartitionRollback featuregate.Feature = "CloneSetPartitionRollback"

	// PreparingUpdateAsUpdate makes scaling count pods that an inPlaceUpdate hook holds as updated.
	//
	// Alpha, off: 0.2.
	PreparingUpdateAsUpdate featuregate.Feature = "PreparingUpdateAsUpdate"

	// InPlaceWorkloadVerticalScaling updates cpu and memory of containers in place.
	//
	// Alpha, off: 0.2.
	InPlaceWorkloadVerticalScaling featuregate.Feature = "InPlaceWorkloadVerticalScaling"

	// InPlaceUpdateEnvFromMetadata updates labels and annotations that containers read by env in place, if a node daemon can restart those
	// containers.
	//
	// Beta, on: 0.2.
	InPlaceUpdateEnvFromMetadata featuregate.Feature = "InPlaceUpdateEnvFromMetadata"

	// RecreatePodWhenChangeVCTInCloneSet re-creates pods for an update if the volumeClaimTemplates changed with it.
	//
	// Alpha, off: 0.2.
	RecreatePodWhenChangeVCTInCloneSet featuregate.Feature = "RecreatePodWhenChangeVCTInCloneSetGate"
)

// Gates for StatefulSet.
const (
	// StatefulSetStartOrdinal numbers pods starting at spec.ordinals.start.
	//
	// Alpha, off: 0.3.
	StatefulSetStartOrdinal featuregate.Feature = "StatefulSetStartOrdinal"

	// StatefulSetAutoDeletePVC deletes PVCs along with their pod or their StatefulSet, as set in spec.persistentVolumeClaimRetentionPolicy.
	//
	// Beta, on: 0.3.
	StatefulSetAutoDeletePVC featuregate.Feature = "StatefulSetAutoDeletePVC"

	// StatefulSetAutoResizePVC resizes PVCs to match their templates, as set in spec.volumeClaimUpdateStrategy.
	//
	// Alpha, off: 0.3.
	StatefulSetAutoResizePVC featuregate.Feature = "StatefulSetAutoResizePVCGate"
)

// Gates for pods.
const (
	// PodWebhook changes pods at their creation, where an object requests it.
	//
	// Beta, on: 0.3.
	PodWebhook featuregate.Feature = "PodWebhook"

	// PodUnavailableBudgetDelete makes PodUnavailableBudgets apply to deletions and evictions of pods.
	//
	// Beta, on: 0.3.
	PodUnavailableBudgetDelete featuregate.Feature = "PodUnavailableBudgetDeleteGate"

	// PodUnavailableBudgetUpdate makes PodUnavailableBudgets apply to updates and resizes of pods.
	//
	// Alpha, off: 0.3.
	PodUnavailableBudgetUpdate featuregate.Feature = "PodUnavailableBudgetUpdateGate"

	// WorkloadSpread makes WorkloadSpreads spread the pods of workloads over subsets. Needs PodWebhook.
	//
	// Beta, on: 0.3.
	WorkloadSpread featuregate.Feature = "WorkloadSpread"
)

// Gates for SidecarSet.
const (
	// SidecarSetPatchAnyMetadata lets SidecarSets patch any annotation of pods, without a white list.
	//
	// Alpha, off as in OpenKruise: 0.3.
	SidecarSetPatchAnyMetadata featuregate.Feature = "SidecarSetPatchPodMetadataDefaultsAllowed"

	// SortSidecarsByName adds the sidecars of all SidecarSets sorted by name, not in the order of the SidecarSets' lists.
	//
	// Alpha, off as in OpenKruise: 0.3.
	SortSidecarsByName featuregate.Feature = "EnableSortSidecarContainerByName"
)

// Gates for Jobs.
const (
	// SidecarTerminator ends the sidecars of pods that run to completion, once their other containers have ended.
	//
	// Alpha, off: 0.3.
	SidecarTerminator featuregate.Feature = "SidecarTerminator"
)

// Gates for images.
const (
	// ImagePullJob makes ImagePullJobs and ImageListPullJobs pull images on nodes, and gives each node a NodeImage. Without it no such job can
	// be created.
	//
	// Alpha, off as in OpenKruise, because each node gets an object: 0.3.
	ImagePullJob featuregate.Feature = "ImagePullJobGate"

	// PreDownloadForInPlaceUpdate pulls new images on the nodes of pods that CloneSets and StatefulSets are going to update in place. It pulls
	// images like ImagePullJob, regardless of that gate.
	//
	// Alpha, off as in OpenKruise: 0.3.
	PreDownloadForInPlaceUpdate featuregate.Feature = "PreDownloadImageForInPlaceUpdate"

	// PreDownloadForDaemonSetUpdate does the same for pods of DaemonSets, whether they are updated in place or re-created.
	//
	// Alpha, off as in OpenKruise: 0.3.
	PreDownloadForDaemonSetUpdate featuregate.Feature = "PreDownloadImageForDaemonSetUpdate"
)

// Gates for probes.
const (
	// PodProbeMarker makes node daemons probe containers, and writes the results to pods, as PodProbeMarkers specify. Without it no
	// PodProbeMarker can be created.
	//
	// Beta, on: 0.3.
	PodProbeMarker featuregate.Feature = "PodProbeMarkerGate"

	// PodProbeMarkerOnServerless puts the probes of PodProbeMarkers into a pod annotation, for agents of virtual nodes. Needs PodProbeMarker
	// and PodWebhook.
	//
	// Alpha, off as in OpenKruise, because pods are created through a webhook: 0.3.
	PodProbeMarkerOnServerless featuregate.Feature = "EnablePodProbeMarkerOnServerless"

	// EnhancedLiveness makes node daemons run the liveness probes of pods that request it, instead of the kubelet. Containers that fail are
	// restarted within the budget of their workload. Needs PodWebhook.
	//
	// Alpha, off as in OpenKruise: 0.3.
	EnhancedLiveness featuregate.Feature = "EnhancedLivenessProbe"
)

// Off returns the gate if it is off, and otherwise an empty one.
func Off(g *Gates, f featuregate.Feature) featuregate.Feature {
	if g.Enabled(f) {
		return ""
	}
	return f
}

// LivenessOff returns a gate that is off and that the node daemon needs to run liveness probes; empty if there is none.
func LivenessOff(g *Gates) featuregate.Feature {
	return cmp.Or(Off(g, EnhancedLiveness), Off(g, PodWebhook))
}

// Pulls returns the gates that cause images to be pulled on nodes.
func Pulls() []featuregate.Feature {
	return []featuregate.Feature{ImagePullJob, PreDownloadForInPlaceUpdate, PreDownloadForDaemonSetUpdate}
}

// PullsImages reports whether any of the gates in Pulls is on.
func PullsImages(g *Gates) bool { return slices.ContainsFunc(Pulls(), g.Enabled) }

// Gates for deletion protection.
const (
	// ResourcesDeletionProtection rejects deletions of objects with the label policy.kruise.io/delete-protection. The chart reads it as well.
	//
	// Beta, off: 0.3.
	ResourcesDeletionProtection featuregate.Feature = "ResourcesDeletionProtection"

	// DeletionProtectionForCRDCascading lists the objects of a CRD whose label is Cascading. Without the gate such a CRD can't be deleted.
	//
	// Alpha, off: 0.3.
	DeletionProtectionForCRDCascading featuregate.Feature = "DeletionProtectionForCRDCascadingGate"
)

// Gates for kinds.
const (
	// ResourceDistribution copies Secrets and ConfigMaps as ResourceDistributions specify. Without it no ResourceDistribution can be created.
	//
	// Beta, off as in OpenKruise, because it writes to all namespaces: 0.3.
	ResourceDistribution featuregate.Feature = "ResourceDistributionGate"
)

// specs returns the stage and default of each gate.
func specs() map[featuregate.Feature]featuregate.FeatureSpec {
	alpha := featuregate.FeatureSpec{PreRelease: featuregate.Alpha}
	beta := featuregate.FeatureSpec{PreRelease: featuregate.Beta, Default: true}
	return map[featuregate.Feature]featuregate.FeatureSpec{
		TemplateNoDefaults:                 alpha,
		CloneSetShortHash:                  alpha,
		CloneSetPartitionRollback:          alpha,
		PreparingUpdateAsUpdate:            alpha,
		InPlaceWorkloadVerticalScaling:     alpha,
		InPlaceUpdateEnvFromMetadata:       beta,
		RecreatePodWhenChangeVCTInCloneSet: alpha,
		StatefulSetStartOrdinal:            alpha,
		StatefulSetAutoDeletePVC:           beta,
		StatefulSetAutoResizePVC:           alpha,
		PodWebhook:                         beta,
		PodUnavailableBudgetDelete:         beta,
		PodUnavailableBudgetUpdate:         alpha,
		WorkloadSpread:                     beta,
		SidecarSetPatchAnyMetadata:         alpha,
		SidecarTerminator:                  alpha,
		SortSidecarsByName:                 alpha,
		ImagePullJob:                       alpha,
		PodProbeMarker:                     beta,
		PodProbeMarkerOnServerless:         alpha,
		EnhancedLiveness:                   alpha,
		PreDownloadForInPlaceUpdate:        alpha,
		PreDownloadForDaemonSetUpdate:      alpha,
		ResourcesDeletionProtection:        {PreRelease: featuregate.Beta},
		DeletionProtectionForCRDCascading:  alpha,
		ResourceDistribution:               {PreRelease: featuregate.Beta},
	}
}

// All returns all gates, for a program that accepts the gates of another one.
func All() []featuregate.Feature { return slices.Sorted(maps.Keys(specs())) }

// Gates is a set of gates in one flag: Name=true,Other=false. Use New to create a set.
type Gates struct {
	gate  featuregate.MutableFeatureGate
	notes []string
}

var _ pflag.Value = (*Gates)(nil)

// New returns the gates of a program, with their defaults. It returns an error for a gate without a stage in this package.
func New(read ...featuregate.Feature) (*Gates, error) {
	known, wanted := specs(), map[featuregate.Feature]featuregate.FeatureSpec{}
	for _, f := range read {
		spec, ok := known[f]
		if !ok {
			return nil, fmt.Errorf("feature gate %s has no stage", f)
		}
		wanted[f] = spec
	}
	gate := featuregate.NewFeatureGate()
	if err := gate.Add(wanted); err != nil {
		return nil, fmt.Errorf("add feature gates: %w", err)
	}
	return &Gates{gate: gate}, nil
}

// Enabled reports whether a gate is on. It panics for a gate that was not given to New.
func (g *Gates) Enabled(f featuregate.Feature) bool { return g.gate.Enabled(f) }

// Known returns one line for each gate with its name, stage and default.
func (g *Gates) Known() []string { return g.gate.KnownFeatures() }

// Notes returns one sentence for each given value that has no effect, with the reason.
func (g *Gates) Notes() []string { return slices.Clone(g.notes) }

// AddFlags binds g to the flag --feature-gates.
func (g *Gates) AddFlags(f *pflag.FlagSet) {
	f.Var(g, "feature-gates", "Comma-separated Name=true or Name=false:\n"+strings.Join(g.Known(), "\n"))
}

// Set implements pflag.Value. An unknown name and a value that is not a bool are errors. Gates of OpenKruise that this version doesn't have are
// handled as described in the package comment.
func (g *Gates) Set(text string) error {
	var rest []string
	for item := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		name = strings.TrimSpace(name)
		known, ok := unservedGates()[name]
		if _, served := g.gate.GetAll()[featuregate.Feature(name)]; served || !ok {
			rest = append(rest, item)
			continue
		}
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return fmt.Errorf("feature gate %s: value %q is not a bool: set %s=true or %s=false", name, value, name, name)
		}
		why := known.settled
		if known.missing != "" {
			why = known.missing + " not served yet"
		}
		g.notes = append(g.notes, fmt.Sprintf("feature gate %s=%t has no effect: %s", name, on, why))
	}
	if err := g.gate.Set(strings.Join(rest, ",")); err != nil {
		return fmt.Errorf("%w; known gates: %s", err, strings.Join(g.Known(), ", "))
	}
	return nil
}

// String implements pflag.Value.
func (g *Gates) String() string {
	if g == nil || g.gate == nil { // pflag calls it on the zero value.
		return ""
	}
	var on []string
	for f, spec := range g.gate.GetAll() {
		if enabled := g.gate.Enabled(f); enabled != spec.Default {
			on = append(on, fmt.Sprintf("%s=%t", f, enabled))
		}
	}
	slices.Sort(on)
	return strings.Join(on, ",")
}

// Type implements pflag.Value.
func (g *Gates) Type() string { return "gates" }
