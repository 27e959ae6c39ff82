package agent

import (
	"fmt"
	"slices"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/overlay"
)

// kind is what the agent needs to know of the objects of one kind.
type kind struct {
	// observed reports whether the object's controller has acted on the present generation.
	observed func(live *unstructured.Unstructured) bool
	// measure fills in the phase, revision and counts of a row from its object.
	measure func(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured)
	// shrinks returns the first field in which want asks for fewer replicas than live has, or "".
	shrinks func(want, live *unstructured.Unstructured) string
	// lowers reports whether want differs from live in nothing but fewer replicas.
	lowers func(want, live *unstructured.Unstructured) bool
	// targets returns the namespaces that the object's controller writes in. Nil: only that of the object.
	targets func(want *unstructured.Unstructured) (targets, error)
}

// targets are namespaces that a controller writes in.
type targets struct {
	// named are selected by name. Any: so are others, but for excluded.
	named, excluded []string
	any             bool
	// everywhere: the object itself is in no namespace.
	everywhere bool
}

// kindOf returns the entry of a kind, which is for all its versions: a row has that which its author wrote, and the functions read each. A
// kind without an entry is measured by kstatus, and by the fields for replicas that most workloads share. To add a kind, write its functions
// in a file of its own and name them here.
func kindOf(gvk schema.GroupVersionKind) kind {
	if gvk.Group == appsv1beta1.GroupVersion.Group {
		if k, ok := kruiseKind(gvk.Kind); ok {
			return k
		}
	}
	k := kind{observed: observedGeneration, measure: measureGeneric, shrinks: shrinksReplicas, lowers: lowersReplicas}
	if gvk.Group == appsv1.GroupName {
		switch gvk.Kind {
		case "Deployment":
			k.observed = observedWritten
		case "StatefulSet":
			k.lowers = lowersPartitioned
		}
	}
	return k
}

// kruiseKind returns the entry of a kind of apps.kruise.io, if it has one.
func kruiseKind(name string) (kind, bool) {
	switch name {
	case "UnitedDeployment":
		return kind{
			observed: observedWritten, measure: measureUnitedDeployment,
			shrinks: shrinksUnitedDeployment, lowers: lowersUnitedDeployment,
		}, true
	case "WorkloadSpread":
		return kind{observed: observedWritten, measure: measureWorkloadSpread, shrinks: shrinksReplicas, lowers: lowersReplicas}, true
	case "AdvancedCronJob":
		return kind{observed: observedWritten, measure: measureAdvancedCronJob, shrinks: shrinksReplicas, lowers: lowersNothing}, true
	case "BroadcastJob":
		return kind{observed: observedGeneration, measure: measureBroadcastJob, shrinks: shrinksReplicas, lowers: lowersNothing}, true
	case "EphemeralJob":
		return kind{observed: observedGeneration, measure: measureEphemeralJob, shrinks: shrinksNothing, lowers: lowersNothing}, true
	case "CloneSet":
		return kind{observed: observedWritten, measure: measureCloneSet, shrinks: shrinksReplicas, lowers: lowersPartitioned}, true
	case "StatefulSet":
		return kind{observed: observedGeneration, measure: measureGeneric, shrinks: shrinksReplicas, lowers: lowersPartitioned}, true
	case "ResourceDistribution":
		return kind{
			observed: observedWritten, measure: measureResourceDistribution, shrinks: shrinksResourceDistribution,
			lowers: lowersNothing, targets: targetsOfResourceDistribution,
		}, true
	}
	return kind{}, false
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

// observedWritten is observedGeneration for kinds whose controller always writes the field: an object without it has not been
// reconciled yet.
func observedWritten(live *unstructured.Unstructured) bool {
	_, found, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	return found && observedGeneration(live)
}

// measureGeneric takes the phase from kstatus, but is stricter in two cases that kstatus calls current: a custom resource
// without a status may have no controller, and one with fewer available replicas than it asks for is still progressing.
func measureGeneric(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured) {
	s.Revision, _, _ = unstructured.NestedString(live.Object, "status", "updateRevision")
	s.Counts = fleetv1alpha1.WorkCounts{
		Desired:      count(live, "spec", "replicas"),
		Replicas:     count(live, "status", "replicas"),
		Ready:        count(live, "status", "readyReplicas"),
		Available:    count(live, "status", "availableReplicas"),
		Updated:      count(live, "status", "updatedReplicas"),
		UpdatedReady: count(live, "status", "updatedReadyReplicas"),
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

// unreadable reports an object whose status is not what its kind has.
func unreadable(s *fleetv1alpha1.MemberWorkStatus, err error) {
	s.Phase, s.Reason, s.Message = fleetv1alpha1.WorkDegraded, fleetv1alpha1.ReasonNonsense, fmt.Sprintf("its status can't be read: %v", err)
}

// reasonFailed is the reason of a Degraded row whose object has failed by the rules of kstatus.
const reasonFailed = "Failed"

// shrinksReplicas compares spec.replicas.
func shrinksReplicas(want, live *unstructured.Unstructured) string {
	wanted, wok, _ := unstructured.NestedInt64(want.Object, "spec", "replicas")
	has, lok, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if wok && lok && wanted < has {
		return "spec.replicas"
	}
	return ""
}

// lowersReplicas is for kinds whose only number is spec.replicas.
func lowersReplicas(want, live *unstructured.Unstructured) bool { return lowersBut(want, live) }

// lowersPartitioned allows another partition too: with the template as it is it begins no update.
func lowersPartitioned(want, live *unstructured.Unstructured) bool {
	// The latter is the path in a CloneSet of v1alpha1.
	return lowersBut(want, live, "spec.updateStrategy.rollingUpdate.partition", "spec.updateStrategy.partition")
}

// lowersBut reports whether want lowers spec.replicas and changes nothing else but these fields.
func lowersBut(want, live *unstructured.Unstructured, fields ...string) bool {
	for _, path := range overlay.Paths(live.Object, want.Object) {
		if !slices.Contains(fields, path) && (path != "spec.replicas" || shrinksReplicas(want, live) == "") {
			return false
		}
	}
	return true
}

// count reads an int32; a field that is missing or is none counts as 0.
func count(o *unstructured.Unstructured, path ...string) int32 {
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return int32(max(min(n, 1<<31-1), 0))
}
