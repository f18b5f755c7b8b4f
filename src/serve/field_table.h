// Request bodies read by tables: one row a field, so that what a route takes can be listed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "serve/json_fields.h"

namespace tandem {

// How one field of a body becomes part of a Draft. `field` is its name, for errors.
template <typename Draft>
struct FieldReader {
  const char* name;
  Result<void> (*read)(const JsonValue& value, const std::string& field, Draft& draft);
};

// Reads the fields that are there, in the order of the table. One that is null counts as left out.
template <typename Draft, std::size_t kRows>
Result<void> read_fields(const JsonValue& body, const FieldReader<Draft> (&table)[kRows],
                         Draft& draft) {
  for (const FieldReader<Draft>& row : table) {
    const JsonValue* value = find_member(body, row.name);
    if (value != nullptr && !is_null(*value)) TRY(row.read(*value, row.name, draft));
  }
  return {};
}

template <typename Draft, std::size_t kRows>
void add_names(const FieldReader<Draft> (&table)[kRows], std::vector<std::string_view>& names) {
  for (const FieldReader<Draft>& row : table) names.push_back(row.name);
}

}  // namespace tandem
