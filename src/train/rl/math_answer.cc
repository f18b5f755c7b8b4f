#include "train/rl/math_answer.h"

#include <algorithm>
#include <array>
#include <vector>

#include "train/rl/rational.h"

namespace tandem::train {
namespace {

constexpr std::size_t kMaxAnswer = 4096;  // bytes; longer answers are compared as they are

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string made;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(from, at)) != std::string::npos;) {
    made.append(text, at, found - at).append(to);
    at = found + from.size();
  }
  text = made.append(text, at);
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

bool is_integer(std::string_view text) {
  if (!text.empty() && text.front() == '-') text.remove_prefix(1);
  return all_digits(text);
}

// \sqrt3 becomes \sqrt{3}.
std::string brace_roots(const std::string& text) {
  constexpr std::string_view kRoot = "\\sqrt";
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    if (text.compare(at, kRoot.size(), kRoot) != 0) {
      made += text[at++];
      continue;
    }
    made += kRoot;
    at += kRoot.size();
    if (at < text.size() && text[at] != '{' && text[at] != '[') {
      made += std::string("{") + text[at++] + "}";
    }
  }
  return made;
}

// \frac12 and \frac1{72} become \frac{1}{2} and \frac{1}{72}.
std::string brace_fractions(const std::string& text) {
  constexpr std::string_view kFraction = "\\frac";
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    if (text.compare(at, kFraction.size(), kFraction) != 0) {
      made += text[at++];
      continue;
    }
    made += kFraction;
    at += kFraction.size();
    if (at + 1 >= text.size() || text[at] == '{') continue;
    made += std::string("{") + text[at++] + "}";
    if (text[at] != '{') made += std::string("{") + text[at++] + "}";
  }
  return made;
}

// "k = 3" becomes "3".
std::string without_short_left_side(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || text.find('=', equals + 1) != std::string::npos) return text;
  if (trimmed(std::string_view(text).substr(0, equals)).size() > 2) return text;
  return std::string(trimmed(std::string_view(text).substr(equals + 1)));
}

// ---- numbers

// "1,234,567" becomes "1234567"; other commas stay.
std::string without_thousands_commas(const std::string& text) {
  const std::size_t start = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  std::size_t run = 0, groups = 0;
  std::string made = text.substr(0, start);
  for (std::size_t i = start; i <= text.size(); ++i) {
    if (i < text.size() && is_digit(text[i])) {
      ++run;
      made += text[i];
      continue;
    }
    const bool group = groups == 0 ? run >= 1 && run <= 3 : run == 3;
    if (!group) return text;
    if (i == text.size() || text[i] == '.') return groups == 0 ? text : made + text.substr(i);
    if (text[i] != ',') return text;
    ++groups;
    run = 0;
  }
  return text;
}

constexpr std::array<std::string_view, 20> kUnits = {
    "degree", "mm",   "cm",   "km",    "centimeter", "kilometer", "meter",
    "mile",   "inch", "foot", "feet",  "yard",       "second",    "minute",
    "hour",   "day",  "week", "month", "year",       "unit"};

// "12 square feet" stays; "12 inches^2" and "12 cm" become "12".
std::string without_unit(const std::string& text) {
  const std::size_t space = text.rfind(' ');
  if (space == std::string::npos) return text;
  std::string_view word = std::string_view(text).substr(space + 1);
  if (word.size() > 2 && word[word.size() - 2] == '^' && is_digit(word.back())) {
    word.remove_suffix(2);
  }
  for (const std::string_view unit : kUnits) {
    if (!word.starts_with(unit)) continue;
    const std::string_view ending = word.substr(unit.size());
    if (ending.empty() || ending == "s" || ending == "es") {
      return std::string(trimmed(std::string_view(text).substr(0, space)));
    }
  }
  return text;
}

std::string with_scale_word(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kWords = {
      {{" million", "e6"}, {" billion", "e9"}, {" trillion", "e12"}}};
  for (const auto& [word, exponent] : kWords) {
    if (text.ends_with(word)) {
      return text.substr(0, text.size() - word.size()) + std::string(exponent);
    }
  }
  return text;
}

// \frac{a}{b} of whole numbers becomes a/b, after a space where digits stand before it.
std::string plain_fractions(const std::string& text) {
  constexpr std::string_view kFraction = "\\frac{";
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    if (text.compare(at, kFraction.size(), kFraction) == 0) {
      const std::size_t middle = text.find("}{", at);
      const std::size_t end = middle == std::string::npos ? middle : text.find('}', middle + 2);
      if (end != std::string::npos) {
        const std::string above =
            text.substr(at + kFraction.size(), middle - at - kFraction.size());
        const std::string below = text.substr(middle + 2, end - middle - 2);
        if (is_integer(above) && all_digits(below)) {
          if (!made.empty() && is_digit(made.back())) made += ' ';
          made += above + "/" + below;
          at = end + 1;
          continue;
        }
      }
    }
    made += text[at++];
  }
  return made;
}

// One part of an answer as a number may be written.
std::string numeric_form(std::string_view part) {
  std::string text(trimmed(part));
  text = with_scale_word(without_unit(text));
  text = without_thousands_commas(text);
  // A space may stand inside a mixed number alone.
  const std::size_t slash = text.find('/');
  std::string made;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between_digits = i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) &&
                                is_digit(text[i + 1]) && slash != std::string::npos && i < slash;
    if (text[i] != ' ' || between_digits) made += text[i];
  }
  return made;
}

// LaTeX and words that numbers and lists come in.
std::string symbolic_form(std::string_view text) {
  std::string made(trimmed(text));
  std::transform(made.begin(), made.end(), made.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const std::string_view gone :
       {"\\$", "$", "\\%", "%", "\\left", "\\right", "\\!", "\\,", "\\;", "^{\\circ}", "^\\circ"}) {
    replace_all(made, gone, "");
  }
  replace_all(made, "\\dfrac", "\\frac");
  replace_all(made, "\\tfrac", "\\frac");
  replace_all(made, "\n", " ");
  replace_all(made, " or ", ",");
  replace_all(made, " and ", ",");
  return plain_fractions(brace_fractions(made));
}

// Parts between commas outside brackets.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '[' || text[i] == '{') ++depth;
    if (text[i] == ')' || text[i] == ']' || text[i] == '}') --depth;
    if (text[i] != ',' || depth != 0) continue;
    parts.push_back(text.substr(first, i - first));
    first = i + 1;
  }
  parts.push_back(text.substr(first));
  return parts;
}

bool is_bracketed(std::string_view text) {
  return text.size() >= 2 && (text.front() == '(' || text.front() == '[') &&
         (text.back() == ')' || text.back() == ']');
}

bool same_number(std::string_view given, std::string_view expected) {
  const std::string a_text = numeric_form(given), b_text = numeric_form(expected);
  const auto a = parse_number(a_text), b = parse_number(b_text);
  if (!a || !b) return false;
  using Form = WrittenNumber::Form;
  if (a->form == Form::kFraction && b->form == Form::kFraction) return a_text == b_text;
  if ((a->form == Form::kInteger) != (b->form == Form::kInteger)) {
    // An exponent writes a whole number too: 3 million is 3000000.
    const bool powers =
        a_text.find('e') != std::string::npos || b_text.find('e') != std::string::npos;
    if (!powers) return false;
  }
  return equal_values(*a, *b);
}

bool same_part(std::string_view given, std::string_view expected) {
  return same_number(given, expected) || string_normal_form(given) == string_normal_form(expected);
}

bool same_symbols(std::string_view given, std::string_view expected) {
  const std::string a = symbolic_form(given), b = symbolic_form(expected);
  if (a.empty() || b.empty()) return false;
  if (same_number(a, b)) return true;
  std::string_view a_list = trimmed(a), b_list = trimmed(b);
  if (is_bracketed(a_list) != is_bracketed(b_list)) return false;
  if (is_bracketed(a_list)) {
    if (a_list.front() != b_list.front() || a_list.back() != b_list.back()) return false;
    a_list = a_list.substr(1, a_list.size() - 2);
    b_list = b_list.substr(1, b_list.size() - 2);
  }
  const auto a_parts = split_list(a_list), b_parts = split_list(b_list);
  if (a_parts.size() != b_parts.size() || a_parts.size() < 2) return false;
  for (std::size_t i = 0; i < a_parts.size(); ++i) {
    if (!same_part(a_parts[i], b_parts[i])) return false;
  }
  return true;
}

// The content of the last COMMAND{...} with matched braces.
std::optional<std::string_view> last_braced(std::string_view text, std::string_view command) {
  for (std::size_t at = text.rfind(command); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : text.rfind(command, at - 1)) {
    int depth = 1;
    const std::size_t first = at + command.size();
    for (std::size_t i = first; i < text.size(); ++i) {
      if (text[i] == '{') ++depth;
      if (text[i] == '}' && --depth == 0) return text.substr(first, i - first);
    }
  }
  return {};
}

}  // namespace

std::string string_normal_form(std::string_view text) {
  text = trimmed(text);
  constexpr std::string_view kText = "\\text{";
  if (text.starts_with(kText) && text.find('}') == text.size() - 1) {
    text = trimmed(text.substr(kText.size(), text.size() - kText.size() - 1));
  }
  std::string made(text);
  replace_all(made, "\n", "");
  replace_all(made, "\\!", "");
  replace_all(made, "\\\\", "\\");
  replace_all(made, "tfrac", "frac");
  replace_all(made, "dfrac", "frac");
  for (const std::string_view gone : {"\\left", "\\right", "^{\\circ}", "^\\circ", "\\$"}) {
    replace_all(made, gone, "");
  }
  if (const std::size_t unit = made.find("\\text{ "); unit != std::string::npos) made.resize(unit);
  replace_all(made, "\\%", "");
  replace_all(made, "%", "");
  replace_all(made, " .", " 0.");
  replace_all(made, "{.", "{0.");
  if (!made.empty() && made.front() == '.') made.insert(0, "0");
  made = brace_roots(without_short_left_side(made));
  replace_all(made, " ", "");
  made = brace_fractions(made);
  if (made == "0.5") return "\\frac{1}{2}";
  const std::size_t slash = made.find('/');
  if (slash != std::string::npos && is_integer(std::string_view(made).substr(0, slash)) &&
      is_integer(std::string_view(made).substr(slash + 1))) {
    made = "\\frac{" + made.substr(0, slash) + "}{" + made.substr(slash + 1) + "}";
  }
  return made;
}

bool same_answer(std::string_view given, std::string_view expected) {
  given = trimmed(given);
  expected = trimmed(expected);
  if (given.empty() || expected.empty()) return false;
  if (given.size() > kMaxAnswer || expected.size() > kMaxAnswer) return given == expected;
  return string_normal_form(given) == string_normal_form(expected) || same_symbols(given, expected);
}

std::optional<std::string_view> last_boxed(std::string_view text) {
  const auto boxed = last_braced(text, "\\boxed{");
  return boxed ? boxed : last_braced(text, "\\fbox{");
}

std::optional<std::string_view> after_reasoning(std::string_view text) {
  for (const std::string_view marker : {"</think>", "<|open|>response<|sep|>", "###Response"}) {
    const std::size_t at = text.rfind(marker);
    if (at != std::string_view::npos) return text.substr(at + marker.size());
  }
  return {};
}

}  // namespace tandem::train
