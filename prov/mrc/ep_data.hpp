// SPDX-License-Identifier: BSD-2-Clause
// What the data-path calls share: gathering arguments into a Transmit or Receive, and the meaning of flags.
#pragma once

#include <array>

#include "endpoint.hpp"

namespace mrc::prov {

/// Flags that say when an operation is complete; *msg calls without any use the endpoint's.
inline constexpr std::uint64_t kCompletionLevels =
    FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_COMMIT_COMPLETE;
inline constexpr std::uint64_t kAckLevels = FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_COMMIT_COMPLETE;

inline Endpoint& endpoint_of(fid_ep* ep) {
  return self_of<Endpoint>(ep);
}

/// The user's buffers in our form. size() > kMaxIov entries are refused by the messenger.
class Pieces {
 public:
  Pieces(const void* buffer, std::size_t length) : count_(1) { pieces_[0] = {buffer, length}; }
  Pieces(const iovec* iov, std::size_t count) : count_(count) {
    for (std::size_t i = 0; i < count && i < pieces_.size(); ++i) pieces_[i] = {iov[i].iov_base, iov[i].iov_len};
  }
  bool fits() const { return count_ <= pieces_.size(); }
  std::span<const engine::GatherPiece> span() const { return {pieces_.data(), count_}; }
  std::size_t length() const {
    std::size_t n = 0;
    for (const auto& piece : span()) n += piece.length;
    return n;
  }

 private:
  std::size_t count_;
  std::array<engine::GatherPiece, msg::kMaxIov> pieces_;
};

/// Sets signal, inject and want_ack of a call that has no flags of its own.
inline void apply_default_flags(const Endpoint& ep, std::size_t length, msg::Transmit& t) {
  const auto flags = ep.tx_flags();
  t.signal = ep.signals_tx(flags);
  t.inject = (flags & FI_INJECT) != 0 && length <= ep.inject_size();
  t.want_ack = (flags & kAckLevels) != 0;
  t.trigger = (flags & FI_TRIGGER) != 0;
}

/// The same for *msg calls: their flags replace the endpoint's, except for the level of completion.
inline void apply_flags(const Endpoint& ep, std::uint64_t flags, msg::Transmit& t) {
  t.signal = ep.signals_tx(flags);
  t.inject = (flags & FI_INJECT) != 0;
  t.want_ack = ((flags & kCompletionLevels) != 0 ? flags : ep.tx_flags()) & kAckLevels;
  t.has_data = (flags & FI_REMOTE_CQ_DATA) != 0;
  t.fence = (flags & FI_FENCE) != 0;
  t.more = (flags & FI_MORE) != 0;
  t.trigger = (flags & FI_TRIGGER) != 0;
  t.asked = (flags & FI_COMPLETION) != 0;
}

inline ssize_t send_call(fid_ep* fid, bool tagged, const Pieces& pieces, fi_addr_t to, std::uint64_t tag, bool has_data,
                         std::uint64_t data, void* context) {
  Endpoint& ep = endpoint_of(fid);
  if (!pieces.fits()) return -FI_EINVAL;
  msg::Transmit t;
  t.tagged = tagged;
  t.pieces = pieces.span();
  t.tag = tag;
  t.has_data = has_data;
  t.data = data;
  t.context = context;
  apply_default_flags(ep, pieces.length(), t);
  const Endpoint::Lock lock(ep.engine());
  return ep.transmit(t, to);
}

inline ssize_t inject_call(fid_ep* fid, bool tagged, const void* buffer, std::size_t length, fi_addr_t to,
                           std::uint64_t tag, bool has_data, std::uint64_t data) {
  Endpoint& ep = endpoint_of(fid);
  const Pieces pieces(buffer, length);
  msg::Transmit t;
  t.tagged = tagged;
  t.pieces = pieces.span();
  t.tag = tag;
  t.has_data = has_data;
  t.data = data;
  t.inject = true;
  t.signal = false;
  const Endpoint::Lock lock(ep.engine());
  return ep.transmit(t, to);
}

inline ssize_t receive_call(fid_ep* fid, bool tagged, const Pieces& pieces, fi_addr_t from, std::uint64_t tag,
                            std::uint64_t ignore, void* context, std::uint64_t flags) {
  Endpoint& ep = endpoint_of(fid);
  if (!pieces.fits()) return -FI_EINVAL;
  msg::Receive r;
  r.tagged = tagged;
  r.pieces = pieces.span();
  r.tag = tag;
  r.ignore = ignore;
  r.context = context;
  r.signal = ep.signals_rx(flags);
  r.multi = (flags & FI_MULTI_RECV) != 0;
  EndpointName name;
  const Endpoint::Lock lock(ep.engine());
  if (!ep.can_receive()) return ep.cannot_receive();
  if (!ep.source(tagged, from, &name, &r.from)) return -FI_EINVAL;
  if ((flags & FI_PEEK) != 0 && !ep.room()) return -FI_EAGAIN;
  if ((flags & FI_PEEK) != 0) return ep.table().peek(r, (flags & FI_CLAIM) != 0, (flags & FI_DISCARD) != 0);
  if ((flags & FI_CLAIM) != 0) return ep.table().claim(r, (flags & FI_DISCARD) != 0);
  if ((flags & FI_DISCARD) != 0) return -FI_EINVAL;
  if ((flags & FI_TRIGGER) != 0) {
    r.asked = (flags & FI_COMPLETION) != 0;
    return r.multi ? -FI_ENOSYS : ep.defer(r);
  }
  return ep.receive(r);
}

}  // namespace mrc::prov
