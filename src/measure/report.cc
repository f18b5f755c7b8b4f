#include "measure/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace tandem::measure {
namespace {

using Json = nlohmann::ordered_json;

// Four digits that count, down to thousandths: "1234", "123.4", "12.34", "1.234", "0.012".
std::string figure(double value) {
  const int digits = value >= 999.95 ? 0 : value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3;
  return fmt::format("{:.{}f}", value, value == 0 ? 0 : digits);
}

std::string share(double value) { return fmt::format("{:.0f} %", value * 100); }

double megabytes(double bytes) { return bytes / 1e6; }

// The rates at which some work was done.
struct Rates {
  double read_bytes_per_s;
  double flop_per_s;
  double read_share;  // of the machine's
  double flop_share;
  double bound_share;  // of the time that the machine's rates allow at least
};

Rates rates_of(const Work& work, double seconds, const MachineRates& machine) {
  if (seconds <= 0) return {};
  const double read = work.read_bytes() / seconds;
  const double flop = work.flop / seconds;
  return {read, flop, read / machine.read_bytes_per_s.max, flop / machine.fma_flop_per_s.max,
          bound_s(work, machine) / seconds};
}

std::string case_name(const StepCase& c) {
  if (c.prompt > 0) return fmt::format("prompt {}", c.prompt);
  return fmt::format("batch {}, context {}", c.sequences, c.context);
}

std::string work_columns(const Work& work, double seconds, const MachineRates& machine) {
  const Rates rates = rates_of(work, seconds, machine);
  return fmt::format("{:>10}{:>10}{:>8}{:>7}{:>10}{:>9}{:>7}", figure(megabytes(work.weight_bytes)),
                     figure(megabytes(work.memory_read_bytes)),
                     figure(rates.read_bytes_per_s / 1e9), share(rates.read_share),
                     figure(work.flop / 1e6), figure(rates.flop_per_s / 1e9),
                     share(rates.flop_share));
}

constexpr const char* kWorkHeads = " MB weights  MB cache    GB/s of max     MFLOP  GFLOP/s of max";

void append_overview(std::string& text, const StepReport& report) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{:>8}{:>9}{:>10}  {:<18}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
                 report.bench == "decode" ? "batch" : "prompt",
                 report.bench == "decode" ? "context" : "", "tokens/s", "min..max", "ms",
                 "of reads", "of FMA", "of bound", "experts", "if even");
  for (const StepCase& c : report.cases) {
    const Summary wall = c.wall_s();
    const Summary speed = rates(static_cast<double>(c.sample_tokens), wall);
    const Rates done = rates_of(total(c.work), wall.median, report.setting.machine);
    fmt::format_to(out, "{:>8}{:>9}{:>10}  {:<18}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
                   c.prompt > 0 ? c.prompt : c.sequences,
                   c.prompt > 0 ? std::string() : fmt::format("{}", c.context),
                   figure(speed.median),
                   fmt::format("{}..{}", figure(speed.min), figure(speed.max)),
                   figure(wall.median * 1e3), share(done.read_share), share(done.flop_share),
                   share(done.bound_share), figure(c.distinct_experts), figure(c.even_experts));
  }
}

void append_stages(std::string& text, const StepCase& c, const MachineRates& machine) {
  const auto out = std::back_inserter(text);
  const StepTimes typical = c.typical();
  fmt::format_to(out, "\n{}\n  {:<20}{:>9}{:>7}{}\n", case_name(c), "stage", "ms", "time",
                 kWorkHeads);
  const auto line = [&](std::string_view name, double seconds, const std::string& columns) {
    fmt::format_to(out, "  {:<20}{:>9}{:>7}{}\n", name, figure(seconds * 1e3),
                   share(seconds / typical.wall_s), columns);
  };
  for (std::size_t s = 0; s < kStageCount; ++s) {
    if (typical.stage_s[s] == 0) continue;
    line(stage_name(static_cast<Stage>(s)), typical.stage_s[s],
         work_columns(c.work[s], typical.stage_s[s], machine));
  }
  line("other", typical.other_s(), "");
  line("all", typical.wall_s, work_columns(total(c.work), typical.wall_s, machine));
}

void append_memory(std::string& text, const StepReport& report) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "\n{:<28}{:>12}{:>12}{:>12}\n", "memory, MB", "resident", "planned",
                 "beyond");
  for (const StepCase& c : report.cases) {
    const auto resident = megabytes(static_cast<double>(c.resident_bytes));
    const auto planned = megabytes(static_cast<double>(report.weight_bytes + c.cache_bytes));
    fmt::format_to(out, "{:<28}{:>12.1f}{:>12.1f}{:>12.1f}\n", "  " + case_name(c), resident,
                   planned, resident - planned);
  }
}

// How much longer a step takes with a long context than with the shortest, batch by batch.
void append_context_cost(std::string& text, const StepReport& report) {
  for (const StepCase& c : report.cases) {
    const auto first =
        std::find_if(report.cases.begin(), report.cases.end(),
                     [&](const StepCase& other) { return other.sequences == c.sequences; });
    if (c.prompt > 0 || first->context == c.context) continue;
    fmt::format_to(std::back_inserter(text),
                   "batch {}: a step at context {} takes {:.2f} times one at {}\n", c.sequences,
                   c.context, c.wall_s().median / first->wall_s().median, first->context);
  }
}

Json summary_json(const Summary& s) {
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}};
}

Json setting_json(const std::string& bench, const Setting& setting) {
  return {{"bench", bench},
          {"model", setting.model},
          {"architecture", setting.architecture},
          {"precision", setting.precision},
          {"backend", setting.backend},
          {"threads", setting.threads},
          {"processor", setting.processor},
          {"instruction_set", setting.instruction_set},
          {"machine",
           {{"read_bytes_per_s", summary_json(setting.machine.read_bytes_per_s)},
            {"fma_flop_per_s", summary_json(setting.machine.fma_flop_per_s)}}}};
}

Json work_json(const Work& work, double seconds, const MachineRates& machine) {
  const Rates rates = rates_of(work, seconds, machine);
  return {{"weight_bytes", work.weight_bytes},
          {"memory_read_bytes", work.memory_read_bytes},
          {"memory_write_bytes", work.memory_write_bytes},
          {"flop", work.flop},
          {"read_bytes_per_s", rates.read_bytes_per_s},
          {"read_share", rates.read_share},
          {"flop_per_s", rates.flop_per_s},
          {"flop_share", rates.flop_share},
          {"bound_share", rates.bound_share}};
}

Json case_json(const StepCase& c, const StepReport& report) {
  const MachineRates& machine = report.setting.machine;
  const StepTimes typical = c.typical();
  const Summary wall = c.wall_s();
  Json json = c.prompt > 0 ? Json{{"prompt", c.prompt}}
                           : Json{{"batch", c.sequences}, {"context", c.context}};
  json["samples"] = c.samples.size();
  json["tokens_per_s"] = summary_json(rates(static_cast<double>(c.sample_tokens), wall));
  json["wall_s"] = summary_json(wall);
  json.update(work_json(total(c.work), wall.median, machine));
  json["distinct_experts"] = c.distinct_experts;
  json["distinct_experts_if_even"] = c.even_experts;
  json["resident_bytes"] = c.resident_bytes;
  json["planned_bytes"] = report.weight_bytes + c.cache_bytes;
  Json stages = Json::array();
  for (std::size_t s = 0; s < kStageCount; ++s) {
    const double seconds = typical.stage_s[s];
    if (seconds == 0) continue;
    Json stage = {{"stage", stage_name(static_cast<Stage>(s))},
                  {"seconds", seconds},
                  {"time_share", seconds / typical.wall_s}};
    stage.update(work_json(c.work[s], seconds, machine));
    stages.push_back(std::move(stage));
  }
  json["stages_wall_s"] = typical.wall_s;
  json["stages"] = std::move(stages);
  json["other_s"] = typical.other_s();
  return json;
}

}  // namespace

double bound_s(const Work& work, const MachineRates& machine) {
  return std::max(work.read_bytes() / machine.read_bytes_per_s.max,
                  work.flop / machine.fma_flop_per_s.max);
}

std::string setting_text(const std::string& bench, const Setting& setting) {
  const MachineRates& machine = setting.machine;
  return fmt::format(
      "{}: {} ({}), {} precision, {} kernels, {} thread{}\n"
      "{}, {}: reads {} GB/s ({}..{}), multiplies and adds {} GFLOP/s ({}..{})\n",
      bench, setting.model, setting.architecture, setting.precision, setting.backend,
      setting.threads, setting.threads == 1 ? "" : "s", setting.processor, setting.instruction_set,
      figure(machine.read_bytes_per_s.median / 1e9), figure(machine.read_bytes_per_s.min / 1e9),
      figure(machine.read_bytes_per_s.max / 1e9), figure(machine.fma_flop_per_s.median / 1e9),
      figure(machine.fma_flop_per_s.min / 1e9), figure(machine.fma_flop_per_s.max / 1e9));
}

std::string report_text(const StepReport& report) {
  std::string text = setting_text(report.bench, report.setting) + "\n";
  append_overview(text, report);
  append_context_cost(text, report);
  for (const StepCase& c : report.cases) append_stages(text, c, report.setting.machine);
  append_memory(text, report);
  return text;
}

std::string report_json(const StepReport& report) {
  Json json = setting_json(report.bench, report.setting);
  json["weight_bytes"] = report.weight_bytes;
  Json cases = Json::array();
  for (const StepCase& c : report.cases) cases.push_back(case_json(c, report));
  json["cases"] = std::move(cases);
  // A model's name may hold bytes that are no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tandem::measure
