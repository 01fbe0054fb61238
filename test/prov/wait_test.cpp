// SPDX-License-Identifier: BSD-2-Clause
// Descriptors, fi_trywait, wait sets and poll sets.
#include <poll.h>
#include <rdma/fi_eq.h>

#include <thread>

#include "objects.hpp"
#include "objects_fixture.hpp"

using namespace mrc;
using test::Fid;
using test::Objects;

namespace {

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

fi_cq_attr cq_with(fi_wait_obj wait) {
  fi_cq_attr a{};
  a.format = FI_CQ_FORMAT_CONTEXT;
  a.wait_obj = wait;
  return a;
}

}  // namespace

TEST_CASE("an application may sleep on the descriptor after fi_trywait") {
  Objects o;
  const auto cq = o.open_cq(cq_with(FI_WAIT_FD));
  int fd = -1;
  REQUIRE(fi_control(&cq->fid, FI_GETWAIT, &fd) == 0);
  struct fid* fids[] = {&cq->fid};
  REQUIRE(fi_trywait(o.fabric.get(), fids, 1) == 0);
  CHECK(o.engine->armed);
  CHECK_FALSE(readable(fd));

  SECTION("packets wake it") {
    o.engine->wake();
    CHECK(readable(fd));
    fi_cq_entry entry;
    CHECK(fi_cq_read(cq.get(), &entry, 1) == -FI_EAGAIN);
    CHECK_FALSE(o.engine->armed);
    CHECK_FALSE(readable(fd));
  }
  SECTION("another thread's progress wakes it") {
    {
      const std::lock_guard guard(*o.engine);
      prov::cq_of(&cq->fid)->push({});
    }
    CHECK(readable(fd));
    CHECK(fi_trywait(o.fabric.get(), fids, 1) == -FI_EAGAIN);
    fi_cq_entry entry;
    CHECK(fi_cq_read(cq.get(), &entry, 1) == 1);
    CHECK(fi_trywait(o.fabric.get(), fids, 1) == 0);
    CHECK_FALSE(readable(fd));
  }
  SECTION("two sleepers: one that wakes does not silence the other") {
    const auto other = o.open_cq(cq_with(FI_WAIT_FD));
    struct fid* both[] = {&cq->fid, &other->fid};
    REQUIRE(fi_trywait(o.fabric.get(), both, 2) == 0);
    fi_cq_entry entry;
    CHECK(fi_cq_read(cq.get(), &entry, 1) == -FI_EAGAIN);
    CHECK(o.engine->armed);
    CHECK(fi_cq_read(other.get(), &entry, 1) == -FI_EAGAIN);
    CHECK_FALSE(o.engine->armed);
  }
}

TEST_CASE("fi_trywait says no while there is work") {
  Objects o;
  const auto cq = o.open_cq(cq_with(FI_WAIT_FD));
  struct fid* fids[] = {&cq->fid};
  o.engine->next_progress = [&] { prov::cq_of(&cq->fid)->push({}); };
  CHECK(fi_trywait(o.fabric.get(), fids, 1) == -FI_EAGAIN);
  CHECK_FALSE(o.engine->armed);
  struct fid* bad[] = {&o.domain->fid};
  CHECK(fi_trywait(o.fabric.get(), bad, 1) == -FI_EINVAL);
}

TEST_CASE("no descriptor without FI_WAIT_FD") {
  Objects o;
  const auto cq = o.open_cq(cq_with(FI_WAIT_NONE));
  int fd = -1;
  CHECK(fi_control(&cq->fid, FI_GETWAIT, &fd) == -FI_EINVAL);
  CHECK(fi_control(&cq->fid, FI_BACKLOG, &fd) == -FI_ENOSYS);
}

TEST_CASE("a wait set watches its members") {
  Objects o;
  fi_wait_attr wanted{FI_WAIT_FD, 0};
  fid_wait* raw = nullptr;
  REQUIRE(fi_wait_open(o.fabric.get(), &wanted, &raw) == 0);
  const Fid<fid_wait> set(raw);
  fi_cq_attr a = cq_with(FI_WAIT_SET);
  a.wait_set = raw;
  fi_cntr_attr c{};
  c.wait_obj = FI_WAIT_SET;
  c.wait_set = raw;
  auto cq = o.open_cq(a);
  auto cntr = o.open_cntr(c);

  CHECK(fi_wait(raw, 0) == -FI_ETIMEDOUT);
  CHECK(fi_wait(raw, 20) == -FI_ETIMEDOUT);
  {
    std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      fi_cntr_add(cntr.get(), 1);
    });
    CHECK(fi_wait(raw, 5000) == 0);
  }
  CHECK(fi_cntr_read(cntr.get()) == 1);
  CHECK(fi_wait(raw, 0) == -FI_ETIMEDOUT);
  prov::cq_of(&cq->fid)->push({});
  CHECK(fi_wait(raw, 0) == 0);

  CHECK(fi_close(&raw->fid) == -FI_EBUSY);
  fi_wait_attr unknown{FI_WAIT_POLLFD, 0};
  fid_wait* other = nullptr;
  CHECK(fi_wait_open(o.fabric.get(), &unknown, &other) == -FI_ENOSYS);
}

TEST_CASE("a poll set tells who has something") {
  Objects o;
  fi_poll_attr wanted{};
  fid_poll* raw = nullptr;
  REQUIRE(fi_poll_open(o.domain.get(), &wanted, &raw) == 0);
  Fid<fid_poll> set(raw);
  fid_cq* cq_raw = nullptr;
  fi_cq_attr a = cq_with(FI_WAIT_NONE);
  int context = 0;
  REQUIRE(fi_cq_open(o.domain.get(), &a, &cq_raw, &context) == 0);
  Fid<fid_cq> cq(cq_raw);
  auto cntr = o.open_cntr();
  CHECK(fi_poll_add(raw, &cq->fid, 0) == 0);
  CHECK(fi_poll_add(raw, &cntr->fid, 0) == 0);
  CHECK(fi_poll_add(raw, &o.domain->fid, 0) == -FI_EINVAL);

  void* found[4] = {};
  CHECK(fi_poll(raw, found, 4) == 0);
  o.engine->next_progress = [&] { prov::cq_of(&cq->fid)->push({}); };
  REQUIRE(fi_poll(raw, found, 4) == 1);
  CHECK(found[0] == &context);
  fi_cntr_add(cntr.get(), 1);
  CHECK(fi_poll(raw, found, 4) == 2);
  CHECK(fi_poll(raw, found, 1) == 1);

  CHECK(fi_close(&cq->fid) == -FI_EBUSY);
  CHECK(fi_poll_del(raw, &cq->fid, 0) == 0);
  CHECK(fi_poll_del(raw, &cq->fid, 0) == -FI_EINVAL);
  set.reset();
}
