# Flotilla. `make help` lists the targets.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The same flags for everything that is built, so that the libraries compile once.
export CGO_ENABLED ?= 0
export GOFLAGS := -buildvcs=false -trimpath

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0)
LDFLAGS := -s -w -X github.com/flotilla-io/flotilla/pkg/option.Version=$(VERSION)
TOOL := go tool -modfile=e2e/tools/go.mod
LAB := go run ./e2e/lab
# Lint has vetted all of it.
UNIT := $(TOOL) gotestsum --format pkgname-and-test-fails -- -vet=off
NODES ?= kwok
# Runs of each fuzz target, or a time as 10m. Not a time by default: at its end Go 1.26 may call a target that found nothing
# failed (go.dev/issue/75804).
FUZZTIME ?= 5000x

##@ Use

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## a hub and two members on this machine; one UnitedDeployment over both, checked step by step (NODES=real: kubelets, helm)
	@go run ./e2e/demo up --nodes $(NODES)

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
images: ## images for amd64 and arm64, as a layout in bin/images; IMAGES_TO=host/path pushes them
	@mkdir -p bin
	@go build -C e2e/image -o $(CURDIR)/bin/labimage ./cmd/labimage
	@bin/labimage build --version $(VERSION) --out bin/images $(if $(IMAGES_TO),--to $(IMAGES_TO))

##@ Test

.PHONY: test
test: ## everything that CI runs, after make verify; prints the time of each stage
	@times=(); for stage in unit simulate lab-build integration fuzz e2e e2e-real; do \
	  echo "=== $$stage"; start=$$SECONDS; $(MAKE) --no-print-directory $$stage; \
	  times+=("$$(printf '%-12s %5d s' $$stage $$((SECONDS - start)))"); printf '    %s\n' "$${times[@]}"; done

.PHONY: unit
unit: ## unit and golden tests, with the race detector
	GOGC=400 CGO_ENABLED=1 $(UNIT) -race ./...
	cd e2e/image && go test ./...
	cd e2e/kube && go test ./cmd/labdns/... ./cmd/labnode/...

.PHONY: simulate
simulate: ## every fault at each write of all simulated stories; prints how many schedules were tried
	@FLOTILLA_SIM=all GOGC=400 go test -vet=off -count 1 -timeout 30m -v -run '^TestSimulation$$' \
	  $$(grep -rl --include='*_test.go' 'sim\.Test(' hub member | xargs -n1 dirname | sort -u | sed 's|^|./|') \
	  | grep -vE --line-buffered '^ *(===|--- PASS|PASS)'

# The cluster that all packages share lies in a folder of this checkout's own, with a name that lets go test cache results.
PLANES := $(or $(TMPDIR),/tmp)/flotilla-planes$(subst /,-,$(CURDIR))

.PHONY: integration
integration: lab-build ## against real apiservers, with the race detector; all packages share one cluster
	@export FLOTILLA_SHARED_PLANES=$(PLANES); down() { FLOTILLA_LAB_STATE=$(PLANES) $(LAB) down --all; rm -rf $(PLANES); }; \
	down; mkdir -p $(PLANES); trap down EXIT; \
	files=$$(grep -rl --include='*_test.go' '^//go:build integration' apis charts hub member pkg cmd); \
	tests=$$(grep -hoE '^func Test[A-Za-z0-9_]+' $$files | cut -c6- | grep -v '^TestMain$$' | sort -u | paste -sd '|'); \
	CGO_ENABLED=1 $(UNIT) -race -p 2 -parallel 8 -tags integration -timeout 15m -run "^($$tests)\$$" \
	  $$(xargs -n1 dirname <<< "$$files" | sort -u | sed 's|^|./|')

.PHONY: fuzz
fuzz: ## each fuzz target FUZZTIME (5000x) times
	@for file in $$(grep -rlE --include='*_test.go' '^func Fuzz' apis pkg hub member); do \
	  for target in $$(grep -oE '^func Fuzz[A-Za-z0-9_]+' $$file | cut -c6-); do \
	    echo "--- $$target ($$(dirname $$file))"; \
	    found=$$(go test -vet=off -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x ./$$(dirname $$file)) \
	      || { echo "$$found"; exit 1; }; \
	    tail -n 1 <<< "$$found"; done; done

.PHONY: e2e
e2e: build lab-build ## the black-box suite on a hub and two members; StatefulSet and DaemonSet beside the native ones
	$(UNIT) -tags e2e -count 1 -p 1 -timeout 40m ./e2e/suite/... ./e2e/native/...

.PHONY: e2e-real
e2e-real: build lab-build ## real nodes, our images, our charts by helm; skipped where nodes can't run, unless CI=true
	$(UNIT) -tags e2e -count 1 -parallel 4 -timeout 30m ./e2e/real/...

.PHONY: lab-build
lab-build: ## build Kubernetes, kwok, helm and what real nodes run (cached)
	@$(LAB) build

.PHONY: bench
bench: ## benchmarks of the planners
	go test -run '^$$' -bench . -benchmem ./pkg/rollout/... ./pkg/podview/... ./pkg/spread/... ./hub/allot/... ./member/workload/...

.PHONY: bench-scale
bench-scale: build lab-build ## our kinds beside the native ones, 1,000 to 5,000 pods, 500 nodes; writes, CPU, memory; rows
	go run ./e2e/bench

.PHONY: bench-real
bench-real: build lab-build ## real nodes: from an image's patch to ready, from an annotation to env, a fleet at rest
	go test -tags e2e -run '^$$' -bench . -benchtime 1x -timeout 30m ./e2e/real

##@ Keep

.PHONY: generate
generate: ## deepcopy, CRDs, RBAC
	go generate ./apis/... ./hub/... ./member/...

.PHONY: tidy
tidy: ## go.mod of the product, the lab's programs and the tools
	go mod tidy
	cd e2e/kube && go mod tidy
	cd e2e/image && go mod tidy
	cd e2e/tools && go mod tidy

.PHONY: lint
lint: ## golangci-lint
	$(TOOL) golangci-lint run --allow-parallel-runners

.PHONY: fmt
fmt: ## format
	$(TOOL) golangci-lint fmt

.PHONY: deps
deps: ## list the modules that are in each binary
	@for c in hub member noded kubectl-kruise; do \
	  go list -deps -f '{{with .Module}}{{.Path}}{{end}}' ./cmd/$$c | LC_ALL=C sort -u > cmd/$$c/deps.golden; done

.PHONY: verify
verify: generate tidy deps lint ## generated files, modules and lint are as committed
	@if [ -n "$$(git status --porcelain)" ]; then git status --short; git --no-pager diff --stat; \
	  echo 'verify: the files above changed or are new: run make generate tidy deps, and commit'; exit 1; fi
	@echo 'verify: up to date'
