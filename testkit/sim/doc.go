// Package sim runs a real reconciler in a small world that goes wrong on purpose: an apiserver, a watch cache that lags,
// the kubelet and others beside it, and a process that is killed between any two writes. All of it happens in one
// process, in an order that a seed decides, on a clock that nobody waits for. The same schedule gives the same run.
//
// The idea: a run is a list of steps. At each point some steps are possible (a watch delivers its next event; a request is
// reconciled; the kubelet starts a pod; a user edits the spec; the dead process starts again) and the schedule chooses
// one. Seed 0 takes them in the most orderly way: news first, then the controller, then the others. Any other seed draws,
// so that news of pods may be old while news of PVCs is not. Faults name the write or the call at which they strike.
//
// A kind is described once (Kind), a scenario is a world to begin with and edits (Scenario). Test then plays it
//
//	undisturbed   twice, and the two runs must be equal to the letter
//	swept         once for each kind of fault at each write or call of the undisturbed run
//	at random     with the order of steps, and up to four faults, drawn from the seed
//
// a hundred schedules of it each time, as many as FLOTILLA_SIM says, or all. In each run
//
//	rules hold after every write and step (Rule; AtMost, AtLeast, OwnOnly and DeletesByUID are ready-made)
//	the world comes to rest, and Kind.Summary says of it the same as of the undisturbed run
//	at rest the controller writes nothing, neither when all is queued again nor after a restart
//	no object of the cache was changed
//
// A failure is shrunk to the faults that it needs and printed with its last steps and a line that replays it:
//
//	FLOTILLA_SIM='rollback in the middle/7:crash-after@5,stale@9+20' go test -run TestSimulation -v ./member/workload/cloneset
//
// What the apiserver does as a real one: versions that grow, UIDs, generations that count changes of the spec, generated
// names, AlreadyExists, NotFound, conflicts by version and by UID, preconditions of deletions, merge, JSON and strategic
// merge patches (the last not of custom resources), the status subresource (of pods with metadata), resize and binding of
// pods, pod specs of which only images change, revisions whose data never changes, dry runs, writes without a change that make no event, finalizers, grace
// periods of pods on a node, protection of PVCs in use, and admission by Kind.Admit. TestSharedCases checks this, and
// its integration twin checks the same cases on a real apiserver.
//
// What it does not: defaulting and validation beyond the above (objects should come as the webhook leaves them), pruning,
// namespaces, field managers, server-side apply and deletion of collections (both are refused), watches by label or field,
// and lists from a cache that is older than the process, as a new leader may get from another apiserver.
//
// The controller must do one request at a time (podcontrol's Parallel is 1), must take time from Process.Clock and what it
// draws by lot from Process.Draw, and must know its indexes by Kind.Index. Runs share nothing and may overlap.
//
// A process that was killed gets an error from each call, and nothing that it does from then on reaches the world: to the
// world that is the same as a dead one, and needs no goroutine to be stopped.
package sim
