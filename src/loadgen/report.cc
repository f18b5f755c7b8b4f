#include "loadgen/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace tandem::loadgen {
namespace {

using Json = nlohmann::ordered_json;

// From here on the client's own lateness is a part of what is reported as the server's.
constexpr double kNotableLag_ms = 5;

double per_second(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

// -1 as soon as one answer did not say.
void add_count(std::int64_t& sum, std::int64_t count) {
  sum = sum < 0 || count < 0 ? -1 : sum + count;
}

std::vector<ErrorCount> count_errors(const std::vector<RequestRecord>& requests) {
  std::vector<ErrorCount> errors;
  for (const RequestRecord& request : requests) {
    if (request.error.empty()) continue;
    auto found = std::find_if(errors.begin(), errors.end(),
                              [&](const ErrorCount& error) { return error.kind == request.error; });
    if (found == errors.end()) {
      found = errors.insert(errors.end(), {request.error, 0, request.detail});
    }
    ++found->count;
  }
  std::stable_sort(errors.begin(), errors.end(),
                   [](const ErrorCount& a, const ErrorCount& b) { return a.count > b.count; });
  return errors;
}

// "12.3", "123", "1234": three digits that count.
std::string figure(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, value >= 9.995 ? 1 : 2);
}

Json distribution_json(const Distribution& d) {
  if (d.count == 0) return nullptr;
  return {{"count", d.count}, {"mean", d.mean}, {"p50", d.p50},
          {"p90", d.p90},     {"p99", d.p99},   {"max", d.max}};
}

Json count_json(std::int64_t count) { return count < 0 ? Json() : Json(count); }

void append_tokens(std::string& text, const LoadReport& report) {
  const auto out = std::back_inserter(text);
  if (report.completion_tokens >= 0) {
    fmt::format_to(out, "{:24}{:>9}   {} in all\n", "output tokens/s",
                   figure(per_second(report.completion_tokens, report.wall_s)),
                   report.completion_tokens);
  } else {
    fmt::format_to(out, "{:24}{:>9}   {} in all; the server does not count tokens\n", "pieces/s",
                   figure(per_second(report.pieces, report.wall_s)), report.pieces);
  }
  if (report.prompt_tokens < 0) return;
  fmt::format_to(out, "{:24}{:>9}   {} in all", "prompt tokens/s",
                 figure(per_second(report.prompt_tokens, report.wall_s)), report.prompt_tokens);
  if (report.cached_tokens >= 0 && report.prompt_tokens > 0) {
    fmt::format_to(out, ", {} of them cached ({:.1f} %)", report.cached_tokens,
                   100 * static_cast<double>(report.cached_tokens) /
                       static_cast<double>(report.prompt_tokens));
  }
  text += '\n';
}

void append_lag(std::string& text, const LoadReport& report) {
  if (std::max(report.clock_lag_ms.p99, report.send_lag_ms.p99) < kNotableLag_ms) return;
  fmt::format_to(std::back_inserter(text),
                 "note: this program was late itself, and times are that inexact: its clock by "
                 "{} ms, sending by {} ms (p99)\n",
                 figure(report.clock_lag_ms.p99), figure(report.send_lag_ms.p99));
}

}  // namespace

LoadReport summarise(const LoadRunResult& result, std::string target, std::string load) {
  LoadReport report{.target = std::move(target),
                    .load = std::move(load),
                    .requests = static_cast<std::int64_t>(result.requests.size()),
                    .wall_s = result.wall_s,
                    .interrupted = result.interrupted,
                    .measures = {},
                    .errors = count_errors(result.requests),
                    .prompt_tokens = 0,
                    .completion_tokens = 0,
                    .cached_tokens = 0,
                    .clock_lag_ms = {},
                    .send_lag_ms = {}};
  std::vector<double> first, gaps, per_token, whole, send_lag;
  for (const RequestRecord& request : result.requests) {
    send_lag.push_back((request.sent_s - request.due_s) * 1000);
    if (!request.error.empty()) continue;
    ++report.answered;
    whole.push_back((request.end_s - request.due_s) * 1000);
    if (request.first_s >= 0) {
      first.push_back((request.first_s - request.due_s) * 1000);
      report.pieces += 1 + static_cast<std::int64_t>(request.gaps_ms.size());
    }
    gaps.insert(gaps.end(), request.gaps_ms.begin(), request.gaps_ms.end());
    if (request.completion_tokens > 1 && request.first_s >= 0) {
      per_token.push_back((request.last_s - request.first_s) * 1000 /
                          static_cast<double>(request.completion_tokens - 1));
    }
    add_count(report.prompt_tokens, request.prompt_tokens);
    add_count(report.completion_tokens, request.completion_tokens);
    add_count(report.cached_tokens, request.cached_tokens);
  }
  report.measures = {{"first token", "first_token_ms", std::move(first)},
                     {"between pieces", "between_pieces_ms", std::move(gaps)},
                     {"per output token", "per_output_token_ms", std::move(per_token)},
                     {"whole answer", "whole_answer_ms", std::move(whole)}};
  for (Measure& measure : report.measures) std::sort(measure.sorted.begin(), measure.sorted.end());
  std::vector<double> clock_lag = result.clock_lag_ms;
  for (auto* lag : {&clock_lag, &send_lag}) std::sort(lag->begin(), lag->end());
  report.clock_lag_ms = distribution(clock_lag);
  report.send_lag_ms = distribution(send_lag);
  return report;
}

std::string report_text(const LoadReport& report) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{}\n{}\n{} of {} requests answered in {} s{}\n\n", report.target,
                 report.load, report.answered, report.requests, figure(report.wall_s),
                 report.interrupted ? ", interrupted" : "");
  fmt::format_to(out, "{:24}{:>9}{:>10}{:>10}{:>10}{:>10}\n", "milliseconds", "p50", "p90", "p99",
                 "max", "mean");
  for (const Measure& measure : report.measures) {
    const Distribution d = distribution(measure.sorted);
    if (d.count == 0) {
      fmt::format_to(out, "{:24}{:>9}\n", measure.name, "-");
      continue;
    }
    fmt::format_to(out, "{:24}{:>9}{:>10}{:>10}{:>10}{:>10}\n", measure.name, figure(d.p50),
                   figure(d.p90), figure(d.p99), figure(d.max), figure(d.mean));
  }
  fmt::format_to(out, "\n{:24}{:>9}\n", "requests/s",
                 figure(per_second(report.answered, report.wall_s)));
  append_tokens(text, report);
  for (const ErrorCount& error : report.errors) {
    fmt::format_to(out, "error: {:17}{:>9}   {}\n", error.kind, error.count, error.detail);
  }
  append_lag(text, report);
  return text;
}

std::string report_json(const LoadReport& report) {
  Json json = {{"target", report.target},     {"load", report.load},
               {"requests", report.requests}, {"answered", report.answered},
               {"wall_s", report.wall_s},     {"interrupted", report.interrupted}};
  for (const Measure& measure : report.measures) {
    json[measure.field] = distribution_json(distribution(measure.sorted));
  }
  json["requests_per_s"] = per_second(report.answered, report.wall_s);
  json["completion_tokens_per_s"] = report.completion_tokens < 0
                                        ? Json()
                                        : Json(per_second(report.completion_tokens, report.wall_s));
  json["prompt_tokens"] = count_json(report.prompt_tokens);
  json["completion_tokens"] = count_json(report.completion_tokens);
  json["cached_tokens"] = count_json(report.cached_tokens);
  json["pieces"] = report.pieces;
  json["errors"] = Json::array();
  for (const ErrorCount& error : report.errors) {
    json["errors"].push_back(
        {{"kind", error.kind}, {"count", error.count}, {"first", error.detail}});
  }
  json["clock_lag_ms"] = distribution_json(report.clock_lag_ms);
  json["send_lag_ms"] = distribution_json(report.send_lag_ms);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tandem::loadgen
