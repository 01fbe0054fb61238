// SPDX-License-Identifier: BSD-2-Clause
// The control socket: who is attached, which endpoints they have, and what tools ask for. Non-blocking; one thread with
// the forwarder. A client's connection is its life: when it breaks, its ports, endpoints and slot go, and the others
// are told.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "forwarder.hpp"
#include "mrc/control/protocol.hpp"
#include "mrc/fabric/timeline.hpp"

namespace mrc::soft {

class Server {
 public:
  /// Binds the socket. EADDRINUSE if another switch serves it.
  static Result<std::unique_ptr<Server>> open(const Options& options, Forwarder& forwarder, PortPool& ports);
  ~Server();

  /// Serves the socket; waits for up to `timeout_ms` for something to happen (messages, a client's kick, a signal).
  void poll(int timeout_ms);
  /// Ends a waiting poll(); async-signal-safe.
  static void interrupt();

  /// What happens by the clock alone: the timeline's commands, flapping links. To be called at next_event().
  void tick(Tick now);
  Tick next_event() const { return next_event_; }

  /// Tells clients that the forwarder is about to sleep (or is awake).
  void announce_sleep(bool asleep);
  /// True when nobody has been attached for long enough.
  bool may_leave(Tick now) const;
  const std::string& socket_path() const { return path_; }

  // For commands:
  std::string stats_json() const;
  std::string list_json() const;
  std::string status_json(Tick now) const;
  /// An aligned table of what is not at its default, or of everything that is used.
  std::string status_table(Tick now, bool all) const;
  /// One command of the fabric's language; clients are told what changed for them.
  Result<void> apply(const std::string& text, Tick now);
  /// Starts a script of commands (in place of an earlier one), after checking all of it.
  Result<void> start_timeline(const std::string& path, Tick now);
  /// Whether the one of the command line can be read and fits.
  Result<void> check_timeline() const;
  void stop_timeline() { timeline_ = {}; }
  const Options& options() const { return options_; }
  Forwarder& forwarder() { return forwarder_; }

 private:
  struct Connection {
    std::uint64_t id = 0;
    control::Fd socket;
    std::deque<std::string> outbox;
    std::uint32_t member = UINT32_MAX;  ///< slot, if it is a client
    bool writable_wanted = false;
    bool broken = false;
  };

  Server(const Options& options, Forwarder& forwarder, PortPool& ports)
      : options_(options), forwarder_(forwarder), ports_(ports) {}
  Result<void> bind();
  void accept_all();
  void serve(Connection& connection);
  void handle(Connection& connection, const control::Message& message);
  void close(std::uint64_t id);

  void on_hello(Connection& connection, const control::Message& message);
  Result<void> open_ports(Member& member);
  void welcome(Connection& connection, std::uint32_t sequence, Member& member);
  void on_register(Connection& connection, const control::Message& message);
  void on_unregister(Connection& connection, const control::Message& message);
  void on_lookup(Connection& connection, const control::Message& message);
  void on_command(Connection& connection, const control::Message& message);

  void tell_carriers(Tick now);
  void plan_next_event(Tick now);
  Result<fabric::Timeline> load_timeline(const std::string& path) const;
  Result<void> refuse_with_uplinks(const std::string& text) const;

  void queue(Connection& connection, std::string record);
  void push(Connection& connection);
  void done(Connection& connection, std::uint32_t sequence, int code, std::string_view text);
  void broadcast(const std::string& record, std::uint64_t except);
  bool is_local(std::uint32_t ipv4);

  Options options_;
  Forwarder& forwarder_;
  PortPool& ports_;
  std::string path_, folder_;
  control::Fd lock_, listener_, epoll_, wake_;
  std::uint64_t incarnation_ = 0;
  std::uint64_t next_id_ = 1;
  std::uint32_t memif_serial_ = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::vector<std::uint64_t> broken_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> waiting_;  ///< endpoint → connections that asked
  std::size_t waiting_total_ = 0;
  std::unordered_set<std::uint32_t> local_;  ///< this machine's addresses, and those of clients
  Tick local_checked_{INT64_MIN};
  Tick alone_since_{};
  bool had_client_ = false;
  fabric::Timeline timeline_;
  std::string timeline_name_;  ///< empty: none was started
  Tick next_event_ = kNever;
  std::uint64_t bad_messages_ = 0;
};

/// One command of `mrc-switch ctl`, run on the server. The text goes back to the tool.
Result<std::string> run_command(Server& server, const std::string& words);

}  // namespace mrc::soft
