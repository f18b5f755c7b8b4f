#include "layering/layering.h"

#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace tandem::layering {
namespace {

struct Include {
  std::string path;
  int line = 0;
  bool angled = false;
};

bool has_prefix(std::string_view path, const std::vector<std::string>& prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](const auto& prefix) { return path.starts_with(prefix); });
}

bool is_header(std::string_view path) { return path.ends_with(".h") || path.ends_with(".cuh"); }

bool is_test(std::string_view path) { return path.ends_with("_test.cc"); }

// "model" of "model/spec.h"; "" of a name without a folder.
std::string folder_of(std::string_view path) {
  const auto slash = path.find('/');
  return std::string(slash == path.npos ? "" : path.substr(0, slash));
}

std::vector<Include> includes_of(const std::string& contents) {
  std::vector<Include> found;
  std::istringstream lines(contents);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::string_view rest = line;
    const auto skip_blanks = [&] {
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    };
    skip_blanks();
    if (!rest.starts_with('#')) continue;
    rest.remove_prefix(1);
    skip_blanks();
    if (!rest.starts_with("include")) continue;
    rest.remove_prefix(7);
    skip_blanks();
    if (rest.empty() || (rest[0] != '"' && rest[0] != '<')) continue;
    const bool angled = rest[0] == '<';
    rest.remove_prefix(1);
    found.push_back({std::string(rest.substr(0, rest.find(angled ? '>' : '"'))), number, angled});
  }
  return found;
}

// The classes and enumerations that a file defines in its namespace, with their lines.
std::vector<std::pair<std::string, int>> types_of(const std::string& contents) {
  static const std::regex space(R"(^namespace ([\w:]+) \{)");
  static const std::regex type(R"(^(?:struct|class|enum class) (\w+)(?: final)?(?: : .*)? \{.*)");
  std::vector<std::pair<std::string, int>> found;
  std::string scope;
  std::istringstream lines(contents);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (std::regex_search(line, match, space)) scope += match[1].str() + "::";
    if (line.starts_with("}  // namespace")) scope.clear();
    if (std::regex_match(line, match, type)) found.emplace_back(scope + match[1].str(), number);
  }
  return found;
}

// What a folder may include: folders, and single headers of others.
struct Reach {
  std::set<std::string> folders;
  std::set<std::string> headers;
};

Reach reach_of(const Rules& rules, const std::string& start) {
  Reach reach;
  std::set<std::string> expanded;
  reach.folders.insert(start);
  const std::function<void(const std::string&)> expand = [&](const std::string& folder) {
    if (!expanded.insert(folder).second) return;
    for (const auto& name : rules.layers.at(folder)) {
      const std::string owner = folder_of(name);
      (owner.empty() ? reach.folders : reach.headers).insert(name);
      expand(owner.empty() ? name : owner);
    }
  };
  expand(start);
  return reach;
}

class Checker {
 public:
  Checker(const Rules& rules, const Tree& tree) : rules_(rules), tree_(tree) {}

  std::vector<std::string> run() {
    for (const auto& [path, contents] : tree_.files) includes_[path] = includes_of(contents);
    for (const auto& [path, includes] : includes_) check_file(path, includes);
    check_public_headers();
    check_type_names();
    return std::move(found_);
  }

 private:
  void report(const std::string& path, int line, const std::string& message) {
    found_.push_back(path + ":" + std::to_string(line) + ": " + message);
  }

  bool is_third_party(const Include& include) const {
    return include.angled && include.path.find('.') != std::string::npos &&
           !has_prefix(include.path, rules_.system_headers);
  }

  void check_file(const std::string& path, const std::vector<Include>& includes) {
    const std::string folder = folder_of(path);
    if (!rules_.layers.contains(folder))
      return report(path, 1, "folder " + folder + " is not in layers.txt");
    const Reach reach = reach_of(rules_, folder);
    for (const auto& include : includes) {
      if (has_prefix(include.path, rules_.device_headers) &&
          !has_prefix(path, rules_.device_folders)) {
        report(path, include.line, "includes the device header " + include.path);
      }
      if (!include.angled) check_quoted(path, include, reach);
    }
  }

  void check_quoted(const std::string& path, const Include& include, const Reach& reach) {
    if (is_test(path) && tree_.test_headers.contains(include.path)) return;
    const std::string beside = path.substr(0, path.rfind('/') + 1) + include.path;
    if (path.starts_with("apps/") && tree_.files.contains(beside)) return;
    if (!tree_.files.contains(include.path)) {
      return report(path, include.line,
                    "includes " + include.path + ", which is not a file under src/");
    }
    const std::string target = folder_of(include.path);
    if (reach.folders.contains(target) || reach.headers.contains(include.path)) return;
    report(path, include.line, folder_of(path) + " may not include " + include.path);
  }

  // Two types of one name may end up in one program, and the linker keeps the templates of one.
  void check_type_names() {
    std::map<std::string, std::string> owner;
    for (const auto& [path, contents] : tree_.files) {
      if (!is_header(path)) continue;
      for (const auto& [name, line] : types_of(contents)) {
        const auto [known, is_new] = owner.emplace(name, path);
        if (!is_new) report(path, line, name + " is defined in " + known->second + ", too");
      }
    }
  }

  // Marks every header that another folder reaches, and reports what it shows of third parties.
  void check_public_headers() {
    std::set<std::string> visible;
    const std::function<void(const std::string&)> show = [&](const std::string& header) {
      if (!includes_.contains(header) || !visible.insert(header).second) return;
      for (const auto& include : includes_.at(header)) {
        if (!include.angled) show(include.path);
      }
    };
    for (const auto& [path, includes] : includes_) {
      for (const auto& include : includes) {
        if (!include.angled && folder_of(include.path) != folder_of(path)) show(include.path);
      }
    }
    for (const auto& header : visible) {
      if (!is_header(header)) continue;
      for (const auto& include : includes_.at(header)) {
        if (is_third_party(include) && !has_prefix(include.path, rules_.public_third_party)) {
          report(header, include.line,
                 "a public header shows the third party's <" + include.path + ">");
        }
      }
    }
  }

  const Rules& rules_;
  const Tree& tree_;
  std::map<std::string, std::vector<Include>> includes_;
  std::vector<std::string> found_;
};

void check_names(const Rules& rules) {
  for (const auto& [folder, names] : rules.layers) {
    for (const auto& name : names) {
      const std::string owner = folder_of(name);
      if (!rules.layers.contains(owner.empty() ? name : owner)) {
        throw std::runtime_error("layers.txt: layer " + folder + " names the unknown " + name);
      }
    }
  }
}

}  // namespace

Rules parse_rules(std::string_view text) {
  Rules rules;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const auto colon = line.find(':');
    if (colon == line.npos)
      throw std::runtime_error("layers.txt:" + std::to_string(number) + ": no colon");
    const std::string key = line.substr(0, colon);
    std::istringstream words(line.substr(colon + 1));
    std::vector<std::string>* list = nullptr;
    if (key.starts_with("layer ")) list = &rules.layers[key.substr(6)];
    if (key == "system") list = &rules.system_headers;
    if (key == "public") list = &rules.public_third_party;
    if (key == "device") list = &rules.device_headers;
    if (key == "device-folder") list = &rules.device_folders;
    if (list == nullptr)
      throw std::runtime_error("layers.txt:" + std::to_string(number) + ": unknown key " + key);
    for (std::string word; words >> word;) list->push_back(word);
  }
  check_names(rules);
  return rules;
}

std::vector<std::string> violations(const Rules& rules, const Tree& tree) {
  return Checker(rules, tree).run();
}

}  // namespace tandem::layering
