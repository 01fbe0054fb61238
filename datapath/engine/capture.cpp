// SPDX-License-Identifier: BSD-2-Clause
// Classic pcap, nanosecond variant.
#include "mrc/engine/capture.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace mrc::engine {

Result<std::unique_ptr<Capture>> Capture::open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) {
    const int error = errno;
    return fail(error, "cannot write the capture " + path + " (FI_MRC_PCAP): " + std::strerror(error));
  }
  std::setvbuf(file, nullptr, _IOFBF, 1 << 20);
  const struct {
    std::uint32_t magic = 0xa1b23c4d;  // nanoseconds
    std::uint16_t major = 2, minor = 4;
    std::uint32_t zone = 0, accuracy = 0, snap = 65535, ethernet = 1;
  } head;
  std::fwrite(&head, sizeof(head), 1, file);
  return std::unique_ptr<Capture>(new Capture(file));
}

Capture::~Capture() {
  std::fclose(file_);
}

void Capture::frame(std::span<const std::byte> bytes) {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  const auto length = static_cast<std::uint32_t>(bytes.size());
  const std::uint32_t head[4] = {static_cast<std::uint32_t>(t.tv_sec), static_cast<std::uint32_t>(t.tv_nsec), length,
                                 length};
  std::fwrite(head, sizeof(head), 1, file_);
  std::fwrite(bytes.data(), 1, bytes.size(), file_);
}

void Capture::flush() {
  std::fflush(file_);
}

}  // namespace mrc::engine
