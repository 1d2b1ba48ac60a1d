# The front door. Bazel does the work; this names it.
#   make demo    install, build, serve, import, search, restart, clean up
#   make test    install, build, run every ordinary test
.DEFAULT_GOAL := help
SHELL := /bin/bash
BAZEL ?= bazel

.PHONY: help deps build demo test test-long test-asan test-tsan fuzz loadtest image k8s-test \
        format check tidy clean

help: ## Show this list
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | \
	  awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

deps: ## Install what is missing (Debian 12, root or sudo)
	@tools/install_deps.sh

build: deps ## Build server and command line into bazel-bin/
	@$(BAZEL) build --noshow_progress //server:coteried //client:coterie

demo: build ## Ten thousand real word vectors, four shards, exact answers
	@tools/demo.sh

test: deps ## Every ordinary test (about ten minutes from nothing, 2 cores)
	@tools/install_deps.sh --tests
	@tools/run_tests.sh

test-long: deps ## The long tier: more seeds, hundreds of kills
	@tools/install_deps.sh --tests
	@tools/run_tests.sh --long

test-asan: deps ## Tests under AddressSanitizer and UBSan
	@tools/run_tests.sh --config=asan

test-tsan: deps ## Tests with threads, without gRPC, under ThreadSanitizer
	@tools/run_tests.sh --config=tsan

fuzz: deps ## libFuzzer on every decoder, SECONDS=60 each (needs clang)
	@tools/fuzz.sh $${SECONDS_EACH:-60}

bench-%: deps ## Side-by-side benchmark NAME of bench/ (QUICK=1: minutes)
	@bench/$*/run.sh

image: build ## Container image into k8s/out/, no Docker needed
	@mkdir -p k8s/out
	@k8s/image/make_image.py --coteried bazel-bin/server/coteried \
	  --coterie bazel-bin/client/coterie --archive k8s/out/coterie.tar \
	  --contents k8s/out/contents.tsv

k8s-test: image ## The chart on a real one-node Kubernetes, built here (root)
	@tools/install_deps.sh --tests
	@tools/install_deps.sh --loadtest
	@k8s/testcluster/build.sh
	@k8s/test/run.sh

loadtest: build ## Load a local server with ghz and report
	@tools/install_deps.sh --loadtest
	@bench/ghz/run.sh

format: ## Rewrite C++ files in the house style
	@tools/check_format.sh --fix

check: deps ## Format, style limits, layering
	@tools/check_format.sh
	@tools/check_style.py
	@tools/check_layering.sh

tidy: deps ## clang-tidy (minutes)
	@tools/check_tidy.sh

clean: ## Remove build outputs (not the dependencies)
	@$(BAZEL) clean
