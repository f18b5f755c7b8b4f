#!/usr/bin/env bash
# Copies a folder with a package.json into a build folder and installs its packages there, unless they are.
#
#   npm_packages.sh FOLDER COPY
set -euo pipefail
source_folder=$1 copy=$2

mkdir -p "$copy"
find "$copy" -mindepth 1 -maxdepth 1 ! -name node_modules -exec rm -rf {} +
tar -C "$source_folder" --exclude=./node_modules --exclude=./dist -cf - . | tar -C "$copy" -xf -

cd "$copy"
key="$(node --version) $(sha256sum <package-lock.json)"
if [[ "$(cat node_modules/.prepared 2>/dev/null)" == "$key" ]]; then exit 0; fi
npm ci --prefer-offline
echo "$key" >node_modules/.prepared
