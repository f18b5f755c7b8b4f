// Streams, events and graphs that close themselves. Plain C++ headers: CUDA's handles are opaque.
// Not thread-safe; a stream and what was recorded on it belong to one thread at a time.
#pragma once

#include <utility>

#include "base/status.h"

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace tandem {

// What kernels take; the same type as cudaStream_t.
using CudaStreamHandle = CUstream_st*;

namespace detail {
// Sole owner of a CUDA handle.
template <typename Handle, void (*close)(Handle)>
class CudaOwner {
 public:
  CudaOwner() = default;
  explicit CudaOwner(Handle handle) : handle_(handle) {}
  CudaOwner(CudaOwner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  CudaOwner& operator=(CudaOwner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CudaOwner() {
    if (handle_ != nullptr) close(handle_);
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

void close_stream(CUstream_st* stream);
void close_event(CUevent_st* event);
void close_graph(CUgraphExec_st* graph);
}  // namespace detail

class CudaGraph;

class CudaStream {
 public:
  // Does not wait for the legacy default stream.
  static Result<CudaStream> create();
  CudaStreamHandle get() const { return owner_.get(); }
  // Blocks until all work is done; an error of any earlier kernel shows here.
  Result<void> wait() const;

 private:
  detail::CudaOwner<CUstream_st*, detail::close_stream> owner_;
};

class CudaEvent {
 public:
  static Result<CudaEvent> create();
  Result<void> record(const CudaStream& stream) const;
  // From `earlier` to this, both recorded and done.
  Result<float> milliseconds_since(const CudaEvent& earlier) const;

 private:
  detail::CudaOwner<CUevent_st*, detail::close_event> owner_;
};

// The launches of one function, replayed with one call.
class CudaGraph {
 public:
  // Captures what `body(stream)` puts on `stream`; nothing runs. `body` returns Result<void>. On an
  // error the capture is ended and the stream is usable again.
  template <typename Body>
  static Result<CudaGraph> capture(const CudaStream& stream, Body&& body) {
    TRY(begin(stream));
    Result<void> recorded = body(stream);
    Result<CudaGraph> graph = end(stream);
    if (!recorded) return fail(std::move(recorded).error());
    return graph;
  }
  Result<void> replay(const CudaStream& stream) const;

 private:
  static Result<void> begin(const CudaStream& stream);
  static Result<CudaGraph> end(const CudaStream& stream);
  detail::CudaOwner<CUgraphExec_st*, detail::close_graph> owner_;
};

}  // namespace tandem
