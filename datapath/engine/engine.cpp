// SPDX-License-Identifier: BSD-2-Clause
// Putting the engine together from its parts, and taking it apart.
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "mrc/engine/engine_impl.hpp"
#include "mrc/engine/hmac.hpp"

namespace mrc::engine {
namespace {

std::uint64_t kernel_random() {
  std::uint64_t seed = 0;
  while (seed == 0) {
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) seed = 0;
  }
  return seed;
}

// With fewer CPUs than processes that poll, spinning only takes time away from the one we wait for.
unsigned spin_passes() {
  cpu_set_t set;
  const int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return cpus >= 8 ? 200 : cpus >= 4 ? 50 : 0;
}

}  // namespace

void EngineImpl::Unmap::operator()(std::byte* memory) const {
  munmap(memory, length);
}

Result<std::shared_ptr<EngineImpl>> EngineImpl::create(EngineParts parts) {
  EngineConfig& config = parts.config;
  const unsigned planes = parts.attachment->planes();
  if (planes == 0 || planes > path::kMaxPlanes) {
    return fail(EINVAL, fmt::format("{} ports given; 1 to {} are possible, one a plane", planes, path::kMaxPlanes));
  }
  if (config.icrc != "auto" && config.icrc != "on") {
    return fail(EINVAL, fmt::format("FI_MRC_ICRC is \"{}\"; it can be auto or on", config.icrc));
  }
  config.transport.wire.icrc = config.icrc == "on" || !parts.attachment->memory_only();
  if (config.transport.link_bps == 0) config.transport.link_bps = parts.attachment->link_bps();
  // A software fabric's queues are made for longer waits than a hardware one's; what the user says comes first.
  if (config.transport.cc_target_min == transport::Config{}.cc_target_min) {
    config.transport.cc_target_min = std::max(config.transport.cc_target_min, parts.attachment->queue_delay());
  }
  if (config.transport.job_key_set && config.transport.hmac == nullptr) config.transport.hmac = hmac_sha256;
  config.limits.planes = static_cast<std::uint8_t>(parts.attachment->planes());
  const std::size_t length = transport::Core::memory_needed(config.transport, config.limits);
  void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ENOMEM, fmt::format("no memory for the transport ({} MB); see ulimit -v", length >> 20));
  }
  std::unique_ptr<std::byte, Unmap> block(static_cast<std::byte*>(memory), Unmap{length});
  const std::uint64_t seed = parts.seed != 0 ? parts.seed : kernel_random();
  std::shared_ptr<EngineImpl> engine(new EngineImpl(std::move(parts), std::move(block), seed));
  for (WaitSet* set : {&engine->app_wait_, &engine->service_wait_}) {
    if (auto opened = set->open(); !opened) return tl::unexpected(opened.error());
  }
  engine->watch_fds();
  if (const std::string& prefix = engine->config_.capture_path; !prefix.empty()) {
    auto capture = Capture::open(fmt::format("{}.{}.pcap", prefix, getpid()));
    if (!capture) return tl::unexpected(capture.error());
    engine->capture_ = std::move(*capture);
  }
  if (auto loaded = engine->load_denylist(engine->now_); !loaded) return tl::unexpected(loaded.error());
  engine->log(1, "attached to " + engine->describe());
  engine->start_watching();
  return engine;
}

EngineImpl::EngineImpl(EngineParts parts, std::unique_ptr<std::byte, Unmap> memory, std::uint64_t seed)
    : config_(std::move(parts.config)),
      attachment_(std::move(parts.attachment)),
      clock_(parts.clock != nullptr ? parts.clock : &monotonic_clock()),
      reserve_ports_(parts.reserve_ports),
      may_yield_(parts.may_yield),
      memory_(std::move(memory)),
      core_(std::make_unique<transport::Core>(config_.transport, config_.limits,
                                              std::span(memory_.get(), memory_.get_deleter().length), seed)),
      random_(seed ^ 0x6d7263),
      planes_count_(attachment_->planes()),
      icrc_(config_.transport.wire.icrc),
      links_(config_.limits.connections),
      aliases_(local_ipv4s()),
      spin_passes_(parts.may_yield ? spin_passes() : 0) {
  now_ = clock_->now();
  adopt_ports();
}

EngineImpl::~EngineImpl() {
  finish();
  if (dead()) return;
  for (unsigned p = 0; p < planes_count_; ++p) {
    Plane& plane = planes_[p];
    if (plane.port != nullptr && plane.spares > 0) plane.port->cancel({plane.spare.data(), plane.spares});
  }
  core_.reset();
}

void EngineImpl::adopt_ports() {
  const auto inner = path::EndpointAddress{attachment_->fabric(), attachment_->t0(), ipv4(), 0}.inner();
  for (unsigned p = 0; p < planes_count_; ++p) {
    Plane& plane = planes_[p];
    plane.port = p < attachment_->planes() ? attachment_->port(p) : nullptr;
    plane.spares = 0;
    plane.link_up = plane.port != nullptr && plane.port->link_up();
    if (plane.told_up != plane.link_up) {
      plane.told_up = plane.link_up;
      core_->set_plane_up(p, plane.link_up, now_);
    }
    if (plane.port == nullptr) continue;
    std::memcpy(plane.rules.node.data(), inner.bytes.data(), plane.rules.node.size());
    plane.rules.max_frame = plane.port->max_frame();
    plane.rules.crc = icrc_ ? attachment_->crc32() : nullptr;
    plane.rules.dscp = config_.transport.wire.dscp;
    plane.mac = plane.port->mac();
  }
}

// mrc-switch died. Connections stay: their packets are retransmitted once there is another one.
void EngineImpl::restart_ports(Tick now) {
  restart_at_ = now + milliseconds(500);
  for (unsigned p = 0; p < planes_count_; ++p) {
    Plane& plane = planes_[p];
    if (plane.port != nullptr && plane.spares > 0) plane.port->cancel({plane.spare.data(), plane.spares});
    plane.port = nullptr;
    plane.spares = 0;
  }
  if (auto done = attachment_->restart_ports(); !done) {
    log(0, done.error().text);
    return;
  }
  ports_dead_ = false;
  ++counters_.restarts;
  adopt_ports();
  watch_fds();
  log(1, "attached again to " + describe());
}

std::string EngineImpl::describe() const {
  return attachment_->describe() + (icrc_ ? ", iCRC on" : ", iCRC off");
}

void EngineImpl::die_in_child() {
  dead_.store(true);
  new (&mutex_) std::mutex;  // the parent's service thread may have held it
  for (const int fd : attachment_->private_fds()) close(fd);
  for (const auto& ep : endpoints_) {
    if (ep && ep->reservation.fd() >= 0) close(ep->reservation.fd());
  }
}

void EngineImpl::log(int level, const std::string& text) const {
  if (config_.log != nullptr) config_.log(level, text.c_str());
}

}  // namespace mrc::engine
