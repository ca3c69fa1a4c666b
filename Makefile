# Each target sets up .venv first when it is missing or older than the files that say what is in it.
# PYTHON=/path/to/python3 chooses the interpreter; uv is used if it is here and fetched by pip if not.

BIN := .venv/bin
PINS := pyproject.toml hatch_build.py $(wildcard requirements/*.txt toolkit/phoneproof/toolchains/pins/*.txt)
WORKERS ?= 2
# By file, so that what a module makes once is made once: pytest-xdist 3.8 with pytest 9.2 ignores loadgroup.
TEST_OPTIONS ?=

.PHONY: help demo test test-slow test-android check format setup
.DEFAULT_GOAL := help

help:
	@echo 'make demo       the whole chain on real data: trains a small network, quantizes it, judges it'
	@echo 'make test       the tests, without the slow ones'
	@echo 'make test-slow  the slow tests'
	@echo 'make test-android  the core of the Android harness, on a JVM'
	@echo 'make check      ruff, mypy, import contracts'
	@echo 'make format     ruff: format and mend what it can'

setup: .venv/set-up

.venv/set-up: $(PINS) scripts/setup-venv
	@scripts/setup-venv

demo: .venv/set-up
	$(BIN)/phoneproof demo --out demo-run

test: .venv/set-up
	$(BIN)/python -m pytest -m 'not slow' -n $(WORKERS) --dist loadfile $(TEST_OPTIONS)

test-slow: .venv/set-up
	@scripts/setup-system
	$(BIN)/python -m pytest -m slow -n $(WORKERS) --dist loadfile $(TEST_OPTIONS)

# Needs neither .venv nor Gradle.
test-android:
	@scripts/test-android

check: .venv/set-up
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: .venv/set-up
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
