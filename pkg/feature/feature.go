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

// Gates of templates.
const (
	// TemplateNoDefaults leaves pod templates and PVC templates as users wrote them, instead of storing them with the
	// apiserver's defaults.
	//
	// Alpha, off: 0.1.
	TemplateNoDefaults featuregate.Feature = "TemplateNoDefaults"
)

// Gates of CloneSet, and of in-place updates of all kinds.
const (
	// CloneSetShortHash makes new pods name their revision by its hash alone, without the CloneSet's name before it.
	// Names that are too long for a label are shortened without it too.
	//
	// Alpha, off: 0.2.
	CloneSetShortHash featuregate.Feature = "CloneSetShortHash"

	// CloneSetPartitionRollback brings updated pods back to the current revision when the partition is raised.
	//
	// Alpha, off: 0.2.
	CloneSetPartitionRollback featuregate.Feature = "CloneSetPartitionRollback"

	// PreparingUpdateAsUpdate counts pods that an inPlaceUpdate hook holds as updated when pods are scaled.
	//
	// Alpha, off: 0.2.
	PreparingUpdateAsUpdate featuregate.Feature = "PreparingUpdateAsUpdate"

	// InPlaceWorkloadVerticalScaling updates cpu and memory of containers in place.
	//
	// Alpha, off: 0.2.
	InPlaceWorkloadVerticalScaling featuregate.Feature = "InPlaceWorkloadVerticalScaling"

	// InPlaceUpdateEnvFromMetadata updates labels and annotations that containers read by env in place, where a node
	// daemon restarts those containers.
	//
	// Beta, on: 0.2.
	InPlaceUpdateEnvFromMetadata featuregate.Feature = "InPlaceUpdateEnvFromMetadata"

	// RecreatePodWhenChangeVCTInCloneSet recreates pods for an update if volumeClaimTemplates changed with it.
	//
	// Alpha, off: 0.2.
	RecreatePodWhenChangeVCTInCloneSet featuregate.Feature = "RecreatePodWhenChangeVCTInCloneSetGate"
)

// Gates of StatefulSet.
const (
	// StatefulSetStartOrdinal numbers pods from spec.ordinals.start on.
	//
	// Alpha, off: 0.3.
	StatefulSetStartOrdinal featuregate.Feature = "StatefulSetStartOrdinal"

	// StatefulSetAutoDeletePVC deletes PVCs with their pod or their StatefulSet, by spec.persistentVolumeClaimRetentionPolicy.
	//
	// Beta, on: 0.3.
	StatefulSetAutoDeletePVC featuregate.Feature = "StatefulSetAutoDeletePVC"

	// StatefulSetAutoResizePVC resizes PVCs to their templates, by spec.volumeClaimUpdateStrategy.
	//
	// Alpha, off: 0.3.
	StatefulSetAutoResizePVC featuregate.Feature = "StatefulSetAutoResizePVCGate"
)

// Gates of pods.
const (
	// PodWebhook has pods changed when they are created, where an object asks for it.
	//
	// Beta, on: 0.3.
	PodWebhook featuregate.Feature = "PodWebhook"

	// PodUnavailableBudgetDelete has deletions and evictions of pods judged by PodUnavailableBudgets.
	//
	// Beta, on: 0.3.
	PodUnavailableBudgetDelete featuregate.Feature = "PodUnavailableBudgetDeleteGate"

	// PodUnavailableBudgetUpdate has updates and resizes of pods judged by them.
	//
	// Alpha, off: 0.3.
	PodUnavailableBudgetUpdate featuregate.Feature = "PodUnavailableBudgetUpdateGate"

	// WorkloadSpread has pods of workloads spread over subsets, by WorkloadSpreads. Needs PodWebhook.
	//
	// Beta, on: 0.3.
	WorkloadSpread featuregate.Feature = "WorkloadSpread"
)

// Gates of SidecarSet.
const (
	// SidecarSetPatchAnyMetadata lets SidecarSets patch any annotation of pods, without a white list.
	//
	// Alpha, off as in OpenKruise: 0.3.
	SidecarSetPatchAnyMetadata featuregate.Feature = "SidecarSetPatchPodMetadataDefaultsAllowed"

	// SortSidecarsByName adds the sidecars of all SidecarSets in the order of their names, rather than as SidecarSets list them.
	//
	// Alpha, off as in OpenKruise: 0.3.
	SortSidecarsByName featuregate.Feature = "EnableSortSidecarContainerByName"
)

// Gates of Jobs.
const (
	// SidecarTerminator ends the sidecars of pods that are meant to end, when their other containers have.
	//
	// Alpha, off: 0.3.
	SidecarTerminator featuregate.Feature = "SidecarTerminator"
)

// Gates of images.
const (
	// ImagePullJob has images pulled on nodes by ImagePullJobs and ImageListPullJobs, and nodes get NodeImages. Without it no such job can
	// be created.
	//
	// Alpha, off as in OpenKruise, because each node gets an object: 0.3.
	ImagePullJob featuregate.Feature = "ImagePullJobGate"

	// PreDownloadForInPlaceUpdate has new images pulled on the nodes of pods that CloneSets and StatefulSets are going to update in place.
	// It has images pulled as ImagePullJob does, whatever that gate is.
	//
	// Alpha, off as in OpenKruise: 0.3.
	PreDownloadForInPlaceUpdate featuregate.Feature = "PreDownloadImageForInPlaceUpdate"

	// PreDownloadForDaemonSetUpdate does likewise for pods of DaemonSets, whether they are updated in place or re-created.
	//
	// Alpha, off as in OpenKruise: 0.3.
	PreDownloadForDaemonSetUpdate featuregate.Feature = "PreDownloadImageForDaemonSetUpdate"
)

// Gates of probes.
const (
	// PodProbeMarker has containers probed by node daemons, and the results written to pods, by PodProbeMarkers. Without it none can be
	// created.
	//
	// Beta, on: 0.3.
	PodProbeMarker featuregate.Feature = "PodProbeMarkerGate"

	// PodProbeMarkerOnServerless gives pods the probes of PodProbeMarkers in an annotation, for agents of virtual nodes. Needs
	// PodProbeMarker and PodWebhook.
	//
	// Alpha, off as in OpenKruise, because pods are created through a webhook: 0.3.
	PodProbeMarkerOnServerless featuregate.Feature = "EnablePodProbeMarkerOnServerless"

	// EnhancedLiveness takes liveness probes from the kubelet in pods that ask for it: node daemons run them, and containers that fail are
	// restarted within the budget of their workload. Needs PodWebhook.
	//
	// Alpha, off as in OpenKruise: 0.3.
	EnhancedLiveness featuregate.Feature = "EnhancedLivenessProbe"
)

// Off returns a gate if it is off, and otherwise none.
func Off(g *Gates, f featuregate.Feature) featuregate.Feature {
	if g.Enabled(f) {
		return ""
	}
	return f
}

// LivenessOff returns a gate that is off and without which the node daemon runs no liveness probes, and otherwise none.
func LivenessOff(g *Gates) featuregate.Feature {
	return cmp.Or(Off(g, EnhancedLiveness), Off(g, PodWebhook))
}

// Pulls are the gates of which each has images pulled on nodes.
func Pulls() []featuregate.Feature {
	return []featuregate.Feature{ImagePullJob, PreDownloadForInPlaceUpdate, PreDownloadForDaemonSetUpdate}
}

// PullsImages reports whether a gate has images pulled on nodes.
func PullsImages(g *Gates) bool { return slices.ContainsFunc(Pulls(), g.Enabled) }

// Gates of deletion protection.
const (
	// ResourcesDeletionProtection refuses deletions of objects with label policy.kruise.io/delete-protection. The chart reads it as well.
	//
	// Beta, off: 0.3.
	ResourcesDeletionProtection featuregate.Feature = "ResourcesDeletionProtection"

	// DeletionProtectionForCRDCascading lists the objects of a CRD whose label says Cascading. Without it such a CRD can't be deleted.
	//
	// Alpha, off: 0.3.
	DeletionProtectionForCRDCascading featuregate.Feature = "DeletionProtectionForCRDCascadingGate"
)

// Gates of kinds.
const (
	// ResourceDistribution has copies of Secrets and ConfigMaps made for ResourceDistributions. Without it none can be created.
	//
	// Beta, off as in OpenKruise, because it writes to all namespaces: 0.3.
	ResourceDistribution featuregate.Feature = "ResourceDistributionGate"
)

// specs are the stage and default of each gate.
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

// All returns all gates, for a program that accepts those of another one.
func All() []featuregate.Feature { return slices.Sorted(maps.Keys(specs())) }

// Gates is a set of gates as one flag: Name=true,Other=false. Use New to create a set.
type Gates struct {
	gate  featuregate.MutableFeatureGate
	notes []string
}

var _ pflag.Value = (*Gates)(nil)

// New returns the gates of a program, at their defaults. A gate without a stage in this package is an error.
func New(read ...featuregate.Feature) (*Gates, error) {
	known, of := specs(), map[featuregate.Feature]featuregate.FeatureSpec{}
	for _, f := range read {
		spec, ok := known[f]
		if !ok {
			return nil, fmt.Errorf("feature gate %s has no stage", f)
		}
		of[f] = spec
	}
	gate := featuregate.NewFeatureGate()
	if err := gate.Add(of); err != nil {
		return nil, fmt.Errorf("add feature gates: %w", err)
	}
	return &Gates{gate: gate}, nil
}

// Enabled reports whether a gate is on. It panics for a gate that was not given to New.
func (g *Gates) Enabled(f featuregate.Feature) bool { return g.gate.Enabled(f) }

// Known describes each gate in a line: its name, stage and default.
func (g *Gates) Known() []string { return g.gate.KnownFeatures() }

// Notes say which of the given values have no effect and why, a sentence each.
func (g *Gates) Notes() []string { return slices.Clone(g.notes) }

// AddFlags binds g to the flag --feature-gates.
func (g *Gates) AddFlags(f *pflag.FlagSet) {
	f.Var(g, "feature-gates", "Name=true or Name=false, by commas:\n"+strings.Join(g.Known(), "\n"))
}

// Set implements pflag.Value. An unknown name is an error, and so is a value that is not a bool. Gates of OpenKruise that this
// version does not have are handled as in the package comment.
func (g *Gates) Set(text string) error {
	var rest []string
	for item := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		name = strings.TrimSpace(name)
		was, ok := former()[name]
		if _, served := g.gate.GetAll()[featuregate.Feature(name)]; served || !ok {
			rest = append(rest, item)
			continue
		}
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return fmt.Errorf("feature gate %s: value %q is no bool: give %s=true or %s=false", name, value, name, name)
		}
		why := was.settled
		if was.missing != "" {
			why = was.missing + " not served yet"
		}
		g.notes = append(g.notes, fmt.Sprintf("feature gate %s=%t has no effect: %s", name, on, why))
	}
	if err := g.gate.Set(strings.Join(rest, ",")); err != nil {
		return fmt.Errorf("%w; known are: %s", err, strings.Join(g.Known(), ", "))
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
