// Random schemas that compile, for property tests.
#pragma once

#include <nlohmann/json.hpp>
#include <random>

namespace tandem::grammar_testing {

// Uses every keyword that the compiler supports. Some values may be impossible, but not all.
nlohmann::ordered_json random_schema(std::mt19937& random);

}  // namespace tandem::grammar_testing
