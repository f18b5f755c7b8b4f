#include <cuda_runtime.h>

#include "tensor/cuda/status.h"
#include "tensor/cuda/stream.h"

namespace tandem {

namespace detail {
void close_stream(CUstream_st* stream) { cudaStreamDestroy(stream); }
void close_event(CUevent_st* event) { cudaEventDestroy(event); }
void close_graph(CUgraphExec_st* graph) { cudaGraphExecDestroy(graph); }
}  // namespace detail

Result<CudaStream> CudaStream::create() {
  cudaStream_t stream = nullptr;
  TRY(cuda_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "opening a stream"));
  CudaStream out;
  out.owner_ = detail::CudaOwner<CUstream_st*, detail::close_stream>(stream);
  return out;
}

Result<void> CudaStream::wait() const {
  return cuda_status(cudaStreamSynchronize(get()), "waiting for a stream");
}

Result<CudaEvent> CudaEvent::create() {
  cudaEvent_t event = nullptr;
  TRY(cuda_status(cudaEventCreate(&event), "creating an event"));
  CudaEvent out;
  out.owner_ = detail::CudaOwner<CUevent_st*, detail::close_event>(event);
  return out;
}

Result<void> CudaEvent::record(const CudaStream& stream) const {
  return cuda_status(cudaEventRecord(owner_.get(), stream.get()), "recording an event");
}

Result<float> CudaEvent::milliseconds_since(const CudaEvent& earlier) const {
  float milliseconds = 0;
  TRY(cuda_status(cudaEventElapsedTime(&milliseconds, earlier.owner_.get(), owner_.get()),
                  "reading two events"));
  return milliseconds;
}

Result<void> CudaGraph::begin(const CudaStream& stream) {
  return cuda_status(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
                     "starting a capture");
}

Result<CudaGraph> CudaGraph::end(const CudaStream& stream) {
  cudaGraph_t graph = nullptr;
  TRY(cuda_status(cudaStreamEndCapture(stream.get(), &graph), "ending a capture"));
  cudaGraphExec_t runnable = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&runnable, graph, 0);
  cudaGraphDestroy(graph);
  TRY(cuda_status(made, "making a graph runnable"));
  CudaGraph out;
  out.owner_ = detail::CudaOwner<CUgraphExec_st*, detail::close_graph>(runnable);
  return out;
}

Result<void> CudaGraph::replay(const CudaStream& stream) const {
  return cuda_status(cudaGraphLaunch(owner_.get(), stream.get()), "replaying a graph");
}

}  // namespace tandem
