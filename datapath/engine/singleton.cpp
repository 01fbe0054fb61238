// SPDX-License-Identifier: BSD-2-Clause
// The process's one engine: made at the first call from its configuration, kept to the end, dead in forked children.
#include <pthread.h>

#include <cerrno>
#include <cstdlib>

#include "mrc/engine/config.hpp"
#include "mrc/engine/engine_impl.hpp"
#include "mrc/engine/own_ports.hpp"
#include "mrc/engine/switch_ports.hpp"

namespace mrc::engine {
namespace {

// The process's engine. Never destroyed: EAL can start only once, and threads may still run at exit.
struct Singleton {
  std::mutex mutex;
  std::shared_ptr<EngineImpl> engine;
  EngineConfig asked;
  bool forked = false;
};
Singleton& singleton() {
  static auto* one = new Singleton;
  return *one;
}

void at_exit() {
  if (singleton().engine) singleton().engine->finish();
}

void in_child() {
  Singleton& one = singleton();
  new (&one.mutex) std::mutex;  // another thread of the parent may have held it
  one.forked = true;
  if (one.engine) one.engine->die_in_child();
}

bool same(const EngineConfig& a, const EngineConfig& b) {
  return a.ports == b.ports && a.config_file == b.config_file && a.switch_socket == b.switch_socket &&
         a.icrc == b.icrc && a.service_thread == b.service_thread && a.transport.window == b.transport.window;
}

}  // namespace

Result<std::unique_ptr<Attachment>> open_attachment(const EngineConfig& config) {
  if (!config.ports.empty()) return OwnPorts::open(config);
  if (!config.config_file.empty()) {
    auto file = load_config(config.config_file);
    if (!file) return tl::unexpected(file.error());
    if (!file->groups.empty()) return OwnPorts::open(config);
  }
  return SwitchPorts::open(config);
}

Result<std::shared_ptr<Engine>> Engine::acquire(const EngineConfig& config) {
  Singleton& one = singleton();
  const std::lock_guard guard(one.mutex);
  if (one.forked) {
    return fail(EOWNERDEAD, "mrc was opened before fork(): it does not work in the child (exec a new program instead)");
  }
  if (one.engine) {
    if (!same(config, one.asked) && config.log != nullptr) {
      config.log(0, "another configuration of mrc is in use in this process already; it stays as it is");
    }
    return std::shared_ptr<Engine>(one.engine);
  }
  auto attachment = open_attachment(config);
  if (!attachment) return tl::unexpected(attachment.error());
  EngineParts parts;
  parts.config = config;
  parts.attachment = std::move(*attachment);
  auto made = EngineImpl::create(std::move(parts));
  if (!made) return tl::unexpected(made.error());
  one.engine = std::move(*made);
  one.asked = config;
  static const bool hooked = [] {
    std::atexit(at_exit);
    pthread_atfork(nullptr, nullptr, in_child);
    return true;
  }();
  static_cast<void>(hooked);
  return std::shared_ptr<Engine>(one.engine);
}

}  // namespace mrc::engine
