# Language level, warnings, sanitizers and the third-party packages: everything that holds for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(TANDEM_BUILD_TESTS "Build the tests" ON)
option(TANDEM_BUILD_BENCHMARKS "Build the benchmarks" ON)
option(TANDEM_BUILD_FUZZERS "Build the libFuzzer targets (clang only)" OFF)
option(TANDEM_STATIC "Link Debian's static archives where they exist" OFF)
option(TANDEM_METRICS "Answer GET /metrics (needs prometheus-cpp)" ON)
option(TANDEM_CUDA "Build the CUDA parts if nvcc is found" OFF)
set(TANDEM_SANITIZE "" CACHE STRING "Value for -fsanitize=, e.g. address,undefined or thread")
option(TANDEM_COVERAGE "Instrument for gcov" OFF)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# -ffp-contract=off: a multiply-add is fused only where a kernel says so. Otherwise the compiler may
# round the same expression differently in two inlined copies and equal inputs stop giving equal bits.
# Warnings are errors for the compiler of every preset but `fuzz`, whose clang warns of other things.
set(tandem_flags -Wall -Wextra -Wshadow -Wconversion -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND tandem_flags -Werror)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${tandem_flags}>")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")  # with DCHECK: for the sanitizers
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")

if(TANDEM_SANITIZE)
  # gcc 12 takes Boost's optional for uninitialised once a sanitizer has rewritten it, and warns of
  # the fences in Boost.Asio, which ThreadSanitizer does not see.
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(TANDEM_SANITIZE STREQUAL "thread")
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
endif()
if(TANDEM_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")  # 15 s of fuzzing do not repay -O2
endif()
if(TANDEM_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()

# For the `device` preset: what Debian has archives of goes into the binary, the rest stands beside it
# (tools/bundle.sh).
if(TANDEM_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
  add_link_options(-static-libstdc++ -static-libgcc)
  set(CMAKE_BUILD_RPATH "$ORIGIN")
endif()

if(TANDEM_CUDA)
  include(TandemCuda)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
set(TANDEM_FMT $<IF:$<BOOL:${TANDEM_STATIC}>,fmt::fmt-header-only,fmt::fmt>)  # Debian has no libfmt.a
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_library(HWY_LIBRARY hwy REQUIRED)
find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
find_library(BOOST_URL_LIBRARY boost_url REQUIRED)
if(TANDEM_METRICS)
  find_library(PROMETHEUS_CORE_LIBRARY prometheus-cpp-core REQUIRED)
endif()
