// How much memory a command gives the engine, decided before weights are loaded.
#pragma once

#include <filesystem>

#include "engine/memory_plan.h"
#include "engine_flags.h"

namespace tandem {

// Sets options.memory_bytes to what the flags and this machine allow, and returns the plan of it.
// kInvalidArgument with the sum if one request of full context does not fit, and the errors of
// reading the folder.
Result<MemoryPlan> choose_memory(const std::filesystem::path& folder, Precision precision,
                                 const EngineFlags& flags, EngineOptions& options);

}  // namespace tandem
