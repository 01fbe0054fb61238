// SPDX-License-Identifier: BSD-2-Clause
// FI_WAIT_MUTEX_COND: the application sleeps on a condition that somebody of ours signals.
#include <pthread.h>
#include <rdma/fi_eq.h>

#include <chrono>
#include <thread>

#include "objects.hpp"
#include "objects_fixture.hpp"

using namespace mrc;
using test::Fid;
using test::Objects;

namespace {

/// As fi_cq(3) has it: under the mutex, ask whether it is safe to sleep, then sleep. False after ten seconds.
bool sleep_until_something(fid_fabric* fabric, struct fid* fid, const fi_mutex_cond& wait) {
  timespec limit{};
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 10;
  pthread_mutex_lock(wait.mutex);
  int state = 0, timed = 0;
  while ((state = fi_trywait(fabric, &fid, 1)) == 0 && timed == 0)
    timed = pthread_cond_timedwait(wait.cond, wait.mutex, &limit);
  pthread_mutex_unlock(wait.mutex);
  return state == -FI_EAGAIN;
}

template <class Body>
std::jthread soon(Body body) {
  return std::jthread([body] {
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    body();
  });
}

}  // namespace

TEST_CASE("a completion signals the condition") {
  Objects o;
  fi_cq_attr attr{};
  attr.wait_obj = FI_WAIT_MUTEX_COND;
  const auto cq = o.open_cq(attr);
  fi_mutex_cond wait{};
  REQUIRE(fi_control(&cq->fid, FI_GETWAIT, &wait) == 0);
  fi_wait_obj object{};
  REQUIRE(fi_control(&cq->fid, FI_GETWAITOBJ, &object) == 0);
  CHECK(object == FI_WAIT_MUTEX_COND);
  for (int round = 0; round < 5; ++round) {
    const auto later = soon([&] {
      const std::lock_guard guard(*o.engine);
      prov::cq_of(&cq->fid)->push({});
    });
    REQUIRE(sleep_until_something(o.fabric.get(), &cq->fid, wait));
    fi_cq_entry entry;
    CHECK(fi_cq_read(cq.get(), &entry, 1) == 1);
  }
}

TEST_CASE("packets are handled while the application sleeps on the condition") {
  Objects o;
  fi_cq_attr attr{};
  attr.wait_obj = FI_WAIT_MUTEX_COND;
  const auto cq = o.open_cq(attr);
  fi_mutex_cond wait{};
  REQUIRE(fi_control(&cq->fid, FI_GETWAIT, &wait) == 0);
  const auto later = soon([&] {
    const std::lock_guard guard(*o.engine);
    o.engine->next_progress = [&] { prov::cq_of(&cq->fid)->push({}); };
    o.engine->wake();
  });
  CHECK(sleep_until_something(o.fabric.get(), &cq->fid, wait));
}

TEST_CASE("counters, event queues and wait sets signal theirs") {
  Objects o;
  fi_cntr_attr counting{};
  counting.wait_obj = FI_WAIT_MUTEX_COND;
  const auto cntr = o.open_cntr(counting);
  fi_eq_attr events{};
  events.wait_obj = FI_WAIT_MUTEX_COND;
  events.flags = FI_WRITE;
  const auto eq = o.open_eq(events);
  fi_wait_attr wanted{FI_WAIT_MUTEX_COND, 0};
  fid_wait* raw = nullptr;
  REQUIRE(fi_wait_open(o.fabric.get(), &wanted, &raw) == 0);
  const Fid<fid_wait> set(raw);
  fi_cq_attr member{};
  member.wait_obj = FI_WAIT_SET;
  member.wait_set = raw;
  const auto cq = o.open_cq(member);

  fi_mutex_cond wait{};
  REQUIRE(fi_control(&cntr->fid, FI_GETWAIT, &wait) == 0);
  {
    const auto later = soon([&] { fi_cntr_add(cntr.get(), 1); });
    CHECK(sleep_until_something(o.fabric.get(), &cntr->fid, wait));
  }
  REQUIRE(fi_control(&eq->fid, FI_GETWAIT, &wait) == 0);
  {
    ssize_t written = 0;
    {
      const auto later = soon([&] {
        const fi_eq_entry entry{};
        written = fi_eq_write(eq.get(), FI_NOTIFY, &entry, sizeof entry, 0);
      });
      CHECK(sleep_until_something(o.fabric.get(), &eq->fid, wait));
    }
    CHECK(written == sizeof(fi_eq_entry));
  }
  REQUIRE(fi_control(&set->fid, FI_GETWAIT, &wait) == 0);
  {
    const auto later = soon([&] {
      const std::lock_guard guard(*o.engine);
      prov::cq_of(&cq->fid)->push({});
    });
    CHECK(sleep_until_something(o.fabric.get(), &set->fid, wait));
  }
}
