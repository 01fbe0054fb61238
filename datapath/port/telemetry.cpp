// SPDX-License-Identifier: BSD-2-Clause
// Commands of rte_telemetry. DPDK 22.11 cannot take a command back and its threads live to the end of the process, so
// what they call stays for ever, and the handler behind it is what comes and goes.
#include "datapath/port/telemetry.hpp"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_telemetry.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>

#include "datapath/port/eal.hpp"

namespace mrc::port {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<TelemetryCommand> commands;
  TelemetryHandler handler;
};
Registry& registry() {
  static auto* const one = new Registry;  // DPDK's threads may come here after static destructors
  return *one;
}

std::string clean_name(std::string name) {
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') c = '_';
  }
  return name;
}

std::string clean_text(const std::string& text) {
  std::string out = text.substr(0, RTE_TEL_MAX_STRING_LEN - 1);
  for (char& c : out) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '\'';  // 22.11 does not escape them
  }
  return out;
}

rte_tel_data* container(const TelemetryValue& value);

void fill_object(rte_tel_data* data, const TelemetryValue& object) {
  rte_tel_data_start_dict(data);
  for (const TelemetryValue& member : object.members) {
    const std::string name = clean_name(member.name);
    switch (member.kind) {
      case TelemetryValue::Kind::kNumber:
        rte_tel_data_add_dict_u64(data, name.c_str(), member.number);
        break;
      case TelemetryValue::Kind::kText:
        rte_tel_data_add_dict_string(data, name.c_str(), clean_text(member.text).c_str());
        break;
      case TelemetryValue::Kind::kNumbers:
      case TelemetryValue::Kind::kObject:
        // Freed with its owner once the answer is written (keep = 0); by us if it did not fit.
        if (rte_tel_data* inner = container(member);
            inner != nullptr && rte_tel_data_add_dict_container(data, name.c_str(), inner, 0) != 0) {
          rte_tel_data_free(inner);
        }
        break;
    }
  }
}

rte_tel_data* container(const TelemetryValue& value) {
  rte_tel_data* data = rte_tel_data_alloc();
  if (data == nullptr) return nullptr;
  if (value.kind == TelemetryValue::Kind::kNumbers) {
    rte_tel_data_start_array(data, RTE_TEL_U64_VAL);
    for (const std::uint64_t number : value.numbers) rte_tel_data_add_array_u64(data, number);
  } else {
    fill_object(data, value);
  }
  return data;
}

/// Removes a folder's sockets and, if nothing else is in it, the folder.
void remove_sockets(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.is_socket(ignored)) std::filesystem::remove(entry.path(), ignored);
  }
  std::filesystem::remove(folder, ignored);
}

/// Nobody listens there any more: its process was killed.
bool abandoned(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const bool refused =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 && errno == ECONNREFUSED;
  close(fd);
  return refused;
}

/// Processes that were killed could not take their folders away.
void sweep(const std::filesystem::path& own) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(own.parent_path(), ignored)) {
    const std::filesystem::path& folder = entry.path();
    if (folder == own || !folder.filename().string().starts_with("mrc-")) continue;
    struct stat status {};
    if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid()) continue;
    if (time(nullptr) - status.st_mtim.tv_sec < 60) continue;  // perhaps not listening yet
    if (abandoned((folder / "dpdk_telemetry.v2").string())) remove_sockets(folder);
  }
}

int answer(const char* command, const char* parameters, rte_tel_data* data) {
  Registry& all = registry();
  const std::lock_guard guard(all.mutex);
  if (!all.handler) return -1;
  const auto found = std::find_if(all.commands.begin(), all.commands.end(),
                                  [&](const TelemetryCommand& one) { return one.command == command; });
  if (found == all.commands.end()) return -1;
  try {
    const auto value = all.handler(static_cast<std::size_t>(found - all.commands.begin()),
                                   parameters == nullptr ? std::string() : std::string(parameters));
    if (!value) return -1;
    fill_object(data, *value);
    return 0;
  } catch (...) {  // C above us
    return -1;
  }
}

}  // namespace

Result<void> serve_telemetry(std::span<const TelemetryCommand> commands, TelemetryHandler handler) {
  Registry& all = registry();
  const std::lock_guard guard(all.mutex);
  for (const TelemetryCommand& one : commands) {
    const int status = rte_telemetry_register_cmd(one.command.c_str(), answer, one.help.c_str());
    if (status < 0 && status != -EEXIST) {
      return fail(-status, fmt::format("DPDK's telemetry does not take the command {}", one.command));
    }
  }
  all.commands.assign(commands.begin(), commands.end());
  all.handler = std::move(handler);
  if (const std::string folder = telemetry_folder(); !folder.empty()) sweep(folder);
  return {};
}

void stop_telemetry() {
  Registry& all = registry();
  {
    const std::lock_guard guard(all.mutex);  // a running answer ends first
    if (!all.handler) return;
    all.handler = nullptr;
  }
  // The folder is this process's own (eal.cpp's file prefix); without us its sockets answer nothing.
  if (const std::string folder = telemetry_folder(); !folder.empty()) remove_sockets(folder);
}

std::string telemetry_folder() {
  if (!eal_started()) return {};
  const char* folder = rte_eal_get_runtime_dir();
  return folder == nullptr ? std::string() : std::string(folder);
}

}  // namespace mrc::port
