package sidecarset

// Reasons of events and of the condition Injected.
const (
	// ReasonInjected: all pods that the SidecarSet selects have its sidecars.
	ReasonInjected = "AllInjected"
	// ReasonNotInjected: some have none.
	ReasonNotInjected = "PodsNotInjected"
	// ReasonSkipped: a new pod got no sidecars, because a name is taken.
	ReasonSkipped = "SidecarsSkipped"
	// ReasonIncomplete: a new pod got sidecars, but not all that belongs to them.
	ReasonIncomplete = "SidecarsIncomplete"
)

// Actions of events.
const (
	actionInject = "Inject"
)
