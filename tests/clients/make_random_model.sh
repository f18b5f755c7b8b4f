#!/usr/bin/env bash
# A model with random weights behind the bundled model's tokenizer.
#
#   make_random_model.sh TANDEM DEMO OUT
set -euo pipefail
tandem=$1 demo=$2 out=$3

rm -rf "$out"
"$tandem" make-random "$demo" "$out"
cp "$demo"/{tiktoken.model,tokenizer_config.json,generation_config.json} "$out"
