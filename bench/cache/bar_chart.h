// A bar chart as SVG text.
#pragma once

#include <string>
#include <vector>

namespace tandem {

struct BarGroup {
  std::string name;
  std::vector<double> values;  // in [0, 1], one each series
};

// Groups of bars side by side, one colour and one line of the legend each series. Names are written
// as they are: no <, > or &.
std::string bar_chart_svg(const std::string& title, const std::vector<std::string>& series,
                          const std::vector<BarGroup>& groups);

}  // namespace tandem
