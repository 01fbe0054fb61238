// SPDX-License-Identifier: BSD-2-Clause
// The other process comes late, is killed in the middle, and comes back, or leaves in good order and another one takes
// its address; and an address that nobody has.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "talk.hpp"

namespace talk {
namespace {

constexpr char kOwnService[] = "7301", kVictimService[] = "7302";
constexpr std::uint16_t kVictimPort = 7302;
constexpr std::uint64_t kKey = 77;
constexpr std::size_t kMemory = 8 << 20;
constexpr std::size_t kLeave = 3;  ///< a message of this length tells the victim to leave

/// A victim(), killed at the latest when this goes away.
class Process {
 public:
  explicit Process(const char* self) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    const std::string theirs = std::to_string(fds[1]);
    pid_ = fork();
    if (pid_ == 0) {
      close(fds[0]);
      execl("/proc/self/exe", self, "victim", theirs.c_str(), kVictimService, nullptr);
      _exit(127);
    }
    CHECK(pid_ > 0);
    close(fds[1]);
    fd_ = fds[0];
  }
  ~Process() { kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    close(fd_);
    pid_ = 0;
  }
  /// It ends by itself.
  void wait() {
    int status = -1;
    CHECK(waitpid(pid_, &status, 0) == pid_ && status == 0);
    close(fd_);
    pid_ = 0;
  }
  Line line() const { return Line(fd_); }

 private:
  pid_t pid_ = 0;
  int fd_ = -1;
};

Name at(const Name& own, const char* ip, std::uint16_t port) {
  Name name = own;
  sockaddr_in address{};
  std::memcpy(&address, own.bytes, sizeof address);
  if (ip != nullptr) CHECK(inet_pton(AF_INET, ip, &address.sin_addr) == 1);
  address.sin_port = htons(port);
  std::memcpy(name.bytes, &address, sizeof address);
  return name;
}

void passed(const char* what, double start) {
  std::printf("   ok %-28s %6.0f ms\n", what, (now() - start) * 1e3);
  std::fflush(stdout);
}

/// The victim takes a message of any size and sends it back.
bool echo(Node& node, fi_addr_t peer, std::size_t length, std::uint32_t seed, double patience = 20) {
  Bytes out = pattern(length, seed), in(length);
  OK(fi_recv(node.ep, in.data(), length, nullptr, FI_ADDR_UNSPEC, &in));
  post(node.tx, [&] { return fi_send(node.ep, out.data(), length, nullptr, peer, &out); });
  const Done sent = take(node.tx, patience);
  Done got;
  if (sent.error != 0 || !try_take(node.rx, got, patience)) {
    OK(fi_cancel(&node.ep->fid, &in));
    CHECK(take(node.rx).error == FI_ECANCELED);
    return false;
  }
  CHECK(got.error == 0 && got.entry.op_context == &in && got.entry.len == length && in == out);
  return true;
}

void no_way(Node& node) {
  const double start = now();
  const fi_addr_t nowhere = node.insert(at(node.name(), "10.99.99.99", 1234));
  Bytes b(100), big(1 << 20);
  post(node.tx, [&] { return fi_send(node.ep, b.data(), b.size(), nullptr, nowhere, &b); });
  post(node.tx, [&] { return fi_write(node.ep, big.data(), big.size(), nullptr, nowhere, 0, 1, &big); });
  for (int i = 0; i < 2; ++i) CHECK(take(node.tx, 6).error != 0);
  passed("no way to 10.99.99.99", start);
}

/// Everything outstanding ends, in error or well, within seconds after the kill.
void killed(Node& node, fi_addr_t peer, Process& process) {
  constexpr int kEach = 6;
  Bytes out = pattern(kMemory, 1);
  std::vector<Bytes> in(kEach, Bytes(kMemory));
  int contexts[3 * kEach] = {};
  for (int i = 0; i < kEach; ++i) {
    post(node.tx, [&] { return fi_write(node.ep, out.data(), kMemory, nullptr, peer, 0, kKey, &contexts[3 * i]); });
    post(node.tx, [&] {
      return fi_read(node.ep, in[static_cast<std::size_t>(i)].data(), kMemory, nullptr, peer, 0, kKey,
                     &contexts[3 * i + 1]);
    });
    post(node.tx, [&] { return fi_tsend(node.ep, out.data(), kMemory, nullptr, peer, 5, &contexts[3 * i + 2]); });
  }
  for (const double until = now() + 0.01; now() < until;) turn(node.tx);
  process.kill();
  const double start = now();
  int errors = 0;
  for (int i = 0; i < 3 * kEach; ++i) {
    const Done done = take(node.tx, 8);
    if (done.error != 0) ++errors;
    auto* context = static_cast<int*>(done.entry.op_context);
    CHECK(context >= contexts && context < contexts + 3 * kEach && ++*context == 1);
  }
  CHECK(errors >= kEach);  // nobody ever received tag 5
  const double took = now() - start;
  CHECK(took < 8);
  Done none;
  CHECK(!try_take(node.tx, none, 0.05));
  passed("peer killed: all ends in error", start);
}

}  // namespace

void victim(int fd, const char* service) {
  Host host(service);
  Node node(host);
  Bytes memory(kMemory, 0x33), in(kMemory);
  fid_mr* mr = nullptr;
  OK(fi_mr_reg(host.domain, memory.data(), kMemory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, kKey, 0, &mr, nullptr));
  Line line(fd);
  Name mine = node.name(), client{};
  line.put(&mine, sizeof mine);
  line.get(&client, sizeof client);
  const fi_addr_t peer = node.insert(client);
  for (;;) {
    OK(fi_recv(node.ep, in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, &in));
    const std::size_t n = good(node.rx, &in, 50).entry.len;
    post(node.tx, [&] { return fi_send(node.ep, in.data(), n, nullptr, peer, &in); });
    good(node.tx, &in);
    if (n == kLeave) break;
  }
  OK(fi_close(&mr->fid));
}

void failures(const char* self, const char* peer_ip) {
  Host host(kOwnService);
  Node node(host);
  const Name own = node.name();
  const auto meet = [&](Process& process) {
    Name theirs{};
    process.line().get(&theirs, sizeof theirs);
    process.line().put(&own, sizeof own);
    const Name wanted = at(own, peer_ip, kVictimPort);
    CHECK(theirs.length == wanted.length && std::memcmp(theirs.bytes, wanted.bytes, sizeof(sockaddr_in)) == 0);
  };
  no_way(node);

  double start = now();
  const fi_addr_t peer = node.insert(at(own, peer_ip, kVictimPort));
  Bytes early = pattern(500, 9), back(500);
  OK(fi_recv(node.ep, back.data(), back.size(), nullptr, FI_ADDR_UNSPEC, &back));
  post(node.tx, [&] { return fi_send(node.ep, early.data(), early.size(), nullptr, peer, &early); });
  for (const double until = now() + 0.4; now() < until;) turn(node.tx);
  for (int life = 0; life < 3; ++life) {
    Process process(self);
    meet(process);
    if (life == 0) {
      good(node.tx, &early);
      good(node.rx, &back);
      CHECK(back == early);
      passed("connect before the peer lives", start);
    } else {
      start = now();
      // The first ones may still be for the process that is gone.
      bool works = false;
      while (!works && now() - start < 10) works = echo(node, peer, 1000, 3);
      CHECK(works && echo(node, peer, 1 << 20, 4));
      Bytes in(100000);
      post(node.tx, [&] { return fi_read(node.ep, in.data(), in.size(), nullptr, peer, 0, kKey, &in); });
      good(node.tx, &in);
      CHECK(in == Bytes(100000, 0x33));
      passed("restarted peer works again", start);
    }
    killed(node, peer, process);
  }

  // Two more, one after the other: over mrc-switch each has another place in the fabric (T0s are given in turn). It is
  // we who speak first, so that the second does not tell us where it is.
  start = now();
  for (int life = 0; life < 2; ++life) {
    Process process(self);
    meet(process);
    bool works = echo(node, peer, 1000, 5);
    // Who follows one that was killed may find that the first message was for that one. Nothing was, here.
    if (life == 0) works = works || echo(node, peer, 1000, 5);
    CHECK(works && echo(node, peer, kLeave, 6));
    process.wait();
    for (const double until = now() + 0.2; now() < until;) turn(node.tx);
  }
  passed("another takes the address over", start);
}

}  // namespace talk
