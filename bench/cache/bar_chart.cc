#include "cache/bar_chart.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace tandem {
namespace {

constexpr std::array kColours = {"#9aa5b1", "#c97b63", "#d9b44a", "#3f7d58", "#4c6fae", "#7a5c99"};
constexpr double kBarWidth = 34;
constexpr double kBarGap = 6;
constexpr double kGroupGap = 40;
constexpr double kPlotHeight = 240;
constexpr double kTop = 40;
constexpr double kLeft = 50;

}  // namespace

std::string bar_chart_svg(const std::string& title, const std::vector<std::string>& series,
                          const std::vector<BarGroup>& groups) {
  const auto bars = static_cast<double>(series.size());
  const double group_width = bars * (kBarWidth + kBarGap) + kGroupGap;
  const double width = kLeft + static_cast<double>(groups.size()) * group_width;
  const double bottom = kTop + kPlotHeight;
  const double height = bottom + 34 + 18 * bars;
  std::string svg;
  auto out = std::back_inserter(svg);
  fmt::format_to(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
                 "font-family=\"sans-serif\" font-size=\"12\">\n"
                 "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
                 "<text x=\"{:.0f}\" y=\"22\" font-size=\"15\">{}</text>\n",
                 width, height, kLeft, title);
  for (const double tick : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const double y = bottom - tick * kPlotHeight;
    fmt::format_to(out,
                   "<path d=\"M{:.0f} {:.0f}H{:.0f}\" stroke=\"#ddd\"/>"
                   "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{:.2f}</text>\n",
                   kLeft, y, width, kLeft - 6, y + 4, tick);
  }
  double x = kLeft + kGroupGap / 2;
  for (const BarGroup& group : groups) {
    const double centre = x + bars * (kBarWidth + kBarGap) / 2;
    fmt::format_to(out, "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
                   centre, bottom + 18, group.name);
    for (std::size_t i = 0; i < group.values.size(); ++i, x += kBarWidth + kBarGap) {
      const double bar = group.values[i] * kPlotHeight;
      fmt::format_to(out,
                     "<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.1f}\" "
                     "fill=\"{}\"/><text x=\"{:.0f}\" y=\"{:.1f}\" font-size=\"10\" "
                     "text-anchor=\"middle\">{:.3f}</text>\n",
                     x, bottom - bar, kBarWidth, bar, kColours[i % kColours.size()],
                     x + kBarWidth / 2, bottom - bar - 4, group.values[i]);
    }
    x += kGroupGap;
  }
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double y = bottom + 40 + 18 * static_cast<double>(i);
    fmt::format_to(out,
                   "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" fill=\"{}\"/>"
                   "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
                   kLeft, y - 10, kColours[i % kColours.size()], kLeft + 18, y, series[i]);
  }
  svg += "</svg>\n";
  return svg;
}

}  // namespace tandem
