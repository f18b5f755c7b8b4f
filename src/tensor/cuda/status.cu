#include <cuda_runtime.h>

#include "tensor/cuda/status.h"

namespace tandem {

Result<void> cuda_status(int error, const char* what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  return fail(StatusCode::kUnavailable, "CUDA: {}: {}", what,
              cudaGetErrorString(static_cast<cudaError_t>(error)));
}

Result<void> cuda_launched(const char* what) { return cuda_status(cudaGetLastError(), what); }

}  // namespace tandem
