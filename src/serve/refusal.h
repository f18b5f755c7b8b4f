// Why a request is not served, for a protocol to spell.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/status.h"
#include "serve/http.h"

namespace tandem {

struct Refusal {
  Refusal(Status why, std::string word = {}) : status(std::move(why)), code(std::move(word)) {}

  Status status;
  std::string code;  // a word that programs look for, such as "model_not_found"; empty for none
};

// A value, or why there is none. A Status converts to a Refusal, so TRY and fail() work in a
// function that returns this.
template <typename T>
using Accepted = tl::expected<T, Refusal>;

inline tl::unexpected<Refusal> refuse(Status status, std::string code = {}) {
  return tl::unexpected(Refusal(std::move(status), std::move(code)));
}

// How a protocol spells an error: openai_error_format (openai_error.h) or its own.
using ErrorFormat = HttpResponse (*)(const Refusal& refusal);

// How a protocol spells that a request is turned away, such as error_response().
using DenialFormat = HttpResponse (*)(int status, const std::string& message);

}  // namespace tandem
