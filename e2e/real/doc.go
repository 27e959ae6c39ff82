// Package real tests what only real nodes can show: that an in-place update restarts one container and not the others, that charts install,
// upgrade, roll back and uninstall, and that permissions, probes, webhooks behind a Service and upgrades of our own managers work. The fleet
// is one hub and two members with kubelets, containerd and runc. Our managers and the node daemon run in it from our images, installed by
// helm.
//
// All tests share one fleet. Tests that disturb others run first, one after the other. The others run concurrently after them, each in its
// own namespace. If nodes can't run on a machine, all tests are skipped with the reason. With CI=true they fail instead.
//
//	go test -tags e2e ./e2e/real/...                    all
//	FLOTILLA_E2E_KEEP=1 go test -tags e2e -run ...      keep the fleet, and reuse it
//	FLOTILLA_E2E_SEED=7 go test -tags e2e -run Chaos    repeat the chaos of a run that printed seed 7
//	make bench-real                                     the cost of an update and of a fleet at rest, on an idle machine
package real
