// SPDX-License-Identifier: BSD-2-Clause
// RFC 4861 NS and NA, as far as two endpoints on an Ethernet link need them. Everything is bounded: the cache by its
// capacity, solicitations by a per-address back-off, answers by a small queue.
#include "mrc/port/neighbour.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

namespace mrc::port {
namespace {

constexpr std::size_t kEthernet = 14;
constexpr std::size_t kIpv6 = 40;
constexpr std::size_t kMessage = 24;  // NS and NA without options
constexpr std::size_t kOption = 8;    // link-layer address
constexpr std::size_t kFrame = kEthernet + kIpv6 + kMessage + kOption;
constexpr std::uint8_t kIcmp6 = 58;
constexpr std::uint8_t kSolicitation = 135, kAdvertisement = 136;
constexpr std::uint8_t kSourceOption = 1, kTargetOption = 2;
constexpr std::uint8_t kSolicited = 0x40, kOverride = 0x20;
constexpr std::size_t kAnswerLimit = 64;
constexpr Duration kFirstWait = milliseconds(1);
constexpr Duration kLongestWait = milliseconds(250);  // somebody is waiting: a peer that starts late is found soon
/// An address that nobody asks for any more is not solicited any more either.
constexpr Duration kForget = seconds(3);

using Address = wire::Ipv6Address;

std::uint8_t u8(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<std::uint8_t>(bytes[at]);
}
std::uint16_t u16(std::span<const std::byte> bytes, std::size_t at) {
  return static_cast<std::uint16_t>(u8(bytes, at) << 8 | u8(bytes, at + 1));
}

Address address_at(std::span<const std::byte> bytes, std::size_t at) {
  Address address;
  std::memcpy(address.bytes.data(), bytes.data() + at, address.bytes.size());
  return address;
}

bool is_multicast(const Address& address) {
  return address.bytes[0] == 0xff;
}
bool is_unspecified(const Address& address) {
  return address == Address{};
}
bool is_unicast(const MacAddress& mac) {
  return (mac[0] & 1) == 0 && mac != MacAddress{};
}

/// ff02::1:ffXX:XXXX (RFC 4291, 2.7.1)
Address solicited_node(const Address& target) {
  Address group{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0xff}};
  std::copy(target.bytes.begin() + 13, target.bytes.end(), group.bytes.begin() + 13);
  return group;
}

/// 33:33 and the group's last 32 bits (RFC 2464, 7)
MacAddress multicast_mac(const Address& group) {
  return {0x33, 0x33, group.bytes[12], group.bytes[13], group.bytes[14], group.bytes[15]};
}

/// The ICMPv6 checksum over the pseudo-header (RFC 8200, 8.1); 0 when `message` carries its own, right one.
std::uint16_t icmp6_checksum(std::span<const std::byte> addresses, std::span<const std::byte> message) {
  std::uint32_t sum = static_cast<std::uint32_t>(message.size()) + kIcmp6;
  for (std::size_t i = 0; i < addresses.size(); i += 2) sum += u16(addresses, i);
  for (std::size_t i = 0; i + 1 < message.size(); i += 2) sum += u16(message, i);
  if (message.size() % 2 != 0) sum += static_cast<std::uint32_t>(u8(message, message.size() - 1)) << 8;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

struct Outgoing {
  std::uint8_t type = kSolicitation;
  std::uint8_t flags = 0;
  MacAddress to_mac{};
  Address source, destination, target;
};

std::size_t write_frame(std::span<std::byte> out, const MacAddress& own, const Outgoing& message) {
  if (out.size() < kFrame) return 0;
  std::memset(out.data(), 0, kFrame);
  const auto put = [&](std::size_t at, auto value) { out[at] = static_cast<std::byte>(value); };
  std::memcpy(&out[0], message.to_mac.data(), 6);
  std::memcpy(&out[6], own.data(), 6);
  put(12, 0x86), put(13, 0xdd);
  put(14, 0x60);
  put(18, 0), put(19, kMessage + kOption);
  put(20, kIcmp6), put(21, 255);
  std::memcpy(&out[22], message.source.bytes.data(), 16);
  std::memcpy(&out[38], message.destination.bytes.data(), 16);
  put(54, message.type), put(58, message.flags);
  std::memcpy(&out[62], message.target.bytes.data(), 16);
  put(78, message.type == kSolicitation ? kSourceOption : kTargetOption), put(79, 1);
  std::memcpy(&out[80], own.data(), 6);
  const std::uint16_t checksum = icmp6_checksum(out.subspan(22, 32), out.subspan(54, kMessage + kOption));
  put(56, checksum >> 8), put(57, checksum & 0xff);
  return kFrame;
}

}  // namespace

struct NeighbourCache::State {
  struct Entry {
    Address address;
    std::optional<MacAddress> mac;
    Tick used{};        ///< for eviction, and for giving up on silent addresses
    Tick due = kNever;  ///< the next solicitation
    Duration wait = kFirstWait;
  };

  MacAddress own_mac{};
  std::size_t capacity = 0;
  std::vector<Entry> entries;
  std::vector<Address> own;
  std::deque<Outgoing> answers;

  Entry* find(const Address& address) {
    const auto found = std::ranges::find(entries, address, &Entry::address);
    return found == entries.end() ? nullptr : &*found;
  }

  Entry& make(const Address& address, Tick now) {
    if (entries.size() < capacity) {
      entries.push_back({address, std::nullopt, now, kNever, kFirstWait});
      return entries.back();
    }
    auto& oldest = *std::ranges::min_element(entries, {}, &Entry::used);
    oldest = {address, std::nullopt, now, kNever, kFirstWait};
    return oldest;
  }

  bool is_own(const Address& address) const { return std::ranges::find(own, address) != own.end(); }

  void set(const Address& address, const MacAddress& mac, Tick now) {
    if (is_multicast(address) || is_unspecified(address) || !is_unicast(mac) || is_own(address)) return;
    Entry* entry = find(address);
    if (entry == nullptr) entry = &make(address, now);
    entry->mac = mac;
    entry->due = kNever;
    entry->wait = kFirstWait;
  }

  void on_solicitation(const Address& source, const Address& target, const std::optional<MacAddress>& link, Tick now) {
    if (is_multicast(target)) return;
    if (link && !is_unspecified(source)) set(source, *link, now);
    if (!is_own(target) || answers.size() >= kAnswerLimit) return;
    Outgoing answer{kAdvertisement, kOverride, {}, target, {}, target};
    if (is_unspecified(source)) {  // duplicate address detection: tell all nodes
      answer.destination = Address{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
      answer.to_mac = multicast_mac(answer.destination);
    } else {
      const Entry* asker = find(source);
      if (asker == nullptr || !asker->mac) return;  // it did not say where it is
      answer.flags |= kSolicited;
      answer.destination = source;
      answer.to_mac = *asker->mac;
    }
    answers.push_back(answer);
  }

  void on_advertisement(const Address& target, std::uint8_t flags, const std::optional<MacAddress>& link, Tick now) {
    Entry* entry = find(target);
    if (entry == nullptr || !link) return;  // RFC 4861, 7.2.5: silently discarded
    if (entry->mac && *entry->mac != *link && (flags & kOverride) == 0) return;
    set(target, *link, now);
  }
};

NeighbourCache::NeighbourCache(MacAddress own_mac, std::size_t capacity) : state_(std::make_unique<State>()) {
  state_->own_mac = own_mac;
  state_->capacity = std::max<std::size_t>(capacity, 1);
  state_->entries.reserve(state_->capacity);
}

NeighbourCache::~NeighbourCache() = default;

void NeighbourCache::add_own(const wire::Ipv6Address& address) {
  if (!state_->is_own(address)) state_->own.push_back(address);
  std::erase_if(state_->entries, [&](const State::Entry& entry) { return entry.address == address; });
}

void NeighbourCache::remove_own(const wire::Ipv6Address& address) {
  std::erase(state_->own, address);
}

const MacAddress* NeighbourCache::lookup(const wire::Ipv6Address& next_hop, Tick now) {
  State::Entry* entry = state_->find(next_hop);
  if (entry == nullptr) {
    entry = &state_->make(next_hop, now);
    entry->due = now;
  }
  if (!entry->mac && entry->due == kNever) entry->due = now;
  entry->used = now;
  return entry->mac ? &*entry->mac : nullptr;
}

void NeighbourCache::learn(const wire::Ipv6Address& address, const MacAddress& mac, Tick now) {
  state_->set(address, mac, now);
}

bool NeighbourCache::on_frame(std::span<const std::byte> frame, Tick now) {
  if (frame.size() < kEthernet + kIpv6 + 1 || u16(frame, 12) != 0x86dd || u8(frame, 14) >> 4 != 6 ||
      u8(frame, 20) != kIcmp6)
    return false;
  const std::uint8_t type = u8(frame, 54);
  if (type != kSolicitation && type != kAdvertisement) return false;
  // From here on the frame is dealt with: what does not hold (RFC 4861, 7.1) is dropped.
  const std::size_t length = u16(frame, 18);
  if (length < kMessage || frame.size() < kEthernet + kIpv6 + length) return true;
  const auto message = frame.subspan(54, length);
  if (u8(frame, 21) != 255 || u8(message, 1) != 0 || icmp6_checksum(frame.subspan(22, 32), message) != 0) return true;
  const Address source = address_at(frame, 22), destination = address_at(frame, 38), target = address_at(message, 8);
  if (is_multicast(source) || is_multicast(target)) return true;

  std::optional<MacAddress> link;
  const std::uint8_t wanted = type == kSolicitation ? kSourceOption : kTargetOption;
  for (std::size_t at = kMessage; at < length;) {
    const std::size_t size = length - at < 2 ? 0 : std::size_t{u8(message, at + 1)} * 8;
    if (size == 0 || size > length - at) return true;
    if (u8(message, at) == wanted && size == kOption) {
      MacAddress mac;
      std::memcpy(mac.data(), &message[at + 2], mac.size());
      if (is_unicast(mac)) link = mac;
    }
    at += size;
  }
  if (type == kSolicitation) {
    if (is_unspecified(source) && (link || destination != solicited_node(target))) return true;
    state_->on_solicitation(source, target, link, now);
  } else {
    if (is_multicast(destination) && (u8(message, 4) & kSolicited) != 0) return true;
    state_->on_advertisement(target, u8(message, 4), link, now);
  }
  return true;
}

std::size_t NeighbourCache::poll_tx(std::span<std::byte> out, Tick now) {
  auto& state = *state_;
  if (out.size() < kFrame) return 0;
  if (!state.answers.empty()) {
    const Outgoing answer = state.answers.front();
    state.answers.pop_front();
    return write_frame(out, state.own_mac, answer);
  }
  if (state.own.empty()) return 0;  // a solicitation needs an address to be answered to
  for (auto& entry : state.entries) {
    if (entry.mac || entry.due > now) continue;
    if (now - entry.used > kForget) {
      entry.due = kNever;
      continue;
    }
    entry.due = now + entry.wait;
    entry.wait = std::min(entry.wait * 2, kLongestWait);
    const Address group = solicited_node(entry.address);
    return write_frame(out, state.own_mac,
                       {kSolicitation, 0, multicast_mac(group), state.own.front(), group, entry.address});
  }
  return 0;
}

bool NeighbourCache::tx_pending(Tick now) const {
  if (!state_->answers.empty()) return true;
  if (state_->own.empty()) return false;
  return std::ranges::any_of(state_->entries, [&](const State::Entry& entry) {
    return !entry.mac && entry.due <= now && now - entry.used <= kForget;
  });
}

}  // namespace mrc::port
