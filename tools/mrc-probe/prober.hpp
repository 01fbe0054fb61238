// SPDX-License-Identifier: BSD-2-Clause
// Sends probes over every path and counts what comes back. A probe is an EV probe request from one of our addresses to
// the same address, with its path and number behind the header, and an iCRC: it is as long-lived as any MRC packet, and
// what comes back damaged counts as lost.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mrc/engine/attachment.hpp"
#include "mrc/engine/frame.hpp"
#include "mrc/engine/identity.hpp"
#include "mrc/probe/mesh.hpp"
#include "mrc/random.hpp"
#include "options.hpp"

namespace mrc::tool {

class Prober {
 public:
  /// Attaches, finds the fabric's shape and registers an address for the probes.
  static Result<std::unique_ptr<Prober>> open(const Options& options);
  ~Prober();
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  const probe::Shape& shape() const { return shape_; }
  std::string describe() const { return attachment_->describe(); }
  /// One round. Ends early when *stop turns true.
  Result<std::vector<probe::Result>> run(const volatile bool& stop);
  /// Planes over which no probe could leave in the last round, and why.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct PathState {
    std::uint64_t sent = 0, came = 0;
    std::vector<bool> back;  ///< by number: a duplicate counts once
  };
  struct Plane {
    port::Port* port = nullptr;
    engine::FrameRules rules{};
    std::uint64_t no_neighbour = 0, full = 0, sent = 0;
  };

  explicit Prober(const Options& options) : options_(options), random_(options.seed) {}
  Result<void> attach();
  void receive(Tick now);
  void take(std::span<const std::byte> l3);
  void send(std::uint32_t path, Tick now);
  void neighbours(unsigned plane, Tick now);
  std::size_t write(std::uint32_t path, std::uint64_t number, const port::MacAddress& to, std::span<std::byte> out);

  Options options_;
  Random random_;
  std::unique_ptr<engine::Attachment> attachment_;
  engine::Reservation name_;
  bool registered_ = false;
  path::Route route_{};
  wire::Ipv6Address inner_{};
  probe::Shape shape_{};
  std::vector<probe::Path> paths_;
  std::vector<PathState> state_;
  std::vector<Plane> planes_;
  std::vector<std::string> notes_;
  std::uint32_t round_ = 0;
};

}  // namespace mrc::tool
