// SPDX-License-Identifier: BSD-2-Clause
// The denylist's files: [[deny]] of the configuration, and FI_MRC_DENYLIST, which is read again when it changes (one
// stat() a second).
#include <sys/stat.h>

#include <algorithm>

#include <fmt/format.h>

#include "mrc/engine/config.hpp"
#include "mrc/engine/engine_impl.hpp"

namespace mrc::engine {
namespace {

constexpr Duration kLook = seconds(1);

/// Changes when the file does, also when it is replaced within the same second; 0 if there is none.
std::int64_t change_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return 0;
  return static_cast<std::int64_t>(status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec) ^
         static_cast<std::int64_t>(status.st_ino << 1) ^ static_cast<std::int64_t>(status.st_size << 40) ^ 1;
}

}  // namespace

Result<void> EngineImpl::load_denylist(Tick now) {
  denylist_at_ = config_.denylist_file.empty() ? kNever : now + kLook;
  std::vector<path::DenyRule> rules;
  if (!config_.config_file.empty()) {
    auto file = load_config(config_.config_file);
    if (!file) return tl::unexpected(file.error());
    rules = std::move(file->denied);
  }
  if (!config_.denylist_file.empty()) {
    denylist_seen_ = change_of(config_.denylist_file);
    auto more = engine::load_denylist(config_.denylist_file);
    if (!more) return tl::unexpected(more.error());
    rules.insert(rules.end(), more->begin(), more->end());
  }
  if (!core_->set_denylist(rules, now)) {
    return fail(EINVAL,
                fmt::format("the denylist has {} entries, {} are possible: deny a whole switch or plane instead",
                            rules.size(), path::kMaxDenyRules));
  }
  if (!rules.empty() || denylist_seen_ != 0) log(1, fmt::format("denylist: {} entries", rules.size()));
  return {};
}

void EngineImpl::reload_denylist(Tick now) {
  denylist_at_ = now + kLook;
  const std::int64_t change = change_of(config_.denylist_file);
  if (change == denylist_seen_) return;
  denylist_seen_ = change;
  if (auto loaded = load_denylist(now); !loaded) log(0, loaded.error().text + "; the former denylist stays in force");
}

bool EngineImpl::all_denied(transport::ConnId core) const {
  if (core == transport::kNoId) return false;
  const auto evs = core_->evs(core);
  return !evs.empty() &&
         std::all_of(evs.begin(), evs.end(), [](const path::Ev& ev) { return ev.state == path::EvState::kDenied; });
}

}  // namespace mrc::engine
