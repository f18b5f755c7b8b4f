# Daily targets; everything here is a thin call of CMake, CTest or a script in tools/.
.DEFAULT_GOAL := help
.PHONY: help run build test slow sanitize fuzz bench format format-check tidy coverage cuda device clean

JOBS ?= $(shell nproc)
SECONDS_EACH ?= 60
# ThreadSanitizer of gcc 12 does not start under the address randomisation of newer kernels.
NO_ASLR = $(shell setarch -R true 2>/dev/null && echo setarch -R)
SOURCES = $(shell git ls-files '*.cc' '*.h' '*.cu' '*.cuh')

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile | expand -t 16

run:  ## set-up, build, and an answer from the bundled model
	./quickstart

build:  ## optimised build with tests and benchmarks, in build/release
	tools/install_deps.sh test
	cmake --preset release -DTANDEM_BUILD_TESTS=ON -DTANDEM_BUILD_BENCHMARKS=ON
	cmake --build --preset release -j $(JOBS)

test:  ## set-up, build, the fast tests, 15 s of fuzzing each parser; what CI runs
	./quickstart test

slow: build  ## the tests that take minutes, five minutes of fuzzing each parser
	ctest --preset slow
	tools/fuzz.sh 300

sanitize:  ## unit tests under ASan+UBSan, then under TSan
	tools/install_deps.sh test
	for preset in asan tsan; do \
	  cmake --preset $$preset && cmake --build --preset $$preset -j $(JOBS) && \
	  $(NO_ASLR) ctest --preset $$preset -j $(JOBS) || exit 1; \
	done

fuzz:  ## fuzz every parser for SECONDS_EACH (60)
	tools/install_deps.sh test
	tools/fuzz.sh $(SECONDS_EACH)

bench: build  ## the benchmarks: the bundled model, its tokenizer, the memory arena
	build/release/bench/model_bench models/demo default
	build/release/src/text/tokenizer_bench models/demo 4096 LICENSE
	build/release/bench/arena_bench

format:  ## clang-format over all sources
	tools/install_deps.sh dev
	clang-format-14 -i $(SOURCES)

format-check:  ## fails on a source that clang-format would change
	tools/install_deps.sh dev
	clang-format-14 --dry-run -Werror $(SOURCES)

tidy: build  ## clang-tidy over the sources under src and apps
	tools/install_deps.sh dev
	run-clang-tidy-14 -quiet -p build/release '/(src|apps)/.*\.cc$$'

coverage:  ## line coverage of the fast tests, as a table
	tools/install_deps.sh dev
	cmake --preset coverage && cmake --build --preset coverage -j $(JOBS)
	ctest --preset coverage -j $(JOBS)
	gcovr --root . --filter 'src/' --exclude '.*_test\.cc' --object-directory build/coverage

cuda:  ## build with the CUDA parts (needs nvcc; no GPU)
	cmake --preset cuda && cmake --build --preset cuda -j $(JOBS)

device:  ## a folder that runs on a bare Ubuntu 24.04 GPU machine: build/device/bundle
	tools/install_deps.sh build
	cmake --preset device && cmake --build --preset device -j $(JOBS) --target bundle

clean:  ## remove build/
	rm -rf build
