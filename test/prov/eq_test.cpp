// SPDX-License-Identifier: BSD-2-Clause
// Event queues.
#include <poll.h>

#include <cstring>
#include <thread>

#include "objects.hpp"
#include "objects_fixture.hpp"

using namespace mrc;
using test::Objects;

namespace {

fi_eq_attr attr(std::size_t size, fi_wait_obj wait = FI_WAIT_UNSPEC, std::uint64_t flags = FI_WRITE) {
  fi_eq_attr a{};
  a.size = size;
  a.wait_obj = wait;
  a.flags = flags;
  return a;
}

}  // namespace

TEST_CASE("events come out as they went in") {
  Objects o;
  const auto eq = o.open_eq(attr(4));
  for (std::uint64_t n = 0; n < 4; ++n) {
    const fi_eq_entry entry{&o.fabric->fid, nullptr, n};
    REQUIRE(fi_eq_write(eq.get(), FI_NOTIFY, &entry, sizeof entry, 0) == sizeof entry);
  }
  const fi_eq_entry more{};
  CHECK(fi_eq_write(eq.get(), FI_NOTIFY, &more, sizeof more, 0) == -FI_EAGAIN);

  std::uint32_t event = 0;
  fi_eq_entry entry{};
  CHECK(fi_eq_read(eq.get(), &event, &entry, sizeof entry - 1, 0) == -FI_ETOOSMALL);
  for (std::uint64_t n = 0; n < 4; ++n) {
    for (const std::uint64_t flags : {std::uint64_t{FI_PEEK}, std::uint64_t{0}}) {
      entry = {};
      event = 99;
      REQUIRE(fi_eq_read(eq.get(), &event, &entry, sizeof entry, flags) == sizeof entry);
      CHECK(event == FI_NOTIFY);
      CHECK(entry.data == n);
      CHECK(entry.fid == &o.fabric->fid);
    }
  }
  CHECK(fi_eq_read(eq.get(), &event, &entry, sizeof entry, 0) == -FI_EAGAIN);
  fi_eq_err_entry error{};
  CHECK(fi_eq_readerr(eq.get(), &error, 0) == -FI_EAGAIN);
  CHECK(fi_eq_strerror(eq.get(), FI_EINVAL, nullptr, nullptr, 0) == std::string(fi_strerror(FI_EINVAL)));
}

TEST_CASE("only a queue opened for writing can be written") {
  Objects o;
  const auto eq = o.open_eq(attr(4, FI_WAIT_NONE, 0));
  const fi_eq_entry entry{};
  CHECK(fi_eq_write(eq.get(), FI_NOTIFY, &entry, sizeof entry, 0) == -FI_EINVAL);
}

TEST_CASE("the descriptor is readable exactly while there are events") {
  Objects o;
  const auto eq = o.open_eq(attr(8, FI_WAIT_FD));
  int fd = -1;
  REQUIRE(fi_control(&eq->fid, FI_GETWAIT, &fd) == 0);
  const auto readable = [&] {
    pollfd p{fd, POLLIN, 0};
    return poll(&p, 1, 0) == 1;
  };
  struct fid* fids[] = {&eq->fid};
  CHECK(fi_trywait(o.fabric.get(), fids, 1) == 0);
  CHECK_FALSE(readable());
  const fi_eq_entry in{};
  fi_eq_entry out{};
  std::uint32_t event = 0;
  for (int round = 0; round < 3; ++round) {
    fi_eq_write(eq.get(), FI_NOTIFY, &in, sizeof in, 0);
    fi_eq_write(eq.get(), FI_NOTIFY, &in, sizeof in, 0);
    CHECK(readable());
    CHECK(fi_trywait(o.fabric.get(), fids, 1) == -FI_EAGAIN);
    fi_eq_read(eq.get(), &event, &out, sizeof out, FI_PEEK);
    CHECK(readable());
    fi_eq_read(eq.get(), &event, &out, sizeof out, 0);
    CHECK(readable());
    fi_eq_read(eq.get(), &event, &out, sizeof out, 0);
    CHECK_FALSE(readable());
  }
}

TEST_CASE("blocking reads of events") {
  Objects o;
  const auto eq = o.open_eq(attr(8));
  fi_eq_entry out{};
  std::uint32_t event = 0;
  CHECK(fi_eq_sread(eq.get(), &event, &out, sizeof out, 20, 0) == -FI_EAGAIN);
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const fi_eq_entry in{nullptr, nullptr, 7};
    fi_eq_write(eq.get(), FI_NOTIFY, &in, sizeof in, 0);
  });
  REQUIRE(fi_eq_sread(eq.get(), &event, &out, sizeof out, 5000, FI_PEEK) == sizeof out);
  CHECK(out.data == 7);
  CHECK(fi_eq_sread(eq.get(), &event, &out, sizeof out, -1, 0) == sizeof out);
}

TEST_CASE("a bound event queue is busy") {
  Objects o;
  const auto eq = o.open_eq(attr(8));
  prov::EventQueue* queue = prov::eq_of(&eq->fid);
  REQUIRE(queue != nullptr);
  CHECK(prov::eq_of(&o.domain->fid) == nullptr);
  queue->hold();
  CHECK(fi_close(&eq->fid) == -FI_EBUSY);
  queue->drop();
}
