// SPDX-License-Identifier: BSD-2-Clause
// Helpers of the port tests: frames with known contents, waiting with a deadline, network namespaces.
#pragma once

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "mrc/port/port.hpp"

namespace mrc::port::test {

/// Polls until `done` or the deadline; true = done.
inline bool eventually(const std::function<bool()>& done, std::chrono::milliseconds limit = std::chrono::seconds(5)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    sched_yield();
  }
  return true;
}

/// An Ethernet frame for `to` of exactly `length` bytes: EtherType 0x88b5 (local experimental), then bytes that depend
/// on `seed` and on their place.
inline std::vector<std::byte> pattern(const MacAddress& to, const MacAddress& from, std::size_t length, unsigned seed) {
  std::vector<std::byte> frame(length);
  std::memcpy(frame.data(), to.data(), 6);
  std::memcpy(frame.data() + 6, from.data(), 6);
  frame[12] = std::byte{0x88};
  frame[13] = std::byte{0xb5};
  for (std::size_t i = 14; i < length; ++i) frame[i] = static_cast<std::byte>(seed * 131 + i * 7 + (i >> 8) * 13);
  return frame;
}

inline bool is_pattern(std::span<const std::byte> frame) {
  return frame.size() >= 14 && frame[12] == std::byte{0x88} && frame[13] == std::byte{0xb5};
}

/// Sends one frame; false when the port had no room.
inline bool send_one(Port& port, std::span<const std::byte> frame) {
  TxFrame slot;
  if (port.reserve({&slot, 1}) != 1) return false;
  std::memcpy(slot.data, frame.data(), frame.size());
  slot.length = static_cast<std::uint32_t>(frame.size());
  return port.send({&slot, 1}) == 1;
}

/// Takes what has come, keeps copies of the test's own frames (the kernel also talks on real links).
inline void take(Port& port, std::vector<std::vector<std::byte>>& into) {
  std::array<RxFrame, 32> frames;
  const std::size_t count = port.receive(frames);
  for (std::size_t i = 0; i < count; ++i)
    if (is_pattern(frames[i].data)) into.emplace_back(frames[i].data.begin(), frames[i].data.end());
  port.release({frames.data(), count});
}

/// Sends each of `lengths` both ways and compares every byte.
inline std::string exchange(Port& a, Port& b, const std::vector<std::size_t>& lengths) {
  unsigned seed = 1;
  for (const std::size_t length : lengths) {
    for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
      const auto sent = pattern(to->mac(), from->mac(), length, ++seed);
      std::vector<std::vector<std::byte>> got;
      // A memif client's receive() is what gives the server its first buffers.
      if (!eventually([&] { return take(*to, got), send_one(*from, sent); }))
        return "no room for " + std::to_string(length);
      if (!eventually([&] { return take(*to, got), !got.empty(); }, std::chrono::seconds(2)))
        return "lost a frame of " + std::to_string(length);
      if (got.size() != 1 || got[0] != sent)
        return "wrong contents of a frame of " + std::to_string(length) + ", got " + std::to_string(got[0].size());
    }
  }
  return {};
}

/// A memif client that sends patterns (seed in the first byte) for 30 s at most.
inline void flood(const char* path) {
  if (!builtin_layer().start({})) return;
  auto port = builtin_layer().open_memif({path, 0, false, 9000, 8});
  if (!port) return;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (unsigned seed = 0; std::chrono::steady_clock::now() < deadline; ++seed) {
    auto frame = pattern({}, {}, 60 + seed * 37 % 8900, seed & 0xff);
    frame[0] = static_cast<std::byte>(seed & 0xff);
    send_one(**port, frame);
    std::array<RxFrame, 32> frames;
    const std::size_t count = (*port)->receive(frames);
    (*port)->release({frames.data(), count});
  }
}

/// A memif server that sends every frame back, for 30 s at most.
inline void echo(const char* path) {
  if (!builtin_layer().start({})) return;
  auto port = builtin_layer().open_memif({path, 0, true, 1500, 6});
  if (!port) return;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < deadline) {
    std::array<RxFrame, 32> frames;
    const std::size_t count = (*port)->receive(frames);
    for (const auto& frame : std::span(frames).first(count)) send_one(**port, frame.data);
    (*port)->release({frames.data(), count});
    sched_yield();
  }
}

inline int shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str());
}

}  // namespace mrc::port::test
