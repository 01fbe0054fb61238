// SPDX-License-Identifier: BSD-2-Clause
// The deferred work queue without a network: work on counters, in the order of thresholds, cancelled and flushed.
#include <rdma/fi_trigger.h>

#include "cntr.hpp"
#include "objects.hpp"
#include "objects_fixture.hpp"

using namespace mrc;
using test::Objects;

namespace {

/// FI_QUEUE_WORK of an operation on a counter, with structures that are gone when it is due.
int queue(Objects& o, fid_cntr* when, std::uint64_t threshold, fid_cntr* what, fi_op_type op, std::uint64_t value,
          fi_deferred_work* id = nullptr) {
  fi_op_cntr body{what, value};
  fi_deferred_work own{};
  fi_deferred_work& w = id != nullptr ? *id : own;
  w = {};
  w.threshold = threshold;
  w.triggering_cntr = when;
  w.op_type = op;
  w.op.cntr = &body;
  return fi_control(&o.domain->fid, FI_QUEUE_WORK, &w);
}

}  // namespace

TEST_CASE("work on counters is done in the order of thresholds, then of submission") {
  Objects o;
  const auto when = o.open_cntr();
  const auto what = o.open_cntr();
  REQUIRE(queue(o, when.get(), 3, what.get(), FI_OP_CNTR_ADD, 1000) == 0);
  REQUIRE(queue(o, when.get(), 1, what.get(), FI_OP_CNTR_SET, 5) == 0);
  REQUIRE(queue(o, when.get(), 1, what.get(), FI_OP_CNTR_ADD, 5) == 0);
  REQUIRE(queue(o, when.get(), 2, what.get(), FI_OP_CNTR_SET, 7) == 0);
  CHECK(fi_cntr_read(what.get()) == 0);
  CHECK(fi_close(&when->fid) == -FI_EBUSY);  // work waits for it
  SECTION("one by one") {
    fi_cntr_add(when.get(), 1);
    CHECK(fi_cntr_read(what.get()) == 10);
    fi_cntr_add(when.get(), 1);
    CHECK(fi_cntr_read(what.get()) == 7);
    fi_cntr_add(when.get(), 1);
    CHECK(fi_cntr_read(what.get()) == 1007);
  }
  SECTION("all at once") {
    fi_cntr_set(when.get(), 100);
    CHECK(fi_cntr_read(what.get()) == 1007);
  }
  SECTION("errors count too") {
    fi_cntr_add(when.get(), 1);
    fi_cntr_adderr(when.get(), 2);
    CHECK(fi_cntr_read(what.get()) == 1007);
  }
}

TEST_CASE("work that is due already is done at once, and may set off more") {
  Objects o;
  const auto a = o.open_cntr();
  const auto b = o.open_cntr();
  const auto c = o.open_cntr();
  REQUIRE(queue(o, b.get(), 10, c.get(), FI_OP_CNTR_ADD, 1) == 0);
  REQUIRE(queue(o, c.get(), 1, c.get(), FI_OP_CNTR_ADD, 100) == 0);
  fi_cntr_set(a.get(), 4);
  REQUIRE(queue(o, a.get(), 4, b.get(), FI_OP_CNTR_SET, 10) == 0);
  CHECK(fi_cntr_read(b.get()) == 10);
  CHECK(fi_cntr_read(c.get()) == 101);
}

TEST_CASE("work can be taken back, one, of one counter, or all") {
  Objects o;
  const auto a = o.open_cntr();
  const auto b = o.open_cntr();
  const auto what = o.open_cntr();
  fi_deferred_work first{}, second{}, third{};
  REQUIRE(queue(o, a.get(), 1, what.get(), FI_OP_CNTR_ADD, 1, &first) == 0);
  REQUIRE(queue(o, a.get(), 1, what.get(), FI_OP_CNTR_ADD, 10, &second) == 0);
  REQUIRE(queue(o, b.get(), 1, what.get(), FI_OP_CNTR_ADD, 100, &third) == 0);
  CHECK(fi_control(&o.domain->fid, FI_CANCEL_WORK, &first) == 0);
  CHECK(fi_control(&o.domain->fid, FI_CANCEL_WORK, &first) == -FI_ENOENT);
  SECTION("of one counter") {
    CHECK(fi_control(&o.domain->fid, FI_FLUSH_WORK, b.get()) == 0);
    fi_cntr_add(a.get(), 1);
    fi_cntr_add(b.get(), 1);
    CHECK(fi_cntr_read(what.get()) == 10);
  }
  SECTION("all") {
    CHECK(fi_control(&o.domain->fid, FI_FLUSH_WORK, nullptr) == 0);
    fi_cntr_add(a.get(), 1);
    fi_cntr_add(b.get(), 1);
    CHECK(fi_cntr_read(what.get()) == 0);
  }
}

TEST_CASE("bad work is refused") {
  Objects o;
  const auto a = o.open_cntr();
  CHECK(fi_control(&o.domain->fid, FI_QUEUE_WORK, nullptr) == -FI_EINVAL);
  CHECK(fi_control(&o.domain->fid, FI_CANCEL_WORK, nullptr) == -FI_EINVAL);
  CHECK(fi_control(&o.domain->fid, 12345, nullptr) == -FI_ENOSYS);
  CHECK(queue(o, nullptr, 1, a.get(), FI_OP_CNTR_ADD, 1) == -FI_EINVAL);
  CHECK(queue(o, a.get(), 1, nullptr, FI_OP_CNTR_ADD, 1) == -FI_EINVAL);
  fi_deferred_work w{};
  w.triggering_cntr = a.get();
  w.op_type = FI_OP_SEND;
  CHECK(fi_control(&o.domain->fid, FI_QUEUE_WORK, &w) == -FI_EINVAL);
  w.op_type = static_cast<fi_op_type>(999);
  CHECK(fi_control(&o.domain->fid, FI_QUEUE_WORK, &w) == -FI_ENOSYS);
  Objects other;
  const auto foreign = other.open_cntr();
  CHECK(queue(o, foreign.get(), 1, a.get(), FI_OP_CNTR_ADD, 1) == -FI_EINVAL);
}
