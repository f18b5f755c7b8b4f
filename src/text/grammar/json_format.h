// The values of JSON Schema's "format".
#pragma once

#include <optional>
#include <string_view>

namespace tandem::grammar {

// A regular expression for strings of a format, which matches nothing that is not of the format but
// not everything that is (docs/structured-output.md); nullopt for a format that is not supported.
std::optional<std::string_view> string_format(std::string_view name);

// True for the formats of numbers that say no more than "type" and our bound on digits do.
bool is_number_format(std::string_view name);

}  // namespace tandem::grammar
