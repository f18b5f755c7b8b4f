#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "tensor/cuda/status.h"

namespace tandem::cuda {

Result<int> multiprocessor_count() {
  int device = 0, count = 0;
  TRY(cuda_status(cudaGetDevice(&device), "reading the current device"));
  TRY(cuda_status(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
                  "counting multiprocessors"));
  return count;
}

Result<void> allow_shared_memory(const void* kernel, std::size_t bytes) {
  return cuda_status(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          static_cast<int>(bytes)),
                     "raising a kernel's shared memory");
}

}  // namespace tandem::cuda
