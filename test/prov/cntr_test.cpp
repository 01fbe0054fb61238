// SPDX-License-Identifier: BSD-2-Clause
// Counters.
#include <thread>

#include "objects.hpp"
#include "objects_fixture.hpp"

using namespace mrc;
using test::Objects;

TEST_CASE("two numbers that the application may set") {
  Objects o;
  const auto cntr = o.open_cntr();
  CHECK(fi_cntr_read(cntr.get()) == 0);
  CHECK(fi_cntr_set(cntr.get(), 10) == 0);
  CHECK(fi_cntr_add(cntr.get(), 5) == 0);
  CHECK(fi_cntr_read(cntr.get()) == 15);
  CHECK(fi_cntr_readerr(cntr.get()) == 0);
  CHECK(fi_cntr_seterr(cntr.get(), 2) == 0);
  CHECK(fi_cntr_adderr(cntr.get(), 1) == 0);
  CHECK(fi_cntr_readerr(cntr.get()) == 3);
  CHECK(fi_cntr_read(cntr.get()) == 15);
}

TEST_CASE("reading makes progress") {
  Objects o;
  const auto cntr = o.open_cntr();
  prov::Counter* counter = prov::counter_of(&cntr->fid);
  REQUIRE(counter != nullptr);
  CHECK(prov::counter_of(&o.domain->fid) == nullptr);
  o.engine->next_progress = [&] { counter->add(3); };
  CHECK(fi_cntr_read(cntr.get()) == 3);
  o.engine->next_progress = [&] { counter->add_error(4); };
  CHECK(fi_cntr_readerr(cntr.get()) == 4);
}

TEST_CASE("waiting: threshold, time, errors") {
  Objects o;
  const auto cntr = o.open_cntr();
  prov::Counter* counter = prov::counter_of(&cntr->fid);
  CHECK(fi_cntr_wait(cntr.get(), 0, 0) == 0);
  CHECK(fi_cntr_wait(cntr.get(), 1, 0) == -FI_ETIMEDOUT);
  CHECK(fi_cntr_wait(cntr.get(), 1, 20) == -FI_ETIMEDOUT);
  o.engine->next_progress = [&] { counter->add(2); };
  CHECK(fi_cntr_wait(cntr.get(), 2, -1) == 0);
  fi_cntr_adderr(cntr.get(), 1);  // an old error does not end a new wait
  CHECK(fi_cntr_wait(cntr.get(), 3, 10) == -FI_ETIMEDOUT);
  {
    std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const std::lock_guard guard(*o.engine);
      counter->add_error(1);
    });
    CHECK(fi_cntr_wait(cntr.get(), 3, 5000) == -FI_EAVAIL);
  }
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    fi_cntr_add(cntr.get(), 1);
  });
  CHECK(fi_cntr_wait(cntr.get(), 3, 5000) == 0);
}

TEST_CASE("a bound counter is busy, and only completions are counted") {
  Objects o;
  const auto cntr = o.open_cntr();
  prov::counter_of(&cntr->fid)->hold();
  CHECK(fi_close(&cntr->fid) == -FI_EBUSY);
  prov::counter_of(&cntr->fid)->drop();
  fi_cntr_attr a{};
  a.events = static_cast<fi_cntr_events>(7);
  fid_cntr* other = nullptr;
  CHECK(fi_cntr_open(o.domain.get(), &a, &other, nullptr) == -FI_ENOSYS);
}
