// The include rules of layers.txt, applied to a set of source files.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::layering {

// layers.txt, parsed. Prefix lists match the start of an include path.
struct Rules {
  // folder -> the names it may include directly: folders, or single headers ("engine/engine.h").
  std::map<std::string, std::vector<std::string>> layers;
  std::vector<std::string> system_headers;
  std::vector<std::string> public_third_party;
  std::vector<std::string> device_headers;
  std::vector<std::string> device_folders;
};

// Throws std::runtime_error that names the line.
Rules parse_rules(std::string_view text);

// path -> contents. Paths as an include from another folder spells them, "base/status.h"; those of
// apps/ start with "apps/", and what stands in tests/ is known by `test_headers`.
struct Tree {
  std::map<std::string, std::string> files;
  std::set<std::string> test_headers = {};
};

// One line for each forbidden include: "src file:line: what and why". Empty when all is well.
std::vector<std::string> violations(const Rules& rules, const Tree& tree);

}  // namespace tandem::layering
