// SPDX-License-Identifier: BSD-2-Clause
// The queue of work that waits for counters.
#include "work.hpp"

#include <algorithm>

#include "cntr.hpp"

namespace mrc::prov {

void WorkQueue::add(std::unique_ptr<Work> work) {
  const Deferral& d = work->deferral();
  CntrObject& counter = *d.counter;
  const auto threshold = d.threshold;
  const bool all = d.work;
  counter.hold();
  if (d.completion != nullptr) d.completion->hold();
  if (counter.waiting().empty()) watched_.push_back(&counter);
  counter.waiting().of[all].emplace(threshold, std::move(work));
  changed(counter);
  run();
}

void WorkQueue::changed(CntrObject& counter) {
  WaitingWork& waiting = counter.waiting();
  const std::uint64_t reached[2] = {counter.value(), counter.value() + counter.errors()};
  for (int i = 0; i < 2; ++i)
    while (!waiting.of[i].empty() && waiting.of[i].begin()->first <= reached[i]) {
      due_.push_back(std::move(waiting.of[i].begin()->second));
      waiting.of[i].erase(waiting.of[i].begin());
      fresh_ = true;
    }
  if (waiting.empty()) std::erase(watched_, &counter);
}

namespace {

void let_go(const Work& work) {
  const Deferral& d = work.deferral();
  static_cast<Counter*>(d.counter)->drop();
  if (d.completion != nullptr) d.completion->drop();
}

}  // namespace

bool WorkQueue::run() {
  fresh_ = false;
  if (running_ || due_.empty()) return false;
  running_ = true;
  bool worked = false;
  stuck_.clear();
  // Work may change counters, which appends to the list.
  for (auto it = due_.begin(); it != due_.end();) {
    Work& work = **it;
    const bool waits = std::find(stuck_.begin(), stuck_.end(), work.side()) != stuck_.end();
    if (waits || !work.run()) {
      if (!waits) stuck_.push_back(work.side());
      ++it;
      continue;
    }
    let_go(work);
    it = due_.erase(it);
    worked = true;
  }
  running_ = false;
  fresh_ = false;
  return worked;
}

template <class Match>
std::list<std::unique_ptr<Work>> WorkQueue::take(Match&& match) {
  std::list<std::unique_ptr<Work>> taken;
  for (CntrObject* counter : watched_)
    for (auto& waiting : counter->waiting().of)
      for (auto it = waiting.begin(); it != waiting.end();) {
        if (match(*it->second)) {
          taken.push_back(std::move(it->second));
          it = waiting.erase(it);
        } else {
          ++it;
        }
      }
  std::erase_if(watched_, [](CntrObject* counter) { return counter->waiting().empty(); });
  for (auto it = due_.begin(); it != due_.end();) {
    const auto here = it++;
    if (match(**here)) taken.splice(taken.end(), due_, here);
  }
  for (const auto& work : taken) let_go(*work);
  return taken;
}

bool WorkQueue::cancel(const void* id, const void* owner) {
  const auto taken = take([&](const Work& work) {
    return work.deferral().id == id && (owner == nullptr ? work.deferral().work : work.belongs_to(owner));
  });
  if (owner != nullptr)
    for (const auto& work : taken) work->cancelled();
  return !taken.empty();
}

void WorkQueue::flush(const CntrObject* counter) {
  take([&](const Work& work) {
    return work.deferral().work && (counter == nullptr || work.deferral().counter == counter);
  });
}

void WorkQueue::forget(const void* who) {
  take([&](const Work& work) { return work.belongs_to(who); });
  std::erase_if(lent_, [&](const auto& each) {
    if (each.second != who) return false;
    each.first->drop();
    return true;
  });
}

void WorkQueue::lend(Counter* counter, const void* owner) {
  if (counter == nullptr) return;
  counter->hold();
  lent_.emplace_back(counter, owner);
}

void WorkQueue::give_back(Counter* counter) {
  if (counter == nullptr) return;
  const auto found = std::find_if(lent_.begin(), lent_.end(), [&](const auto& each) { return each.first == counter; });
  if (found == lent_.end()) return;
  *found = lent_.back();
  lent_.pop_back();
  counter->drop();
}

}  // namespace mrc::prov
