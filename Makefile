# Everything a newcomer needs: `make demo` and `make test` set up their own environment in .venv first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: system browser demo test test-slow check format bench bench-diagnose docs studio clean setup

demo: setup
	$(BIN)/twinloop demo --out demo-output

test: check browser
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-slow: setup .venv-lerobot .venv-openpi .venv-vla_eval
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray,physx]'
	$(BIN)/python -m pytest -m slow

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_import_order.py

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup .venv-lerobot .venv-robosuite .venv-gymnasium_robotics
	$(BIN)/python -m benchmarks $(BENCH)

bench-diagnose: setup
	$(BIN)/python -m benchmarks --only diagnose $(BENCH)

# Writes the generated pages, then the site into build/site; a dead link or a page that the menu lacks fails.
docs: setup
	$(BIN)/python -m docs.generate
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "wrote build/site/index.html"

# Builds the front end of the studio into the package; only this needs Node (20 or newer), running the studio does not.
studio: setup frontend/node_modules/.package-lock.json
	$(BIN)/python frontend/openapi.py | node frontend/types.mjs
	npm --prefix frontend run --silent build

frontend/node_modules/.package-lock.json: frontend/package-lock.json
	npm --prefix frontend ci --ignore-scripts

# LeRobot 0.4.4 in an environment of its own; where it cannot be installed, what needs it says so and is skipped.
.PHONY: .venv-lerobot
.venv-lerobot:
	-@benchmarks/peers/lerobot/install.sh $@

# The other peers of benchmarks and slow tests, each in an environment of its own.
.PHONY: .venv-robosuite .venv-gymnasium_robotics .venv-openpi .venv-vla_eval
.venv-robosuite .venv-gymnasium_robotics .venv-openpi .venv-vla_eval: .venv-%:
	-@benchmarks/peers/install.sh benchmarks/peers/$* $@

setup: $(STAMP)

# $(call debian,PACKAGES,WHAT FOR): installed when root on a Debian-like system, named in one line otherwise.
debian = if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "Installing $(1) ..."; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(1) > /dev/null \
	      || echo "Could not install $(1); $(2) will not work."; \
	  else echo "Still missing for $(2): sudo apt-get install $(1)"; fi

# Cameras are drawn with EGL.
system:
	@if [ "$$(uname)" = Linux ] && ! ldconfig -p | grep -q libEGL_mesa; then \
	  $(call debian,libegl1 libegl-mesa0 libgl1-mesa-dri,cameras); fi

# Tests look at pages as a reader would; without a browser those tests are skipped and say so.
browser:
	@if ! command -v chromium chromium-browser google-chrome > /dev/null; then \
	  $(call debian,chromium,tests of pages); fi

$(STAMP): pyproject.toml constraints.txt | system
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Twinloop needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@echo "Setting up $(VENV) (first time: a few minutes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-* demo-output build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
