# All logic is in Go and in the scripts below hack/; this file only calls it.

# One set of build flags for all: whoever builds with others compiles Kubernetes
# again. Flags that you have set are kept; of a flag that is in both, ours counts.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -buildvcs=false)

.DEFAULT_GOAL := help
.PHONY: help up down demo test lint gen openapi images e2e e2e-numa robust bench microbench bin/slinky bin/testrun

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

up: bin/slinky ## Start a real cluster on this machine, the box (as root)
	@bin/slinky up

down: bin/slinky ## Remove the box and all that belongs to it, except the cache
	@bin/slinky down

demo: bin/slinky ## Start the box and show Slurm and Kubernetes as one system
	@bin/slinky demo

test: bin/testrun ## Run every test there is, on real servers and in a box (as root)
	@exec bin/testrun

lint: bin/testrun ## Check style, imports and generated files
	@exec bin/testrun -stages lint

gen: ## Write the generated files
	@hack/gen.sh

openapi: ## Bring the Slurm client up to the Slurm of its tests (as root)
	@hack/gen-openapi.sh

images: bin/slinky ## Build the container images
	@bin/slinky images

e2e: bin/testrun ## Run the end-to-end stories in a box of their own (as root)
	@exec bin/testrun -stages e2e

e2e-numa: bin/testrun ## Run the stories of an emulated machine with NUMA nodes and cgroup v2; slow (as root)
	@exec bin/testrun -stages numa

robust: bin/slinky ## Kill and freeze each process of the bridge during 500 workloads (as root; SEED=n)
	@SLINKY_TEST_APISERVER=1 KUBEBUILDER_ASSETS=$$(bin/slinky tools envtest) SLINKY_TEST_SLURM=1 SLINKY_TEST_ROBUST=1 SLINKY_ROBUST_SEED=$(SEED) \
		go test -count=1 -v -timeout 30m ./test/robust

bench: ## Measure the bridge beside the stock scheduler and bare Slurm (as root)
	@hack/bench-bridge.sh

microbench: ## Run the packages' own benchmarks
	@hack/bench.sh

# The go command knows best what is up to date.
bin/slinky:
	@go build -o $@ ./cmd/slinky

bin/testrun:
	@go build -o $@ ./hack/testrun
