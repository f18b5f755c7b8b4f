#include "model/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::size_t kLengthBytes = 8;

// Closes a descriptor; the mapping outlives it.
struct Descriptor {
  int value = -1;
  explicit Descriptor(int fd) : value(fd) {}
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

std::uint64_t little_endian(const std::byte* bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return value;
}

}  // namespace

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::open(const std::filesystem::path& path) {
  const std::string source = path.string();
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  if (descriptor.value < 0 || ::fstat(descriptor.value, &info) != 0) {
    const StatusCode code = errno == ENOENT ? StatusCode::kNotFound : StatusCode::kInvalidArgument;
    return fail(code, "{}: cannot be opened: {}", source, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) return invalid("{}: not a regular file", source);
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < kLengthBytes) {
    return invalid(
        "{}: {} bytes; expected a safetensors file, which begins with 8 bytes of header "
        "length",
        source, size);
  }

  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile);
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.value, 0);
  if (mapping == MAP_FAILED)
    return invalid("{}: cannot be mapped: {}", source, std::strerror(errno));
  file->path_ = path;
  file->mapping_ = static_cast<const std::byte*>(mapping);
  file->mapping_bytes_ = size;

  const std::uint64_t length = little_endian(file->mapping_);
  if (length == 0 || length > kMaxHeaderBytes) {
    return invalid("{}: header length is {}; expected 1 to {} bytes", source, length,
                   kMaxHeaderBytes);
  }
  if (length > size - kLengthBytes) {
    return invalid("{}: header length is {}, but only {} bytes follow (cut short?)", source, length,
                   size - kLengthBytes);
  }
  file->data_start_ = kLengthBytes + static_cast<std::size_t>(length);
  const std::string_view header(reinterpret_cast<const char*>(file->mapping_) + kLengthBytes,
                                static_cast<std::size_t>(length));
  file->tensors_ = TRY(parse_safetensors_header(header, size - file->data_start_, source));
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (mapping_ != nullptr) ::munmap(const_cast<std::byte*>(mapping_), mapping_bytes_);
}

void SafetensorsFile::release_pages() const {
  ::madvise(const_cast<std::byte*>(mapping_), mapping_bytes_, MADV_DONTNEED);
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorEntry& entry) const {
  CHECK(entry.begin <= entry.end && entry.end <= mapping_bytes_ - data_start_,
        "offsets [{}, {}] in {} data bytes", entry.begin, entry.end, mapping_bytes_ - data_start_);
  return {mapping_ + data_start_ + entry.begin, static_cast<std::size_t>(entry.end - entry.begin)};
}

}  // namespace tandem
