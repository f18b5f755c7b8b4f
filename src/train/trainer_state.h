// Everything that a run needs to go on as if it had never stopped, in one folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "train/optimiser.h"

namespace tandem::train {

// `layout` says what the values are, for instance the paths and ranks of an adapter's modules: a
// state is restored only into the same layout. `counters` are whole numbers by name: the step, the
// adapter's version, the place in the data, the seed. `buffers` are bytes by name, for instance
// samples that are not used up.
struct TrainerState {
  std::string layout;
  std::map<std::string, std::int64_t> counters;
  std::map<std::string, std::string> buffers;
  std::vector<float> values;
  AdamWState optimiser;

  bool operator==(const TrainerState& other) const;
};

// Writes `folder`/step_N, with N the counter "step" (programmer error if absent), beside what is
// there; then removes all but the newest `keep` ones. A state is complete once its folder has that
// name: a run killed while it writes leaves one in a folder that load_newest_state ignores.
Result<void> save_state(const TrainerState& state, const std::filesystem::path& folder, int keep);

// The newest complete state. kNotFound if there is none; kInvalidArgument names the file that is
// damaged, or says that the layout is another one.
Result<TrainerState> load_newest_state(const std::filesystem::path& folder,
                                       const std::string& layout);

}  // namespace tandem::train
