#!/usr/bin/env bash
# Installs the Debian 12 packages that Tandem uses: the one list of them. Asks nothing; does nothing
# when all are there. Runs as root or through sudo.
#
#   tools/install_deps.sh [build|test|ui|dev]      default: build
#
#   build  compile and run tandem; all that ./quickstart needs
#   test   build, and what the tests, the benchmarks and the fuzz targets need
#   ui     build the web console and test it in a browser (Node, Chromium: about 500 MB)
#   dev    test, and formatters, a compiler cache, debuggers
set -euo pipefail

build=(
  ca-certificates cmake g++ make ninja-build
  libboost1.81-dev libboost-url1.81-dev  # never libboost-dev: another version
  libcli11-dev libexpected-dev libfmt-dev libhwy-dev libpcre2-dev libspdlog-dev
  libtomlplusplus-dev
  nlohmann-json3-dev prometheus-cpp-dev
)
test_only=(clang-14 libclang-rt-14-dev libgtest-dev librapidcheck-dev python3)
dev_only=(ccache clang-format-14 clang-tidy-14 gcovr gdb valgrind)

say() { printf 'install_deps: %s\n' "$*" >&2; }

usage() { sed -n '2,10s/^# \{0,1\}//p' "$0"; }

# Prints those of its arguments that are not installed.
missing() {
  dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p' | sort -u |
    comm -13 - <(printf '%s\n' "$@" | sort -u)
}

as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  else
    sudo "$@"
  fi
}

apt() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}

main() {
  local packages=()
  case "${1:-build}" in
    build) packages=("${build[@]}") ;;
    test) packages=("${build[@]}" "${test_only[@]}") ;;
    dev) packages=("${build[@]}" "${test_only[@]}" "${dev_only[@]}") ;;
    ui)
      packages=(chromium)
      # Node from elsewhere (nodesource) brings its own npm and conflicts with Debian's.
      if ! command -v npm >/dev/null; then packages+=(nodejs npm); fi
      ;;
    -h | --help) usage; return 0 ;;
    *) usage >&2; return 2 ;;
  esac
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "this is not a Debian system; install by other means: ${packages[*]}"
    return 1
  fi

  local wanted=()
  if ((${#packages[@]})); then mapfile -t wanted < <(missing "${packages[@]}"); fi
  if ((${#wanted[@]} == 0)); then return 0; fi

  say "installing ${wanted[*]}"
  if [[ $(id -u) != 0 ]] && ! command -v sudo >/dev/null; then
    say "needs root: run 'apt-get install ${wanted[*]}' as root and start again"
    return 1
  fi
  # A mirror may be in the middle of an update: once more before giving up.
  local attempt
  for attempt in 1 2; do
    if apt update && apt install --no-install-recommends "${wanted[@]}"; then return 0; fi
    say "attempt $attempt of 2 failed"
  done
  say "apt-get could not install ${wanted[*]} (see its messages above; Debian 12 is expected)"
  return 1
}

main "$@"
