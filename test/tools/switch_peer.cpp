// SPDX-License-Identifier: BSD-2-Clause
// A client of mrc-switch for the end-to-end tests: attaches, opens its memif ports, and does what lines on stdin say
// ("send", "receive", …), one line of answer each. EAL can be started once per process, so each client is a process.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <map>
#include <sstream>

#include "mrc/control/client.hpp"
#include "mrc/control/runtime.hpp"
#include "mrc/path/address.hpp"
#include "mrc/path/route.hpp"
#include "mrc/port/port.hpp"
#include "mrc/random.hpp"
#include "mrc/wire/ip.hpp"

namespace {

using namespace mrc;

constexpr std::size_t kEthernet = 14, kHeaders = 14 + 40 + 40 + 8;

struct Stamp {
  std::uint32_t magic = 0x4d524321, sequence = 0;
  std::uint16_t plane = 0, uplink = 0;
  std::uint32_t length = 0;
};

std::byte pattern(const Stamp& stamp, std::size_t i) {
  return static_cast<std::byte>(stamp.sequence * 131 + stamp.plane * 17 + stamp.uplink * 7 + i);
}

std::uint32_t ipv4_of(const std::string& text) {
  in_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 ? ntohl(address.s_addr) : 0;
}

class Peer {
 public:
  bool start(const control::AttachOptions& options) {
    ipv4_ = options.ipv4;
    auto attached = control::SwitchClient::attach(options);
    if (!attached) return say(attached.error());
    client_ = std::move(*attached);
    if (auto started = port::builtin_layer().start({}); !started) return say(started.error());
    return open_ports();
  }

  bool open_ports() {
    ports_.clear();
    const auto& info = client_->info();
    for (const auto& plane : info.planes) {
      port::MemifOptions memif;
      memif.socket_path = plane.memif_path;
      memif.id = plane.memif_id;
      memif.mtu = info.mtu;
      memif.ring_log2 = info.ring_log2;
      auto opened = port::builtin_layer().open_memif(memif);
      if (!opened) return say(opened.error());
      ports_.push_back(std::move(*opened));
    }
    const Tick deadline = control::monotonic_now() + seconds(5);
    for (const auto& port : ports_) {
      while (!port->link_up()) {
        if (control::monotonic_now() > deadline) return say({ETIMEDOUT, "link does not come up"});
        ::usleep(500);
      }
    }
    std::cout << fmt::format("attached t0={} nic={} planes={} uplinks={} switch={} srv6={}", info.location.t0,
                             info.location.nic, info.planes.size(), info.uplinks, info.pid, info.srv6)
              << std::endl;
    return true;
  }

  void run() {
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string verb;
      words >> verb;
      if (verb == "register")
        on_register(words);
      else if (verb == "unregister")
        on_unregister(words);
      else if (verb == "lookup")
        on_lookup(words);
      else if (verb == "send")
        on_send(words);
      else if (verb == "garbage")
        on_garbage(words);
      else if (verb == "receive")
        on_receive(words);
      else if (verb == "notices")
        on_notices(words);
      else if (verb == "echo")
        on_echo(words);
      else if (verb == "ping")
        on_ping(words);
      else if (verb == "reattach")
        on_reattach();
      else if (verb == "quit")
        return;
      else
        std::cout << "what?" << std::endl;
    }
  }

 private:
  static bool say(const Error& error) {
    std::cout << fmt::format("error {} {}", error.code, error.text) << std::endl;
    return false;
  }
  static void say(const Result<void>& result) {
    if (!result) {
      say(result.error());
    } else {
      std::cout << "ok" << std::endl;
    }
  }

  void on_register(std::istream& words) {
    std::string host;
    unsigned port = 0;
    words >> host >> port;
    say(client_->register_endpoint(ipv4_of(host), static_cast<std::uint16_t>(port)));
  }

  void on_unregister(std::istream& words) {
    std::string host;
    unsigned port = 0;
    words >> host >> port;
    say(client_->unregister_endpoint(ipv4_of(host), static_cast<std::uint16_t>(port)));
  }

  path::Directory::Answer find(std::uint32_t ipv4, std::uint16_t port, path::Location& out) {
    auto answer = path::Directory::Answer::kPending;
    for (int i = 0; i < 2000 && answer == path::Directory::Answer::kPending; ++i) {
      answer = client_->lookup(ipv4, port, out);
      if (answer == path::Directory::Answer::kPending) ::usleep(1000);
    }
    return answer;
  }

  void on_lookup(std::istream& words) {
    std::string host;
    unsigned port = 0;
    words >> host >> port;
    path::Location location;
    switch (find(ipv4_of(host), static_cast<std::uint16_t>(port), location)) {
      case path::Directory::Answer::kFound:
        std::cout << fmt::format("found t0={} nic={}", location.t0, location.nic) << std::endl;
        break;
      case path::Directory::Answer::kUnknown:
        std::cout << "unknown" << std::endl;
        break;
      case path::Directory::Answer::kNoRoute:
        std::cout << "noroute " << client_->why_no_route(ipv4_of(host)) << std::endl;
        break;
      case path::Directory::Answer::kPending:
        std::cout << "pending" << std::endl;
        break;
    }
  }

  /// Writes one frame from `from` to `to`; returns its length.
  std::size_t build(std::byte* out, const path::EndpointAddress& from, const path::EndpointAddress& to,
                    path::Location location, const Stamp& stamp) {
    const auto& info = client_->info();
    std::memset(out, 0, kEthernet);
    out[12] = std::byte{0x86};
    out[13] = std::byte{0xdd};
    std::size_t at = kEthernet;
    wire::Ipv6Header inner;
    inner.payload_length = static_cast<std::uint16_t>(8 + stamp.length);
    inner.source = from.inner();
    inner.destination = to.inner();
    inner.traffic_class = wire::kEcnEct0;
    if (info.srv6) {
      path::Route route;
      route.mode = path::RouteMode::kSrv6;
      route.planes = static_cast<std::uint8_t>(info.planes.size());
      route.uplinks = info.uplinks;
      route.locator = info.locator;
      route.usid = info.usid;
      route.local = info.location;
      route.remote = location;
      wire::Ipv6Header outer = inner;
      outer.payload_length = static_cast<std::uint16_t>(40 + inner.payload_length);
      outer.next_header = wire::Ipv6Header::kNextIpv6;
      outer.destination = route.outer_destination(path::EvLayout::make(stamp.plane, stamp.uplink, 0, 0));
      outer.encode(std::span<std::byte, 40>(out + at, 40));
      at += 40;
    }
    inner.encode(std::span<std::byte, 40>(out + at, 40));
    at += 40;
    wire::UdpHeader udp{0xc000, 4791, static_cast<std::uint16_t>(8 + stamp.length), 0};
    udp.encode(std::span<std::byte, 8>(out + at, 8));
    at += 8;
    for (std::size_t i = 0; i < stamp.length; ++i) out[at + i] = pattern(stamp, i);
    std::memcpy(out + at, &stamp, sizeof stamp);
    return at + stamp.length;
  }

  /// Tries again while the ring is full, or the port's control thread is at work. 1 if it went.
  unsigned send_one(const path::EndpointAddress& from, const path::EndpointAddress& to, path::Location location,
                    const Stamp& stamp) {
    // A rate holds the ring back for as long as it takes: by the clock, not by attempts.
    const Tick deadline = control::monotonic_now() + seconds(20);
    do {
      port::TxFrame frame;
      if (ports_[stamp.plane]->reserve({&frame, 1}) == 1) {
        frame.length = static_cast<std::uint32_t>(build(frame.data, from, to, location, stamp));
        if (ports_[stamp.plane]->send({&frame, 1}) == 1) return 1;
      }
      client_->kick_switch();
      ::sched_yield();
    } while (control::monotonic_now() < deadline);
    return 0;
  }

  /// send FROMHOST FROMPORT TOHOST TOPORT ROUNDS LENGTH: a round is one packet over each plane × uplink.
  void on_send(std::istream& words) {
    std::string from_host, to_host;
    unsigned from_port = 0, to_port = 0, rounds = 0, length = 0;
    words >> from_host >> from_port >> to_host >> to_port >> rounds >> length;
    const auto& info = client_->info();
    path::Location location;
    if (find(ipv4_of(to_host), static_cast<std::uint16_t>(to_port), location) != path::Directory::Answer::kFound) {
      say({ENOENT, "peer not found"});
      return;
    }
    const path::EndpointAddress from{info.fabric, info.location.t0, ipv4_of(from_host),
                                     static_cast<std::uint16_t>(from_port)};
    const path::EndpointAddress to{info.fabric, location.t0, ipv4_of(to_host), static_cast<std::uint16_t>(to_port)};
    unsigned sent = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      for (unsigned plane = 0; plane < ports_.size(); ++plane) {
        for (unsigned uplink = 0; uplink < info.uplinks; ++uplink) {
          const Stamp stamp{.sequence = round,
                            .plane = static_cast<std::uint16_t>(plane),
                            .uplink = static_cast<std::uint16_t>(uplink),
                            .length = length};
          sent += send_one(from, to, location, stamp);
        }
      }
      client_->kick_switch();
      if (round % 8 == 7) ::sched_yield();
    }
    client_->kick_switch();
    std::cout << "sent " << sent << std::endl;
  }

  /// garbage COUNT SEED: frames of random bytes, some with an IPv6 ethertype and version.
  void on_garbage(std::istream& words) {
    unsigned count = 0, seed = 0;
    words >> count >> seed;
    Random random(seed);
    for (unsigned i = 0; i < count; ++i) {
      auto& port = ports_[i % ports_.size()];
      port::TxFrame frame;
      if (port->reserve({&frame, 1}) == 0) continue;
      frame.length = 14 + random.below(i % 8 == 0 ? port->mtu() : 200);
      for (std::uint32_t b = 0; b < frame.length; ++b) frame.data[b] = static_cast<std::byte>(random.next());
      if (i % 2 == 0 && frame.length > 60) {
        frame.data[12] = std::byte{0x86};
        frame.data[13] = std::byte{0xdd};
        frame.data[14] = std::byte{0x60};
        frame.data[20] = static_cast<std::byte>(i % 4 == 0 ? 41 : 17);
        if (i % 6 == 0) frame.data[18] = std::byte{0};
      }
      port->send({&frame, 1});
      if (i % 16 == 15) {
        client_->kick_switch();
        ::sched_yield();
      }
    }
    client_->kick_switch();
    std::cout << "ok" << std::endl;
  }

  struct Tally {
    unsigned good = 0, bad = 0, duplicates = 0;
    std::map<std::uint64_t, unsigned> seen;
    std::map<std::uint32_t, unsigned> ways;
  };

  void check(std::span<const std::byte> frame, unsigned plane, Tally& tally) {
    const auto& info = client_->info();
    const std::size_t inner_at = kEthernet + (info.srv6 ? 40 : 0);
    if (frame.size() < inner_at + 48 + sizeof(Stamp)) {
      ++tally.bad;
      return;
    }
    bool good = true;
    if (info.srv6) {
      // Every switch shifted the carrier by one: what is left is our own uSID, alone.
      const auto outer = wire::Ipv6Header::decode(std::span<const std::byte, 40>(frame.data() + kEthernet, 40));
      const std::uint16_t own = info.usid.make(plane, path::UsidKind::kNic, info.location.nic);
      good = outer.destination == path::make_carrier(info.locator, std::span<const std::uint16_t>(&own, 1)) &&
             outer.next_header == 41;
    }
    const auto inner = wire::Ipv6Header::decode(std::span<const std::byte, 40>(frame.data() + inner_at, 40));
    const auto to = path::EndpointAddress::from_inner(inner.destination);
    good = good && to.ipv4 == ipv4_ && to.t0 == info.location.t0;
    Stamp stamp;
    std::memcpy(&stamp, frame.data() + inner_at + 48, sizeof stamp);
    good = good && stamp.magic == Stamp{}.magic && stamp.plane == plane && stamp.uplink < info.uplinks &&
           stamp.length >= sizeof stamp && frame.size() == inner_at + 48 + stamp.length;
    for (std::size_t i = sizeof stamp; good && i < stamp.length; ++i) {
      good = frame[inner_at + 48 + i] == pattern(stamp, i);
    }
    if (!good) {
      ++tally.bad;
      return;
    }
    const std::uint32_t way = std::uint32_t{stamp.plane} << 16 | stamp.uplink;
    if (tally.seen[std::uint64_t{way} << 32 | stamp.sequence]++ > 0) {
      ++tally.duplicates;
    } else {
      ++tally.good;
      ++tally.ways[way];
    }
  }

  /// receive COUNT MS: until COUNT good packets or MS milliseconds passed.
  void on_receive(std::istream& words) {
    unsigned count = 0, ms = 0;
    words >> count >> ms;
    Tally tally;
    const Tick deadline = control::monotonic_now() + milliseconds(ms);
    while (tally.good < count && control::monotonic_now() < deadline) {
      bool any = false;
      for (unsigned plane = 0; plane < ports_.size(); ++plane) {
        std::array<port::RxFrame, 32> frames;
        const std::size_t n = ports_[plane]->receive(frames);
        for (std::size_t i = 0; i < n; ++i) check(frames[i].data, plane, tally);
        ports_[plane]->release({frames.data(), n});
        any |= n > 0;
      }
      if (!any) ::sched_yield();
    }
    unsigned least = UINT32_MAX;
    for (const auto& [way, n] : tally.ways) least = std::min(least, n);
    std::cout << fmt::format("received good={} bad={} duplicates={} ways={} least={}", tally.good, tally.bad,
                             tally.duplicates, tally.ways.size(), tally.ways.empty() ? 0 : least)
              << std::endl;
  }

  /// Sleeps as the engine does, on the wake-up descriptor only; false after `ms` without one.
  bool sleep_for_frame(int ms, port::RxFrame& frame, unsigned& plane) {
    const auto look = [&] {
      for (plane = 0; plane < ports_.size(); ++plane) {
        if (ports_[plane]->receive({&frame, 1}) == 1) return true;
      }
      return false;
    };
    const Tick deadline = control::monotonic_now() + milliseconds(ms);
    for (;;) {
      if (look()) return true;
      client_->set_asleep(true);
      if (look()) {
        client_->set_asleep(false);
        return true;
      }
      // In slices: a port gives nothing while DPDK's control thread is at work, so the look above may be a false
      // "empty" once in a while. What only a slice's end finds is counted as late.
      pollfd wake{client_->wake_fd(), POLLIN, 0};
      const int n = ::poll(&wake, 1, 20);
      client_->set_asleep(false);
      if (n == 0) {
        if (look()) {
          ++late_;
          return true;
        }
        if (control::monotonic_now() > deadline) return false;
      }
      client_->drain_wake();
    }
  }

  /// echo COUNT: sends COUNT frames back where they came from, asleep in between.
  void on_echo(std::istream& words) {
    unsigned count = 0;
    words >> count;
    unsigned done = 0;
    for (; done < count; ++done) {
      port::RxFrame in;
      unsigned plane = 0;
      if (!sleep_for_frame(5000, in, plane)) break;
      const auto inner = wire::Ipv6Header::decode(std::span<const std::byte, 40>(in.data.data() + kEthernet + 40, 40));
      ports_[plane]->release({&in, 1});
      const auto to = path::EndpointAddress::from_inner(inner.source);
      const auto from = path::EndpointAddress::from_inner(inner.destination);
      path::Location location;
      if (find(to.ipv4, to.port, location) != path::Directory::Answer::kFound) break;
      send_one(from, to, location, {.sequence = done, .plane = static_cast<std::uint16_t>(plane), .length = 64});
      client_->kick_switch();
    }
    std::cout << fmt::format("echoed {} late={}", done, std::exchange(late_, 0)) << std::endl;
  }

  /// ping FROMHOST FROMPORT TOHOST TOPORT COUNT PAUSE_US: to an echoing peer; all three processes sleep in between.
  void on_ping(std::istream& words) {
    std::string from_host, to_host;
    unsigned from_port = 0, to_port = 0, count = 0, pause = 0;
    words >> from_host >> from_port >> to_host >> to_port >> count >> pause;
    const auto& info = client_->info();
    path::Location location;
    unsigned done = 0;
    if (find(ipv4_of(to_host), static_cast<std::uint16_t>(to_port), location) == path::Directory::Answer::kFound) {
      const path::EndpointAddress from{info.fabric, info.location.t0, ipv4_of(from_host),
                                       static_cast<std::uint16_t>(from_port)};
      const path::EndpointAddress to{info.fabric, location.t0, ipv4_of(to_host), static_cast<std::uint16_t>(to_port)};
      for (; done < count; ++done) {
        const unsigned plane = done % static_cast<unsigned>(ports_.size());
        send_one(from, to, location, {.sequence = done, .plane = static_cast<std::uint16_t>(plane), .length = 64});
        client_->kick_switch();
        port::RxFrame in;
        unsigned from_plane = 0;
        if (!sleep_for_frame(2000, in, from_plane)) break;
        ports_[from_plane]->release({&in, 1});
        if (pause > 0) ::usleep(pause);
      }
    }
    std::cout << fmt::format("pinged {} late={}", done, std::exchange(late_, 0)) << std::endl;
  }

  /// notices COUNT MS: waits for that many.
  void on_notices(std::istream& words) {
    unsigned count = 0, ms = 0;
    words >> count >> ms;
    const Tick deadline = control::monotonic_now() + milliseconds(ms);
    std::string text;
    for (unsigned got = 0; got < count && control::monotonic_now() < deadline;) {
      std::array<control::Notice, 16> notices;
      const std::size_t n = client_->poll(notices);
      for (std::size_t i = 0; i < n; ++i, ++got) {
        const auto& notice = notices[i];
        switch (notice.kind) {
          case control::NoticeKind::kEndpointGone:
            text += fmt::format(" gone:{}", notice.port);
            break;
          case control::NoticeKind::kEndpointClosed:
            text += fmt::format(" closed:{}", notice.port);
            break;
          case control::NoticeKind::kPlane:
            text += fmt::format(" plane:{}:{}", notice.plane, notice.up ? "up" : "down");
            break;
          case control::NoticeKind::kSwitchDied:
            text += " died";
            break;
        }
      }
      if (n == 0) {
        if (!client_->alive()) break;
        pollfd ready{client_->fd(), POLLIN, 0};
        ::poll(&ready, 1, 50);
      }
    }
    std::cout << "notices" << text << std::endl;
  }

  void on_reattach() {
    ports_.clear();
    if (auto again = client_->reattach(); !again) {
      say(again.error());
      return;
    }
    open_ports();
  }

  std::uint32_t ipv4_ = 0;
  unsigned late_ = 0;
  std::unique_ptr<control::SwitchClient> client_;
  std::vector<std::unique_ptr<port::Port>> ports_;
};

}  // namespace

/// switch_peer SOCKET IPV4 NAME, or with "auto:ROOT" as SOCKET: autostart under that root.
int main(int argc, char** argv) {
  if (argc < 4) return 2;
  control::AttachOptions options;
  const std::string socket = argv[1];
  if (socket.starts_with("auto:")) {
    options.runtime_root = socket.substr(5);
    std::string self(4096, '\0');
    const auto n = ::readlink("/proc/self/exe", self.data(), self.size());
    options.provider_directory = self.substr(0, self.rfind('/', static_cast<std::size_t>(n)));
  } else {
    options.socket = socket;
  }
  options.ipv4 = ipv4_of(argv[2]);
  options.name = argv[3];
  Peer peer;
  if (!peer.start(options)) return 1;
  peer.run();
  return 0;
}
