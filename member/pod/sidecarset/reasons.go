package sidecarset

// Reasons of events about injection, and of the conditions Active and Injected.
const (
	// ReasonSent: the pod webhook gets the pods of the selected namespaces. ReasonNotSent: it doesn't.
	ReasonSent    = "PodsSent"
	ReasonNotSent = "PodsNotSent"
	// ReasonInjected: all selected pods have the sidecars.
	ReasonInjected = "AllInjected"
	// ReasonNotInjected: some selected pods have no sidecars.
	ReasonNotInjected = "PodsNotInjected"
	// ReasonSkipped: a new pod got no sidecars because a container name is taken.
	ReasonSkipped = "SidecarsSkipped"
	// ReasonIncomplete: a new pod got sidecars, but not everything that belongs to them, or not those of the requested revision.
	ReasonIncomplete = "SidecarsIncomplete"
)

// Reasons of events about updates, of condition Upgradable, and of the pod condition SidecarSetUpgradable. Source: OpenKruise, except
// ReasonRecreating.
const (
	// ReasonImmutable: more than images changed.
	ReasonImmutable = "UpdateImmutableField"
	// ReasonAllUpgradable: no SidecarSet prevents an in-place update any longer.
	ReasonAllUpgradable = "AllSidecarsetUpgradable"
	// ReasonNotUpgradable: pods can't be updated in place.
	ReasonNotUpgradable = "NotUpgradablePods"
	// ReasonRecreating: workloads were asked to recreate pods that can't be updated in place.
	ReasonRecreating = "RecreatingPods"
	// ReasonReset and ReasonResetFailed: the replaced containers were set to the empty image, or could not be.
	ReasonReset       = "ResetContainerSucceed"
	ReasonResetFailed = "ResetContainerFailed"
)

// Actions of events.
const (
	actionInject = "Inject"
	actionUpdate = "Update"
)
