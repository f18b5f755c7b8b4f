#!/usr/bin/env bash
# Copies the console's sources into a build folder and installs its packages there, unless they are.
#
#   prepare.sh UI_FOLDER COPY
set -euo pipefail
source_folder=$1 copy=$2

mkdir -p "$copy"
rm -rf "$copy/src" "$copy/public" "$copy/dist"
tar -C "$source_folder" --exclude=./node_modules --exclude=./dist -cf - . | tar -C "$copy" -xf -

cd "$copy"
key="$(node --version) $(sha256sum <package-lock.json)"
if [[ "$(cat node_modules/.prepared 2>/dev/null)" == "$key" ]]; then exit 0; fi
npm ci --prefer-offline
echo "$key" >node_modules/.prepared
