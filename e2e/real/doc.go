// Package real shows what only real nodes can show: that an update in place starts one container anew and spares the
// others, that charts install, upgrade, roll back and go, and that rights, probes, webhooks behind a Service and upgrades of
// our own managers work. The fleet is one hub and two members with kubelets, containerd and runc; our managers and the node
// daemon run in it from our images, installed by helm.
//
// All tests share one fleet. Those that disturb others run one after the other, first; those that don't, run side by side
// after them, each in a namespace of its own. Where nodes can't run on a machine, all are skipped with the reason; with CI=true
// they fail instead.
//
//	go test -tags e2e ./e2e/real/...                    all
//	FLOTILLA_E2E_KEEP=1 go test -tags e2e -run ...      keep the fleet, and use it again
//	FLOTILLA_E2E_SEED=7 go test -tags e2e -run Chaos    let chaos do what it did in a run that printed seed 7
//	make bench-real                                     what an update and a fleet at rest take, on a quiet machine
package real
