// SPDX-License-Identifier: BSD-2-Clause
// Two processes: ping-pong for the half round trip, then a stream in windows for the rate, by the wall clock.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>

#include "bench.hpp"

namespace mrc::bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One of the two; `first` sends first and measures. Both know how many rounds there are.
class Side {
 public:
  Side(const Options& options, bool first, int channel) : options_(options), first_(first), channel_(channel) {
    const auto own = end_.name();
    std::vector<std::byte> other(own.size());
    if (write(channel_, own.data(), own.size()) != static_cast<ssize_t>(own.size()) ||
        recv(channel_, other.data(), other.size(), MSG_WAITALL) != static_cast<ssize_t>(other.size()))
      throw std::runtime_error("the other side is gone");
    to_ = end_.insert(other);
  }

  void measure(std::size_t size) {
    buffer_.assign(std::max<std::size_t>(size, 1) * 1, std::byte{1});
    inject_ = options_.rung == "inject";
    const std::uint32_t rounds = agree(size, 0);
    std::vector<double> half;
    for (std::uint32_t i = 0; i < rounds; ++i) {
      const auto start = Clock::now();
      round(size);
      half.push_back(since(start) / 2 * 1e6);
    }
    std::sort(half.begin(), half.end());
    const std::uint32_t windows = std::max(1u, rounds / 8);
    const auto start = Clock::now();
    for (std::uint32_t i = 0; i < windows; ++i) window(size);
    const double each = since(start) / windows / options_.depth;
    if (!first_) return;
    std::printf("| %s | %zu | %.1f / %.1f us | %.3f M/s | %.2f GB/s |\n", options_.rung.c_str(), size,
                half[half.size() / 10], half[half.size() / 2], 1e-6 / each, static_cast<double>(size) / each * 1e-9);
    std::fflush(stdout);
  }
  std::size_t inject_size() const { return end_.inject_size(); }

 private:
  /// The first side tries how long a round takes and tells the other one how many there will be.
  std::uint32_t agree(std::size_t size, std::uint32_t rounds) {
    const auto start = Clock::now();
    for (int i = 0; i < 20; ++i) round(size);
    if (first_) {
      rounds = static_cast<std::uint32_t>(std::clamp(options_.seconds / (since(start) / 20), 20.0, 100000.0));
      if (write(channel_, &rounds, sizeof rounds) != sizeof rounds) throw std::runtime_error("the other side is gone");
    } else if (recv(channel_, &rounds, sizeof rounds, MSG_WAITALL) != sizeof rounds) {
      throw std::runtime_error("the other side is gone");
    }
    return rounds;
  }
  void send(std::size_t size) {
    while (!end_.send(buffer_.data(), size, to_, inject_)) progress();
    if (!inject_) ++unsent_;
  }
  void receive(std::size_t size) {
    while (!end_.receive(buffer_.data(), size)) progress();
  }
  void progress() {
    const auto polled = end_.poll();
    unsent_ -= polled.sent;
    received_ += polled.received;
  }
  void wait(std::uint64_t messages) {
    while (received_ < messages || unsent_ > 0) progress();
    received_ -= messages;
  }
  void round(std::size_t size) {
    receive(size);
    if (first_) send(size);
    wait(1);
    if (!first_) send(size);
    wait(0);
  }
  void window(std::size_t size) {
    if (first_) {
      receive(0);
      for (unsigned i = 0; i < options_.depth; ++i) send(size);
      wait(1);
    } else {
      for (unsigned i = 0; i < options_.depth; ++i) receive(size);
      wait(options_.depth);
      send(0);
      wait(0);
    }
  }

  const Options& options_;
  bool first_;
  int channel_;
  End end_;
  fi_addr_t to_ = 0;
  std::vector<std::byte> buffer_;
  bool inject_ = false;
  std::uint64_t received_ = 0;
  std::int64_t unsent_ = 0;
};

int side(const Options& options, bool first, int channel) {
  Side self(options, first, channel);
  for (const std::size_t size : options.sizes) {
    if (options.rung == "inject" && size > self.inject_size()) continue;
    if (options.rung == "rendezvous" && size <= 1024) continue;
    if (options.rung == "eager" && size > 65536) continue;
    self.measure(size);
  }
  return 0;
}

}  // namespace

int run_pair(const Options& options) {
  int channel[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel) != 0) throw std::runtime_error("socketpair failed");
  const pid_t other = fork();
  if (other == 0) {
    close(channel[0]);
    try {
      std::exit(side(options, false, channel[1]));
    } catch (const std::exception& e) {
      std::fprintf(stderr, "mrc-bench: %s\n", e.what());
      std::exit(1);
    }
  }
  close(channel[1]);
  const int result = side(options, true, channel[0]);
  int status = 0;
  waitpid(other, &status, 0);
  return result != 0 || status != 0 ? 1 : 0;
}

}  // namespace mrc::bench
