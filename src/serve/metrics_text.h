// What GET /metrics says, in Prometheus' text format. Names begin with "tandem_"; those that
// dashboards made for SGLang and vLLM look for are there as well, as "sglang:" and "vllm:".
// docs/http.md lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "serve/request_totals.h"

namespace tandem {

struct MetricsInput {
  EngineStatus engine = {};
  RequestCounts requests = {};
  std::int64_t prefill_chunk_tokens = 0;
  std::int64_t context_tokens = 0;
  std::string served_name = {};  // the label model_name of others' names
};

// A pure function. Labels take values from enumerations only, and every series is there from the
// start, if only as 0. nullopt if this build has no metrics (CMake option TANDEM_METRICS).
std::optional<std::string> metrics_text(const MetricsInput& input);

}  // namespace tandem
