// Memory for tests whose last byte is followed by a page that nobody may touch: an operator that
// reads or writes past the end of an array ends the test there, in every build.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <new>
#include <vector>

namespace tandem::testing {

// An array of n elements ends where the page begins, so it is aligned to its element only.
template <class T>
struct GuardedAllocator {
  using value_type = T;

  GuardedAllocator() = default;
  template <class U>
  GuardedAllocator(const GuardedAllocator<U>&) {}  // NOLINT: allocators convert

  T* allocate(std::size_t n) {
    const std::size_t inside = whole_pages(n);
    void* memory = ::mmap(nullptr, inside + page(), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    std::byte* guard = static_cast<std::byte*>(memory) + inside;
    if (::mprotect(guard, page(), PROT_NONE) != 0) throw std::bad_alloc();
    return reinterpret_cast<T*>(guard) - n;
  }
  void deallocate(T* data, std::size_t n) {
    ::munmap(reinterpret_cast<std::byte*>(data + n) - whole_pages(n), whole_pages(n) + page());
  }
  bool operator==(const GuardedAllocator&) const = default;

 private:
  static std::size_t page() {
    static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
  }
  static std::size_t whole_pages(std::size_t n) {
    return (n * sizeof(T) + page() - 1) / page() * page();
  }
};

// The page follows its capacity; one that has grown by push_back wants shrink_to_fit().
template <class T>
using GuardedVector = std::vector<T, GuardedAllocator<T>>;

}  // namespace tandem::testing
