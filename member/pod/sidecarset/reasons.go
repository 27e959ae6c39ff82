package sidecarset

// Reasons of events about injection, and of the conditions Active and Injected.
const (
	// reasonSent: the pod webhook gets the pods of the selected namespaces. reasonNotSent: it doesn't.
	reasonSent    = "PodsSent"
	reasonNotSent = "PodsNotSent"
	// reasonInjected: all selected pods have the sidecars.
	reasonInjected = "AllInjected"
	// reasonNotInjected: some selected pods have no sidecars.
	reasonNotInjected = "PodsNotInjected"
	// reasonSkipped: a new pod got no sidecars because a container name is taken.
	reasonSkipped = "SidecarsSkipped"
	// reasonIncomplete: a new pod got sidecars, but not everything that belongs to them, or not those of the requested revision.
	reasonIncomplete = "SidecarsIncomplete"
)

// Reasons of events about updates, of condition Upgradable, and of the pod condition SidecarSetUpgradable. Source: OpenKruise, except
// reasonRecreating.
const (
	// reasonImmutable: more than images changed.
	reasonImmutable = "UpdateImmutableField"
	// reasonAllUpgradable: no SidecarSet prevents an in-place update any longer.
	reasonAllUpgradable = "AllSidecarsetUpgradable"
	// reasonNotUpgradable: pods can't be updated in place.
	reasonNotUpgradable = "NotUpgradablePods"
	// reasonRecreating: workloads were asked to recreate pods that can't be updated in place.
	reasonRecreating = "RecreatingPods"
	// reasonReset and reasonResetFailed: the replaced containers were set to the empty image, or could not be.
	reasonReset       = "ResetContainerSucceed"
	reasonResetFailed = "ResetContainerFailed"
)

// Actions of events.
const (
	actionInject = "Inject"
	actionUpdate = "Update"
)
