#include "text/grammar/schema_compiler.h"

#include <algorithm>
#include <charconv>

#include "text/grammar/code_points.h"
#include "text/grammar/json_format.h"
#include "text/grammar/json_number.h"
#include "text/grammar/pushdown.h"
#include "text/grammar/regex.h"
#include "text/grammar/stack_machine.h"

namespace tandem::grammar {
namespace {

using Kind = JsonValue::Kind;

constexpr int kMaxDepth = 100;

std::size_t count_role(const SchemaNode& node, KeywordRole role) {
  return static_cast<std::size_t>(
      std::count_if(node.value->keys.begin(), node.value->keys.end(),
                    [&](const std::string& key) { return keyword_role(key) == role; }));
}

std::optional<NumberBound> bound_of(const SchemaNode& node, std::string_view inclusive,
                                    std::string_view exclusive, bool is_minimum) {
  std::optional<NumberBound> out;
  if (const JsonValue* bound = node.find(inclusive)) out = {Decimal(bound->text), false};
  const JsonValue* bound = node.find(exclusive);
  if (!bound) return out;
  const Decimal value(bound->text);
  // Compared at a scale at which JavaScript's numbers differ.
  constexpr int kScale = 20;
  const int order = out ? compare(value.floor(kScale), out->value.floor(kScale)) : 0;
  if (!out || order == 0 || (order > 0) == is_minimum) out = {value, true};
  return out;
}

}  // namespace

Result<RuleId> SchemaCompiler::compile(const SchemaNode& node) {
  const RuleId rule = book_->declare(node.path);
  references_.emplace(node.path, rule);
  pending_.push_back({rule, node});
  TRY(finish());
  return rule;
}

// Rules of $refs are compiled one after another, not inside each other: chains may be long.
Result<void> SchemaCompiler::finish() {
  while (!pending_.empty()) {
    const auto [rule, body] = pending_.front();
    pending_.pop_front();
    book_->define(rule, TRY(value(body)));
  }
  return {};
}

ExprId SchemaCompiler::as_rule(const SchemaNode& node, ExprId body) {
  const RuleId rule = book_->declare(node.path);
  book_->define(rule, body);
  return book_->call(rule);
}

Result<ExprId> SchemaCompiler::value(const SchemaNode& node) {
  TRY(check_schema(node));
  if (!budget_->spend(1)) return Budget::exceeded();
  if (node.value->kind == Kind::kBoolean) {
    return node.value->text == "true" ? rules_.value() : book_->nothing();
  }
  if (++depth_ > kMaxDepth) return schema_error(node.path, "is nested too deep");
  const bool is_plain = count_role(node, KeywordRole::kCombination) == 0;
  const ExprId out = is_plain ? TRY(constrained(node)) : TRY(combined(node));
  --depth_;
  return out;
}

Result<ExprId> SchemaCompiler::combined(const SchemaNode& node) {
  std::vector<ExprId> choices;
  const bool is_alone = count_role(node, KeywordRole::kCombination) == 1 &&
                        count_role(node, KeywordRole::kConstraint) == 0;
  const std::string_view any = node.has("anyOf") ? "anyOf" : "oneOf";
  const JsonValue* all = node.find("allOf");
  if (is_alone && node.has("$ref")) return reference(node);
  if (is_alone && all && all->items.size() == 1) return value(node.child("allOf", 0));
  if (is_alone && !all) {
    for (std::size_t i = 0; i < node.find(any)->items.size(); ++i) {
      choices.push_back(TRY(value(node.child(any, i))));
    }
  } else {
    for (const SchemaNode& variant : TRY(variants_.expand(node))) {
      choices.push_back(TRY(constrained(variant)));
    }
  }
  return book_->choice(std::move(choices));
}

Result<ExprId> SchemaCompiler::reference(const SchemaNode& node) {
  const SchemaNode target = TRY(variants_.resolve(node));
  const auto known = references_.find(target.path);
  if (known != references_.end()) return book_->call(known->second);
  const RuleId rule = book_->declare(target.path);
  references_.emplace(target.path, rule);
  pending_.push_back({rule, target});
  return book_->call(rule);
}

Result<ExprId> SchemaCompiler::constrained(const SchemaNode& node) {
  if (count_role(node, KeywordRole::kConstraint) == 0) return rules_.value();
  std::vector<ExprId> choices;
  if (node.has("enum") || node.has("const")) {
    for (const JsonValue& one : TRY(enumerated(node))) {
      choices.push_back(book_->literal(to_json(one, JsonStyle::kCompactSorted)));
    }
    return book_->choice(std::move(choices));
  }
  const unsigned types = types_of(node);
  if (types & kNullType) choices.push_back(book_->literal("null"));
  if (types & kBooleanType) choices.push_back(rules_.boolean());
  if (types & kNumberType) choices.push_back(TRY(number(node, (types & kFractionType) == 0)));
  if (types & kStringType) choices.push_back(TRY(string(node, Spelling::kJson)));
  if (types & kArrayType) choices.push_back(TRY(array(node)));
  if (types & kObjectType) choices.push_back(TRY(object(node)));
  return book_->choice(std::move(choices));
}

Result<std::vector<JsonValue>> SchemaCompiler::enumerated(const SchemaNode& node) {
  const unsigned types = node.has("type") ? types_of(node) : unsigned{kAnyType};
  const JsonValue* only = node.find("const");
  std::vector<JsonValue> values;
  if (const JsonValue* list = node.find("enum")) values = list->items;
  if (only && !node.has("enum")) values.push_back(*only);
  std::erase_if(values, [&](const JsonValue& value) {
    const bool differs = only && to_json(value, JsonStyle::kCompactSorted) !=
                                     to_json(*only, JsonStyle::kCompactSorted);
    return differs || (type_of(value) & types) == 0;
  });
  TRY(keep_matching(node, &values));
  return values;
}

Result<void> SchemaCompiler::keep_matching(const SchemaNode& node, std::vector<JsonValue>* values) {
  const auto is_nested = [](const JsonValue& value) {
    return value.kind == Kind::kObject || value.kind == Kind::kArray;
  };
  const bool are_nested = std::any_of(values->begin(), values->end(), is_nested);
  JsonValue rest{Kind::kObject, {}, {}, {}};
  for (std::size_t i = 0; i < node.value->keys.size(); ++i) {
    const std::string& key = node.value->keys[i];
    const unsigned about = key == "format" ? unsigned{kStringType} : types_about(key);
    if (are_nested && (about & (kArrayType | kObjectType))) {
      return keyword_error(node, key, "is not supported beside \"enum\" or \"const\"");
    }
    if ((about & (kStringType | kNumberType)) == 0) continue;
    rest.keys.push_back(key);
    rest.items.push_back(node.value->items[i]);
  }
  if (rest.keys.empty()) return {};
  const auto type = [](const char* name) { return JsonValue{Kind::kString, name, {}, {}}; };
  rest.keys.push_back("type");
  rest.items.push_back(
      {Kind::kArray, {}, {}, {type("null"), type("boolean"), type("number"), type("string")}});

  RuleBook book;
  JsonRules rules(&book, budget_);
  TRY(SchemaCompiler(rest, &book, &rules, budget_).compile({&rest, node.path}));
  const Pushdown checks = TRY(Pushdown::link(book, budget_));
  StackMachine machine(checks);
  std::erase_if(*values, [&](const JsonValue& value) {
    const std::string text = to_json(value, JsonStyle::kCompactSorted);
    return !is_nested(value) && !machine.at_end(machine.run(machine.start(), text));
  });
  return {};
}

std::vector<std::string> SchemaCompiler::ObjectForm::keys() const {
  std::vector<std::string> out;
  for (const Member& member : members) out.push_back(member.key);
  return out;
}

Result<SchemaCompiler::ObjectForm> SchemaCompiler::object_form(const SchemaNode& node) {
  static const JsonValue anything{Kind::kBoolean, "true", {}, {}};
  std::vector<std::string> missing = strings_of(node, "required");  // from "properties"
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  const std::vector<std::string> required = missing;

  ObjectForm form;
  form.others = SchemaNode{&anything, node.path};
  if (node.has("additionalProperties")) {
    form.others = node.child("additionalProperties");
    TRY(check_schema(*form.others));
    if (form.others->value->text == "false") form.others = std::nullopt;
  }
  if (const JsonValue* properties = node.find("properties")) {
    for (std::size_t i = 0; i < properties->keys.size(); ++i) {
      const std::string& key = properties->keys[i];
      const bool is_required = std::binary_search(required.begin(), required.end(), key);
      form.members.push_back({key, node.child("properties", i, key), is_required});
      std::erase(missing, key);
    }
  }
  for (const std::string& key : missing) {
    if (!form.others)
      return keyword_error(node, "required", "names a property that is not allowed");
    form.members.push_back({key, *form.others, true});
  }
  return form;
}

Result<ExprId> SchemaCompiler::object(const SchemaNode& node) {
  const ObjectForm form = TRY(object_form(node));
  return as_rule(node, TRY(object(form)));
}

Result<ExprId> SchemaCompiler::object(const ObjectForm& form) {
  std::optional<ExprId> others;
  if (form.others) others = TRY(value(*form.others));
  std::vector<JsonRules::Member> members;
  for (const ObjectForm::Member& member : form.members) {
    const bool is_other = form.others && member.schema.value == form.others->value;
    const ExprId inside = is_other ? *others : TRY(value(member.schema));
    members.push_back({member.key, inside, member.required});
  }
  return rules_.object(members, form.keys(), others);
}

Result<ExprId> SchemaCompiler::array(const SchemaNode& node) {
  // Before draft 2020 a list of "items" was what "prefixItems" is now, "additionalItems" the rest.
  const JsonValue* items = node.find("items");
  const bool is_old = items && items->kind == Kind::kArray;
  const std::string_view list = is_old ? "items" : "prefixItems";
  std::vector<ExprId> first;
  for (std::size_t i = 0; node.has(list) && i < node.find(list)->items.size(); ++i) {
    first.push_back(TRY(value(node.child(list, i))));
  }
  const std::string_view rest = is_old ? "additionalItems" : "items";
  std::optional<ExprId> others;
  if (!node.has(rest)) {
    others = TRY(rules_.value());
  } else if (node.find(rest)->text != "false") {
    others = TRY(value(node.child(rest)));
  }
  const std::int64_t min = TRY(count_of(node, "minItems")).value_or(0);
  const std::int64_t max = TRY(count_of(node, "maxItems")).value_or(RuleBook::kUnbounded);
  if (max != RuleBook::kUnbounded && max < min) {
    return keyword_error(node, "maxItems", "is below \"minItems\"");
  }
  return as_rule(node, rules_.array(first, others, min, max));
}

Result<ExprId> SchemaCompiler::string(const SchemaNode& node, Spelling spelling) {
  const std::int64_t min = TRY(count_of(node, "minLength")).value_or(0);
  const std::int64_t max = TRY(count_of(node, "maxLength")).value_or(RuleBook::kUnbounded);
  if (max != RuleBook::kUnbounded && max < min) {
    return keyword_error(node, "maxLength", "is below \"minLength\"");
  }
  std::optional<Automaton> inside;
  const auto restrict_to = [&](Automaton automaton) -> Result<void> {
    inside =
        inside ? TRY(combine(*inside, automaton, Combine::kBoth, budget_)) : std::move(automaton);
    return {};
  };
  const JsonValue* format = node.find("format");
  const bool is_about_numbers = format && types_of(node) & kNumberType;
  if (format && !(is_about_numbers && is_number_format(format->text))) {
    const auto pattern = string_format(format->text);
    if (!pattern) return keyword_error(node, "format", "is not a supported one");
    auto automaton = TRY(regex_automaton(*pattern, RegexMatch::kWhole, spelling, budget_));
    TRY(restrict_to(std::move(automaton)));
  }
  if (const JsonValue* pattern = node.find("pattern")) {
    auto automaton = regex_automaton(pattern->text, RegexMatch::kSearch, spelling, budget_);
    if (!automaton) return keyword_error(node, "pattern", automaton.error().message);
    TRY(restrict_to(*std::move(automaton)));
  }
  const bool is_json = spelling == Spelling::kJson;
  if (!inside) return is_json ? rules_.string(min, max) : rules_.text(min, max);
  if (min > 0 || max != RuleBook::kUnbounded) {
    const ExprId any = character(book_, CodePointSet::all(), spelling);
    auto length = TRY(build_automaton(*book_, book_->inline_repeat(any, min, max), budget_));
    TRY(restrict_to(std::move(length)));
  }
  return as_rule(
      node, is_json ? rules_.string(*std::move(inside)) : book_->automaton(*std::move(inside)));
}

Result<ExprId> SchemaCompiler::number(const SchemaNode& node, bool integers_only) {
  NumberBounds bounds;
  bounds.integers_only = integers_only;
  bounds.minimum = bound_of(node, "minimum", "exclusiveMinimum", true);
  bounds.maximum = bound_of(node, "maximum", "exclusiveMaximum", false);
  if (const JsonValue* format = node.find("format")) {
    const bool is_about_strings = types_of(node) & kStringType && string_format(format->text);
    if (!is_about_strings && !is_number_format(format->text)) {
      return keyword_error(node, "format", "is not a supported one");
    }
  }
  if (const JsonValue* multiple = node.find("multipleOf")) {
    const Decimal divisor(multiple->text);
    int fraction = 0;  // of 10^-fraction, which bounds the digits after the point
    while (fraction < kBoundedFraction && !divisor.is_integer(fraction)) ++fraction;
    const Integer scaled = divisor.floor(fraction);
    std::int64_t value = 0;
    std::from_chars(scaled.digits.data(), scaled.digits.data() + scaled.digits.size(), value);
    const bool usable = !scaled.negative && divisor.is_integer(fraction) && value > 0 &&
                        value <= kMaxDivisor && scaled.digits.size() < 6 &&
                        (fraction == 0 || value == 1);
    if (!usable) {
      return keyword_error(
          node, "multipleOf",
          fmt::format("must be an integer up to {} or a power of ten from 0.000001 up",
                      kMaxDivisor));
    }
    bounds.divisor = value;
    bounds.max_fraction = fraction;
    bounds.integers_only |= fraction == 0;
  }
  std::string name =
      fmt::format("number {} {} {}", bounds.integers_only, bounds.divisor, bounds.max_fraction);
  for (const std::string_view key :
       {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
    name += " " + (node.has(key) ? node.find(key)->text : "-");
  }
  return rules_.rule(name, [&]() { return number_expression(book_, bounds, budget_); });
}

// --- Values apart by type ------------------------------------------------------------------------

Result<std::vector<SchemaNode>> SchemaCompiler::plain_nodes(const SchemaNode& node) {
  TRY(check_schema(node));
  if (node.value->kind == Kind::kBoolean || count_role(node, KeywordRole::kCombination) == 0) {
    return std::vector<SchemaNode>{node};
  }
  return variants_.expand(node);
}

Result<std::vector<SchemaCompiler::ObjectForm>> SchemaCompiler::object_forms(
    const SchemaNode& node) {
  std::vector<ObjectForm> forms;
  for (const SchemaNode& plain : TRY(plain_nodes(node))) {
    if (plain.has("enum") || plain.has("const")) {
      return keyword_error(plain, plain.has("enum") ? "enum" : "const", "is not supported here");
    }
    if (plain.value->text != "false" && types_of(plain) & kObjectType) {
      forms.push_back(TRY(object_form(plain)));
    }
  }
  if (forms.empty()) return schema_error(node.path, "allows no object");
  return forms;
}

Result<void> SchemaCompiler::add_typed(const SchemaNode& node,
                                       std::map<unsigned, std::vector<ExprId>>* by_type) {
  if (node.value->text == "false") return {};
  const auto add = [&](unsigned type, ExprId value) { (*by_type)[type].push_back(value); };
  if (node.has("enum") || node.has("const")) {
    for (const JsonValue& one : TRY(enumerated(node))) {
      const unsigned type = type_of(one);
      add(type & kNumberType ? unsigned{kNumberType} : type,
          book_->literal(type == kStringType ? one.text : to_json(one, JsonStyle::kCompactSorted)));
    }
    return {};
  }
  const bool is_free = count_role(node, KeywordRole::kConstraint) == 0;
  const unsigned types = is_free ? unsigned{kAnyType} : types_of(node);
  if (types & kNullType) add(kNullType, book_->literal("null"));
  if (types & kBooleanType) add(kBooleanType, rules_.boolean());
  if (types & kNumberType) add(kNumberType, TRY(number(node, (types & kFractionType) == 0)));
  if (types & kStringType) add(kStringType, TRY(string(node, Spelling::kText)));
  if (types & kArrayType) add(kArrayType, is_free ? TRY(rules_.any_array()) : TRY(array(node)));
  if (types & kObjectType) add(kObjectType, is_free ? TRY(rules_.any_object()) : TRY(object(node)));
  return {};
}

Result<std::vector<SchemaCompiler::TypedValue>> SchemaCompiler::typed_values(
    const SchemaNode& node) {
  std::map<unsigned, std::vector<ExprId>> by_type;
  for (const SchemaNode& plain : TRY(plain_nodes(node))) TRY(add_typed(plain, &by_type));
  constexpr std::pair<unsigned, std::string_view> kNames[] = {
      {kStringType, "string"}, {kNumberType, "number"}, {kBooleanType, "boolean"},
      {kNullType, "null"},     {kArrayType, "array"},   {kObjectType, "object"}};
  std::vector<TypedValue> out;
  for (const auto& [type, name] : kNames) {
    if (by_type.contains(type)) out.push_back({name, book_->choice(by_type[type])});
  }
  return out;
}

}  // namespace tandem::grammar
