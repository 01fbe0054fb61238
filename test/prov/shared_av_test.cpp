// SPDX-License-Identifier: BSD-2-Clause
// Named address vectors: two openers in one process (each has a file of its own open, as processes have), and a child
// process that dies without closing.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "address.hpp"
#include "objects_fixture.hpp"

using namespace mrc;
using prov::EndpointName;
using test::Fid;
using test::Objects;

namespace {

constexpr std::uint32_t kPeer = 0x0a4d0005;

/// No other run's name.
std::string fresh_name() {
  static int count = 0;
  return "unit test/" + std::to_string(getpid()) + "/" + std::to_string(count++) + "\n";
}

struct Opened {
  int status = 0;
  Fid<fid_av> av;
  fi_addr_t* map = nullptr;
};

Opened open_named(Objects& o, const std::string& name, std::uint64_t flags, std::size_t count = 16, int bits = 0) {
  fi_av_attr attr{};
  attr.type = FI_AV_TABLE;
  attr.count = count;
  attr.flags = flags;
  attr.name = name.c_str();
  attr.rx_ctx_bits = bits;
  fid_av* av = nullptr;
  Opened out;
  out.status = fi_av_open(o.domain.get(), &attr, &av, nullptr);
  out.av.reset(av);
  out.map = static_cast<fi_addr_t*>(attr.map_addr);
  return out;
}

int insert(fid_av* av, EndpointName name, fi_addr_t& at) {
  const auto address = prov::sockaddr_of(name, false).v4;
  return fi_av_insert(av, &address, 1, &at, 0, nullptr);
}

}  // namespace

TEST_CASE("a named vector that nobody made is not there to be read") {
  Objects o;
  const auto name = fresh_name();
  CHECK(open_named(o, name, FI_READ).status == -FI_ENOENT);
  CHECK(open_named(o, std::string(300, 'x'), 0).status == -FI_EINVAL);
  { CHECK(open_named(o, name, 0).status == 0); }
  CHECK(open_named(o, name, FI_READ).status == -FI_ENOENT);  // it went with the last who had it open
}

TEST_CASE("a reader sees what the maker inserts and removes") {
  Objects o;
  const auto name = fresh_name();
  const auto maker = open_named(o, name, 0);
  REQUIRE(maker.status == 0);
  REQUIRE(maker.map != nullptr);
  fi_addr_t first = 0, second = 0, none = 0;
  REQUIRE(insert(maker.av.get(), {kPeer, 1}, first) == 1);
  const auto reader = open_named(o, name, FI_READ);
  REQUIRE(reader.status == 0);
  REQUIRE(insert(maker.av.get(), {kPeer, 2}, second) == 1);
  CHECK(reader.map[0] == first);
  CHECK(reader.map[1] == second);

  prov::Av* seen = prov::av_of(&reader.av->fid);
  CHECK(seen->name(first) == EndpointName{kPeer, 1});
  CHECK(seen->name(second) == EndpointName{kPeer, 2});
  CHECK(seen->find({kPeer, 2}) == second);
  sockaddr_in back{};
  std::size_t length = sizeof back;
  REQUIRE(fi_av_lookup(reader.av.get(), second, &back, &length) == 0);
  CHECK(ntohs(back.sin_port) == 2);
  CHECK(insert(reader.av.get(), {kPeer, 3}, none) == 0);
  CHECK(none == FI_ADDR_NOTAVAIL);
  CHECK(fi_av_remove(reader.av.get(), &first, 1, 0) == -FI_EACCES);

  REQUIRE(fi_av_remove(maker.av.get(), &first, 1, 0) == 0);
  CHECK(reader.map[0] == FI_ADDR_NOTAVAIL);
  CHECK_FALSE(seen->name(first));
  CHECK(seen->find({kPeer, 1}) == FI_ADDR_NOTAVAIL);
  CHECK(seen->name(second) == EndpointName{kPeer, 2});
}

TEST_CASE("two who write take different places") {
  Objects o;
  const auto name = fresh_name();
  const auto one = open_named(o, name, 0), other = open_named(o, name, 0);
  REQUIRE(one.status == 0);
  REQUIRE(other.status == 0);
  for (std::uint16_t i = 1; i <= 100; ++i) {
    fi_addr_t at = 0;
    REQUIRE(insert(i % 3 == 0 ? one.av.get() : other.av.get(), {kPeer, i}, at) == 1);
    CHECK(at == i - 1u);
  }
  for (std::uint16_t i = 1; i <= 100; ++i) {
    CHECK(prov::av_of(&one.av->fid)->name(i - 1u) == EndpointName{kPeer, i});
    CHECK(prov::av_of(&other.av->fid)->find({kPeer, i}) == i - 1u);
  }
}

TEST_CASE("the leavings of a killed process are no vector") {
  Objects o;
  const auto name = fresh_name();
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto made = open_named(o, name, 0);
    char done = made.status == 0 ? 'y' : 'n';
    if (write(pipe_ends[1], &done, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char done = 0;
  REQUIRE(read(pipe_ends[0], &done, 1) == 1);
  CHECK(done == 'y');
  { CHECK(open_named(o, name, FI_READ).status == 0); }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  CHECK(open_named(o, name, FI_READ).status == -FI_ENOENT);
}

TEST_CASE("receive context bits are no part of the index") {
  Objects o;
  fi_av_attr attr{};
  attr.type = FI_AV_TABLE;
  attr.rx_ctx_bits = 17;
  fid_av* raw = nullptr;
  CHECK(fi_av_open(o.domain.get(), &attr, &raw, nullptr) == -FI_EINVAL);
  attr.rx_ctx_bits = 4;
  const auto av = o.open_av(attr);
  fi_addr_t at = 0;
  REQUIRE(insert(av.get(), {kPeer, 7}, at) == 1);
  const fi_addr_t named = fi_rx_addr(at, 13, 4);
  CHECK(named != at);
  CHECK(prov::av_of(&av->fid)->rx_ctx_bits() == 4);
  CHECK(prov::av_of(&av->fid)->name(named) == EndpointName{kPeer, 7});
  REQUIRE(fi_av_remove(av.get(), const_cast<fi_addr_t*>(&named), 1, 0) == 0);
  CHECK_FALSE(prov::av_of(&av->fid)->name(at));
}
