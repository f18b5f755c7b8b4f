// What `tandem run` says about an answer besides its text.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/engine.h"

namespace tandem {

// One line on stderr: tokens and speed.
void print_stats(const GenerateUsage& usage);

// "usage" and "timings" of the JSON line.
void add_usage(nlohmann::ordered_json& line, const GenerateUsage& usage);

}  // namespace tandem
