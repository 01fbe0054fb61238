// SPDX-License-Identifier: BSD-2-Clause
// Opening and serving the uplinks.
#include "uplink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace mrc::soft {

Result<std::unique_ptr<Uplinks>> Uplinks::open(const Options& options, const std::string& directory) {
  auto out = std::make_unique<Uplinks>();
  out->mtu_ = options.mtu;
  for (const auto& text : options.uplinks) {
    auto spec = port::parse_port(text);
    if (!spec) return tl::make_unexpected(spec.error());
    auto layer = port::layer_for(spec->kind, directory);
    if (!layer) return tl::make_unexpected(layer.error());
    if (auto started = (*layer)->start({}); !started) return tl::make_unexpected(started.error());
    auto opened = (*layer)->open(*spec);
    if (!opened) return tl::make_unexpected(opened.error());
    auto plane = std::make_unique<Plane>();
    plane->output.plane = static_cast<std::uint8_t>(out->planes_.size());
    plane->neighbours = std::make_unique<port::NeighbourCache>((*opened)->mac(), 4096);
    out->mtu_ = std::min(out->mtu_, (*opened)->mtu());
    plane->output.port = std::move(*opened);
    out->planes_.push_back(std::move(plane));
  }
  return out;
}

void Uplinks::add_own(const wire::Ipv6Address& address) {
  for (auto& plane : planes_) plane->neighbours->add_own(address);
}

void Uplinks::remove_own(const wire::Ipv6Address& address) {
  for (auto& plane : planes_) plane->neighbours->remove_own(address);
}

bool Uplinks::address(unsigned plane, std::span<std::byte> frame, const wire::Ipv6Address& next_hop, Tick now) {
  const auto* mac = planes_[plane]->neighbours->lookup(next_hop, now);
  if (mac == nullptr) return false;
  std::memcpy(frame.data(), mac->data(), 6);
  std::memcpy(frame.data() + 6, planes_[plane]->output.port->mac().data(), 6);
  return true;
}

bool Uplinks::send_neighbour_frames(Tick now) {
  bool any = false;
  for (auto& plane : planes_) {
    while (plane->neighbours->tx_pending(now)) {
      port::TxFrame frame;
      if (plane->output.port->reserve({&frame, 1}) == 0) break;
      frame.length =
          static_cast<std::uint32_t>(plane->neighbours->poll_tx({frame.data, plane->output.port->max_frame()}, now));
      if (frame.length == 0) {
        plane->output.port->cancel({&frame, 1});
        break;
      }
      plane->output.port->send({&frame, 1});
      any = true;
    }
  }
  return any;
}

}  // namespace mrc::soft
