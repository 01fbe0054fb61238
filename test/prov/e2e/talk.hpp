// SPDX-License-Identifier: BSD-2-Clause
// What the parts of fi_talk share: two processes, each with a libfabric domain over the real provider, a socket between
// them for everything that is not under test, and checks that say where they failed.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace talk {

#define CHECK(condition)                                                                                       \
  do {                                                                                                         \
    if (!(condition))                                                                                          \
      throw std::runtime_error(std::string(__FILE_NAME__) + ":" + std::to_string(__LINE__) + ": " #condition); \
  } while (0)
/// A libfabric call that has to return 0.
#define OK(call)                                                                                               \
  do {                                                                                                         \
    const auto ok_result = (call);                                                                             \
    if (ok_result != 0)                                                                                        \
      throw std::runtime_error(std::string(__FILE_NAME__) + ":" + std::to_string(__LINE__) + ": " #call ": " + \
                               fi_strerror(static_cast<int>(-ok_result)));                                     \
  } while (0)

using Bytes = std::vector<std::uint8_t>;

/// Bytes that depend on `seed` and on the place, so that a shifted or foreign byte shows.
Bytes pattern(std::size_t length, std::uint32_t seed);
double now();
void nap(double seconds);

/// The socket to the other process. It ends with an exception when the other process does.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  void put(const void* data, std::size_t length);
  void get(void* data, std::size_t length);
  template <class T>
  T swap(const T& mine) {
    T theirs;
    put(&mine, sizeof mine);
    get(&theirs, sizeof theirs);
    return theirs;
  }

 private:
  int fd_;
};

/// fabric and domain, one a process.
struct Host {
  explicit Host(const char* service = nullptr);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
};

struct Shape {
  fi_cq_format format = FI_CQ_FORMAT_TAGGED;
  fi_wait_obj wait = FI_WAIT_UNSPEC;
  std::size_t min_multi_recv = 0;
  std::size_t cq_size = 2048;
};

struct Name {
  char bytes[64];
  std::size_t length;
};

/// An enabled endpoint with queues, counters and an address vector of its own.
struct Node {
  explicit Node(Host& from, const Shape& shape = {});
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  Name name() const;
  fi_addr_t insert(const Name& other) const;

  Host& host;
  fid_ep* ep = nullptr;
  fid_cq* tx = nullptr;
  fid_cq* rx = nullptr;
  fid_av* av = nullptr;
  enum { kSent, kReceived, kWritten, kRead, kRemoteWritten, kRemoteRead, kCounters };
  fid_cntr* counter[kCounters] = {};
};

/// One completion, good or bad.
struct Done {
  fi_cq_tagged_entry entry{};
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  int error = 0;
  int prov_errno = 0;
  std::size_t cut_off = 0;
};
/// False if nothing completed in time.
bool try_take(fid_cq* cq, Done& done, double seconds);
Done take(fid_cq* cq, double seconds = 20);
/// The next completion, which must be good and of that context.
Done good(fid_cq* cq, const void* context, double seconds = 20);
/// Reads no completion, only lets the provider work.
void turn(fid_cq* cq);

/// Both sides of a test run the same function; `client` says which.
struct Pair {
  Host& host;
  Line& line;
  bool client;
};

/// A node with the other side's in its address vector.
struct Talk : Node {
  explicit Talk(Pair& with, const Shape& shape = {});
  /// Both sides have come here; the service thread works meanwhile.
  void sync();
  void send(const Bytes& bytes, void* context);
  void recv(Bytes& bytes, void* context, fi_addr_t from = FI_ADDR_UNSPEC);
  void tsend(const Bytes& bytes, std::uint64_t tag, void* context);
  void trecv(Bytes& bytes, std::uint64_t tag, std::uint64_t ignore, void* context);

  Pair& pair;
  bool client;
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
};

/// Posts until there is room; anything but success or -FI_EAGAIN is a failure.
template <class Call>
void post(fid_cq* cq, Call&& call) {
  const double limit = now() + 20;
  for (;;) {
    const ssize_t status = call();
    if (status == 0) return;
    if (status != -FI_EAGAIN) throw std::runtime_error(std::string("post: ") + fi_strerror(static_cast<int>(-status)));
    CHECK(now() < limit);
    turn(cq);
  }
}

struct Test {
  const char* name;
  void (*run)(Pair&);
};
std::vector<Test> message_tests();
std::vector<Test> matching_tests();
std::vector<Test> rma_tests();
std::vector<Test> trigger_tests();
std::vector<Test> atomic_tests();
std::vector<Test> wait_tests();
std::vector<Test> overrun_tests();
std::vector<Test> binding_tests();
std::vector<Test> context_tests();

/// Tests in which the other process comes late, dies and comes back; `self` is this program.
void failures(const char* self, const char* peer_ip);
/// The process that those tests start: answers on its port until it is killed.
void victim(int fd, const char* service);

}  // namespace talk
