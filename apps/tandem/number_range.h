// Ranges of options that are not whole numbers.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>

namespace tandem {

// As CLI::Range, but a NaN, which is neither below nor above anything, is no number in it.
inline CLI::Validator number_range(double low, double high) {
  const std::string range = fmt::format("FLOAT in [{} - {}]", low, high);
  return CLI::Validator(
      [low, high, range](std::string& text) {
        double value = 0;
        const bool inside = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
        return inside ? std::string() : fmt::format("'{}' is no {}", text, range);
      },
      range);
}

}  // namespace tandem
