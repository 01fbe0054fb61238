// SPDX-License-Identifier: BSD-2-Clause
// Both ends in one process and one thread: messages go through records, transport and the loopback, and nobody waits
// for anybody, so that the thread's processor time is what a message costs at both ends together.
#include <ctime>

#include <cstdio>
#include <deque>

#include "bench.hpp"

namespace mrc::bench {
namespace {

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

class Alone {
 public:
  explicit Alone(const Options& options) : options_(options), to_(a_.insert(b_.name())), back_(b_.insert(a_.name())) {}

  void measure(std::size_t size) {
    out_.assign(std::max<std::size_t>(size, 1), std::byte{1});
    in_.assign(std::max<std::size_t>(size, 1), std::byte{0});
    inject_ = options_.rung == "inject";
    one_way(size);  // warm
    double start = cpu_seconds(), now = start;
    std::uint64_t rounds = 0;
    while ((now = cpu_seconds()) - start < options_.seconds) {
      for (int i = 0; i < 16; ++i, ++rounds) one_way(size);
    }
    const double alone = (now - start) / static_cast<double>(rounds);
    start = cpu_seconds();
    std::uint64_t messages = 0;
    while ((now = cpu_seconds()) - start < options_.seconds) messages += burst(size);
    const double each = (now - start) / static_cast<double>(messages);
    std::printf("| %s | %zu | %.2f us | %.3f M/s | %.2f GB/s |\n", options_.rung.c_str(), size, alone * 1e6,
                1e-6 / each, static_cast<double>(size) / each * 1e-9);
    std::fflush(stdout);
  }
  std::size_t inject_size() const { return a_.inject_size(); }

 private:
  void progress() {
    const auto a = a_.poll(), b = b_.poll();
    sent_ += a.sent;
    received_ += b.received;
  }
  void send(std::size_t size) {
    while (!a_.send(out_.data(), size, to_, inject_)) progress();
    if (!inject_) ++expected_;
  }
  void receive(std::size_t size) {
    while (!b_.receive(in_.data(), size)) progress();
  }
  void one_way(std::size_t size) {
    received_ = sent_ = expected_ = 0;
    if (!options_.unexpected) receive(size);
    send(size);
    if (options_.unexpected) {
      for (int i = 0; i < 4; ++i) progress();
      receive(size);
    }
    while (received_ < 1 || sent_ < expected_) progress();
  }
  std::uint64_t burst(std::size_t size) {
    received_ = sent_ = expected_ = 0;
    const unsigned n = options_.depth;
    if (!options_.unexpected)
      for (unsigned i = 0; i < n; ++i) receive(size);
    for (unsigned i = 0; i < n; ++i) send(size);
    if (options_.unexpected) {
      for (int i = 0; i < 4; ++i) progress();
      for (unsigned i = 0; i < n; ++i) receive(size);
    }
    while (received_ < n || sent_ < expected_) progress();
    return n;
  }

  const Options& options_;
  End a_, b_{&a_};
  fi_addr_t to_, back_;
  std::vector<std::byte> out_, in_;
  bool inject_ = false;
  std::uint64_t sent_ = 0, received_ = 0, expected_ = 0;
};

}  // namespace

int run_alone(const Options& options) {
  Alone alone(options);
  for (const std::size_t size : options.sizes) {
    if (options.rung == "inject" && size > alone.inject_size()) continue;
    if (options.rung == "rendezvous" && size <= 1024) continue;
    if (options.rung == "eager" && size > 65536) continue;
    alone.measure(size);
  }
  return 0;
}

}  // namespace mrc::bench
