// Package sim runs real reconcilers in a simulated cluster with injected faults: an apiserver, a watch cache that lags behind, the kubelet
// and other actors, and a process that may crash between any two writes. Everything runs in one process, in an order determined by a seed, on
// a fake clock. The same schedule gives the same run.
//
// A world may have several processes, each with controllers that share its caches and crash with it, and several clusters, such as a hub and
// its members (Kind.Beside, Kind.Others, Kind.Cluster, Process.In). The writes of all processes are numbered together, so that a sweep has a
// fault at each.
//
// A run is a list of steps. At each point some steps are possible (a watch delivers its next event; a request is reconciled; the kubelet
// starts a pod; a user changes the spec; a crashed process restarts), and the schedule chooses one. Seed 0 chooses watch events first, then
// the controller, then the others. Any other seed chooses at random, so the cache for pods may lag while the one for PVCs does not. A fault
// names the write or the call at which it is injected.
//
// A kind is described once (Kind). A scenario (Scenario) is a list of initial objects and a list of edits. Test plays each scenario
//
//	undisturbed   twice, and the two runs must be equal
//	swept         once for each kind of fault at each write or call of the undisturbed run
//	at random     with the order of steps, and up to four faults, from the seed
//
// It tries a hundred of these schedules, the number in FLOTILLA_SIM, or all. In each run
//
//	rules hold after every write and step (Rule; AtMost, AtLeast, OwnOnly and DeletesByUID are predefined)
//	the world comes to rest, with the same Kind.Summary as the undisturbed run
//	at rest the controller writes nothing, neither when all objects are enqueued again nor after a restart
//	no object of the cache was modified
//
// A failure is reduced to the faults that it needs, and printed with its last steps and a command that replays it:
//
//	FLOTILLA_SIM='rollback midway/7:crash-after@5,stale@9+20' go test -run TestSimulation -v ./member/workload/cloneset
//
// The apiserver behaves like a real one in these respects: resource versions, UIDs, generations that count changes of the spec, generated
// names, AlreadyExists, NotFound, conflicts by version and by UID, preconditions of deletions, merge, JSON and strategic merge patches (the
// last not for custom resources), server-side apply with its conflicts (lists are atomic), the status subresource (for pods including
// metadata), resize, binding and ephemeral containers of pods, pod specs in which only images can change, revisions with immutable data, dry
// runs, writes without a change that cause no event, finalizers, grace periods of pods on a node, protection of PVCs in use, and admission
// through Kind.Admit. TestSharedCases checks this. An integration test checks the same cases against a real apiserver.
//
// It has no defaulting or validation beyond the above (objects should be as the webhook leaves them), no pruning, no namespaces, no field
// managers for objects that were never applied, no apply of subresources and no deletion of collections (both are rejected), no watches by
// label or field, and no lists from a cache that is older than the process, which a new leader may get from another apiserver.
//
// The controller must send one request at a time (podcontrol's Parallel is 1), must take the time from Process.Clock and random names from
// Process.Draw, and must register its indexes in Kind.Index. Runs share nothing and may be concurrent.
//
// A crashed process gets an error from every call, and none of its later writes reaches the world. So goroutines don't have to be stopped.
package sim
