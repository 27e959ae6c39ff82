package keys

// Conditions that every kind has, by the convention of kstatus: so kubectl wait, helm, Flux and Argo CD judge all kinds alike, without
// a rule for each.
const (
	// ConditionReady is True while the object is as its spec wants. It is always there once a controller has seen the object.
	ConditionReady = "Ready"
	// ConditionReconciling is True while a controller, or what it waits for, is on the way to the spec, and absent otherwise.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while nothing gets closer to the spec without somebody's help, or within the deadline, and absent
	// otherwise.
	ConditionStalled = "Stalled"
)
