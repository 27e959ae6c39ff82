package keys

// Conditions that every kind has, following the conventions of kstatus, so that kubectl wait, helm, Flux and Argo CD assess all kinds in
// the same way, without a rule for each.
const (
	// ConditionReady is True while the object matches its spec. It is always present once a controller has observed the object.
	ConditionReady = "Ready"
	// ConditionReconciling is True while a controller, or something it waits for, is still working towards the spec. Otherwise it is absent.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while there is no progress towards the spec, either because somebody has to intervene or because the deadline
	// was exceeded. Otherwise it is absent.
	ConditionStalled = "Stalled"
)
