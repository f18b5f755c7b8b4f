// The picture of a report: one panel a measure, each a cumulative curve.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "loadgen/report.h"

namespace tandem::loadgen {
namespace {

constexpr double kMargin = 28;
constexpr double kHeader = 112;
constexpr double kPanelWidth = 420;
constexpr double kPanelHeight = 250;
constexpr double kPlotLeft = 44;
constexpr double kPlotTop = 46;
constexpr double kPlotWidth = kPanelWidth - kPlotLeft - 24;
constexpr double kPlotHeight = kPanelHeight - kPlotTop - 46;
constexpr std::size_t kCurvePoints = 200;

constexpr const char* kStyle = R"(<style>
  svg { --page: #ffffff; --ink: #1f2933; --soft: #616e7c; --line: #e4e7eb; --curve: #2f6db3;
        --fill: #2f6db31a; --bad: #b3372f; }
  @media (prefers-color-scheme: dark) {
    svg { --page: #14181d; --ink: #e6eaee; --soft: #9aa5b1; --line: #2d343c; --curve: #6fb1f0;
          --fill: #6fb1f026; --bad: #f08a80; }
  }
  text { font: 12px system-ui, sans-serif; fill: var(--soft); font-variant-numeric: tabular-nums; }
  .title { font-size: 18px; font-weight: 600; fill: var(--ink); }
  .name { font-size: 14px; font-weight: 600; fill: var(--ink); }
  .figures { font-size: 13px; fill: var(--ink); }
  .bad { fill: var(--bad); }
  .grid { stroke: var(--line); fill: none; }
  .curve { stroke: var(--curve); stroke-width: 2; fill: none; stroke-linejoin: round; }
  .area { fill: var(--fill); }
  .mark { fill: var(--curve); stroke: var(--page); stroke-width: 1.5; }
</style>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    if (c == '>') out += "&gt;";
    if (c == '&') out += "&amp;";
    if (c != '<' && c != '>' && c != '&') out += c;
  }
  return out;
}

// 1, 2 or 5 times a power of ten, the first at or above `value` > 0.
double round_step(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// Linear from 0, or logarithmic where a long tail would press the rest against the left.
class Axis {
 public:
  explicit Axis(const std::vector<double>& sorted) {
    const double low = std::max(sorted.front(), 1e-3);
    const double high = std::max(sorted.back(), low);
    logarithmic_ = high > 8 * std::max(percentile(sorted, 0.9), low);
    if (logarithmic_) {
      low_ = low;
      high_ = high;
      const bool decades = high > 1000 * low;  // else 1, 2 and 5 of each
      for (double tick = round_step(low); tick <= high; tick = round_step(tick * 1.5)) {
        const double exponent = std::log10(tick);
        if (!decades || std::abs(exponent - std::round(exponent)) < 1e-6) ticks_.push_back(tick);
      }
    } else {
      const double step = round_step(high / 5);
      high_ = std::ceil(high / step) * step;
      for (double tick = 0; tick <= high_ * (1 + 1e-9); tick += step) ticks_.push_back(tick);
    }
  }

  const std::vector<double>& ticks() const { return ticks_; }
  bool logarithmic() const { return logarithmic_; }
  // In [0, 1].
  double place(double value) const {
    if (!logarithmic_) return value / high_;
    return std::log(std::max(value, low_) / low_) / std::log(high_ / low_);
  }

 private:
  bool logarithmic_ = false;
  double low_ = 0;
  double high_ = 0;
  std::vector<double> ticks_;
};

std::string tick_text(double value) {
  return fmt::format("{:.{}f}", value, value >= 1 || value == 0 ? 0 : value >= 0.1 ? 1 : 2);
}

std::string time_text(double ms) {
  if (ms >= 10'000) return fmt::format("{:.1f} s", ms / 1000);
  return fmt::format("{:.{}f} ms", ms, ms >= 100 ? 0 : ms >= 10 ? 1 : 2);
}

void draw_grid(std::string& svg, const Axis& axis) {
  const auto out = std::back_inserter(svg);
  const double bottom = kPlotTop + kPlotHeight;
  for (const int percent : {0, 25, 50, 75, 100}) {
    const double y = bottom - kPlotHeight * percent / 100;
    fmt::format_to(out,
                   "<path class=\"grid\" d=\"M{:.1f} {:.1f}h{:.1f}\"/><text x=\"{:.1f}\" "
                   "y=\"{:.1f}\" text-anchor=\"end\">{} %</text>\n",
                   kPlotLeft, y, kPlotWidth, kPlotLeft - 7, y + 4, percent);
  }
  for (const double tick : axis.ticks()) {
    const double x = kPlotLeft + kPlotWidth * axis.place(tick);
    fmt::format_to(out,
                   "<path class=\"grid\" d=\"M{:.1f} {:.1f}v{:.1f}\"/><text x=\"{:.1f}\" "
                   "y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                   x, kPlotTop, kPlotHeight, x, bottom + 18, tick_text(tick));
  }
  fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                 kPlotLeft + kPlotWidth, bottom + 36,
                 axis.logarithmic() ? "milliseconds, logarithmic" : "milliseconds");
}

void draw_curve(std::string& svg, const Axis& axis, const std::vector<double>& sorted) {
  const auto out = std::back_inserter(svg);
  const double bottom = kPlotTop + kPlotHeight;
  const auto x_of = [&](double value) { return kPlotLeft + kPlotWidth * axis.place(value); };
  const auto y_of = [&](double share) { return bottom - kPlotHeight * share; };
  std::string path = fmt::format("M{:.1f} {:.1f}", x_of(sorted.front()), bottom);
  for (const CurvePoint& point : cumulative_curve(sorted, kCurvePoints)) {
    // In steps: between two samples there is nothing.
    fmt::format_to(std::back_inserter(path), "H{:.1f}V{:.1f}", x_of(point.value),
                   y_of(point.share));
  }
  fmt::format_to(out, "<path class=\"area\" d=\"{}V{:.1f}Z\"/><path class=\"curve\" d=\"{}\"/>\n",
                 path, bottom, path);
  for (const double share : {0.5, 0.9, 0.99}) {
    const double value = percentile(sorted, share);
    fmt::format_to(out, "<circle class=\"mark\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n",
                   x_of(value), y_of(share));
  }
}

void draw_panel(std::string& svg, const Measure& measure, double left, double top) {
  const auto out = std::back_inserter(svg);
  const Distribution d = distribution(measure.sorted);
  const Axis axis(measure.sorted);
  fmt::format_to(out,
                 "<g transform=\"translate({:.0f} {:.0f})\">\n<text class=\"name\" x=\"0\" "
                 "y=\"16\">{}</text>\n<text x=\"0\" y=\"34\">p50 {}  ·  p90 {}  ·  p99 {}  ·  "
                 "max {}</text>\n",
                 left, top, measure.name, time_text(d.p50), time_text(d.p90), time_text(d.p99),
                 time_text(d.max));
  draw_grid(svg, axis);
  draw_curve(svg, axis, measure.sorted);
  svg += "</g>\n";
}

std::string figures(const LoadReport& report) {
  const double seconds = std::max(report.wall_s, 1e-9);
  std::string text =
      fmt::format("{} of {} requests answered in {:.1f} s, {:.1f} a second", report.answered,
                  report.requests, report.wall_s, static_cast<double>(report.answered) / seconds);
  const auto out = std::back_inserter(text);
  if (report.completion_tokens >= 0) {
    fmt::format_to(out, "; {:.0f} output tokens a second",
                   static_cast<double>(report.completion_tokens) / seconds);
  }
  if (report.cached_tokens >= 0 && report.prompt_tokens > 0) {
    fmt::format_to(out, "; {:.0f} % of prompt tokens cached",
                   100 * static_cast<double>(report.cached_tokens) /
                       static_cast<double>(report.prompt_tokens));
  }
  return text;
}

std::string error_line(const LoadReport& report) {
  std::string text;
  for (const ErrorCount& error : report.errors) {
    text += fmt::format("{}{} {}", text.empty() ? "errors: " : ", ", error.count, error.kind);
  }
  return text;
}

}  // namespace

std::string report_svg(const LoadReport& report) {
  std::vector<const Measure*> measured;
  for (const Measure& measure : report.measures) {
    if (!measure.sorted.empty()) measured.push_back(&measure);
  }
  const auto rows = static_cast<double>((measured.size() + 1) / 2);
  const double width = 2 * kMargin + 2 * kPanelWidth;
  const double height = kHeader + rows * kPanelHeight + kMargin;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n{2}<rect width=\"100%\" height=\"100%\" style=\"fill:var(--page)\"/>\n",
      width, height, kStyle);
  const auto line = [&](const char* style, double y, const std::string& text) {
    svg += fmt::format("<text class=\"{}\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", style, kMargin,
                       y, escaped(text));
  };
  line("title", 38, report.target);
  line("", 60, report.load);
  line("figures", 80, figures(report));
  line("bad", 98, error_line(report));
  for (std::size_t i = 0; i < measured.size(); ++i) {
    draw_panel(svg, *measured[i], kMargin + static_cast<double>(i % 2) * kPanelWidth,
               kHeader + static_cast<double>(i / 2) * kPanelHeight);
  }
  return svg + "</svg>\n";
}

}  // namespace tandem::loadgen
