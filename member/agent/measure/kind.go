// Package measure is the table of kinds whose objects the agent judges by more than the defaults: how a row is measured by its object, which
// changes take replicas away, and in which namespaces the object takes effect.
package measure

import (
	"fmt"
	"slices"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/plan/overlay"
)

// Kind is what the agent needs to know about the objects of one kind.
type Kind struct {
	// Observed reports whether the object's controller has acted on the current generation.
	Observed func(live *unstructured.Unstructured) bool
	// Measure fills in the phase, revision and counts of a row from its object.
	Measure func(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured)
	// ShrunkField returns the first field in which want asks for less than live has, such as replicas, or "" if it asks for no less.
	ShrunkField func(want, live *unstructured.Unstructured) string
	// OnlyShrinks reports whether want differs from live in nothing but fewer replicas.
	OnlyShrinks func(want, live *unstructured.Unstructured) bool
	// targets returns the namespaces that the object's controller writes in.
	Targets func(want *unstructured.Unstructured) (targets, error)
}

// targets are namespaces that a controller writes in.
type targets struct {
	// Named are selected by name.
	Named []string
	// Any means that others are selected too, except Excluded.
	Any      bool
	Excluded []string
	// Everywhere means that the object itself is in no namespace, so it may affect all.
	Everywhere bool
}

// KindOf returns what the agent needs to know about a kind. It is the same for all versions, because a row has the version that its author
// chose. By default, objects are measured by kstatus and by the fields for replicas that most workloads share. A kind that needs more has its
// functions in a file of its own.
func KindOf(gvk schema.GroupVersionKind) Kind {
	k := Kind{
		Observed: observedGeneration, Measure: measureGeneric, ShrunkField: shrunkReplicas, OnlyShrinks: onlyShrinksReplicas, Targets: ownNamespace,
	}
	switch gvk.Group {
	case appsv1.GroupName:
		switch gvk.Kind {
		case "Deployment":
			k.Observed = observedGenerationRequired
		case "StatefulSet":
			k.OnlyShrinks = onlyShrinksPartitioned
		}
	case appsv1beta1.GroupVersion.Group:
		k.specialize(gvk.Kind)
	}
	return k
}

// specialize replaces the defaults that don't fit a kind of apps.kruise.io.
func (k *Kind) specialize(kind string) {
	switch kind {
	case "AdvancedCronJob":
		k.Observed, k.Measure, k.OnlyShrinks = observedGenerationRequired, measureAdvancedCronJob, neverOnlyShrinks
	case "BroadcastJob":
		k.Measure, k.OnlyShrinks = measureBroadcastJob, neverOnlyShrinks
	case "CloneSet":
		k.Observed, k.Measure, k.OnlyShrinks = observedGenerationRequired, measureCloneSet, onlyShrinksPartitioned
	case "EphemeralJob":
		k.Measure, k.ShrunkField, k.OnlyShrinks = measureEphemeralJob, nothingShrinks, neverOnlyShrinks
	case "ResourceDistribution":
		k.Observed, k.Measure = observedGenerationRequired, measureResourceDistribution
		k.ShrunkField, k.OnlyShrinks, k.Targets = shrunkResourceDistribution, neverOnlyShrinks, resourceDistributionTargets
	case "StatefulSet":
		k.OnlyShrinks = onlyShrinksPartitioned
	case "UnitedDeployment":
		k.Observed, k.Measure = observedGenerationRequired, measureUnitedDeployment
		k.ShrunkField, k.OnlyShrinks = shrunkUnitedDeployment, onlyShrinksUnitedDeployment
	case "WorkloadSpread":
		k.Observed, k.Measure = observedGenerationRequired, measureWorkloadSpread
	}
}

// The kinds that the agent may write: each one that the hub sends needs a line. Without it a row is Blocked as Forbidden.
//
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments;workloadspreads;clonesets;resourcedistributions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete

// observedGeneration reads status.observedGeneration. Kinds without it count as observed.
func observedGeneration(live *unstructured.Unstructured) bool {
	observed, found, err := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	return err == nil && (!found || observed >= live.GetGeneration())
}

// observedGenerationRequired is observedGeneration for kinds whose controller always writes the field: an object without it has not been reconciled
// yet.
func observedGenerationRequired(live *unstructured.Unstructured) bool {
	_, found, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	return found && observedGeneration(live)
}

// measureGeneric takes the phase from kstatus, but is stricter in two cases that kstatus calls current: a custom resource
// without a status may have no controller, and one with fewer available replicas than it asks for is still progressing.
func measureGeneric(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured) {
	s.Revision, _, _ = unstructured.NestedString(live.Object, "status", "updateRevision")
	s.Counts = fleetv1alpha1.WorkCounts{
		Desired:          count(live, "spec", "replicas"),
		Replicas:         count(live, "status", "replicas"),
		Ready:            count(live, "status", "readyReplicas"),
		Available:        count(live, "status", "availableReplicas"),
		Updated:          count(live, "status", "updatedReplicas"),
		UpdatedReady:     count(live, "status", "updatedReadyReplicas"),
		UpdatedAvailable: count(live, "status", "updatedAvailableReplicas"),
	}
	result, err := kstatus.Compute(live)
	if err != nil {
		unreadable(s, err)
		return
	}
	switch result.Status {
	case kstatus.CurrentStatus:
		_, reported := live.Object["status"]
		_, counted, _ := unstructured.NestedInt64(live.Object, "status", "availableReplicas")
		switch {
		case !reported && kstatus.GetLegacyConditionsFn(live) == nil:
			s.Phase = fleetv1alpha1.WorkApplied
		case counted && s.Counts.Available < s.Counts.Desired:
			s.Phase = fleetv1alpha1.WorkProgressing
		default:
			s.Phase = fleetv1alpha1.WorkHealthy
		}
	case kstatus.FailedStatus:
		s.Phase, s.Reason, s.Message = fleetv1alpha1.WorkDegraded, reasonFailed, result.Message
	case kstatus.InProgressStatus, kstatus.TerminatingStatus, kstatus.NotFoundStatus:
		s.Phase = fleetv1alpha1.WorkProgressing
	case kstatus.UnknownStatus:
		s.Phase = fleetv1alpha1.WorkApplied
	}
}

// measureCloneSet is like measureGeneric, but an update must also be complete.
func measureCloneSet(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured) {
	measureGeneric(s, live)
	c := s.Counts
	if s.Phase == fleetv1alpha1.WorkHealthy && (c.Replicas != c.Desired || c.Updated < count(live, "status", "expectedUpdatedReplicas")) {
		s.Phase = fleetv1alpha1.WorkProgressing
	}
}

// unreadable reports an object whose status doesn't have the form of its kind.
func unreadable(s *fleetv1alpha1.MemberWorkStatus, err error) {
	s.Phase, s.Reason, s.Message = fleetv1alpha1.WorkDegraded, fleetv1alpha1.ReasonImplausibleCounts, fmt.Sprintf("its status can't be read: %v", err)
}

// reasonFailed is the reason of a Degraded row whose object has failed by the rules of kstatus.
const reasonFailed = "Failed"

// shrunkReplicas compares spec.replicas.
func shrunkReplicas(want, live *unstructured.Unstructured) string {
	wanted, isWanted, _ := unstructured.NestedInt64(want.Object, "spec", "replicas")
	current, exists, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if isWanted && exists && wanted < current {
		return "spec.replicas"
	}
	return ""
}

// onlyShrinksReplicas is for kinds whose only number is spec.replicas.
func onlyShrinksReplicas(want, live *unstructured.Unstructured) bool {
	return onlyShrinksExcept(want, live)
}

// neverOnlyShrinks is for kinds without numbers: in a namespace that is closed to the hub, no change is allowed.
func neverOnlyShrinks(_, _ *unstructured.Unstructured) bool { return false }

// onlyShrinksPartitioned allows a different partition too, because it starts no update while the template stays the same.
func onlyShrinksPartitioned(want, live *unstructured.Unstructured) bool {
	// The second path is for a CloneSet of v1alpha1.
	return onlyShrinksExcept(want, live, "spec.updateStrategy.rollingUpdate.partition", "spec.updateStrategy.partition")
}

// onlyShrinksExcept reports whether want changes only these fields and spec.replicas, which it may only lower.
func onlyShrinksExcept(want, live *unstructured.Unstructured, fields ...string) bool {
	for _, path := range overlay.Paths(live.Object, want.Object) {
		if !slices.Contains(fields, path) && (path != "spec.replicas" || shrunkReplicas(want, live) == "") {
			return false
		}
	}
	return true
}

// ownNamespace is for kinds whose controller writes only in the namespace of the object.
func ownNamespace(want *unstructured.Unstructured) (targets, error) {
	if want.GetNamespace() == "" {
		return targets{Everywhere: true}, nil
	}
	return targets{Named: []string{want.GetNamespace()}}, nil
}

// count reads an int32; a field that is missing or has another type counts as 0.
func count(o *unstructured.Unstructured, path ...string) int32 {
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return int32(max(min(n, 1<<31-1), 0))
}
