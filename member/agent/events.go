package agent

import (
	"fmt"
	"strings"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// Reasons and actions of events on objects in the member.
const (
	// eventDrift means that another writer changed an object of the hub, and that the change was reverted.
	eventDrift = "DriftReverted"
	// eventContended means that the object is changed again each time after it was reverted.
	eventContended = reasonContended
	// EventAdopted means that an existing object now belongs to the hub.
	EventAdopted = "Adopted"
	// eventStranded, on the Membership, means that this cluster has joined before, but has no credential that its hub accepts.
	eventStranded = "NoHubCredential"

	// EventHubRefused, on the Membership, means that the cluster is bound to one hub while another one wants it or can't be reached.
	EventHubRefused = "HubRefused"
	// eventHubRestored, on the Membership, means that the hub asks for something older than what was applied here.
	eventHubRestored = "HubRestored"
	// eventUnclaimed, on the Membership, means that objects were applied for rows that the hub does not have.
	eventUnclaimed = "UnclaimedObjects"
	// EventProtected, on the Membership, means that objects that should be withdrawn stay because a label protects them.
	EventProtected = fleetv1alpha1.ReasonDeleteProtected

	actionApply   = "Apply"
	actionConnect = "Connect"
)

func driftEvent(paths []string) event.Event {
	return event.Warning(eventDrift, actionApply, "Reverted changes to %s. Make them on the hub instead.", strings.Join(paths, ", "))
}

func adoptedEvent(how fleetv1alpha1.AdoptionPolicy) event.Event {
	return event.Normal(EventAdopted, actionApply, "Adopted for the hub (adoption policy %s). It will be withdrawn when its object on the hub is deleted.", how)
}

func strandedEvent(err error) event.Event {
	return event.Warning(eventStranded, actionConnect, "%s", err)
}

func restoredEvent(row *fleetv1alpha1.MemberWork, epoch int64) event.Event {
	return event.Warning(eventHubRestored, actionApply, "The hub's row %s is older than what was applied here, as after a restore from a backup. "+
		"Nothing will be deleted or scaled in until the epoch in the hub's ConfigMap %s/%s is at least %d.",
		row.Name, fleetv1alpha1.SystemNamespace, fleetv1alpha1.EpochConfigMap, epoch)
}

func unclaimedEvent(lines []*fleetv1alpha1.AppliedWork) event.Event {
	names := make([]string, 0, len(lines))
	for _, line := range lines {
		names = append(names, fmt.Sprintf("%s %s/%s", line.Spec.Object.Kind, line.Spec.Object.Namespace, line.Spec.Object.Name))
	}
	return event.Warning(eventUnclaimed, actionApply, "%d object(s) applied for rows that the hub doesn't have: %s. "+
		"They are kept. To delete them, or to keep them without the hub's marks, annotate this Membership with %s=Delete or Orphan.",
		len(lines), event.Names(names), link.AnnotationUnclaimed)
}

// regressedText says why a leaving cluster keeps what the hub asks to delete, and what to do.
func regressedText(hubEpoch, seen int64) string {
	return fmt.Sprintf("nothing is deleted, because the hub's epoch is %d and this cluster has seen %d, as after the hub was restored from a backup: "+
		"%s; to keep the objects, set spec.leave.policy of the MemberCluster to %s", hubEpoch, seen, link.RaiseEpoch, fleetv1alpha1.LeaveOrphan)
}

func staleTombstoneEvent(name string, err error) event.Event {
	return event.Warning(eventHubRestored, actionApply, "The hub's ConfigMap %s/%s asks to delete what the hub has placed here: %s",
		fleetv1alpha1.SystemNamespace, name, err)
}

// protectedText says which objects stay. why has the reason for each.
func protectedText(why []string) string {
	return fmt.Sprintf("%d object(s) of the hub can't be deleted: %s", len(why), event.Names(why))
}

func protectedEvent(why []string) event.Event {
	return event.Warning(EventProtected, actionApply, "%s", protectedText(why))
}

func invalidDecisionEvent(decision string) event.Event {
	return event.Warning(eventUnclaimed, actionApply, "annotation %s is %q: must be %s or %s",
		link.AnnotationUnclaimed, decision, fleetv1alpha1.LeaveOrphan, fleetv1alpha1.LeaveDelete)
}

func contendedEvent(v *problem) event.Event {
	return event.Warning(eventContended, actionApply, "%s", v.message)
}

func refusedEvent(why string) event.Event {
	return event.Warning(EventHubRefused, actionConnect, "Refused a hub that does not own this cluster: %s", why)
}
