// SPDX-License-Identifier: BSD-2-Clause
// FI_MRC_PCAP: every frame of this process's ports in a classic pcap file with nanosecond stamps (readable by tshark
// and scapy). A tool for finding faults: it writes to a file from the packet path, through a buffer.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "mrc/result.hpp"

namespace mrc::engine {

class Capture {
 public:
  static Result<std::unique_ptr<Capture>> open(const std::string& path);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void frame(std::span<const std::byte> bytes);
  void flush();

 private:
  explicit Capture(std::FILE* file) : file_(file) {}
  std::FILE* file_;
};

}  // namespace mrc::engine
