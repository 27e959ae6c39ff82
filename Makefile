# Flotilla. `make help` lists the targets.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Everything is built with the same flags, so that libraries are compiled only once.
export CGO_ENABLED ?= 0
export GOFLAGS := -buildvcs=false -trimpath
export LC_ALL := C

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0)
LDFLAGS := -s -w -X github.com/flotilla-io/flotilla/pkg/manager/option.Version=$(VERSION)
TOOL := go tool -modfile=e2e/tools/go.mod
LAB := go run ./e2e/lab
NODES ?= kwok

# How much the test targets run: only what the gate needs (gate), or everything (all). docs/internals/tests.md has a table.
export FLOTILLA_TEST ?= gate
ALL := $(filter all,$(FLOTILLA_TEST))
# The output of go test -json for each stage, which e2e/tally reads.
RESULTS := bin/test
# vet is off because make lint runs it on everything.
gotest = $(TOOL) gotestsum --format pkgname-and-test-fails --jsonfile $(RESULTS)/$(1).json -- -vet=off
racetest = CGO_ENABLED=1 $(call gotest,$(1)-race) -race
# Tests on clusters can fail on a busy machine. So the gate runs a failed test again, alone and at most twice, unless more than five tests
# failed or there was a panic or a data race. tally prints which tests were flaky, and fails if anything else failed.
# $(call clustertest,stage,packages,flags)
AGAIN := $(if $(ALL),,--rerun-fails=2 --rerun-fails-max-failures=5 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race)
clustertest = $(TOOL) gotestsum --format pkgname-and-test-fails --jsonfile $(RESULTS)/$(1).json $(AGAIN) --packages "$(2)" \
  -- -vet=off $(3); CGO_ENABLED=0 go run ./e2e/tally check $(RESULTS)/$(1).json
# Folders whose own code has goroutines or locks. In others the race detector can't find anything.
CONCURRENT = grep -rlE --include='*.go' --exclude='*_test.go' \
  '^\s*go [a-zA-Z(]|^\s*"(sync|sync/atomic|golang.org/x/sync/.*)"|make\(chan' . | xargs -n1 dirname | sort -u
# The race detector is more expensive in integration tests, so only one kind runs with it.
RACED := ./member/workload/cloneset
# RACE=all runs all unit and integration tests with the race detector.
RACE ?=
# How many simulated schedules to run for each kind. There are up to 80,000 of one kind; "all" runs them and takes hours.
FLOTILLA_SIM ?= $(if $(ALL),2000,400)
# Simulations have their own stage. Only test-all runs some of them with the race detector too.
UNSIMULATED := -skip '^TestSimulation$$'
# Runs of each fuzz target, or a duration such as 10m; test-all does fewer, because compiling for it takes most of the time. The default is not a
# duration because Go 1.26 may report a target that found nothing as failed when the time is up (go.dev/issue/75804).
FUZZTIME ?= $(if $(ALL),2000x,20000x)
# Rounds of chaos, each with its own seed.
SOAK ?= $(if $(ALL),1,3)
# The packages that make vulncheck checks.
VULNCHECK ?= ./cmd/...

##@ Use

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## start a hub and two members, run workloads in both, and check each step (NODES=real: kubelets, helm)
	@echo 'A fleet on this machine: a hub, two members, and what they run over both.'
	@echo 'The first time: 8 minutes on two quiet cores, to compile. Later: half a minute.'
	@echo; echo 'Build the demo and the libraries that all of it shares'
	@start=$$SECONDS; out=$$(go build -o bin/demo ./e2e/demo 2>&1) || { echo "$$out"; exit 1; }; \
	  printf '%7.1fs  done\n' $$((SECONDS - start))
	@bin/demo up --nodes $(NODES)

.PHONY: demo-down
demo-down: ## stop what make demo left running
	@go run ./e2e/demo down

.PHONY: build
build: ## build the programs into bin/
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/flotilla-hub ./cmd/hub
	go build -ldflags '$(LDFLAGS)' -o bin/flotilla-member ./cmd/member
	go build -ldflags '$(LDFLAGS)' -tags grpcnotrace -o bin/flotilla-noded ./cmd/noded
	go build -ldflags '$(LDFLAGS)' -o bin/kubectl-kruise ./cmd/kubectl-kruise

.PHONY: images
images: ## build images for amd64 and arm64 as a layout in bin/images, with SBOMs and digests; IMAGES_TO=host/path pushes them
	@mkdir -p bin
	@go build -C e2e/image -o $(CURDIR)/bin/labimage ./cmd/labimage
	@bin/labimage build --version $(VERSION) --out bin/images $(if $(IMAGES_TO),--to $(IMAGES_TO))

##@ Test

# One stage at a time: while both cores are busy compiling, tests on clusters would time out.
STAGES := unit bench-compare simulate lab-build lab-test integration e2e e2e-real $(if $(ALL),mutants vulncheck fuzz soak)

.PHONY: test
test: ## run what CI runs after make verify; print times by stage, kind and package, what was skipped, and flaky tests
	@rm -rf $(RESULTS); times=(); for stage in $(STAGES); do \
	  echo "=== $$stage"; start=$$SECONDS; $(MAKE) --no-print-directory $$stage; \
	  times+=("$$(printf '%-12s %5d s' $$stage $$((SECONDS - start)))"); printf '    %s\n' "$${times[@]}"; done
	@go run ./e2e/tally $(RESULTS)

.PHONY: test-all
test-all: ## run make test with nothing skipped: more schedules, every test, mutants, fuzzing, soak (hours)
	@$(MAKE) --no-print-directory test FLOTILLA_TEST=all

.PHONY: unit
unit: $(RESULTS)/. ## run unit and golden tests and the seeds of fuzz targets; with the race detector where there are goroutines
	@all=$$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | sed 's|^$(CURDIR)|.|' | sort); \
	raced=$(if $(filter all,$(RACE)),$$all,$$(comm -12 <(echo "$$all") <($(CONCURRENT)))); plain=$$(comm -23 <(echo "$$all") <(echo "$$raced")); export GOGC=400; \
	if [ -n "$$plain" ]; then $(call gotest,unit) $(UNSIMULATED) -timeout 30m $$plain; fi; \
	$(call racetest,unit) $(if $(ALL),,$(UNSIMULATED)) -timeout 30m $$raced
	cd e2e/image && $(if $(ALL),CGO_ENABLED=1) go test $(if $(ALL),-race) ./...
	cd e2e/kube && $(if $(ALL),CGO_ENABLED=1) go test $(if $(ALL),-race,-vet=off) ./cmd/labdns/... ./cmd/labnode/...

.PHONY: simulate
simulate: $(RESULTS)/. ## simulate crashes, stale caches and lost responses at the writes of all scenarios; prints how many were run
	@GOGC=400 FLOTILLA_SIM='$(FLOTILLA_SIM)' $(call gotest,simulate) -count 1 -timeout 30m -run '^TestSimulation$$' \
	  $$(grep -rl --include='*_test.go' 'sim\.Test(' hub member | xargs -n1 dirname | sort -u | sed 's|^|./|')

# The folder of the cluster that all packages share has a fixed name for this checkout, so that go test can cache results.
PLANES := $(or $(TMPDIR),/tmp)/flotilla-planes$(subst /,-,$(CURDIR))

.PHONY: integration
integration: lab-build $(RESULTS)/. ## run tests against real apiservers; all packages share one cluster
	@export FLOTILLA_SHARED_PLANES=$(PLANES); down() { FLOTILLA_LAB_STATE=$(PLANES) $(LAB) down --all; rm -rf $(PLANES); }; \
	down; mkdir -p $(PLANES); trap down EXIT; \
	files=$$(grep -rl --include='*_test.go' --exclude-dir=lab '^//go:build integration' apis charts cmd hub member pkg testkit); \
	tests="^($$(grep -hoE '^func Test[A-Za-z0-9_]+' $$files | cut -c6- | grep -v '^TestMain$$' | sort -u | paste -sd '|'))\$$"; \
	all=$$(xargs -n1 dirname <<< "$$files" | sort -u | sed 's|^|./|'); \
	raced=$(if $(filter all,$(RACE)),$$all,$$(comm -12 <(echo "$$all") <(printf '%s\n' $(RACED)))); \
	plain=$$(comm -23 <(echo "$$all") <(echo "$$raced")); \
	if [ -n "$$plain" ]; then $(call clustertest,integration,$$plain,-p 2 -parallel 8 -tags integration -timeout 15m -run "$$tests"); fi; \
	( export CGO_ENABLED=1; $(call clustertest,integration-race,$$raced,-race -p 2 -parallel 4 -tags integration -timeout 15m -run "$$tests") )

# Sources of the lab.
LAB_SOURCES := go.mod go.sum testkit/lab e2e/lab e2e/kube e2e/image e2e/testapp e2e/pause

.PHONY: lab-test
lab-test: lab-build $(RESULTS)/. ## test the lab itself; skipped if the same sources have passed on this machine
	@sources=$$({ find $(LAB_SOURCES) -type f | sort | xargs sha256sum; echo "$${CI:-}"; } | sha256sum | cut -c1-16); \
	passed=$$($(LAB) build 2>/dev/null)/passed-$$sources; \
	if [ -z "$(ALL)" ] && [ -e "$$passed" ]; then \
	  echo 'the same sources have passed on this machine' | tee $(RESULTS)/lab-test.skipped; exit; fi; \
	$(if $(ALL),$(call racetest,lab-test),$(call gotest,lab-test)) -p 1 -tags integration -timeout 15m ./testkit/lab/...; \
	touch "$$passed"

.PHONY: fuzz
fuzz: ## run each fuzz target FUZZTIME (20000x; in test-all 2000x) times
	@for file in $$(grep -rlE --include='*_test.go' '^func Fuzz' apis pkg hub member); do \
	  for target in $$(grep -oE '^func Fuzz[A-Za-z0-9_]+' $$file | cut -c6-); do \
	    echo "--- $$target ($$(dirname $$file))"; \
	    found=$$(go test -vet=off -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x ./$$(dirname $$file)) \
	      || { echo "$$found"; exit 1; }; \
	    tail -n 1 <<< "$$found"; done; done

.PHONY: mutants
mutants: ## break each rule in docs/internals/invariants.md by one line, and list rules whose tests still pass (MUTANTS=I05: one rule)
	@FLOTILLA_TEST=gate go run ./e2e/mutants $(if $(MUTANTS),-only '$(MUTANTS)')

# The logs of a fleet whose tests failed are kept here, because the next run removes the fleet.
KEEP_LOGS := FLOTILLA_E2E_LOGS=$(CURDIR)/$(RESULTS)/logs

.PHONY: e2e
e2e: build lab-build $(RESULTS)/. ## run the black-box suite on a hub and two members; compare StatefulSet and DaemonSet with the native ones
	export $(KEEP_LOGS); $(call clustertest,e2e,./e2e/suite/... ./e2e/native/...,-tags e2e -count 1 -p 2 -parallel 4 -timeout 40m)

.PHONY: e2e-real
e2e-real: build lab-build $(RESULTS)/. ## test on real nodes with our images and charts; skipped where nodes can't run, unless CI=true
	export $(KEEP_LOGS); $(call clustertest,e2e-real,./e2e/real/...,-tags e2e -count 1 -parallel 3 -timeout $(if $(ALL),60,30)m)

.PHONY: soak
soak: build lab-build $(RESULTS)/. ## run SOAK (3; in test-all 1) rounds of chaos on real nodes and of randomly killed managers
	@for round in $$(seq $(SOAK)); do \
	  export FLOTILLA_TEST=all FLOTILLA_E2E_SEED=$$(date +%s); \
	  echo "--- round $$round of $(SOAK), FLOTILLA_E2E_SEED=$$FLOTILLA_E2E_SEED"; \
	  $(call gotest,soak-$$round) -tags e2e -count 1 -p 1 -timeout 30m -run 'Chaos|Killed' ./e2e/real/... ./e2e/suite/...; done

$(RESULTS)/.:
	@mkdir -p $@

# If the public database can't be read, nothing is checked, and that is not a failure. For a database set with GOVULNDB it is one.
.PHONY: vulncheck
vulncheck: ## find known vulnerabilities that our programs reach; GOVULNDB=URL (or file://) replaces the public database, and is required then
	@said=$$($(TOOL) govulncheck -db $(or $(GOVULNDB),https://vuln.go.dev) $(VULNCHECK) 2>&1) && code=0 || code=$$?; echo "$$said"; \
	if [ $$code != 0 ] && [ -z "$(GOVULNDB)" ] && grep -q '^govulncheck: fetching vulnerabilities: ' <<< "$$said"; then \
	  echo 'vulncheck: NOTHING CHECKED: the public database could not be read'; exit; fi; exit $$code

.PHONY: lab-build
lab-build: ## build Kubernetes, kwok, helm and what real nodes run (cached)
	@$(LAB) build

BENCHED = $$(grep -rlE --include='*_test.go' '^func Benchmark' apis pkg hub member | xargs -n1 dirname | sort -u | sed 's|^|./|')

.PHONY: bench
bench: ## run benchmarks: planners, writes per pod and per row
	go test -run '^$$' -bench . -benchmem $(BENCHED)

# The compared figures must not depend on the machine, nor on how long a benchmark runs: so use a fixed number of rounds, one processor, and
# the default GOGC, which determines what sync.Pool keeps.
.PHONY: bench-compare
bench-compare: ## fail if allocations, bytes or writes in make bench are more than 10% worse than recorded; times are only printed
	@out=$$(GOGC=100 go test -vet=off -run '^$$' -bench . -benchmem -benchtime 20x -cpu 1 $(BENCHED)) || { echo "$$out"; exit 1; }; \
	go run ./e2e/compare $(RECORD) e2e/compare/recorded.json <<< "$$out"

.PHONY: bench-record
bench-record: ## record these figures, for a commit that changes them on purpose
	@$(MAKE) --no-print-directory bench-compare RECORD=-record

.PHONY: bench-scale
bench-scale: build lab-build ## compare our kinds with native ones, 1,000 to 5,000 pods, 500 nodes: writes, CPU, memory, rows
	go run ./e2e/bench

OBJECTS ?= 200
.PHONY: bench-hub
bench-hub: build lab-build ## create and change OBJECTS (200) UnitedDeployments at once: wall time, CPU, writes, latency, bytes
	go run ./e2e/bench hub --objects $(OBJECTS)

.PHONY: bench-propagation
bench-propagation: build lab-build ## the same for OBJECTS (200) Propagations, each placing a Deployment and a ConfigMap from its own namespace
	go run ./e2e/bench propagation --objects $(OBJECTS)

.PHONY: bench-real
bench-real: build lab-build ## measure on real nodes: from a new image to ready, from an annotation to env, a fleet at rest
	go test -tags e2e -run '^$$' -bench . -benchtime 1x -timeout 30m ./e2e/real

##@ Maintain

.PHONY: generate
generate: ## generate deepcopy functions, CRDs and RBAC
	go generate ./apis/... ./hub/... ./member/...

.PHONY: tidy
tidy: ## tidy go.mod of the product, the lab's programs and the tools
	go mod tidy
	cd e2e/kube && go mod tidy
	cd e2e/image && go mod tidy
	cd e2e/tools && go mod tidy

.PHONY: lint
lint: ## run golangci-lint
	$(TOOL) golangci-lint run --allow-parallel-runners

.PHONY: fmt
fmt: ## format the code
	$(TOOL) golangci-lint fmt

.PHONY: deps
deps: ## list the modules in each binary
	@for c in hub member noded kubectl-kruise; do \
	  go list -deps -f '{{with .Module}}{{.Path}}{{end}}' ./cmd/$$c | LC_ALL=C sort -u > cmd/$$c/deps.golden; done

.PHONY: verify
verify: generate tidy deps lint ## check that generated files and modules are as committed, and lint
	@if [ -n "$$(git status --porcelain)" ]; then git status --short; git --no-pager diff --stat; \
	  echo 'verify: the files above changed or are new: run make generate tidy deps, and commit'; exit 1; fi
	@echo 'verify: up to date'
