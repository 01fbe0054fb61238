// SPDX-License-Identifier: BSD-2-Clause
// Completion queues: formats, order, errors, room, sleeping.
#include <poll.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "address.hpp"
#include "objects.hpp"
#include "objects_fixture.hpp"

using namespace mrc;
using test::Objects;

namespace {

prov::Completion completion(std::uint64_t n) {
  prov::Completion c;
  c.op_context = reinterpret_cast<void*>(n);
  c.flags = FI_TAGGED | FI_RECV;
  c.len = n * 10;
  c.buf = reinterpret_cast<void*>(n * 100);
  c.data = n * 1000;
  c.tag = n * 10000;
  c.source = n + 1;
  return c;
}

prov::ErrorCompletion error(std::uint64_t n, int err) {
  prov::ErrorCompletion e;
  e.base = completion(n);
  e.err = err;
  e.overflow_len = n;
  e.prov_errno = prov::prov_errno_of(transport::Status::kPeerDead);
  return e;
}

fi_cq_attr attr(fi_cq_format format, std::size_t size = 0, fi_wait_obj wait = FI_WAIT_NONE) {
  fi_cq_attr a{};
  a.format = format;
  a.size = size;
  a.wait_obj = wait;
  return a;
}

}  // namespace

TEST_CASE("each format has its fields") {
  Objects o;
  const auto expect = [&](fi_cq_format format, std::size_t size) {
    const auto cq = o.open_cq(attr(format));
    prov::Cq* queue = prov::cq_of(&cq->fid);
    REQUIRE(queue != nullptr);
    for (std::uint64_t n = 1; n <= 3; ++n) queue->push(completion(n));
    std::vector<std::byte> bytes(4 * sizeof(fi_cq_tagged_entry), std::byte{0xee});
    REQUIRE(fi_cq_read(cq.get(), bytes.data(), 4) == 3);
    for (std::uint64_t n = 1; n <= 3; ++n) {
      fi_cq_tagged_entry entry{};
      std::memcpy(&entry, bytes.data() + (n - 1) * size, size);
      CHECK(entry.op_context == reinterpret_cast<void*>(n));
      if (size >= sizeof(fi_cq_msg_entry)) CHECK((entry.flags == (FI_TAGGED | FI_RECV) && entry.len == n * 10));
      if (size >= sizeof(fi_cq_data_entry))
        CHECK((entry.buf == reinterpret_cast<void*>(n * 100) && entry.data == n * 1000));
      if (size >= sizeof(fi_cq_tagged_entry)) CHECK(entry.tag == n * 10000);
    }
    CHECK(bytes[3 * size] == std::byte{0xee});
    CHECK(fi_cq_read(cq.get(), bytes.data(), 1) == -FI_EAGAIN);
  };
  expect(FI_CQ_FORMAT_UNSPEC, sizeof(fi_cq_entry));
  expect(FI_CQ_FORMAT_CONTEXT, sizeof(fi_cq_entry));
  expect(FI_CQ_FORMAT_MSG, sizeof(fi_cq_msg_entry));
  expect(FI_CQ_FORMAT_DATA, sizeof(fi_cq_data_entry));
  expect(FI_CQ_FORMAT_TAGGED, sizeof(fi_cq_tagged_entry));
}

TEST_CASE("errors keep their place, and block what is behind them") {
  Objects o;
  const auto cq = o.open_cq(attr(FI_CQ_FORMAT_CONTEXT));
  prov::Cq* queue = prov::cq_of(&cq->fid);
  queue->push(completion(1));
  queue->push_error(error(2, FI_ETRUNC));
  queue->push(completion(3));

  fi_cq_entry entries[4];
  fi_addr_t sources[4] = {};
  fi_cq_err_entry failure{};
  CHECK(fi_cq_readerr(cq.get(), &failure, 0) == -FI_EAGAIN);  // the head is no error
  REQUIRE(fi_cq_readfrom(cq.get(), entries, 4, sources) == 1);
  CHECK(sources[0] == 2);
  CHECK(fi_cq_read(cq.get(), entries, 4) == -FI_EAVAIL);
  CHECK(fi_cq_read(cq.get(), nullptr, 0) == -FI_EAGAIN);
  REQUIRE(fi_cq_readerr(cq.get(), &failure, 0) == 1);
  CHECK(failure.op_context == reinterpret_cast<void*>(2));
  CHECK(failure.err == FI_ETRUNC);
  CHECK(failure.olen == 2);
  CHECK(failure.tag == 20000);
  CHECK(failure.err_data_size == 0);
  REQUIRE(fi_cq_read(cq.get(), entries, 4) == 1);
  CHECK(entries[0].op_context == reinterpret_cast<void*>(3));

  char text[200];
  CHECK(std::string(fi_cq_strerror(cq.get(), failure.prov_errno, nullptr, text, sizeof text)).find("peer is gone") !=
        std::string::npos);
  CHECK(std::string(text).find("peer is gone") != std::string::npos);
  CHECK(std::string(fi_cq_strerror(cq.get(), FI_ETRUNC, nullptr, nullptr, 0)) == fi_strerror(FI_ETRUNC));
}

TEST_CASE("an old application's error entry is not written behind its end") {
  Objects o;
  o.fabric->api_version = FI_VERSION(1, 4);
  const auto cq = o.open_cq(attr(FI_CQ_FORMAT_CONTEXT));
  prov::cq_of(&cq->fid)->push_error(error(2, FI_EIO));
  fi_cq_err_entry failure{};
  failure.err_data_size = 0x5a5a;  // beyond the structure of 1.4
  REQUIRE(fi_cq_readerr(cq.get(), &failure, 0) == 1);
  CHECK(failure.err == FI_EIO);
  CHECK(failure.err_data_size == 0x5a5a);
}

TEST_CASE("an unknown source's address is in err_data, which the application may provide") {
  Objects o;
  const auto cq = o.open_cq(attr(FI_CQ_FORMAT_CONTEXT));
  for (const bool ipv6 : {false, true})
    for (const std::size_t room : {0u, 8u, 64u}) {
      CAPTURE(ipv6, room);
      prov::ErrorCompletion e = error(2, FI_EADDRNOTAVAIL);
      e.unknown = {0x0a4d0042, 4711};
      e.ipv6 = ipv6;
      prov::cq_of(&cq->fid)->push_error(e);
      char own[64];
      std::memset(own, 0x5a, sizeof own);
      struct {
        fi_cq_err_entry failure{};
        std::uint64_t behind[4] = {1, 1, 1, 1};
      } out;
      out.failure.err_data = room != 0 ? own : nullptr;
      out.failure.err_data_size = room;
      REQUIRE(fi_cq_readerr(cq.get(), &out.failure, 0) == 1);
      CHECK(out.failure.err == FI_EADDRNOTAVAIL);
      CHECK(out.behind[0] == 1);
      const auto expected = prov::sockaddr_of(e.unknown, ipv6);
      const std::size_t length = room != 0 ? std::min<std::size_t>(room, expected.length) : expected.length;
      CHECK(out.failure.err_data_size == length);
      CHECK((room != 0) == (out.failure.err_data == own));
      CHECK(std::memcmp(out.failure.err_data, &expected.any, length) == 0);
      if (room != 0) CHECK(own[length] == 0x5a);
    }
}

TEST_CASE("the error entry's source address is there from 1.20 on") {
  Objects o;
  o.fabric->api_version = FI_VERSION(1, 20);
  const auto cq = o.open_cq(attr(FI_CQ_FORMAT_CONTEXT));
  prov::cq_of(&cq->fid)->push_error(error(2, FI_EIO));
  std::uint64_t entry[16] = {};
  REQUIRE(fi_cq_readerr(cq.get(), reinterpret_cast<fi_cq_err_entry*>(entry), 0) == 1);
  CHECK(entry[10] == FI_ADDR_NOTAVAIL);
  CHECK(entry[11] == 0);
}

TEST_CASE("nothing is lost beyond the size, and room tells when to stop") {
  Objects o;
  const auto cq = o.open_cq(attr(FI_CQ_FORMAT_CONTEXT, 4));
  prov::Cq* queue = prov::cq_of(&cq->fid);
  for (std::uint64_t n = 0; n < 1000; ++n) {
    CHECK(queue->room() == (n < 4));
    queue->push(completion(n));
  }
  std::uint64_t next = 0;
  fi_cq_entry entries[7];
  while (next < 1000) {
    const ssize_t got = fi_cq_read(cq.get(), entries, 7);
    REQUIRE(got > 0);
    for (ssize_t i = 0; i < got; ++i) REQUIRE(entries[i].op_context == reinterpret_cast<void*>(next++));
  }
  CHECK(queue->room());
}

TEST_CASE("a bound queue is busy") {
  Objects o;
  auto cq = o.open_cq(attr(FI_CQ_FORMAT_CONTEXT));
  prov::cq_of(&cq->fid)->reserve(100);
  CHECK(fi_close(&cq->fid) == -FI_EBUSY);
  prov::cq_of(&cq->fid)->unreserve(100);
  CHECK(fi_close(&o.domain->fid) == -FI_EBUSY);
  CHECK(fi_close(&o.fabric->fid) == -FI_EBUSY);
}

TEST_CASE("reading makes progress, under the lock") {
  Objects o;
  const auto cq = o.open_cq(attr(FI_CQ_FORMAT_CONTEXT));
  bool locked = false;
  o.engine->next_progress = [&] {
    locked = o.engine->held;
    prov::cq_of(&cq->fid)->push(completion(5));
  };
  fi_cq_entry entry;
  REQUIRE(fi_cq_read(cq.get(), &entry, 1) == 1);
  CHECK(locked);
  CHECK_FALSE(o.engine->held);
}

TEST_CASE("blocking reads: time-out, arrival, signal, threshold") {
  Objects o;
  fi_cq_attr a = attr(FI_CQ_FORMAT_CONTEXT, 16, FI_WAIT_UNSPEC);
  a.wait_cond = FI_CQ_COND_THRESHOLD;
  const auto cq = o.open_cq(a);
  prov::Cq* queue = prov::cq_of(&cq->fid);
  fi_cq_entry entries[8];
  const auto start = std::chrono::steady_clock::now();
  CHECK(fi_cq_sread(cq.get(), entries, 1, nullptr, 30) == -FI_EAGAIN);
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(29));
  CHECK_FALSE(o.engine->armed);

  {
    std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::lock_guard guard(*o.engine);
      queue->push(completion(9));
    });
    CHECK(fi_cq_sread(cq.get(), entries, 8, nullptr, 5000) == 1);
  }
  {
    std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      fi_cq_signal(cq.get());
    });
    CHECK(fi_cq_sread(cq.get(), entries, 8, nullptr, 5000) == -FI_EAGAIN);
  }
  CHECK(fi_cq_signal(cq.get()) == 0);
  CHECK(fi_cq_sread(cq.get(), entries, 8, nullptr, -1) == -FI_EAGAIN);

  const std::size_t threshold = 3;
  queue->push(completion(1));
  CHECK(fi_cq_sread(cq.get(), entries, 8, &threshold, 20) == 1);
  for (std::uint64_t n = 0; n < 3; ++n) queue->push(completion(n));
  CHECK(fi_cq_sread(cq.get(), entries, 8, &threshold, -1) == 3);
  queue->push_error(error(1, FI_EIO));
  CHECK(fi_cq_sread(cq.get(), entries, 8, &threshold, -1) == -FI_EAVAIL);
}

TEST_CASE("bad attributes are refused") {
  Objects o;
  fid_cq* cq = nullptr;
  fi_cq_attr a = attr(static_cast<fi_cq_format>(9));
  CHECK(fi_cq_open(o.domain.get(), &a, &cq, nullptr) == -FI_EINVAL);
  a = attr(FI_CQ_FORMAT_MSG, 0, FI_WAIT_POLLFD);
  CHECK(fi_cq_open(o.domain.get(), &a, &cq, nullptr) == -FI_ENOSYS);
  a = attr(FI_CQ_FORMAT_MSG, 0, FI_WAIT_SET);
  CHECK(fi_cq_open(o.domain.get(), &a, &cq, nullptr) == -FI_EINVAL);
  a = attr(FI_CQ_FORMAT_MSG, SIZE_MAX);
  CHECK(fi_cq_open(o.domain.get(), &a, &cq, nullptr) == -FI_EINVAL);
}
