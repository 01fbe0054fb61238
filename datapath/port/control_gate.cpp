// SPDX-License-Identifier: BSD-2-Clause
// The gate itself, and the hooks that put it round every interrupt callback on a Unix socket: the final link wraps
// EAL's registration functions (--wrap, see meson.build), so the PMD is used as it is.
#include "datapath/port/control_gate.hpp"

#define ALLOW_EXPERIMENTAL_API  // rte_intr_fd_get (22.11; internal from 24.11 on): tells control sockets from other
#define ALLOW_INTERNAL_API      // interrupts
#include <linux/membarrier.h>
#include <rte_interrupts.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>

#include "datapath/port/process.hpp"

namespace mrc::port {
namespace {

/// A control thread that lost its CPU in the middle comes back within this; a peer that never reads may block it.
constexpr std::chrono::milliseconds kPatience{50};

int membarrier(int command) {
  return static_cast<int>(syscall(SYS_membarrier, command, 0, 0));
}

/// One callback of the PMD, called through the gate.
struct Hook {
  Hook(const rte_intr_handle* of, rte_intr_callback_fn call, void* with, int on)
      : handle(of), function(call), argument(with), descriptor(on) {}

  const rte_intr_handle* handle;
  rte_intr_callback_fn function;
  void* argument;
  int descriptor;
  bool listener = false;  ///< accepts, and touches no ring
  std::string path;       ///< of a channel's socket; empty = unknown
  std::uint64_t number = 0;
  rte_intr_unregister_callback_fn on_removal = nullptr;
  bool dead = false;                 ///< unregistered while it waited at the gate: its argument may be gone
  std::atomic<bool> removed{false};  ///< EAL has let go of it
};

std::list<Hook>& hooks() {
  static auto* const list = new std::list<Hook>;  // EAL's threads outlive static destructors
  return *list;
}

std::uint64_t newest = 0;

/// Handles with a live hook, readable without a lock: rte_intr_instance_free() also runs under EAL's interrupt lock.
std::array<std::atomic<const rte_intr_handle*>, 1024> live_handles{};

void exchange_live(const rte_intr_handle* from, const rte_intr_handle* to) {
  for (auto& slot : live_handles)
    if (slot.load(std::memory_order_relaxed) == from) return slot.store(to, std::memory_order_release);
}

bool is_live(const rte_intr_handle* handle) {
  return std::ranges::any_of(live_handles, [&](auto& slot) { return slot.load(std::memory_order_acquire) == handle; });
}

thread_local bool in_removal = false;

void gated_callback(void* argument) {
  auto* hook = static_cast<Hook*>(argument);
  const ControlGate::Control control;
  if (hook->dead) return;
  const DescriptorSnapshot descriptors;
  if (hook->listener) {
    hook->function(hook->argument);
  } else {
    const ControlGate::Closed closed(hook->path);
    hook->function(hook->argument);  // may unregister itself
  }
  descriptors.close_on_exec(true);
}

void gated_removal(rte_intr_handle* handle, void* argument) {
  auto* hook = static_cast<Hook*>(argument);
  // EAL holds its interrupt lock here, and others take that lock inside the gate: so no gate on this way.
  in_removal = true;
  if (hook->on_removal != nullptr) hook->on_removal(handle, hook->argument);
  in_removal = false;
  hook->removed.store(true, std::memory_order_release);
}

Hook* find_hook(const rte_intr_handle* handle, rte_intr_callback_fn function, void* argument) {
  for (auto& hook : hooks())
    if (hook.handle == handle && hook.function == function && hook.argument == argument && !hook.dead) return &hook;
  return nullptr;
}

bool is_unix_socket(int descriptor) {
  int domain = 0;
  socklen_t length = sizeof domain;
  return descriptor >= 0 && getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

bool is_listener(int descriptor) {
  int listens = 0;
  socklen_t length = sizeof listens;
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0;
}

/// The path that a channel was accepted on or connected to; a client's own end has none.
std::string socket_path(int descriptor) {
  for (const auto ask : {getsockname, getpeername}) {
    sockaddr_un address{};
    socklen_t length = sizeof address;
    if (ask(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) continue;
    if (const std::size_t size = strnlen(address.sun_path, sizeof address.sun_path); size > 0)
      return {address.sun_path, size};
  }
  return {};
}

}  // namespace

ControlGate& ControlGate::instance() {
  static auto* const gate = new ControlGate;
  return *gate;
}

ControlGate::ControlGate() {
#if !defined(__SANITIZE_THREAD__)
  fence_needed_ = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0;
#endif
}

std::uint64_t ControlGate::newest_channel() {
  return newest;
}

bool ControlGate::channel_alive(std::uint64_t channel) {
  return std::ranges::any_of(hooks(), [&](const Hook& hook) { return hook.number == channel && !hook.dead; });
}

void ControlGate::add(Member& member) {
  const Control control;
  member.next = members_;
  members_ = &member;
}

void ControlGate::remove(Member& member) {
  const Control control;
  for (Member** at = &members_; *at != nullptr; at = &(*at)->next) {
    if (*at != &member) continue;
    *at = member.next;
    return;
  }
}

bool ControlGate::wait(Member& member) {
  constexpr unsigned kSpins = 200;
  std::chrono::steady_clock::time_point give_up{};
  for (unsigned round = 0;; ++round) {
    // Out first, or the closer would wait for us.
    member.inside.store(false, std::memory_order_release);
    const State state = member.state.load(std::memory_order_acquire);
    if (state == State::kOpen) {
      member.inside.store(true, std::memory_order_seq_cst);
      if (member.state.load(std::memory_order_seq_cst) == State::kOpen) return true;
      continue;
    }
    if (state != State::kBusy) return false;
    if (round < kSpins) {
      __builtin_ia32_pause();
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    if (give_up == std::chrono::steady_clock::time_point{}) give_up = now + kPatience;
    if (now > give_up) {
      State busy = State::kBusy;  // bursts to come need not wait as long again
      member.state.compare_exchange_strong(busy, State::kStuck);
      continue;
    }
    sched_yield();  // the closer may need this very CPU
  }
}

ControlGate::Control::Control() {
  instance().mutex_.lock();
}

ControlGate::Control::~Control() {
  instance().mutex_.unlock();
}

ControlGate::Closed::Closed(std::string path) : path_(std::move(path)) {
  close(State::kBusy);
}

ControlGate::Closed::Closed(Member& absent) : only_(&absent) {
  close(State::kAbsent);
}

bool ControlGate::Closed::concerns(const Member& member) const {
  return only_ != nullptr ? &member == only_ : path_.empty() || member.path == path_;
}

void ControlGate::Closed::close(State state) {
  auto& gate = instance();
  for (Member* member = gate.members_; member != nullptr; member = member->next)
    if (concerns(*member)) member->state.store(state, std::memory_order_seq_cst);
  if (gate.fence_needed_) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  }
  for (const Member* member = gate.members_; member != nullptr; member = member->next)
    while (concerns(*member) && member->inside.load(std::memory_order_acquire)) sched_yield();
}

ControlGate::Closed::~Closed() {
  for (Member* member = instance().members_; member != nullptr; member = member->next)
    if (concerns(*member)) member->state.store(State::kOpen, std::memory_order_release);
}

}  // namespace mrc::port

// The linker sends the PMDs' calls here (--wrap); __real_… are EAL's own.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier)
int __real_rte_intr_callback_register(const rte_intr_handle*, rte_intr_callback_fn, void*);
int __real_rte_intr_callback_unregister(const rte_intr_handle*, rte_intr_callback_fn, void*);
int __real_rte_intr_callback_unregister_pending(const rte_intr_handle*, rte_intr_callback_fn, void*,
                                                rte_intr_unregister_callback_fn);
void __real_rte_intr_instance_free(rte_intr_handle*);

int __wrap_rte_intr_callback_register(const rte_intr_handle* handle, rte_intr_callback_fn function, void* argument) {
  using namespace mrc::port;
  const int descriptor = rte_intr_fd_get(handle);
  if (!is_unix_socket(descriptor)) return __real_rte_intr_callback_register(handle, function, argument);
  const ControlGate::Control control;
  hooks().remove_if([](const Hook& hook) { return hook.removed.load(std::memory_order_acquire); });
  auto& hook = hooks().emplace_back(handle, function, argument, descriptor);
  hook.listener = is_listener(descriptor);
  if (!hook.listener) hook.path = socket_path(descriptor);
  const int status = __real_rte_intr_callback_register(handle, gated_callback, &hook);
  if (status < 0) {
    hooks().pop_back();
    return status;
  }
  hook.number = ++newest;
  exchange_live(nullptr, handle);
  return status;
}

int __wrap_rte_intr_callback_unregister(const rte_intr_handle* handle, rte_intr_callback_fn function, void* argument) {
  using namespace mrc::port;
  const ControlGate::Control control;
  Hook* hook = find_hook(handle, function, argument);
  if (hook == nullptr) return __real_rte_intr_callback_unregister(handle, function, argument);
  const int status = __real_rte_intr_callback_unregister(handle, gated_callback, hook);
  if (status > 0) {
    exchange_live(handle, nullptr);
    hooks().remove_if([&](const Hook& other) { return &other == hook; });
  }
  return status;
}

int __wrap_rte_intr_callback_unregister_pending(const rte_intr_handle* handle, rte_intr_callback_fn function,
                                                void* argument, rte_intr_unregister_callback_fn on_removal) {
  using namespace mrc::port;
  const ControlGate::Control control;
  Hook* hook = find_hook(handle, function, argument);
  if (hook == nullptr) return __real_rte_intr_callback_unregister_pending(handle, function, argument, on_removal);
  hook->on_removal = on_removal;
  const int status = __real_rte_intr_callback_unregister_pending(handle, gated_callback, hook, gated_removal);
  if (status >= 0) {
    hook->dead = true;
    exchange_live(handle, nullptr);
  }
  return status;
}

void __wrap_rte_intr_instance_free(rte_intr_handle* handle) {
  using namespace mrc::port;
  if (handle != nullptr && !in_removal && is_live(handle)) {
    // net_memif frees a listener's handle but neither unregisters nor closes it: a descriptor and a dangling
    // callback for every closed server socket.
    const ControlGate::Control control;
    for (auto& hook : hooks()) {
      if (hook.handle != handle || hook.dead) continue;
      const int descriptor = hook.descriptor;
      const int status = __real_rte_intr_callback_unregister(handle, gated_callback, &hook);
      if (status == -EAGAIN) {  // a connection waits at the gate: EAL lets go of it afterwards
        hook.dead = true;
        __real_rte_intr_callback_unregister_pending(handle, gated_callback, &hook, gated_removal);
      }
      exchange_live(handle, nullptr);
      close(descriptor);
      if (status > 0) hooks().remove_if([&](const Hook& other) { return &other == &hook; });
      break;
    }
  }
  __real_rte_intr_instance_free(handle);
}
// NOLINTEND(bugprone-reserved-identifier)
}
