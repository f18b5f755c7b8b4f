// Stands for metrics_text.cc in a build without prometheus-cpp.
#include "serve/metrics_text.h"

namespace tandem {

std::optional<std::string> metrics_text(const MetricsInput&) { return std::nullopt; }

}  // namespace tandem
