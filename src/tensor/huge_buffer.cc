#include "tensor/huge_buffer.h"

#include <sys/mman.h>

#include <cstdint>

namespace tandem {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

Result<HugeBuffer> HugeBuffer::allocate(std::size_t bytes) {
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  const std::size_t size = whole_pages(bytes);
  // A huge page more, so that the range can be cut out at the alignment of huge pages.
  void* area =
      ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) {
    return fail(StatusCode::kResourceExhausted, "the machine does not give {} bytes of memory",
                bytes);
  }
  auto* start = static_cast<std::byte*>(area);
  const std::size_t before =
      (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
  if (before != 0) ::munmap(start, before);
  if (before != kHugePage) ::munmap(start + before + size, kHugePage - before);
  buffer.data_ = start + before;
  buffer.bytes_ = bytes;
  // Where it is refused, ordinary pages serve; and for what does not fill a huge one.
  if (size >= kHugePage) ::madvise(buffer.data_, size / kHugePage * kHugePage, MADV_HUGEPAGE);
  return buffer;
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) ::munmap(data_, whole_pages(bytes_));
}

}  // namespace tandem
