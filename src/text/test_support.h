// What the tests of this folder share: data files, tokenizers, the vendors' special-token tables.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace tandem {

// tests/data/text/`name`, parsed.
nlohmann::json test_data(const char* name);

// The bundled model's tokenizer (K3 names).
const Tokenizer& demo_tokenizer();

// Reference data that is not in the repository; tests that need it skip when it is absent.
std::filesystem::path reference_folder();
// One JSON value per line of a reference file.
std::vector<nlohmann::ordered_json> reference_lines(const char* name);
// Kimi's rank file with the names of Kimi K3, or of Kimi K2 and Kimi Linear.
std::unique_ptr<Tokenizer> reference_k3_tokenizer();
std::unique_ptr<Tokenizer> reference_kimi_linear_tokenizer();

// The 256 single bytes as ranks 0..255, then the names of Kimi K3, or of K2 and Kimi Linear with
// `<think>` and `</think>`: ids are easy to predict. `more`: tokens of several bytes for ranks 256…
std::unique_ptr<Tokenizer> byte_k3_tokenizer(const std::vector<std::string>& more = {});
std::unique_ptr<Tokenizer> byte_kimi_linear_tokenizer(const std::vector<std::string>& more = {});

}  // namespace tandem
