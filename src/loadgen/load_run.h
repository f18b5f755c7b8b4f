// Sends a workload to a server and times what comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "loadgen/target.h"
#include "loadgen/workload.h"

namespace tandem::loadgen {

enum class Endpoint { kChat, kCompletions };

struct LoadRunOptions {
  Target target;
  std::string api_key = {};
  std::string model;
  Endpoint endpoint = Endpoint::kChat;
  std::string extra_fields = {};  // members of every request, as JSON text without braces
  // Open loop: conversations begin at this rate, as a Poisson process. Without it, closed loop:
  // `concurrency` conversations at a time. The next turn of one follows its answer at once.
  std::optional<double> rate_per_s = {};
  std::int64_t concurrency = 1;
  // Nothing new begins after so many conversations, nor after so much time; what has begun is
  // waited for. 0: no bound; one at least is set.
  std::int64_t conversations = 0;
  double duration_s = 0;
  double timeout_s = 600;  // of each request
  std::uint64_t seed = 0;
};

// One request. Seconds since the run began, on the client's clock.
struct RequestRecord {
  double due_s = 0;     // when it was to be sent
  double sent_s = 0;    // when that was begun
  double first_s = -1;  // the first piece of the answer; -1: none came
  double last_s = -1;   // the last piece
  double end_s = 0;
  std::vector<double> gaps_ms = {};  // between pieces
  std::int64_t prompt_tokens = -1;   // -1: the server did not say
  std::int64_t completion_tokens = -1;
  std::int64_t cached_tokens = -1;
  std::string error = {};   // what kind; empty: the answer came whole
  std::string detail = {};  // of the error, e.g. the server's words
};

struct LoadRunResult {
  std::vector<RequestRecord> requests;  // in the order in which they ended
  double wall_s = 0;
  bool interrupted = false;  // by SIGINT or SIGTERM; what was open then is in no record
  // How late this program was to run what was due, looked at every 5 ms: times are that inexact.
  std::vector<double> clock_lag_ms = {};
};

struct LoadProgress {
  double elapsed_s = 0;
  std::int64_t open = 0;
  std::int64_t answered = 0;
  std::int64_t errors = 0;
  std::int64_t pieces = 0;
};

// Blocks until the run is over; `progress` is called about twice a second. kUnavailable if the
// host has no address.
Result<LoadRunResult> run_load(const LoadRunOptions& options, const Workload& workload,
                               const std::function<void(const LoadProgress&)>& progress);

// The first model of GET /v1/models.
Result<std::string> first_model(const Target& target, const std::string& api_key, double timeout_s);

}  // namespace tandem::loadgen
