// SPDX-License-Identifier: BSD-2-Clause
// The forwarder's sending side: bursts into rings, queues before full rings, delayed frames, wake-ups; and where
// members sit.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "forwarder.hpp"

namespace mrc::soft {
namespace {

/// Congestion Experienced in every IPv6 header that says ECT (RFC 3168). The iCRC does not cover the class.
bool mark_congested(std::span<std::byte> frame) {
  bool marked = false;
  auto* header = reinterpret_cast<std::uint8_t*>(frame.data()) + 14;
  for (std::size_t at = 14; at + 40 <= frame.size(); at += 40, header += 40) {
    if ((header[1] & 0x30) != 0) {
      header[1] |= 0x30;
      marked = true;
    }
    if (header[6] != wire::Ipv6Header::kNextIpv6) break;
  }
  return marked;
}

}  // namespace

void Forwarder::stage(Output& output, std::span<const std::byte> frame) {
  if (output.staged_count == output.staged.size()) flush(output);
  output.staged[output.staged_count++] = frame;
  if (output.listed) return;
  output.listed = true;
  staged_.push_back(&output);
}

void Forwarder::flush_staged() {
  for (Output* output : staged_) {
    flush(*output);
    output->listed = false;
  }
  staged_.clear();
}

void Forwarder::flush(Output& output) {
  const std::size_t n = std::exchange(output.staged_count, 0);
  std::size_t took = 0;
  if (output.waiting.empty()) {
    std::array<port::TxFrame, kBurst> frames;
    std::size_t reserved = output.port->reserve({frames.data(), n});
    for (std::size_t i = 0; i < reserved; ++i) {
      const auto& from = output.staged[i];
      frames[i].length = static_cast<std::uint32_t>(std::min<std::size_t>(from.size(), output.port->max_frame()));
      std::memcpy(frames[i].data, from.data(), frames[i].length);
    }
    if (reserved > 0) took = output.port->send({frames.data(), reserved});
  }
  for (std::size_t i = 0; i < took; ++i) output.tx_bytes += output.staged[i].size();
  sent(output, took);
  if (took == n) return;
  // A ring without a reader behind it is no queue: its frames are gone, as on a link that is down.
  const bool up = output.port->link_up();
  for (std::size_t i = took; i < n; ++i) {
    if (up) {
      hold(output, output.staged[i]);
    } else {
      ++output.tx_dropped;
      count_drop(output.plane, Drop::kNoReceiver);
    }
  }
}

void Forwarder::hold(Output& output, std::span<const std::byte> frame) {
  const std::uint32_t held = output.waiting.size() < options_.queue ? store_.put(frame) : FrameStore::kNone;
  if (held == FrameStore::kNone) {
    ++output.tx_dropped;
    count_drop(output.plane, Drop::kQueueFull);
    return;
  }
  if (output.waiting.size() >= options_.queue / 4 && mark_congested(store_.at(held))) {
    ++counters_[output.plane].marked;
  }
  if (output.waiting.empty()) waiting_.push_back(&output);
  output.waiting.push(store_, held);
}

bool Forwarder::retry_waiting() {
  bool any = false;
  for (Output* output : waiting_) {
    // A few first: copying a whole burst for a ring that is still full would be for nothing.
    for (std::size_t want = 4; !output->waiting.empty(); want = kBurst) {
      std::array<port::TxFrame, kBurst> frames;
      const std::size_t n = output->port->reserve({frames.data(), std::min<std::size_t>(want, output->waiting.size())});
      std::uint32_t held = output->waiting.front();
      for (std::size_t i = 0; i < n; ++i, held = store_.next(held)) {
        const auto from = store_.at(held);
        frames[i].length = static_cast<std::uint32_t>(from.size());
        std::memcpy(frames[i].data, from.data(), from.size());
      }
      const std::size_t took = n == 0 ? 0 : output->port->send({frames.data(), n});
      for (std::size_t i = 0; i < took; ++i) {
        output->tx_bytes += frames[i].length;
        store_.drop(output->waiting.pop(store_));
      }
      sent(*output, took);
      any |= took > 0;
      if (took < n || n == 0) break;
    }
    if (!output->waiting.empty() && !output->port->link_up()) output->waiting.clear(store_);
  }
  std::erase_if(waiting_, [](const Output* output) { return output->waiting.empty(); });
  return any;
}

bool Forwarder::release_delayed(Tick now) {
  bool any = false;
  DelayQueue::Entry entry;
  while (delayed_.pop(now, entry)) {
    any = true;
    Member* to = member(entry.member);
    if (to != nullptr && to->generation == entry.generation) {
      stage(to->outputs[entry.plane], store_.at(entry.frame));
      flush_staged();
    }
    store_.drop(entry.frame);
  }
  return any;
}

void Forwarder::sent(Output& output, std::size_t frames) {
  if (frames == 0) return;
  output.tx_frames += frames;
  if (Member* to = member(output.member)) to->kick = true;
}

void Forwarder::kick() {
  for (auto& member : members_) {
    if (!member || !member->kick) continue;
    member->kick = false;
    if (!control::must_wake(member->page->client_asleep)) continue;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(member->wake.get(), &one, sizeof one);
  }
}

Member* Forwarder::add(const path::Location* wish) {
  const auto slot = std::find(members_.begin(), members_.end(), nullptr);
  if (slot == members_.end()) return nullptr;
  path::Location place = options_.location;
  if (!uplinks_) {
    // In turn over the T0s, so that neighbours talk across T1s.
    unsigned t0 = next_t0_;
    if (wish != nullptr && wish->t0 < clos_.config().t0s) {
      t0 = wish->t0;
    } else {
      next_t0_ = (next_t0_ + 1) % clos_.config().t0s;
    }
    place = {static_cast<std::uint16_t>(t0), 0};
    const auto taken = [&](std::uint16_t nic) { return at({place.t0, nic}) != nullptr; };
    const unsigned nics = clos_.config().nics;
    if (wish != nullptr && wish->t0 == t0 && wish->nic < nics && !taken(wish->nic)) {
      place.nic = wish->nic;
    } else {
      while (taken(place.nic)) ++place.nic;  // ends: there are more places than slots
    }
  }
  auto made = std::make_unique<Member>();
  made->slot = static_cast<std::uint32_t>(slot - members_.begin());
  made->generation = ++generations_[made->slot];
  made->location = place;
  if (!uplinks_) places_[std::uint32_t{place.t0} << 16 | place.nic] = made->slot;
  *slot = std::move(made);
  ++count_;
  return slot->get();
}

void Forwarder::remove(std::uint32_t slot) {
  Member* gone = member(slot);
  if (gone == nullptr) return;
  const auto endpoints = gone->endpoints;
  for (const auto& key : endpoints) unbind(key);
  for (auto& output : gone->outputs) {
    output.waiting.clear(store_);
    std::erase(waiting_, &output);
  }
  if (!uplinks_) places_.erase(std::uint32_t{gone->location.t0} << 16 | gone->location.nic);
  members_[slot].reset();
  --count_;
}

}  // namespace mrc::soft
