# `make demo` and `make test` do all the set-up on a fresh machine: Python (>= 3.11) and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Modules are compiled when they are imported, not when they are installed: most never are.
INSTALL ?= $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
# Another build of torch: make TORCH_INDEX=https://download.pytorch.org/whl/cpu ...
TORCH_INDEX ?=
# Tests start many processes: without bytecode, each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# -rs lists every skip with its reason.
PYTEST := pytest -rs -n 2 --dist loadscope --no-loadscope-reorder src lab tests
# The laws of the paper, one fit, one server.
QUICK := $(patsubst %,tests/laws/test_%.py,reference gates taylor attention) \
  tests/unit/test_estimator.py::test_it_learns_from_numbers_categories_texts_and_images_with_missing_values \
  tests/end_to_end/test_serve.py::test_predictions_are_those_of_the_model

.PHONY: help demo test quick lint wheel lowest newest gpu-test slow-test fuzz tables gallery pictures docs notebooks audit sbom release lock clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   train on embedded real data, print the table, write gauge-demo/report.html"
	@echo "make test   run the whole test suite"
	@echo "make quick  under a minute: the laws of the paper, one fit, one server"
	@echo "make lint   ruff, mypy and the import contract"
	@echo "make wheel  build the wheel, install it elsewhere and use it"
	@echo "make gpu-test  run the tests that need a GPU, write perf/results/gpu-tests.json"
	@echo "make slow-test  run the tests that take minutes: exported graphs, several processes, the Dockerfile's steps"
	@echo "make fuzz   hostile tables, files and models, and many values as other programs write them"
	@echo "make lowest, make newest  the tests with the oldest and the newest versions that pyproject.toml allows"
	@echo "make audit  look for known vulnerabilities in the pinned packages (needs the Internet)"
	@echo "make sbom   write build/sbom.json, the packages of .venv in CycloneDX"
	@echo "make tables write the tables of README and docs from the result files"
	@echo "make gallery  the demo and four real cases with their evidence pages, in build/gallery"
	@echo "make docs   the documentation as a site, with the gallery where it was built; open site/index.html"
	@echo "make notebooks write examples/*.ipynb from the pages of Start, with their outputs"
	@echo "make release build the distributions, check them, tag the commit"

# requirements.lock pins everything but torch, with hashes, also setuptools, which builds the package; torch's builds differ
# by machine, so its hash is not pinned.
$(VENV)/.installed: requirements.lock torch.lock pyproject.toml lab/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "GAUGE needs Python 3.11 or newer; try: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --no-deps --require-hashes -r requirements.lock
	$(INSTALL) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) -r torch.lock
	$(INSTALL) --no-deps --no-build-isolation --editable . --editable lab
	touch $@

demo: $(VENV)/.installed
	$(BIN)/gauge demo

test: $(VENV)/.installed
	$(BIN)/$(PYTEST)

quick: $(VENV)/.installed
	$(BIN)/pytest $(QUICK)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The wheel alone, in another folder, on the packages of .venv: names and templates that were left out show here.
wheel: $(VENV)/.installed
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheel .
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target build/wheel/installed build/wheel/*.whl
	cd build/wheel && PYTHONPATH=installed ../../$(BIN)/python ../../.ci/wheel.py

# uv finds the oldest versions of what pyproject.toml names; what those need in turn is the newest that fits, and of which they
# may not have heard: their warnings are no errors here. Pages are written with the locked versions.
lowest newest:
	$(PYTHON) -m venv build/$@
	build/$@/bin/pip install --quiet --disable-pip-version-check uv
	$(if $(TORCH_INDEX),build/$@/bin/uv pip install --quiet --python build/$@/bin/python --index-url $(TORCH_INDEX) torch)
	build/$@/bin/uv pip install --quiet --python build/$@/bin/python --resolution $(if $(filter lowest,$@),lowest-direct,highest) --editable '.[dev]' --editable lab
	build/$@/bin/$(PYTEST) -W default --ignore=tests/docs

gpu-test: $(VENV)/.installed
	$(BIN)/python perf/marked_tests.py gpu

slow-test: $(VENV)/.installed
	$(BIN)/pytest -m slow tests

fuzz: $(VENV)/.installed
	$(BIN)/python studies/fuzz.py --out build/fuzz
	HYPOTHESIS_PROFILE=many $(BIN)/pytest tests/unit/test_spreadsheets.py

tables: $(VENV)/.installed
	$(BIN)/python docs/generate.py

# Signatures are read from the sources.
DOCS := build/docs
$(DOCS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' > $(DOCS)/requirements.txt
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check --no-compile -r $(DOCS)/requirements.txt
	touch $@

# Pages that exist and stages that are trained already are used again; `make clean` removes them.
gallery: $(VENV)/.installed
	$(BIN)/python docs/gallery.py

pictures: $(VENV)/.installed
	$(BIN)/python docs/pictures.py

# Without the gallery nothing is trained; `make gallery docs` has its pages, too.
docs: $(DOCS)/.installed
	NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/$(DOCS)/bin:$$PATH" mkdocs build --strict --quiet
	$(BIN)/pytest tests/docs/test_site.py

notebooks: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade --target build/jupyter ipykernel nbclient
	PYTHONPATH=$(CURDIR)/build/jupyter $(BIN)/python docs/notebooks.py

# Tools that are not needed for anything else have a folder of their own.
TOOLS := build/tools
$(TOOLS)/.installed:
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check build cyclonedx-bom pip-audit twine
	touch $@

# Nothing is uploaded: push the tag and upload build/release/* yourself.
release: $(VENV)/.installed $(TOOLS)/.installed
	@test -z "$$(git status --porcelain)" || { echo "commit or stash your changes first"; exit 1; }
	$(BIN)/python .ci/release.py
	rm -rf build/release
	$(TOOLS)/bin/python -m build --outdir build/release
	$(TOOLS)/bin/twine check --strict build/release/*
	git tag -a "v$$($(BIN)/python -c 'import gauge; print(gauge.__version__)')" -m "Release $$($(BIN)/python -c 'import gauge; print(gauge.__version__)')"

audit: $(TOOLS)/.installed
	$(TOOLS)/bin/pip-audit --strict --disable-pip --no-deps -r requirements.lock -r torch.lock

sbom: $(TOOLS)/.installed $(VENV)/.installed
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file build/sbom.json $(BIN)/python

lock: $(VENV)/.installed
	$(INSTALL) uv
	$(BIN)/python .ci/lock.py

clean:
	rm -rf $(VENV) build site *.egg-info src/*.egg-info
