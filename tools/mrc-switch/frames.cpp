// SPDX-License-Identifier: BSD-2-Clause
// The frame store and its queues.
#include "frames.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace mrc::soft {

FrameStore::FrameStore(std::uint32_t count, std::uint32_t frame_bytes) : bytes_((frame_bytes + 63) / 64 * 64) {
  mapped_ = std::size_t{count} * bytes_;
  void* at = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(at);
  held_.resize(count);
  for (std::uint32_t i = count; i > 0; --i) {
    held_[i - 1].next = free_;
    free_ = i - 1;
  }
}

FrameStore::~FrameStore() {
  ::munmap(base_, mapped_);
}

std::uint32_t FrameStore::put(std::span<const std::byte> frame) {
  if (free_ == kNone || frame.size() > bytes_) return kNone;
  const std::uint32_t index = free_;
  free_ = held_[index].next;
  held_[index] = {kNone, static_cast<std::uint32_t>(frame.size())};
  std::memcpy(base_ + std::size_t{index} * bytes_, frame.data(), frame.size());
  ++in_use_;
  return index;
}

void FrameStore::drop(std::uint32_t index) {
  held_[index].next = free_;
  free_ = index;
  --in_use_;
}

void FrameQueue::push(FrameStore& store, std::uint32_t frame) {
  store.next(frame) = FrameStore::kNone;
  if (tail_ == FrameStore::kNone) {
    head_ = frame;
  } else {
    store.next(tail_) = frame;
  }
  tail_ = frame;
  ++count_;
}

std::uint32_t FrameQueue::pop(FrameStore& store) {
  const std::uint32_t frame = head_;
  head_ = store.next(frame);
  if (head_ == FrameStore::kNone) tail_ = FrameStore::kNone;
  --count_;
  return frame;
}

void FrameQueue::clear(FrameStore& store) {
  while (!empty()) store.drop(pop(store));
}

bool DelayQueue::push(Entry entry) {
  if (heap_.size() >= limit_) return false;
  entry.order = order_++;
  heap_.push_back(entry);
  std::push_heap(heap_.begin(), heap_.end(), later);
  return true;
}

bool DelayQueue::pop(Tick now, Entry& out) {
  if (heap_.empty() || heap_.front().due > now) return false;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  out = heap_.back();
  heap_.pop_back();
  return true;
}

}  // namespace mrc::soft
