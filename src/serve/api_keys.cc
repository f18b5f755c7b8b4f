#include "serve/api_keys.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "serve/http.h"
#include "serve/json_fields.h"

namespace tandem {
namespace {

constexpr std::int64_t kMostRequests = 1'000'000'000;

// What a refused entry is called.
std::string label(const ApiKey& key, std::size_t index) {
  return key.name.empty() ? fmt::format("key {}", index + 1) : fmt::format("key '{}'", key.name);
}

Result<ApiKey> read_entry(const JsonValue& value, const std::string& field) {
  TRY(expect_object(value, field));
  ApiKey key;
  const JsonValue* secret = find_member(value, "key");
  if (secret == nullptr) return bad_field(field + ".key", "is required");
  if (secret->kind != JsonValue::Kind::kString)
    return bad_field(field + ".key", "expected a string");
  key.secret = secret->text;
  if (const JsonValue* name = find_member(value, "name")) {
    key.name = TRY(read_string(*name, field + ".name"));
  }
  if (const JsonValue* weight = find_member(value, "weight")) {
    key.weight = TRY(read_float(*weight, field + ".weight", {0, 1e6, true}));
  }
  if (const JsonValue* rate = find_member(value, "requests_per_minute")) {
    key.requests_per_minute =
        TRY(read_integer(*rate, field + ".requests_per_minute", 1, kMostRequests));
  }
  if (const JsonValue* limit = find_member(value, "max_concurrent")) {
    key.max_concurrent = TRY(read_integer(*limit, field + ".max_concurrent", 1, kMostRequests));
  }
  return key;
}

Result<std::vector<ApiKey>> read_json_keys(const std::string& text) {
  const auto list = TRY(parse_json(text));
  std::vector<ApiKey> keys;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    keys.push_back(TRY(read_entry(list.items[i], fmt::format("[{}]", i))));
  }
  return keys;
}

Result<std::vector<ApiKey>> read_key_lines(const std::string& text) {
  std::vector<ApiKey> keys;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string first, second, rest;
    words >> first >> second >> rest;
    if (first.empty() || first[0] == '#') continue;
    if (!rest.empty()) return invalid("line {}: expected a key, or a name and a key", number);
    keys.push_back(
        {.name = second.empty() ? "" : first, .secret = second.empty() ? first : second});
  }
  return keys;
}

}  // namespace

Result<std::vector<ApiKey>> read_api_keys(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream buffer;
  if (in) buffer << in.rdbuf();
  if (!in) return invalid("{}: cannot be read", file.string());
  const std::string text = buffer.str();
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && text[first] == '[';
  auto keys = is_json ? read_json_keys(text) : read_key_lines(text);
  if (!keys) return invalid("{}: {}", file.string(), keys.error().message);
  if (keys->empty()) return invalid("{}: has no key", file.string());
  return keys;
}

Result<std::unique_ptr<ApiKeys>> ApiKeys::create(std::vector<ApiKey> keys, const Clock& clock) {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ApiKey& key = keys[i];
    if (key.secret.empty()) return invalid("{} is empty", label(key, i));
    if (!std::isfinite(key.weight) || key.weight <= 0) {
      return invalid("{}: weight: expected more than 0, got {}", label(key, i), key.weight);
    }
    if (key.requests_per_minute < 0 || key.max_concurrent < 0) {
      return invalid("{}: expected limits of 0 or more", label(key, i));
    }
    if (key.name.empty()) key.name = fmt::format("{}", i + 1);
    for (const Entry& other : entries) {
      if (other.key.name == key.name) return invalid("two keys have the name '{}'", key.name);
      if (other.key.secret == key.secret) {
        return invalid("keys '{}' and '{}' are the same", other.key.name, key.name);
      }
    }
    const auto allowance = static_cast<double>(key.requests_per_minute);
    entries.push_back({.key = std::move(key), .allowance = allowance, .refilled = clock.now()});
  }
  return std::unique_ptr<ApiKeys>(new ApiKeys(std::move(entries), clock));
}

std::optional<std::size_t> ApiKeys::find(std::string_view secret) const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (equal_in_constant_time(entries_[i].key.secret, secret)) found = i + 1;
  }
  return found;
}

ApiKeys::Admission ApiKeys::admit(std::size_t number) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[number - 1];
  const ApiKey& key = entry.key;
  if (key.max_concurrent > 0 && entry.running >= key.max_concurrent) {
    return {nullptr, 1,
            fmt::format("this key may have {} requests answered at a time", key.max_concurrent)};
  }
  if (key.requests_per_minute > 0) {
    const auto most = static_cast<double>(key.requests_per_minute);
    const double per_second = most / 60;
    const TimePoint now = clock_.now();
    entry.allowance =
        std::min(most, entry.allowance + milliseconds(entry.refilled, now) / 1000 * per_second);
    entry.refilled = now;
    if (entry.allowance < 1) {
      const double wait = (1 - entry.allowance) / per_second;
      return {nullptr, std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(wait))),
              fmt::format("this key may send {} requests a minute", key.requests_per_minute)};
    }
    entry.allowance -= 1;
  }
  ++entry.running;
  return {std::make_unique<Lease>(this, number)};
}

void ApiKeys::release(std::size_t number) {
  const std::lock_guard lock(mutex_);
  --entries_[number - 1].running;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() != b.size() ? 1 : 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto other = static_cast<unsigned char>(i < b.size() ? b[i] : 0);
    difference |= static_cast<unsigned char>(a[i]) ^ other;
  }
  return difference == 0;
}

std::string_view secret_of(std::string_view authorization, std::string_view x_api_key) {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.size() > kScheme.size() &&
      equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) {
    authorization.remove_prefix(kScheme.size());
    const std::size_t begin = authorization.find_first_not_of(' ');
    return begin == std::string_view::npos ? std::string_view() : authorization.substr(begin);
  }
  return x_api_key;
}

}  // namespace tandem
