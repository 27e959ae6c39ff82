// Package real tests what only real nodes can show: that an in-place update restarts one container and not the
// others, that charts install, upgrade, roll back and uninstall, and that rights, probes, webhooks behind a Service and upgrades
// of our own managers work. The fleet is one hub and two members with kubelets, containerd and runc; our managers and the node
// daemon run in it from our images, installed by helm.
//
// All tests share one fleet. Those that disturb others run one after the other, first; those that don't, run side by side
// after them, each in a namespace of its own. Where nodes can't run on a machine, all are skipped with the reason; with CI=true
// they fail instead.
//
//	go test -tags e2e ./e2e/real/...                    all
//	FLOTILLA_E2E_KEEP=1 go test -tags e2e -run ...      keep the fleet, and reuse it
//	FLOTILLA_E2E_SEED=7 go test -tags e2e -run Chaos    repeat the chaos of a run that printed seed 7
//	make bench-real                                     the cost of an update and of a fleet at rest, on an idle machine
package real
