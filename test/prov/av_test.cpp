// SPDX-License-Identifier: BSD-2-Clause
// Address vectors.
#include <arpa/inet.h>

#include <cstring>
#include <string>
#include <vector>

#include "address.hpp"
#include "objects_fixture.hpp"

using namespace mrc;
using prov::EndpointName;
using test::FakeEngine;
using test::Objects;

namespace {

constexpr std::uint32_t kPeer = 0x0a4d0005;

std::vector<sockaddr_in> peers(std::initializer_list<EndpointName> names) {
  std::vector<sockaddr_in> list;
  for (const EndpointName& name : names) list.push_back(prov::sockaddr_of(name, false).v4);
  return list;
}

fi_av_attr attr(fi_av_type type, std::uint64_t flags = 0) {
  fi_av_attr a{};
  a.type = type;
  a.count = 16;
  a.flags = flags;
  return a;
}

struct Heard : prov::Av::Listener {
  std::vector<fi_addr_t> removed;
  void on_av_remove(fi_addr_t address) override { removed.push_back(address); }
};

}  // namespace

TEST_CASE("insert, find, look up, remove") {
  for (const fi_av_type type : {FI_AV_MAP, FI_AV_TABLE}) {
    Objects o;
    const auto av = o.open_av(attr(type));
    prov::Av* vector = prov::av_of(&av->fid);
    REQUIRE(vector != nullptr);
    const auto list = peers({{kPeer, 1}, {kPeer, 2}, {kPeer + 1, 1}});
    fi_addr_t at[3];
    REQUIRE(fi_av_insert(av.get(), list.data(), 3, at, 0, nullptr) == 3);
    for (fi_addr_t i = 0; i < 3; ++i) CHECK(at[i] == i);
    CHECK(vector->name(1) == EndpointName{kPeer, 2});
    CHECK(vector->find({kPeer + 1, 1}) == 2);
    CHECK(vector->find({kPeer + 1, 9}) == FI_ADDR_NOTAVAIL);
    CHECK_FALSE(vector->name(3));
    CHECK_FALSE(vector->name(FI_ADDR_UNSPEC));

    sockaddr_in back{};
    std::size_t length = sizeof back;
    REQUIRE(fi_av_lookup(av.get(), 1, &back, &length) == 0);
    CHECK(length == sizeof back);
    CHECK(std::memcmp(&back, &list[1], sizeof back) == 0);
    std::byte cut[4];
    length = sizeof cut;
    CHECK(fi_av_lookup(av.get(), 1, cut, &length) == 0);
    CHECK(length == sizeof back);
    CHECK(fi_av_lookup(av.get(), 77, &back, &length) == -FI_EINVAL);

    Heard heard;
    vector->listen(&heard);
    CHECK(fi_close(&av->fid) == -FI_EBUSY);
    CHECK(fi_av_remove(av.get(), at + 1, 1, 0) == 0);
    CHECK(heard.removed == std::vector<fi_addr_t>{1});
    CHECK(vector->find({kPeer, 2}) == FI_ADDR_NOTAVAIL);
    CHECK(fi_av_remove(av.get(), at + 1, 1, 0) == -FI_EINVAL);
    const auto next = peers({{kPeer, 7}});
    REQUIRE(fi_av_insert(av.get(), next.data(), 1, at, 0, nullptr) == 1);
    CHECK(at[0] == 1);
    vector->unlisten(&heard);
  }
}

TEST_CASE("aliases of this host are one name, kept as given") {
  Objects o;
  const auto av = o.open_av(attr(FI_AV_MAP));
  prov::Av* vector = prov::av_of(&av->fid);
  const auto list = peers({{INADDR_LOOPBACK, 5}, {FakeEngine::kAlias, 6}});
  fi_addr_t at[2];
  REQUIRE(fi_av_insert(av.get(), list.data(), 2, at, 0, nullptr) == 2);
  CHECK(vector->name(at[0]) == EndpointName{FakeEngine::kIpv4, 5});
  CHECK(vector->find({FakeEngine::kIpv4, 6}) == at[1]);
  sockaddr_in back{};
  std::size_t length = sizeof back;
  REQUIRE(fi_av_lookup(av.get(), at[0], &back, &length) == 0);
  CHECK(ntohl(back.sin_addr.s_addr) == INADDR_LOOPBACK);
}

TEST_CASE("the same address twice") {
  Objects o;
  const auto list = peers({{kPeer, 1}, {kPeer, 1}});
  SECTION("keeps its index until both are removed") {
    const auto av = o.open_av(attr(FI_AV_MAP));
    fi_addr_t at[2];
    REQUIRE(fi_av_insert(av.get(), list.data(), 2, at, 0, nullptr) == 2);
    CHECK(at[0] == at[1]);
    CHECK(fi_av_remove(av.get(), at, 1, 0) == 0);
    CHECK(prov::av_of(&av->fid)->name(at[0]));
    CHECK(fi_av_remove(av.get(), at, 1, 0) == 0);
    CHECK_FALSE(prov::av_of(&av->fid)->name(at[0]));
  }
  SECTION("in a table that the application counts itself, each has its index") {
    const auto av = o.open_av(attr(FI_AV_TABLE));
    REQUIRE(fi_av_insert(av.get(), list.data(), 2, nullptr, 0, nullptr) == 2);
    prov::Av* vector = prov::av_of(&av->fid);
    CHECK(vector->name(1) == EndpointName{kPeer, 1});
    CHECK(vector->find({kPeer, 1}) == 0);
    fi_addr_t first = 0;
    CHECK(fi_av_remove(av.get(), &first, 1, 0) == 0);
    CHECK(vector->find({kPeer, 1}) == 1);
  }
}

TEST_CASE("bad addresses are told one by one") {
  Objects o;
  const auto av = o.open_av(attr(FI_AV_TABLE));
  auto list = peers({{kPeer, 1}, {kPeer, 0}, {0, 1}, {kPeer, 2}});
  list.push_back({});
  std::vector<fi_addr_t> at(5, 0);
  std::vector<int> errors(5, 99);
  CHECK(fi_av_insert(av.get(), list.data(), 5, at.data(), FI_SYNC_ERR, errors.data()) == 2);
  CHECK(errors == std::vector<int>{0, FI_EINVAL, FI_EINVAL, 0, FI_EINVAL});
  CHECK(at[1] == FI_ADDR_NOTAVAIL);
  CHECK(at[3] == 1);
  CHECK(fi_av_insert(av.get(), list.data() + 1, 1, at.data(), 0, nullptr) == 0);
  CHECK(fi_av_insert(av.get(), list.data(), 1, at.data(), FI_FENCE, nullptr) == -FI_EBADFLAGS);
}

TEST_CASE("asynchronous insertion reports through the event queue") {
  Objects o;
  fi_eq_attr e{};
  const auto eq = o.open_eq(e);
  const auto av = o.open_av(attr(FI_AV_MAP, FI_EVENT));
  const auto list = peers({{kPeer, 1}, {0, 0}});
  fi_addr_t at[2];
  int context = 0;
  CHECK(fi_av_insert(av.get(), list.data(), 2, at, 0, &context) == -FI_ENOEQ);
  REQUIRE(fi_av_bind(av.get(), &eq->fid, 0) == 0);
  CHECK(fi_close(&eq->fid) == -FI_EBUSY);
  REQUIRE(fi_av_insert(av.get(), list.data(), 2, at, 0, &context) == 0);

  std::uint32_t event = 0;
  fi_eq_entry entry{};
  CHECK(fi_eq_read(eq.get(), &event, &entry, sizeof entry, 0) == -FI_EAVAIL);
  fi_eq_err_entry error{};
  REQUIRE(fi_eq_readerr(eq.get(), &error, 0) == sizeof error);
  CHECK(error.data == 1);
  CHECK(error.fid == &av->fid);
  CHECK(error.context == &context);
  CHECK(error.err == FI_EINVAL);
  REQUIRE(fi_eq_read(eq.get(), &event, &entry, sizeof entry, 0) == sizeof entry);
  CHECK(event == FI_AV_COMPLETE);
  CHECK(entry.data == 1);
  CHECK(entry.context == &context);
}

TEST_CASE("names and services, counted up") {
  Objects o;
  const auto av = o.open_av(attr(FI_AV_MAP));
  prov::Av* vector = prov::av_of(&av->fid);
  fi_addr_t at[6];
  REQUIRE(fi_av_insertsvc(av.get(), "10.77.0.5", "1234", at, 0, nullptr) == 1);
  CHECK(vector->name(at[0]) == EndpointName{kPeer, 1234});
  CHECK(fi_av_insertsvc(av.get(), "no-such-node.invalid", "1", at, 0, nullptr) == 0);
  CHECK(at[0] == FI_ADDR_NOTAVAIL);
  CHECK(fi_av_insertsvc(av.get(), nullptr, "1", at, 0, nullptr) == -FI_EINVAL);
  REQUIRE(fi_av_insertsym(av.get(), "10.77.1.9", 3, "98", 2, at, 0, nullptr) == 6);
  CHECK(vector->name(at[0]) == EndpointName{0x0a4d0109, 98});
  CHECK(vector->name(at[1]) == EndpointName{0x0a4d0109, 99});
  CHECK(vector->name(at[5]) == EndpointName{0x0a4d010b, 99});
}

TEST_CASE("IPv6 vectors take inner and mapped addresses") {
  Objects o(0, FI_SOCKADDR_IN6);
  const auto av = o.open_av(attr(FI_AV_MAP));
  CHECK(prov::av_of(&av->fid)->is_ipv6());
  sockaddr_in6 raw[2] = {prov::sockaddr_of({kPeer, 9}, true).v6, {}};
  raw[1].sin6_family = AF_INET6;
  REQUIRE(inet_pton(AF_INET6, "fd00:1:2:3:a4d:5:a:0", &raw[1].sin6_addr) == 1);
  fi_addr_t at[2];
  REQUIRE(fi_av_insert(av.get(), raw, 2, at, 0, nullptr) == 2);
  CHECK(prov::av_of(&av->fid)->find({kPeer, 10}) == at[1]);
  sockaddr_in6 back{};
  std::size_t length = sizeof back;
  REQUIRE(fi_av_lookup(av.get(), at[1], &back, &length) == 0);
  CHECK(std::memcmp(&back, &raw[1], sizeof back) == 0);

  char text[80];
  length = sizeof text;
  CHECK(fi_av_straddr(av.get(), &raw[1], text, &length) == std::string("fi_sockaddr_in6://[fd00:1:2:3:a4d:5:a:0]:0"));
}

TEST_CASE("addresses in words") {
  Objects o;
  const auto av = o.open_av(attr(FI_AV_MAP));
  const auto list = peers({{kPeer, 65535}});
  char text[64];
  std::size_t length = sizeof text;
  CHECK(fi_av_straddr(av.get(), list.data(), text, &length) == std::string("fi_sockaddr_in://10.77.0.5:65535"));
  CHECK(length == std::strlen(text) + 1);
  length = 5;
  fi_av_straddr(av.get(), list.data(), text, &length);
  CHECK(std::string(text) == "fi_s");
  CHECK(length > 30);
}

TEST_CASE("what an address vector cannot be") {
  Objects o;
  fid_av* av = nullptr;
  fi_av_attr a = attr(FI_AV_TABLE, FI_READ);
  char name[] = "FI_NAMED_AV_0";
  a.name = name;
  CHECK(fi_av_open(o.domain.get(), &a, &av, nullptr) < 0);  // MPICH takes success for shared memory
  a = attr(FI_AV_MAP);
  a.rx_ctx_bits = 63;
  CHECK(fi_av_open(o.domain.get(), &a, &av, nullptr) == -FI_EINVAL);
  a = attr(FI_AV_UNSPEC);
  REQUIRE(fi_av_open(o.domain.get(), &a, &av, nullptr) == 0);
  CHECK(a.type == FI_AV_MAP);
  CHECK(fi_close(&av->fid) == 0);
}
