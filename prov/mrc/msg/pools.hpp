// SPDX-License-Identifier: BSD-2-Clause
// Memory of the messaging layer: pools that grow by slabs up to a limit and never shrink, so that a steady state
// allocates nothing, and chunks in three sizes for bytes that must wait (unexpected, out of order, in pieces).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "records.hpp"

namespace mrc::prov::msg {

/// T needs a member `std::uint32_t index`. take() is null at the limit; items keep their last contents.
template <class T>
class SlabPool {
 public:
  static constexpr std::uint32_t kSlab = 64;
  explicit SlabPool(std::uint32_t limit) : limit_(limit) {}

  T* take() {
    if (free_.empty() && !grow()) return nullptr;
    T* item = free_.back();
    free_.pop_back();
    return item;
  }
  void give(T* item) { free_.push_back(item); }
  /// The item of that index, taken or not; null if there never was one.
  T* at(std::uint32_t index) {
    const std::size_t slab = index / kSlab;
    return slab < slabs_.size() ? &slabs_[slab][index % kSlab] : nullptr;
  }
  std::uint32_t available() const { return limit_ - taken(); }
  std::uint32_t taken() const { return static_cast<std::uint32_t>(slabs_.size() * kSlab - free_.size()) - beyond_; }
  std::uint32_t limit() const { return limit_; }
  /// Makes everything up to the limit now, for pools that are sized when the endpoint opens.
  void fill() {
    while (grow()) {
    }
  }

 private:
  bool grow() {
    const auto first = static_cast<std::uint32_t>(slabs_.size()) * kSlab;
    if (first >= limit_) return false;
    slabs_.push_back(std::make_unique<T[]>(kSlab));
    free_.reserve(slabs_.size() * kSlab);
    for (std::uint32_t i = kSlab; i > 0; --i) {
      T* item = &slabs_.back()[i - 1];
      item->index = first + i - 1;
      if (item->index < limit_)
        free_.push_back(item);
      else
        ++beyond_;  // the last slab may reach over the limit: those are never handed out
    }
    return true;
  }

  std::uint32_t limit_;
  std::uint32_t beyond_ = 0;
  std::vector<std::unique_ptr<T[]>> slabs_;
  std::vector<T*> free_;
};

/// Bytes that wait. `offset`/`length` say where the interesting part is.
struct Chunk {
  std::uint32_t index = 0;
  std::uint8_t size_class = 0;
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
  std::byte* data = nullptr;
};

/// How much fits the largest chunk: one mailbox message.
inline constexpr std::size_t kMaxMail = kMailHead + kMaxRecordHead + kMaxEager;

/// Chunks of 256 B, 2 KiB, 17 KiB and one whole mailbox message. What peers can make it hold is bounded by their
/// credits.
class ChunkPool {
 public:
  /// Null only for a size beyond kMaxMail.
  Chunk* take(std::size_t size) {
    for (std::uint8_t c = 0; c < kSizes.size(); ++c) {
      if (size > kSizes[c]) continue;
      Chunk* chunk = pools_[c].take();
      if (chunk == nullptr) return nullptr;
      if (chunk->data == nullptr) {
        memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(kSizes[c]));
        chunk->data = memory_.back().get();
        chunk->size_class = c;
      }
      chunk->offset = 0;
      chunk->length = static_cast<std::uint32_t>(size);
      return chunk;
    }
    return nullptr;
  }
  void give(Chunk* chunk) { pools_[chunk->size_class].give(chunk); }
  std::uint32_t taken() const { return pools_[0].taken() + pools_[1].taken() + pools_[2].taken() + pools_[3].taken(); }

 private:
  static constexpr std::array<std::size_t, 4> kSizes{256, 2048, 17 * 1024, kMaxMail};
  std::array<SlabPool<Chunk>, 4> pools_{SlabPool<Chunk>(1u << 24), SlabPool<Chunk>(1u << 22), SlabPool<Chunk>(1u << 20),
                                        SlabPool<Chunk>(1u << 20)};
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

}  // namespace mrc::prov::msg
