// Tables of cases, and what a message for a person must look like.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace tandem {

// A row of a table of cases: derive from it, and the row's name becomes the test's.
struct NamedCase {
  const char* name;
  friend std::ostream& operator<<(std::ostream& out, const NamedCase& row) {
    return out << row.name;
  }
};
struct CaseName {
  template <typename T>
  std::string operator()(const testing::TestParamInfo<T>& row) const {
    return row.param.name;
  }
};

// A message for a person: one line, with every one of `parts` in it.
inline void expect_one_line(const std::string& message, const std::vector<std::string>& parts) {
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 500u) << message;
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << message << "\n  lacks: " << part;
  }
}

}  // namespace tandem
