// SPDX-License-Identifier: BSD-2-Clause
// EAL start-up inside somebody else's process: no pinning, no output on stderr, no files left, no inheritable
// descriptors, signals untouched. See docs/ports.md for why each argument is there.
#include "datapath/port/eal.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <vector>

#include "datapath/port/process.hpp"

namespace mrc::port {
namespace {

std::mutex start_mutex;
std::optional<Result<void>> outcome;
std::atomic<bool> running{false};
bool pci_wanted = false;

std::mutex line_mutex;
std::string partial_line;
std::string last_line;
void (*line_callback)(const char*) = nullptr;

/// fopencookie's writer: cuts EAL's output into lines.
ssize_t take_log(void*, const char* text, std::size_t length) {
  std::lock_guard lock(line_mutex);
  for (const char c : std::string_view(text, length)) {
    if (c != '\n') {
      if (partial_line.size() < 1024) partial_line += c;
      continue;
    }
    if (!partial_line.empty()) {
      last_line = partial_line;
      if (line_callback != nullptr) line_callback(partial_line.c_str());
    }
    partial_line.clear();
  }
  return static_cast<ssize_t>(length);
}

/// MiB in huge pages nobody has taken yet.
std::uint64_t free_huge_mb() {
  std::uint64_t total = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", ignored)) {
    std::uint64_t kb = 0, pages = 0;
    if (std::sscanf(entry.path().filename().c_str(), "hugepages-%lukB", &kb) != 1) continue;
    std::ifstream(entry.path() / "free_hugepages") >> pages;
    total += pages * kb / 1024;
  }
  return total;
}

std::vector<std::string> arguments(const EalOptions& options, const AffinityKeeper& affinity) {
  // EAL gives its first argument to openlog(): the application's own name keeps its syslog lines recognisable.
  std::vector<std::string> list{program_invocation_short_name};
  if (const auto cpus = affinity.list(); !cpus.empty()) list.push_back("--lcores=0@(" + cpus + ")");
  // Other processes race us for huge pages and EAL cannot be started twice: use them only where there are plenty.
  if (free_huge_mb() >= 2ULL * options.memory_mb) {
    list.emplace_back("--in-memory");
  } else {
    list.emplace_back("--no-huge");
    list.emplace_back("--no-shconf");
  }
  list.push_back(fmt::format("-m{}", options.memory_mb));
  list.emplace_back("--iova-mode=va");
  if (!options.telemetry) list.emplace_back("--no-telemetry");
  if (options.pci) {
    // An allow list that names no NIC: devices come in one by one, by hot-plug, as the user names them.
    list.emplace_back("-a0000:00:00.0");
  } else {
    list.emplace_back("--no-pci");
  }
  std::uint64_t unique = 0;
  if (getrandom(&unique, sizeof unique, GRND_NONBLOCK) < 0) unique = reinterpret_cast<std::uintptr_t>(&list);
  list.push_back(fmt::format("--file-prefix=mrc-{}-{:x}", getpid(), unique));
  list.push_back("--log-level=" + options.log_level);
#if defined(__x86_64__)
  // rte_net_crc takes its 512-bit path only when told that it may.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"))
    list.emplace_back("--force-max-simd-bitwidth=512");
#endif
  return list;
}

Result<void> start_once(const EalOptions& options) {
  if (options.memory_mb < 16 || options.memory_mb > 65536)
    return fail(EINVAL, fmt::format("DPDK memory of {} MiB is out of range (16 to 65536)", options.memory_mb));
  {
    std::lock_guard lock(line_mutex);
    line_callback = options.log;
  }
  static FILE* stream = nullptr;
  if (stream == nullptr) {
    cookie_io_functions_t functions{};
    functions.write = take_log;
    stream = fopencookie(nullptr, "w", functions);
    if (stream == nullptr) return fail(ENOMEM, "no memory for DPDK's log stream");
    setvbuf(stream, nullptr, _IOLBF, 1024);
  }
  rte_openlog_stream(stream);

  const DescriptorSnapshot descriptors;
  int status = 0;
  int code = 0;
  {
    const AffinityKeeper affinity;
    const SignalBlock signals;  // EAL's threads must never run the application's handlers
    auto list = arguments(options, affinity);
    std::vector<char*> argv;
    for (auto& argument : list) argv.push_back(argument.data());
    argv.push_back(nullptr);
    rte_errno = 0;
    status = rte_eal_init(static_cast<int>(list.size()), argv.data());
    code = rte_errno;
  }
  descriptors.close_on_exec(false);
  if (status < 0) {
    return fail(code != 0 ? code : EIO,
                with_eal_line(fmt::format("DPDK did not start ({}): less memory may help (now {} MiB)",
                                          rte_strerror(code), options.memory_mb)));
  }
  if (const char* folder = rte_eal_get_runtime_dir(); folder != nullptr && folder[0] != '\0') {
    std::error_code ignored;  // with --in-memory and --no-shconf nothing is ever in it
    std::filesystem::remove(folder, ignored);
    std::filesystem::remove(std::filesystem::path(folder).parent_path(), ignored);
  }
  pci_wanted = options.pci;
  running.store(true, std::memory_order_release);
  return {};
}

}  // namespace

Result<void> start_eal(const EalOptions& options) {
  std::lock_guard lock(start_mutex);
  if (!outcome) outcome = start_once(options);
  return *outcome;
}

bool eal_started() {
  return running.load(std::memory_order_acquire);
}
bool eal_has_pci() {
  return eal_started() && pci_wanted;
}

void clear_eal_line() {
  std::lock_guard lock(line_mutex);
  last_line.clear();
}

std::string last_eal_line() {
  std::lock_guard lock(line_mutex);
  return last_line;
}

std::string with_eal_line(std::string text) {
  const std::string line = last_eal_line();
  if (!line.empty()) text += "; DPDK says: " + line;
  return text;
}

}  // namespace mrc::port
