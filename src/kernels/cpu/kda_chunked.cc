#include "kernels/cpu/operators.h"

namespace tandem::cpu {

void kda_chunked(const KdaArgs& args, ThreadTeam& team) noexcept { kda_recurrent(args, team); }

}  // namespace tandem::cpu
