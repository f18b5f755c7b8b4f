#!/usr/bin/env bash
# Makes a folder that runs on a bare Ubuntu 24.04: binaries, the shared libraries that a bare machine
# lacks, the demo model. Fails on a library that is neither the system's nor foreseen here.
#
#   tools/bundle.sh OUT BINARY...
set -euo pipefail

# In every Debian 12 and Ubuntu 24.04, the minimal ones too.
system='^(ld-linux-x86-64|libc|libm|libdl|librt|libpthread)\.so\.[0-9]+$'
# Debian has no archive of these: copied beside the binary, which finds them through $ORIGIN. They are
# C++ themselves and use the system's C++ runtime; the binaries bring their own.
beside='^libhwy\.so\.[0-9]+$'
runtime='^(libstdc\+\+|libgcc_s)\.so\.[0-9]+$'

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

fail() {
  echo "bundle: $*" >&2
  exit 1
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
(($# >= 2)) || fail "usage: tools/bundle.sh OUT BINARY..."
out=$1
shift
rm -rf "$out"
mkdir -p "$out"

for binary in "$@"; do
  name=$(basename "$binary")
  cp "$binary" "$out/$name"
  readelf -d "$out/$name" | grep -q 'R.*PATH.*\[\$ORIGIN\]' || fail "$name has no \$ORIGIN rpath"
  for library in $(needed "$binary"); do
    if [[ $library =~ $system ]]; then continue; fi
    [[ $library =~ $beside ]] || fail "$name needs $library, which a bare machine lacks"
    cp -L "$(ldd "$binary" | awk -v l="$library" '$1 == l { print $3 }')" "$out/$library"
    for inner in $(needed "$out/$library"); do
      [[ $inner =~ $system || $inner =~ $runtime ]] || fail "$library needs $inner, which a bare machine lacks"
    done
  done
done
mkdir -p "$out/models"
cp -r "$root/models/demo" "$out/models/"
cp "$root/LICENSE" "$out/"
echo "bundle: $out holds $(cd "$out" && ls -m)"
