package sidecarset

// Reasons of events and of the conditions Active, Injected and Upgradable.
const (
	// ReasonSent: the pod webhook gets the pods of the namespaces that the SidecarSet selects. ReasonNotSent: it doesn't.
	ReasonSent    = "PodsSent"
	ReasonNotSent = "PodsNotSent"
	// ReasonInjected: all pods that the SidecarSet selects have its sidecars.
	ReasonInjected = "AllInjected"
	// ReasonNotInjected: some have none.
	ReasonNotInjected = "PodsNotInjected"
	// ReasonSkipped: a new pod got no sidecars, because a name is taken.
	ReasonSkipped = "SidecarsSkipped"
	// ReasonIncomplete: a new pod got sidecars, but not all that belongs to them, or not those of the revision that it was to get.
	ReasonIncomplete = "SidecarsIncomplete"
)

// Reasons of the condition of pods that says whether they can be updated in place, and of events about updates, which are those of
// OpenKruise.
const (
	// ReasonImmutable: more than images has changed.
	ReasonImmutable = "UpdateImmutableField"
	// ReasonAllUpgradable: nothing stands in the way any more.
	ReasonAllUpgradable = "AllSidecarsetUpgradable"
	// ReasonNotUpgradable: pods can't be updated in place.
	ReasonNotUpgradable = "NotUpgradablePods"
	// ReasonRecreating: workloads were asked to re-create pods that can't be updated in place.
	ReasonRecreating = "RecreatingPods"
	// ReasonReset and ReasonResetFailed: the container that was replaced was emptied, or could not be.
	ReasonReset       = "ResetContainerSucceed"
	ReasonResetFailed = "ResetContainerFailed"
)

// Actions of events.
const (
	actionInject = "Inject"
	actionUpdate = "Update"
)
