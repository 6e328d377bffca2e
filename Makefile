# All developer tasks. "make" alone lists them.
#
# Every tool is pinned in this repository: .ci/tool builds the tools once, and test/cluster builds the
# cluster's parts; both store them in the user's cache folder.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The parts of the cluster that e2e and demo use; serving brings the ingress and DNS.
PARTS ?= serving
# Older versions of these two, such as KUBERNETES=1.34 SERVING=1.19: test/cluster/README.md lists them. Make passes both on to
# bin/cluster in its environment.
KUBERNETES ?=
SERVING ?=
# "existing" uses the cluster of KUBECONFIG instead of a local one.
E2E_CLUSTER ?= own
DEMO_CLUSTER ?= own
# "true" adds a cluster of Cluster API to the demo.
DEMO_ENVIRONMENT ?=
# "sidecar" makes the sharded application of the demo one that knows nothing of shards.
DEMO_STATEFUL ?=
# The version of a release, such as v0.1.0.
VERSION ?=
# Build tags of the controller; .ko.yaml, which ko reads, has the same and says why.
TAGS := grpcnotrace
# Flags for "make deps": --java adds the packages that build an application for the end-to-end tests, and --browser those that test
# pages in a browser; the demo needs neither.
DEPS ?=
# The command for Go tests; .ci/run sets one that counts them.
GOTEST ?= go test

CLUSTER := bin/cluster
MODULES := . test/cluster test/sharded test/chart clients/placement clients/protoactor clients/sidecar .ci/release

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Try it

.PHONY: demo
demo: ## Show the life of a Knative Service as CDEvents, on a local cluster (DEMO_CLUSTER=existing: on your own; DEMO_ENVIRONMENT=true adds a cluster of Cluster API; DEMO_STATEFUL=sidecar shards by a sidecar)
	@if [ "$(DEMO_CLUSTER)" = own ]; then $(MAKE) deps; fi
	@go build -o bin/demo ./test/demo
	@DEMO_CLUSTER=$(DEMO_CLUSTER) DEMO_ENVIRONMENT=$(DEMO_ENVIRONMENT) DEMO_STATEFUL=$(DEMO_STATEFUL) CLUSTER_PROGRAM=$(abspath $(CLUSTER)) bin/demo

.PHONY: demo-down
demo-down: ## Remove the demo and the local cluster (DEMO_CLUSTER=existing: only what the demo installed)
	@if [ "$(DEMO_CLUSTER)" = own ]; then $(MAKE) $(CLUSTER); fi
	@go build -o bin/demo ./test/demo
	@DEMO_CLUSTER=$(DEMO_CLUSTER) CLUSTER_PROGRAM=$(abspath $(CLUSTER)) bin/demo --down

##@ Develop

.PHONY: build
build: ## Build the controller, and the plugin for kubectl and kn, into bin/
	go build -tags $(TAGS) -o bin/ ./cmd/controller ./cmd/kubectl-cdevents
	@for name in kn-cdevents kubectl_complete-cdevents; do ln -sf kubectl-cdevents bin/$$name; done

# Random seeds to simulate in addition to the fixed ones.
SIM_SEED ?= $(shell date +%s%N)

.PHONY: test
test: export SIM_SEED := $(SIM_SEED)
test: $(CLUSTER) browser ## Run the unit tests, and the tests that need a real API server (builds etcd and kube-apiserver first) or a browser
	@echo "simulating more histories, starting from seed $(SIM_SEED) (to repeat: make test SIM_SEED=$(SIM_SEED))"
	@export KUBEBUILDER_ASSETS; KUBEBUILDER_ASSETS=$$($(CLUSTER) assets); \
	bad=0; for m in $(MODULES); do (cd $$m && $(GOTEST) -timeout 25m ./...) || bad=1; done; exit $$bad

# Without a browser, the tests that need one are skipped and say so. To install it: make deps DEPS=--browser
.PHONY: browser
browser:
	@if command -v chromium >/dev/null && command -v node >/dev/null && command -v npm >/dev/null && \
	  ! [ test/browser/node_modules/.package-lock.json -nt test/browser/package-lock.json ]; then \
	  echo "installing the modules of the browser's tests"; npm ci --prefix test/browser --no-progress; \
	fi

.PHONY: test-clients
test-clients: ## Test the client libraries in Java, and the sample of the sidecar (needs a JDK 17, Maven, npm and PostgreSQL: make deps DEPS=--java, apt-get install npm postgresql)
	@command -v mvn >/dev/null || { echo 'Maven is missing; to install it: make deps DEPS=--java' >&2; exit 1; }
	@mvn --batch-mode --quiet --no-transfer-progress -f clients/pekko verify
	@mvn --batch-mode --quiet --no-transfer-progress -f clients/akka verify
	@if command -v npm >/dev/null; then npm ci --silent --ignore-scripts --prefix clients/sidecar/sample; fi
	@go -C clients/sidecar test -count=1 -v -run TestSample .

.PHONY: test-kafka
test-kafka: ## Test the transport for Kafka with a real broker, which is restarted meanwhile (needs a JDK 17 and Maven: make deps DEPS=--java)
	@command -v mvn >/dev/null || { echo 'Maven is missing; to install it: make deps DEPS=--java' >&2; exit 1; }
	@mvn --batch-mode --quiet --no-transfer-progress -f test/kafka dependency:copy-dependencies
	@KAFKA_JARS=$(CURDIR)/test/kafka/target/jars $(GOTEST) -count=1 -timeout 10m $(if $(filter go test,$(GOTEST)),-v) ./test/kafka

# CHANGES is the number of simulated changes; a million takes about 5 minutes on one core.
CHANGES ?= 10000000

.PHONY: soak
soak: export GOGC ?= 400
soak: ## Simulate ten million changes from a new seed (CHANGES=1000000 for fewer)
	@go test -count=1 -timeout 12h -v ./test/sim -run TestRandomHistories -fresh -changes $(CHANGES) | grep --line-buffered -v -e '=== [A-Z]'

.PHONY: worlds
worlds: export GOGC ?= 400
worlds: ## Play simulated canaries, and print how often they get which verdict (ONLY='late|cold' for some, RUNS=400, SEED=2; UPDATE=1 writes the table of docs/lab/judging.md)
	@go run ./test/worlds -runs $(or $(RUNS),100) -seed $(or $(SEED),1) $(if $(ONLY),-only '$(ONLY)') $(if $(UPDATE),-write docs/lab/judging.md)

# The linter caches findings by content, with absolute paths. A clone must not get the findings of another one,
# because the path rules in .golangci.yml would not match them.
.PHONY: lint
lint: export GOLANGCI_LINT_CACHE = $(CURDIR)/.cache/golangci-lint
lint: ## Lint all modules, and the workflows
	@bad=0; .ci/tool actionlint -shellcheck= -pyflakes= || bad=1; for m in $(MODULES); do echo "lint $$m"; (cd $$m && $(CURDIR)/.ci/tool golangci-lint run --config $(CURDIR)/.golangci.yml ./...) || bad=1; done; exit $$bad

.PHONY: format
format: ## Format all modules
	@.ci/tool gofumpt -l -w $$(git ls-files '*.go' | grep -v zz_generated)

.PHONY: generate
generate: ## Generate deep copies, golden files, references, dashboards, the templates of the Helm chart, and NOTICE
	@.ci/tool controller-gen object:headerFile=.ci/header.txt paths=./api/...
	@if grep -qs '"update"' emitter/cdevents/*_test.go; then go test ./emitter/cdevents -update; fi
	@go run ./config/template
	@go run ./config/reference
	@go run ./cli/command/reference
	@go run ./dashboards/generate
	@go run ./charts/generate
	@$(MAKE) notice

.PHONY: verify
verify: ## Generate, and fail if anything changed; also fails on untidy go.mod files
	@.ci/verify

.PHONY: compare-rules
compare-rules: $(CLUSTER) ## Let Flagger and Argo Rollouts themselves decide where "kubectl cdevents compare" says how they would (5 min, and 20 to build them)
	@CGO_ENABLED=0 go -C test/cluster/parts/flagger build -o $(abspath bin)/ github.com/fluxcd/flagger/cmd/flagger
	@CGO_ENABLED=0 go -C test/cluster/parts/argo-rollouts build -o $(abspath bin)/ github.com/argoproj/argo-rollouts/cmd/rollouts-controller
	@export KUBEBUILDER_ASSETS; KUBEBUILDER_ASSETS=$$($(CLUSTER) assets); \
	RIVALS=$(abspath bin) $(GOTEST) -count=1 -parallel 20 $(if $(filter go test,$(GOTEST)),-v) ./test/rivals | grep --line-buffered -v -e '=== [A-Z]'

# Keep etcd and the audit log in memory if possible, so that other disk activity does not affect the results.
.PHONY: bench
bench: export TMPDIR = $(firstword $(wildcard /dev/shm /tmp))
bench: $(CLUSTER) ## Compare with ApiServerSource, a bare program and Prometheus (75 min; SHORT=1 for a short run, RUN=latency,memory for some scenarios)
	@mkdir -p bin/bench
	@CGO_ENABLED=0 go build -tags $(TAGS) -o bin/bench/ ./test/bench ./test/bench/bare ./cmd/controller ./cmd/core ./cmd/doorbell
	@CGO_ENABLED=0 go -C test/cluster/parts/eventing build -o $(abspath bin/bench)/ knative.dev/eventing/cmd/apiserver_receive_adapter
	@export KUBEBUILDER_ASSETS; KUBEBUILDER_ASSETS=$$($(CLUSTER) assets); \
	bin/bench/bench $(if $(SHORT),-short) $(if $(RUN),-run '$(RUN)') $(if $(REST),-rest-services '$(REST)') $(if $(REST_FOR),-rest-for '$(REST_FOR)')

SCREENSHOTS := test/screenshots

.PHONY: screenshots
screenshots: $(SCREENSHOTS)/node_modules ## Render the dashboards as Grafana does, into bin/screenshots and docs/images (make deps DEPS=--browser installs what it needs)
	@node $(SCREENSHOTS)/shoot.mjs bin/screenshots docs/images

.PHONY: test-screenshots
test-screenshots: $(SCREENSHOTS)/node_modules ## Compare what the rendered dashboards show with test/screenshots/expected (UPDATE=1 writes it)
	@node $(SCREENSHOTS)/check.mjs $(if $(UPDATE),--update)

$(SCREENSHOTS)/node_modules: $(SCREENSHOTS)/package-lock.json
	@for p in node npm chromium prometheus promtool; do command -v $$p >/dev/null || { echo "$$p is missing; to install all: make deps DEPS=--browser" >&2; exit 1; }; done
	@cd $(SCREENSHOTS) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

##@ Test on a real cluster

.PHONY: record-metrics
record-metrics: PARTS = serving,tekton,prometheus
record-metrics: e2e-cluster ## Run the demo, and record the controller's metrics for "make screenshots" (12 min)
	@go build -o bin/demo ./test/demo
	@$(E2E_ENV) DEMO=$(abspath bin/demo) $(SCREENSHOTS)/record

# KUBECONFIG names the tests' cluster, and CLUSTER_PROGRAM the program that builds images for it.
ifeq ($(E2E_CLUSTER),own)
E2E_ENV = KUBECONFIG=$$($(CLUSTER) kubeconfig) CLUSTER_PROGRAM=$(abspath $(CLUSTER))
endif

.PHONY: e2e
e2e: PARTS = serving,prometheus
e2e: e2e-cluster ## Run the core scenarios on real Knative (at most 20 min with warm caches); RUN=TestName for some of them, KUBERNETES=1.34 SERVING=1.19 for the oldest versions
	@$(E2E_ENV) $(GOTEST) -tags e2e -count=1 -timeout 25m $(if $(RUN),-run '$(RUN)') ./test/e2e/...

# The tests themselves bound how many run side by side (E2E_PARALLEL=3): one that only waits for another does not count.
.PHONY: e2e-full
e2e-full: PARTS = serving,eventing,tekton,prometheus
e2e-full: e2e-cluster ## Run all scenarios, also those with Eventing, Tekton, Cluster API and Crossplane; RUN=TestName for some of them
	@$(E2E_ENV) E2E_FULL=true $(GOTEST) -tags e2e -count=1 -timeout 200m -parallel 100 $(if $(RUN),-run '$(RUN)') ./test/e2e/...

.PHONY: e2e-install
e2e-install: PARTS = serving,eventing,tekton
e2e-install: e2e-cluster ## Make a release, install it by manifests, Helm and kustomize, use it, and uninstall it; RUN=Helm for one of them
	@$(E2E_ENV) E2E_RELEASES=true $(GOTEST) -tags e2e -count=1 -timeout 60m -v -run 'TestInstall$(if $(RUN),/$(RUN))$$' ./test/e2e | grep --line-buffered -v -e '=== [A-Z]'

# How many Services there are, and how many events wait for a sink that is dead.
SERVICES ?= 200
PENDING ?= 2000

.PHONY: e2e-upgrade
e2e-upgrade: PARTS = serving,eventing,tekton,prometheus
e2e-upgrade: e2e-cluster ## Upgrade from the release of FROM=v0.1.0 (the newest tag) to this checkout and back, under load (SERVICES=200 PENDING=2000); RUN=Helm for a part
	@$(E2E_ENV) E2E_RELEASES=true E2E_FROM='$(FROM)' E2E_SERVICES=$(SERVICES) E2E_PENDING=$(PENDING) $(GOTEST) -tags e2e -count=1 -timeout 120m -v -run 'TestUpgrade$(if $(RUN),/$(RUN))$$' ./test/e2e | grep --line-buffered -v -e '=== [A-Z]'

.PHONY: bad-release
bad-release: PARTS = serving,prometheus
bad-release: browser $(SCREENSHOTS)/node_modules e2e-cluster ## Cause a bad release, follow it to the end of its alert, and take the pictures of docs/bad-release.md (10 min)
	@$(E2E_ENV) E2E_FULL=true E2E_PICTURES=$(CURDIR)/docs/images $(GOTEST) -tags e2e -count=1 -timeout 60m -v -run TestBadRelease ./test/e2e | grep --line-buffered -v -e '=== [A-Z]'

.PHONY: capture-environments
capture-environments: PARTS = serving
capture-environments: e2e-cluster ## Record the states of clusters of Cluster API and Crossplane, for the tests of reconciler/environment (25 min)
	@$(E2E_ENV) E2E_GUEST=true E2E_CAPTURE_ENVIRONMENTS=$(CURDIR)/reconciler/environment/testdata go test -tags e2e -count=1 -timeout 60m -parallel 20 -v -run 'TestCapture(ClusterAPI|Crossplane)' ./test/e2e | grep --line-buffered -v -e '=== [A-Z]'

.PHONY: bench-placement
bench-placement: PARTS = serving,prometheus
bench-placement: e2e-cluster ## Compare what canaries handle by the plan with the runtimes' own placement, on real Knative (15 min)
	@$(E2E_ENV) E2E_COMPARE=true go test -tags e2e -count=1 -timeout 40m -v -run TestPlacementCompared ./test/e2e | grep --line-buffered -v -e '=== [A-Z]'

.PHONY: bench-sidecar
bench-sidecar: PARTS = serving
bench-sidecar: e2e-cluster ## Compare requests through the sidecar with those without it, on real Knative (15 min, quiet machine); ENVOY=a program of Envoy to compare with
	@$(E2E_ENV) E2E_FULL=true E2E_ENVOY=$(ENVOY) E2E_COMPARE=true go test -tags e2e -count=1 -timeout 40m -v -run "TestSidecar(Cost|ColdStart)" ./test/e2e | grep --line-buffered -v -e '=== [A-Z]'

.PHONY: conformance-sidecar
conformance-sidecar: PARTS = serving
conformance-sidecar: e2e-cluster ## Run Knative's own tests of what a container meets, with the sidecar and without it
	@$(E2E_ENV) E2E_FULL=true E2E_CONFORMANCE=true go test -tags e2e -count=1 -timeout 150m -v -run TestSidecarConformance ./test/e2e | grep --line-buffered -v -e '=== [A-Z]'

.PHONY: compare
compare: PARTS = serving,eventing,prometheus
compare: e2e-cluster ## Have real Flagger and gates judge the same releases, and ApiServerSource report the same changes, on real Knative (2 h); RUN='TestRivals/errors' for some, KUBEWATCH=a program of kubewatch
	@mkdir -p bin
	@$(E2E_ENV) E2E_FULL=true E2E_RIVALS=$(CURDIR)/bin/compare.md E2E_KUBEWATCH=$(KUBEWATCH) E2E_PARALLEL=5 $(GOTEST) -tags e2e -count=1 -timeout 170m -parallel 100 -v -run '$(or $(RUN),TestRival)' ./test/e2e | grep --line-buffered -v -e '=== [A-Z]'

.PHONY: e2e-cluster
e2e-cluster:
	@if [ "$(E2E_CLUSTER)" = own ]; then $(MAKE) cluster-up PARTS=$(PARTS) DEPS=--java; fi

.PHONY: cluster-up
cluster-up: deps $(CLUSTER) ## Start the one-node cluster (PARTS=serving,eventing,tekton,prometheus)
	@$(CLUSTER) up --with $(PARTS)

.PHONY: cluster-down
cluster-down: $(CLUSTER) ## Delete the cluster, and everything that it left on this machine
	@$(CLUSTER) down

.PHONY: cluster-status
cluster-status: $(CLUSTER) ## Show what runs in the cluster, and where
	@$(CLUSTER) status

.PHONY: deps
deps: $(CLUSTER) ## Install the Debian packages that a cluster needs (as root; otherwise, print their names)
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then $(CLUSTER) deps --install $(DEPS); else $(CLUSTER) deps $(DEPS); fi

# Always run go build: it checks quickly whether the program is up to date.
.PHONY: $(CLUSTER)
$(CLUSTER):
	@command -v go >/dev/null || { echo "Go is missing: install the version in go.mod, https://go.dev/doc/install"; exit 1; }
	@go -C test/cluster build -o $(abspath $(CLUSTER)) .

##@ Install and release (set KO_DOCKER_REPO to a registry that you may push to)

.PHONY: install
install: ## Build the image, and install the controller on the cluster of KUBECONFIG
	@.ci/tool ko apply --base-import-paths -f config/

.PHONY: install-sidecar
install-sidecar: ## Build the images, and install the injector of the sidecar (docs/sidecar.md) on the cluster of KUBECONFIG
	@.ci/tool ko apply --base-import-paths -f config/optional/sidecar/

# The serverless mode: the core as a Knative Service, as a Deployment, or rung by Knative Eventing.
SERVERLESS ?= knative
serverless_dir := config/optional/serverless
serverless_knative := -f $(serverless_dir)/
serverless_deployment := -f $(serverless_dir)/200-roles.yaml -f $(serverless_dir)/500-doorbell.yaml -f $(serverless_dir)/deployment/
serverless_eventing := -f $(serverless_dir)/200-roles.yaml -f $(serverless_dir)/500-core.yaml -f $(serverless_dir)/eventing/
check_serverless = [ -n "$(serverless_$(SERVERLESS))" ] || \
  { echo 'SERVERLESS is "$(SERVERLESS)"; it must be knative, deployment or eventing' >&2; exit 1; }

.PHONY: install-serverless
install-serverless: ## Build the images, and switch the installation of KUBECONFIG to the experimental serverless mode (docs/serverless.md); SERVERLESS=deployment or eventing for its other forms
	@$(check_serverless)
	@.ci/tool ko apply --base-import-paths $(serverless_$(SERVERLESS))

.PHONY: uninstall-serverless
uninstall-serverless: ## Remove that form of the serverless mode; start the controller first (docs/serverless.md)
	@$(check_serverless)
	@.ci/tool ko delete --ignore-not-found --cascade=foreground $(serverless_$(SERVERLESS))

.PHONY: sample
sample: ## Create a source, and a sink that prints the events it receives, in NAMESPACE=shop
	@.ci/tool ko apply --base-import-paths -f config/samples/ -- --namespace "$(or $(NAMESPACE),default)"

.PHONY: uninstall
uninstall: ## Uninstall the controller from the cluster of KUBECONFIG
	@.ci/tool ko delete --ignore-not-found -f config/

# Where users find the images of a release, unless KO_DOCKER_REPO names a registry to push to, and its files.
REPOSITORY ?= ghcr.io/knative-cdevents/knative-cdevents
DOWNLOADS ?= https://github.com/knative-cdevents/knative-cdevents/releases/download/$(VERSION)
RELEASE := release
SOURCE = https://github.com/knative-cdevents/knative-cdevents/blob/$(VERSION)
NOTES = [What it has]($(SOURCE)/CHANGELOG.md), [how to install it]($(SOURCE)/docs/install.md), [how to verify it]($(SOURCE)/SECURITY.md\#verify-a-release).
# The systems of the plugin; fewer of them for a try.
PLUGIN_SYSTEMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
PLATFORMS ?= linux/amd64,linux/arm64

.PHONY: bin/release
bin/release:
	@go -C .ci/release build -o $(abspath $@) .

.PHONY: release
release: bin/release ## Write a release to release/ (VERSION=v1.2.3); KO_DOCKER_REPO pushes its images, COSIGN_KEY=cosign.key signs it (DEVELOPMENT.md)
	@bin/release -version '$(VERSION)' -out '$(RELEASE)' -repository '$(REPOSITORY)' -url '$(DOWNLOADS)' -platforms '$(PLATFORMS)' -systems '$(PLUGIN_SYSTEMS)'

.PHONY: chart
chart: ## Write the Helm chart to release/, with images by digest; VERSION=v1.2.3 sets its version, IMAGES=false leaves the images as they are
	@.ci/chart $(VERSION)

.PHONY: release-check
release-check: ## Make a release in two clones, compare all bytes, and push, sign and verify it on this machine (long: all platforms twice)
	@.ci/release-check

.PHONY: release-clients
release-clients: ## Write the client libraries for Java to release-clients/, as a Maven repository (VERSION=v1.2.3; GPG_KEY=ID signs; needs a JDK 17 and Maven)
	@.ci/release-clients '$(VERSION)'

.PHONY: release-vex
release-vex: ## Write what is known of vulnerabilities to release-vex/, as OpenVEX (needs https://vuln.go.dev)
	@.ci/release-vex

.PHONY: release-draft
release-draft: ## Put what these targets have written onto a draft of the release page (needs gh, https://cli.github.com)
	@[ -e '$(RELEASE)/cosign.pub' ] || { echo 'release-draft: $(RELEASE)/ is not signed; set COSIGN_KEY for make release' >&2; exit 1; }
	@[ -n "$$(find release-clients -name '*.jar.asc')" ] || { echo 'release-draft: the jars in release-clients/ are not signed; set GPG_KEY for make release-clients' >&2; exit 1; }
	@tar -czf release-clients.tar.gz release-clients
	@gh release create '$(VERSION)' --draft --verify-tag --title '$(VERSION)' --notes '$(NOTES)' $$(find '$(RELEASE)' -maxdepth 1 -type f) release-vex/* release-clients.tar.gz

.PHONY: notice
notice: bin/release ## Write NOTICE, the list of what others have made
	@bin/release notice
