package feature

// gate is a gate of OpenKruise that has no effect here: either there is no choice, or the feature doesn't exist yet.
type gate struct {
	// settled is why there is no choice.
	settled string
	// missing is the feature that the gate would enable, with its verb: "jobs are".
	missing string
}

// unservedGates returns the gates of OpenKruise 1.9 that this version doesn't have. A gate that becomes supported moves to specs.
func unservedGates() map[string]gate {
	const (
		pods = "a readiness gate in all pods is"
	)
	return map[string]gate{
		"CloneSetEventHandlerOptimization": {settled: "all pod events are handled, and a reconcile without work writes nothing"},
		"ForceDeleteTimeoutExpectationGate": {settled: "after --expectation-timeout, pods are always read from the apiserver, " +
			"so nothing stays stuck"},
		"KruiseDaemon":              {settled: "features that need a node daemon work where one runs; the chart's daemon.enabled controls that"},
		"DaemonWatchingPod":         {settled: "a node daemon watches the pods of its node"},
		"EnableExternalCerts":       {settled: "--webhook-external-cert and the chart's externalCerts.secretName select an external certificate"},
		"PodIndexLabel":             {settled: "pods of StatefulSets always have the label"},
		"InPlacePodVerticalScaling": {settled: "Kubernetes resizes pods in place since 1.33, through the subresource pods/resize"},
		"DaemonSetPruneIneligibleNodes": {settled: "pods on nodes that no longer fit a DaemonSet never count, for the budget or for " +
			"the partition"},

		"KruisePodReadinessGate":                    {missing: pods},
		"DefaultHostNetworkHostPortsInPodTemplates": {missing: "defaulting of host ports is"},
	}
}
