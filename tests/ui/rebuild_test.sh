#!/usr/bin/env bash
# Whether ui/dist is what the sources build: type checks, builds in the copy, compares.
#
#   rebuild_test.sh UI_FOLDER COPY
set -euo pipefail
source_folder=$1 copy=$2

npm --prefix "$copy" run build
if ! diff -r "$copy/dist" "$source_folder/dist"; then
  echo "ui/dist is not what its sources build: run 'npm ci && npm run build' in ui/ and commit it" >&2
  exit 1
fi
