#include "layering/layering.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tandem::layering {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Rules rules() {
  return parse_rules(read(fs::path(TANDEM_SOURCE_DIR) / "tests/layering/layers.txt"));
}

bool is_source(const fs::path& path) {
  const auto extension = path.extension();
  return extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh";
}

Tree repository() {
  const fs::path root = TANDEM_SOURCE_DIR;
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(root / "src")) {
    if (is_source(entry)) tree.files[entry.path().lexically_relative(root / "src")] = read(entry);
  }
  for (const auto& entry : fs::recursive_directory_iterator(root / "apps")) {
    if (is_source(entry)) tree.files[entry.path().lexically_relative(root)] = read(entry);
  }
  for (const auto& entry : fs::recursive_directory_iterator(root / "tests")) {
    if (is_source(entry)) tree.test_headers.insert(entry.path().lexically_relative(root / "tests"));
  }
  return tree;
}

// The violations of a tree of a few made-up files, as one text.
std::string check(const Tree& tree) {
  std::string all;
  for (const auto& line : violations(rules(), tree)) all += line + "\n";
  return all;
}

TEST(layering, the_repository_holds_its_include_rules) {
  const Tree tree = repository();
  ASSERT_TRUE(tree.files.contains("base/status.h"));
  for (const auto& line : violations(rules(), tree)) ADD_FAILURE() << line;
}

TEST(layering, one_name_for_two_types_is_caught) {
  const std::string one = "namespace tandem {\nstruct Turn {\n};\n}  // namespace tandem\n";
  EXPECT_EQ(check({.files = {{"base/a.h", one}, {"text/b.h", one}}}),
            "text/b.h:2: tandem::Turn is defined in base/a.h, too\n");
  const std::string apart =
      "namespace tandem::b {\nclass Turn final : public X {\n};\n}  // namespace tandem::b\n";
  const std::string inner =
      "namespace tandem {\nstruct A {\n  struct Turn {};\n};\nstruct Turn;\n}\n";
  EXPECT_EQ(check({.files = {{"base/a.h", one}, {"text/b.h", apart}, {"text/c.h", inner}}}), "");
}

TEST(layering, including_upwards_is_caught) {
  EXPECT_EQ(
      check({.files = {{"base/a.cc", "\n#include \"model/spec.h\"\n"}, {"model/spec.h", ""}}}),
      "base/a.cc:2: base may not include model/spec.h\n");
}

TEST(layering, including_sideways_is_caught) {
  EXPECT_EQ(
      check({.files = {{"model/a.h", "#  include \"memory/arena.h\""}, {"memory/arena.h", ""}}}),
      "model/a.h:1: model may not include memory/arena.h\n");
}

TEST(layering, what_an_allowed_folder_may_include_is_allowed) {
  EXPECT_EQ(
      check({.files = {{"model/a.cc", "#include \"base/status.h\"\n#include \"tensor/dtype.h\"\n"},
                       {"base/status.h", ""},
                       {"tensor/dtype.h", ""}}}),
      "");
}

TEST(layering, only_the_named_header_of_a_folder_is_open) {
  EXPECT_EQ(check({.files = {{"serve/a.cc",
                              "#include \"engine/engine.h\"\n#include \"engine/step_loop.h\"\n"},
                             {"engine/engine.h", ""},
                             {"engine/step_loop.h", ""}}}),
            "serve/a.cc:2: serve may not include engine/step_loop.h\n");
}

TEST(layering, a_path_that_is_not_from_the_source_root_is_caught) {
  EXPECT_EQ(check({.files = {{"base/a.cc", "#include \"b.h\""}, {"base/b.h", ""}}}),
            "base/a.cc:1: includes b.h, which is not a file under src/\n");
}

TEST(layering, only_tests_include_from_the_tests_folder) {
  const std::string include = "#include \"fakes/clock.h\"";
  const std::set<std::string> fakes = {"fakes/clock.h"};
  EXPECT_EQ(check({.files = {{"base/a_test.cc", include}}, .test_headers = fakes}), "");
  EXPECT_EQ(check({.files = {{"base/a.cc", include}}, .test_headers = fakes}),
            "base/a.cc:1: includes fakes/clock.h, which is not a file under src/\n");
}

TEST(layering, an_app_includes_what_stands_beside_it) {
  EXPECT_EQ(
      check({.files = {{"apps/tandem/main.cc", "#include \"run.h\""}, {"apps/tandem/run.h", ""}}}),
      "");
}

TEST(layering, a_third_party_header_in_a_public_header_is_caught) {
  EXPECT_EQ(
      check({.files = {{"model/a.cc", "#include \"base/json.h\""},
                       {"base/json.h", "#include <nlohmann/json.hpp>\n#include <fmt/core.h>\n"}}}),
      "base/json.h:1: a public header shows the third party's <nlohmann/json.hpp>\n");
}

TEST(layering, a_third_party_header_behind_a_public_header_is_caught) {
  EXPECT_EQ(check({.files = {{"model/a.cc", "#include \"base/json.h\""},
                             {"base/json.h", "#include \"base/inner.h\""},
                             {"base/inner.h", "#include <boost/json.hpp>"}}}),
            "base/inner.h:1: a public header shows the third party's <boost/json.hpp>\n");
}

TEST(layering, sources_and_private_headers_use_third_parties_freely) {
  EXPECT_EQ(
      check({.files = {{"base/a.cc", "#include \"base/inner.h\"\n#include <spdlog/spdlog.h>\n"},
                       {"base/inner.h", "#include <nlohmann/json.hpp>"}}}),
      "");
}

TEST(layering, system_headers_are_no_third_party) {
  EXPECT_EQ(check({.files = {{"model/a.cc", "#include \"base/file.h\""},
                             {"base/file.h",
                              "#include <sys/mman.h>\n#include <vector>\n#include <unistd.h>\n"}}}),
            "");
}

TEST(layering, device_headers_stay_in_the_device_folders) {
  EXPECT_EQ(check({.files = {{"tensor/cuda/stream.cu", "#include <cuda_runtime.h>"}}}), "");
  EXPECT_EQ(check({.files = {{"tensor/view.cc", "#include <cuda_runtime.h>"}}}),
            "tensor/view.cc:1: includes the device header cuda_runtime.h\n");
}

TEST(layering, a_folder_without_a_rule_is_caught) {
  EXPECT_EQ(check({.files = {{"misc/a.cc", ""}}}),
            "misc/a.cc:1: folder misc is not in layers.txt\n");
}

TEST(layering, a_rule_that_names_an_unknown_folder_is_refused) {
  EXPECT_THROW(parse_rules("layer base: nowhere\n"), std::runtime_error);
}

}  // namespace
}  // namespace tandem::layering
