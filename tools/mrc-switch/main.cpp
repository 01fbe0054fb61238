// SPDX-License-Identifier: BSD-2-Clause
// mrc-switch: one thread that forwards, serves the control socket, and sleeps when there is nothing to do.
#include <errno.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "log.hpp"
#include "mrc/control/client.hpp"
#include "server.hpp"

namespace {

using namespace mrc;

std::atomic<bool> stop_wanted{false};

void on_signal(int) {
  stop_wanted.store(true);
  soft::Server::interrupt();
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// An endless loop of passes. Spins briefly, then yields (two pollers that only spin on one core see each other every
/// few milliseconds), then sleeps.
void run(const soft::Options& options, soft::Forwarder& forwarder, soft::Server& server) {
  constexpr unsigned kSpins = 200, kControlEvery = 64;
  Tick busy_at = control::monotonic_now();
  unsigned idle = 0, rounds = 0;
  // The last look before sleeping may have been a false "empty": memif ports give nothing while DPDK's control thread
  // is at work. So the first sleep is short, and each further one twice as long.
  constexpr std::int64_t kFirstSleep = 5, kLongestSleep = 1000;  // ms
  std::int64_t sleep_ms = kFirstSleep;
  // An uplink that cannot wake us is looked at every millisecond.
  bool uplink_wakes = true;
  if (auto* uplinks = forwarder.uplinks()) {
    for (unsigned p = 0; p < uplinks->planes(); ++p) uplink_wakes &= uplinks->output(p).port->wake_fd() >= 0;
  }
  const auto due = [&](Tick now) { return std::min(forwarder.next_due(now), server.next_event()); };
  while (!stop_wanted.load(std::memory_order_relaxed)) {
    Tick now = control::monotonic_now();
    if (now >= server.next_event()) server.tick(now);
    const bool busy = forwarder.pass(now);
    if (++rounds % kControlEvery == 0) server.poll(0);
    if (busy) {
      busy_at = now;
      idle = 0;
      sleep_ms = kFirstSleep;
      continue;
    }
    if (++idle < kSpins) {
      pause_cpu();
      continue;
    }
    if (now - busy_at < options.sleep_after || due(now) - now < milliseconds(1)) {
      ::sched_yield();
      continue;
    }
    server.announce_sleep(true);
    now = control::monotonic_now();
    if (!forwarder.pass(now)) {
      const std::int64_t wait_ms = (due(now) - now).ns / 1000000;
      server.poll(static_cast<int>(std::clamp<std::int64_t>(wait_ms, 0, uplink_wakes ? sleep_ms : 1)));
      sleep_ms = std::min(2 * sleep_ms, kLongestSleep);
    }
    server.announce_sleep(false);
    idle = 0;
    // Woken by a frame or not: look at the ports for a while before sleeping again.
    busy_at = uplink_wakes
                  ? control::monotonic_now() - options.sleep_after + std::min(options.sleep_after, microseconds(100))
                  : busy_at;
    if (server.may_leave(control::monotonic_now())) {
      soft::log("no client: leaving");
      return;
    }
  }
}

int serve(const soft::Options& options, const std::string& directory) {
  if (!options.log.empty()) {
    if (const int code = soft::log_to_file(options.log)) {
      fmt::print(stderr, "mrc-switch: cannot open the log file {}: {}\n", options.log, ::strerror(code));
      return 1;
    }
  }
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
  ::sigaction(SIGHUP, &action, nullptr);

  const auto fatal = [](const Error& error) {
    soft::log("{}", error.text);
    return 1;
  };
  port::PortLayer& layer = port::builtin_layer();
  port::EalOptions eal;
  eal.memory_mb = 512;  // address space; pages are taken as pools fill
  eal.log = [](const char* line) { soft::log("DPDK: {}", line); };
  if (auto started = layer.start(eal); !started) return fatal(started.error());
  const std::string folder = soft::ports_folder(directory);
  std::unique_ptr<soft::Uplinks> uplinks;
  soft::Options actual = options;
  if (!options.uplinks.empty()) {
    auto opened = soft::Uplinks::open(options, folder);
    if (!opened) return fatal(opened.error());
    uplinks = std::move(*opened);
    actual.mtu = uplinks->mtu();
  }
  soft::PortPool ports(layer, folder, uplinks ? uplinks->planes() : 0, eal);
  soft::Forwarder forwarder(actual, std::move(uplinks), ports.clients(actual.planes));
  auto server = soft::Server::open(actual, forwarder, ports);
  if (!server) return fatal(server.error());
  for (const auto& command : options.commands) {
    if (auto applied = (*server)->apply(command, control::monotonic_now()); !applied) {
      return fatal({applied.error().code, fmt::format("--do \"{}\": {}", command, applied.error().text)});
    }
  }
  if (auto fits = (*server)->check_timeline(); !fits) return fatal(fits.error());
  soft::log("serving {}: {} planes, {} T0 and {} T1 switches in each, {} clients at most{}", (*server)->socket_path(),
            actual.planes, actual.t0s, actual.t1s, forwarder.members().size(),
            actual.uplinks.empty() ? "" : "; uplinks instead of the emulated fabric");
  run(actual, forwarder, **server);
  if (stop_wanted.load()) soft::log("told to stop");
  return 0;
}

int control_tool(const soft::Options& options) {
  std::string words;
  for (const auto& word : options.ctl) words += (words.empty() ? "" : " ") + word;
  if (options.ctl.size() == 2 && options.ctl[0] == "timeline" && options.ctl[1] != "stop") {
    // The switch reads it, in a folder of its own.
    std::error_code ignored;
    words = "timeline " + std::filesystem::absolute(options.ctl[1], ignored).string();
  }
  auto answer = control::request(options.socket, words);
  if (!answer) {
    fmt::print(stderr, "mrc-switch ctl: {}\n", answer.error().text);
    return 1;
  }
  fmt::print("{}", *answer);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  soft::Options options;
  int exit_code = 0;
  if (!soft::parse_options(argc, argv, options, exit_code)) return exit_code;
  if (!options.ctl.empty()) return control_tool(options);
  std::string directory(4096, '\0');
  const auto n = ::readlink("/proc/self/exe", directory.data(), directory.size());
  directory.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  directory.resize(std::min(directory.size(), directory.rfind('/')));
  return serve(options, directory);
}
