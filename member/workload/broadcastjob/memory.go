package broadcastjob

// known is what a manager knows about a job before its status has it.
type known struct {
	// succeeded are the nodes on which the pod was seen to have succeeded. It is replaced, not changed.
	succeeded map[string]bool
	// crowded means that more pods were active than parallelism allows.
	crowded bool
}

// record stores the results of a plan: on which nodes the job has succeeded and whether it is crowded. It reports whether that begins.
func (k *known) record(succeeded map[string]bool, crowded bool) (begins bool) {
	begins = crowded && !k.crowded
	k.succeeded, k.crowded = succeeded, crowded
	return begins
}
