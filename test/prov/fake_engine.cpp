// SPDX-License-Identifier: BSD-2-Clause
// The fake engine, and a stand-in for the messaging half: no endpoints.
#include "fake_engine.hpp"

#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdlib>

#include "objects.hpp"

namespace mrc::test {

FakeEngine::FakeEngine() : event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
FakeEngine::~FakeEngine() {
  close(event_fd_);
}

std::shared_ptr<FakeEngine> FakeEngine::instance() {
  static const auto engine = std::make_shared<FakeEngine>();
  return engine;
}

std::string& FakeEngine::failure() {
  static std::string text;
  return text;
}

void FakeEngine::lock() {
  mutex_.lock();
  held = true;
}
bool FakeEngine::try_lock() {
  return mutex_.try_lock() && (held = true);
}
void FakeEngine::unlock() {
  held = false;
  mutex_.unlock();
}

std::uint32_t FakeEngine::canonical(std::uint32_t address) const {
  return address >> 24 == 127 || address == kAlias ? kIpv4 : address;
}

Result<transport::EpId> FakeEngine::open_endpoint_locked(engine::EndpointName&, engine::Client*) {
  return fail(ENOSYS, "the fake engine has no endpoints");
}
void FakeEngine::close_endpoint(transport::EpId) {}
transport::ConnId FakeEngine::connect_locked(transport::EpId, const engine::EndpointName&) {
  return transport::kNoId;
}
engine::EndpointName FakeEngine::peer_name_locked(transport::ConnId) const {
  return {};
}
std::string FakeEngine::why_locked(transport::ConnId) const {
  return {};
}
transport::Status FakeEngine::post_write_locked(transport::ConnId, const transport::WriteRequest&) {
  return transport::Status::kInvalid;
}
std::uint32_t FakeEngine::payload_mtu_locked(transport::ConnId) const {
  return 1024;
}

bool FakeEngine::progress_locked() {
  ++passes;
  if (!next_progress) return false;
  const auto work = std::exchange(next_progress, nullptr);
  work();
  return true;
}

bool FakeEngine::arm_locked() {
  armed = true;
  return !next_progress;
}
void FakeEngine::disarm_locked() {
  armed = false;
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(event_fd_, &count, sizeof count);
}
const transport::Core& FakeEngine::core_locked() const {
  std::abort();
}
std::string FakeEngine::stats_json_locked(bool) const {
  return "{}";
}

void FakeEngine::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_fd_, &one, sizeof one);
}

}  // namespace mrc::test

namespace mrc::engine {

Result<std::shared_ptr<Engine>> Engine::acquire(const EngineConfig&) {
  if (!test::FakeEngine::failure().empty()) return fail(ENODEV, test::FakeEngine::failure());
  return test::FakeEngine::instance();
}

}  // namespace mrc::engine

namespace mrc::prov {

int open_endpoint(Domain&, fid_domain*, fi_info*, fid_ep**, void*) {
  return -FI_ENOSYS;
}
int open_scalable_endpoint(Domain&, fi_info*, fid_ep**, void*) {
  return -FI_ENOSYS;
}
int open_shared_rx(Domain&, fi_rx_attr*, fid_ep**, void*) {
  return -FI_ENOSYS;
}
int open_shared_tx(Domain&, fi_tx_attr*, fid_stx**, void*) {
  return -FI_ENOSYS;
}

}  // namespace mrc::prov
