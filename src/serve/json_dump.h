// JSON as this server writes it. For .cc files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tandem {

using OrderedJson = nlohmann::ordered_json;

// One line. Invalid UTF-8, of which a client's text may be the source, becomes U+FFFD.
inline std::string dump_json(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

// JSON has no infinity; this is what clients know for "impossible".
inline double finite_logprob(float logprob) {
  constexpr double kImpossible = -9999.0;
  return logprob > -3.0e38F ? static_cast<double>(logprob) : kImpossible;
}

}  // namespace tandem
