#include "text/grammar/json_format.h"

#include <algorithm>
#include <array>

namespace tandem::grammar {
namespace {

struct Format {
  std::string_view name;
  std::string_view pattern;
};

#define TANDEM_DATE                                      \
  "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|" \
  "(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
#define TANDEM_TIME                          \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]" \
  "(\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define TANDEM_LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define TANDEM_HOST TANDEM_LABEL "(\\." TANDEM_LABEL "){0,5}"
#define TANDEM_BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

// Dates leave out February 29th, times leap seconds, IPv6 the forms with "::".
constexpr std::array kFormats = {
    Format{"date", TANDEM_DATE},
    Format{"time", TANDEM_TIME},
    Format{"date-time", TANDEM_DATE "T" TANDEM_TIME},
    Format{"duration",
           "P([0-9]{1,4}W|[0-9]{1,4}Y([0-9]{1,4}M([0-9]{1,4}D)?)?|[0-9]{1,4}M([0-9]{1,4}D)?|"
           "[0-9]{1,4}D|T([0-9]{1,4}H([0-9]{1,4}M([0-9]{1,4}S)?)?|[0-9]{1,4}M([0-9]{1,4}S)?|"
           "[0-9]{1,4}S))"},
    Format{"uuid", "[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"},
    Format{"email", "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,16}){0,3}@" TANDEM_LABEL
                    "(\\." TANDEM_LABEL "){0,3}\\.[A-Za-z]{2,16}"},
    Format{"hostname", TANDEM_HOST},
    Format{"ipv4", TANDEM_BYTE "(\\." TANDEM_BYTE "){3}"},
    Format{"ipv6", "([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}"},
    Format{"uri", "[A-Za-z][A-Za-z0-9+-]{0,15}://" TANDEM_HOST
                  "(:[0-9]{1,4})?(/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*"
                  "(\\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?(#[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?"},
};

#undef TANDEM_DATE
#undef TANDEM_TIME
#undef TANDEM_LABEL
#undef TANDEM_HOST
#undef TANDEM_BYTE

constexpr std::array<std::string_view, 3> kNumberFormats = {"int64", "float", "double"};

}  // namespace

std::optional<std::string_view> string_format(std::string_view name) {
  const auto it = std::find_if(kFormats.begin(), kFormats.end(),
                               [&](const Format& format) { return format.name == name; });
  return it == kFormats.end() ? std::nullopt : std::optional(it->pattern);
}

bool is_number_format(std::string_view name) {
  return std::find(kNumberFormats.begin(), kNumberFormats.end(), name) != kNumberFormats.end();
}

}  // namespace tandem::grammar
