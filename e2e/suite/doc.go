// Package suite tests Flotilla's guarantees on a hub and two members with real control planes: as a black box, only through the API and the
// kubectl plugin.
//
// All tests share one fleet, and each works in its own namespace. The first line of a test says whether it may run beside others: parallel
// for tests that stay in their namespace, alone for tests that stop or kill something, change a MemberCluster or a webhook, or count what the
// whole fleet writes. The latter run first, one after the other, and leave the fleet as they found it. A number in a test's name is the
// number of the invariant that it checks. Tests wait for conditions, with timeouts for a slow machine. Only that nothing happens is checked
// for a fixed time.
//
//	go test -tags e2e ./e2e/suite/...                 all
//	FLOTILLA_E2E_KEEP=1 go test -tags e2e -run ...    keep the fleet, and reuse it
//	FLOTILLA_E2E_SEED=7 go test -tags e2e -run ...    kill at the same moments as a run that printed seed 7
package suite
