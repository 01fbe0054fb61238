// SPDX-License-Identifier: BSD-2-Clause
// The packet path: one pass receives, does what is due, delivers, and sends. Run to completion in the caller's thread;
// no allocation, log or system call but what the ports' drivers make (and FI_MRC_PCAP, where it is on).
#include <algorithm>
#include <cstring>

#include "mrc/engine/engine_impl.hpp"

namespace mrc::engine {
namespace {

constexpr Duration kChores = milliseconds(1);
// After such a pause the ports may hold much more than one burst: read it all before any deadline is judged.
constexpr Duration kLongPause = milliseconds(2);
constexpr unsigned kDrainRounds = 64;
constexpr unsigned kTxRounds = 4;
constexpr std::size_t kUpToBth = wire::Ipv6Header::kSize + wire::UdpHeader::kSize;

bool is_endpoint_request(std::span<const std::byte> l3, std::size_t inner) {
  return l3[inner + kUpToBth] == static_cast<std::byte>(wire::Opcode::kEndpointRequest);
}

wire::Ipv6Address source_of(std::span<const std::byte> l3, std::size_t inner) {
  wire::Ipv6Address source{};
  std::memcpy(source.bytes.data(), l3.data() + inner + 8, source.bytes.size());
  return source;
}

}  // namespace

bool EngineImpl::progress_locked() {
  if (dead()) return false;
  app_passes_.fetch_add(1, std::memory_order_relaxed);
  if (service_asleep_.load(std::memory_order_relaxed)) [[unlikely]] {
    service_asleep_.store(false);  // it goes back to watching whether we poll
    set_asleep(kAsleepService, false);
    service_wait_.kick();
  }
  const Tick now = clock_->now();
  const bool worked = pass(now);
  if (worked) {
    empty_passes_ = 0;
  } else if (may_yield_) {
    rest();
  }
  return worked;
}

bool EngineImpl::pass(Tick now) {
  const bool drain = now - now_ > kLongPause;
  now_ = now;
  in_pass_ = true;
  ++counters_.polls;
  if (now >= chores_at_) chores(now);
  // Received before deadlines: a SACK that is already here must not look late because we were.
  bool worked = receive(now, drain);
  if (loops_) worked |= loop_back(now);
  if (core_->next_deadline() <= now) core_->on_deadline(now);
  worked |= deliver_events(8);
  for (std::size_t i = 0; i < clients_.size(); ++i) worked |= clients_[i]->on_progress(now);
  worked |= transmit(now);
  in_pass_ = false;
  if (!worked) ++counters_.empty_polls;
  return worked;
}

bool EngineImpl::receive(Tick now, bool drain) {
  bool worked = false;
  for (unsigned round = 0; round < (drain ? kDrainRounds : 1); ++round) {
    bool full = false;
    for (unsigned p = 0; p < planes_count_; ++p) {
      if (planes_[p].port == nullptr) continue;
      const std::size_t n = receive_plane(p, now);
      worked |= n > 0;
      full |= n == kBurst;
    }
    if (!full) break;
  }
  return worked;
}

std::size_t EngineImpl::receive_plane(unsigned index, Tick now) {
  Plane& plane = planes_[index];
  const std::size_t n = plane.port->receive(rx_frames_);
  if (n == 0) return 0;
  counters_.rx_frames += n;
  std::size_t packets = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::span<std::byte> frame = rx_frames_[i].data;
    if (capture_) [[unlikely]]
      capture_->frame(frame);
    const CheckedFrame checked = check_frame(frame, plane.rules);
    switch (checked.kind) {
      [[likely]] case FrameKind::kPacket : {
        rx_packets_[packets++] = {.l3 = checked.l3, .plane = static_cast<std::uint8_t>(index)};
        if (checked.l3.size() < checked.inner + kUpToBth + 1) break;  // the parser's to count
        rx_evs_.add(frame_ev(checked.l3, checked.inner, config_.transport.wire.ev_split));
        if (attachment_->learns() && is_endpoint_request(checked.l3, checked.inner)) {
          port::MacAddress from{};
          std::memcpy(from.data(), frame.data() + 6, from.size());
          attachment_->learn(index, source_of(checked.l3, checked.inner), from, now);
        }
        break;
      }
      case FrameKind::kIcmp6:
        if (attachment_->on_neighbour(index, frame, now)) {
          ++counters_.rx_neighbour;
          plane.neighbours = true;
        } else {
          ++counters_.rx_not_ours;
        }
        break;
      case FrameKind::kRunt:
        ++counters_.rx_runt;
        break;
      case FrameKind::kTooLong:
        ++counters_.rx_too_long;
        break;
      case FrameKind::kNotIpv6:
        ++counters_.rx_not_ipv6;
        break;
      case FrameKind::kNotOurs:
        ++counters_.rx_not_ours;
        break;
      case FrameKind::kCutOff:
        ++counters_.rx_cut_off;
        break;
      case FrameKind::kBadIcrc:
        ++counters_.rx_bad_icrc;
        break;
    }
  }
  if (packets > 0) core_->on_rx({rx_packets_.data(), packets}, now);
  plane.port->release({rx_frames_.data(), n});
  if (plane.neighbours) send_neighbours(index, now);
  return n;
}

bool EngineImpl::loop_back(Tick now) {
  bool worked = false;
  for (;;) {
    const std::size_t n = loop_.peek(rx_packets_);
    if (n == 0) return worked;
    core_->on_rx({rx_packets_.data(), n}, now);
    loop_.pop(n);
    counters_.loop_frames += n;
    worked = true;
  }
}

bool EngineImpl::deliver_events(std::size_t limit) {
  bool worked = false;
  for (std::size_t round = 0; round < limit; ++round) {
    const std::size_t n = core_->poll_events(events_);
    for (std::size_t i = 0; i < n; ++i) {
      transport::Event event = events_[i];
      Endpoint* ep = endpoint(event.ep);
      if (ep == nullptr || ep->client == nullptr) continue;
      const transport::ConnId core = event.conn;
      event.conn = link_of(event.ep, core);
      if (Link* link = links_.at(event.conn); link != nullptr) {
        // Who takes this name next, or comes back to it, may be somewhere else.
        const bool over =
            event.kind == transport::EventKind::kConnFailed || event.kind == transport::EventKind::kConnClosed;
        if (over && link->core == core) link->recheck = true;
        if (event.status != transport::Status::kOk) explain(*link, event);
      }
      ep->client->on_event(event);
      worked = true;
    }
    if (n < events_.size()) break;
  }
  return worked;
}

std::size_t EngineImpl::room(std::span<std::uint16_t> out) {
  std::size_t sum = 0;
  for (unsigned p = 0; p < planes_count_; ++p) {
    Plane& plane = planes_[p];
    out[p] = 0;
    if (plane.port == nullptr || !plane.told_up) continue;
    if (plane.spares < kTxBurst) {
      plane.spares += plane.port->reserve({plane.spare.data() + plane.spares, kBurst - plane.spares});
    }
    out[p] = static_cast<std::uint16_t>(plane.spares);
    sum += plane.spares;
  }
  return sum;
}

bool EngineImpl::transmit(Tick now) {
  bool worked = false;
  for (unsigned round = 0; round < kTxRounds && core_->tx_pending(); ++round) {
    std::array<std::uint16_t, path::kMaxPlanes> rooms{};
    if (room({rooms.data(), planes_count_}) == 0) break;
    const std::size_t want = loops_ ? std::min(kTxBurst, loop_.room()) : kTxBurst;
    if (want == 0) break;
    const std::size_t n = core_->poll_tx({tx_packets_.data(), want}, {rooms.data(), planes_count_}, now);
    if (n == 0) break;
    worked = true;
    for (std::size_t i = 0; i < n; ++i) emit(tx_packets_[i], now);
    bool sent = false;
    for (unsigned p = 0; p < planes_count_; ++p) sent |= flush_plane(planes_[p]);
    if (sent) attachment_->sent();
    if (n < want) break;
  }
  return worked;
}

void EngineImpl::emit(const transport::TxPacket& packet, Tick now) {
  if (packet.hop == kHopLoopback) {
    if (!loop_.push(packet)) ++counters_.tx_no_room;
    return;
  }
  Plane& plane = planes_[packet.plane];
  if (plane.port == nullptr || plane.spares == 0) {
    ++counters_.tx_no_room;
    return;
  }
  const port::MacAddress* to = attachment_->next_hop(packet.plane, packet.hop, packet.destination, now);
  if (to == nullptr) {
    ++counters_.tx_no_neighbour;
    plane.neighbours = true;
    return;
  }
  port::TxFrame& frame = plane.spare[plane.spares - 1];
  const std::size_t length =
      write_frame(packet, {.to = *to, .from = plane.mac}, plane.rules.crc, {frame.data, plane.rules.max_frame});
  if (length == 0) {
    ++counters_.tx_unfit;
    return;
  }
  frame.length = static_cast<std::uint32_t>(length);
  if (capture_) [[unlikely]]
    capture_->frame({frame.data, length});
  const std::size_t inner = packet.outer ? wire::Ipv6Header::kSize : 0;
  tx_evs_.add(frame_ev({frame.data + kEthernet, length - kEthernet}, inner, config_.transport.wire.ev_split));
  plane.ready[plane.readies++] = frame;
  --plane.spares;
}

bool EngineImpl::flush_plane(Plane& plane) {
  if (plane.readies == 0) return false;
  counters_.tx_frames += plane.port->send({plane.ready.data(), plane.readies});
  plane.readies = 0;
  return true;
}

void EngineImpl::send_neighbours(unsigned index, Tick now) {
  Plane& plane = planes_[index];
  bool sent = false;
  while (attachment_->neighbours_pending(index, now)) {
    if (plane.spares == 0) plane.spares = plane.port->reserve({plane.spare.data(), kBurst});
    if (plane.spares == 0) break;
    port::TxFrame& frame = plane.spare[plane.spares - 1];
    const std::size_t length = attachment_->poll_neighbours(index, {frame.data, plane.rules.max_frame}, now);
    if (length == 0) break;
    frame.length = static_cast<std::uint32_t>(length);
    if (capture_) capture_->frame({frame.data, length});
    plane.ready[plane.readies++] = frame;
    --plane.spares;
    sent |= flush_plane(plane);
  }
  if (sent) attachment_->sent();
  plane.neighbours = false;
}

void EngineImpl::chores(Tick now) {
  chores_at_ = now + kChores;
  std::array<AttachmentNotice, 16> notices{};
  const std::size_t n = ports_dead_ ? 0 : attachment_->poll(notices, now);
  for (std::size_t i = 0; i < n; ++i) {
    const AttachmentNotice& notice = notices[i];
    switch (notice.kind) {
      case AttachmentNotice::Kind::kPeerGone:
        core_->peer_gone(notice.peer.inner(), now);
        break;
      case AttachmentNotice::Kind::kPlane:
        if (notice.plane < planes_count_) planes_[notice.plane].far_up = notice.up;
        break;
      case AttachmentNotice::Kind::kPortsDead:
        ports_dead_ = true;
        break;
    }
  }
  if (ports_dead_ && now >= restart_at_) restart_ports(now);
  if (now >= denylist_at_) reload_denylist(now);
  for (unsigned p = 0; p < planes_count_; ++p) {
    Plane& plane = planes_[p];
    plane.link_up = plane.port != nullptr && plane.port->link_up();
    const bool up = plane.link_up && plane.far_up;
    if (up != plane.told_up) {
      plane.told_up = up;
      core_->set_plane_up(p, up, now);
      log(1, "plane " + std::to_string(p) + (up ? " is up" : " is down"));
    }
    if (plane.port != nullptr) send_neighbours(p, now);
  }
}

// Nothing came. The caller may be waiting for something else, another transport or shared memory, that it looks for
// between its calls, and only it can know: give the processor to whoever is ready to run, but never sleep in a call
// that does not block. (Calls that do block sleep in wait.cpp.)
void EngineImpl::rest() {
  if (empty_passes_ < spin_passes_) {
    ++empty_passes_;
    __builtin_ia32_pause();
    return;
  }
  ++counters_.yields;
  yield_ = true;
}

}  // namespace mrc::engine
