// SPDX-License-Identifier: BSD-2-Clause
// operator new and delete with an account.
#include "ledger.hpp"

#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace mrc::test {
namespace {

constexpr std::size_t kMallocHead = 8;
struct alignas(16) Note {
  std::size_t bytes = 0;
  Owner owner = Owner::kTest;
};
Owner current = Owner::kTest;
std::size_t held[2] = {0, 0};

/// The note lies right before what the caller gets.
void* take(std::size_t size, std::size_t alignment) {
  const std::size_t front = alignment > sizeof(Note) ? alignment : sizeof(Note);
  auto* block = static_cast<std::byte*>(std::aligned_alloc(front, (front + size + front - 1) / front * front));
  if (block == nullptr) throw std::bad_alloc();
  auto* note = new (block + front - sizeof(Note)) Note;
  note->bytes = malloc_usable_size(block) + kMallocHead - sizeof(Note);  // the note is ours, not theirs
  note->owner = current;
  held[static_cast<int>(current)] += note->bytes;
  return block + front;
}

void give(void* memory, std::size_t alignment) {
  if (memory == nullptr) return;
  const std::size_t front = alignment > sizeof(Note) ? alignment : sizeof(Note);
  auto* bytes = static_cast<std::byte*>(memory);
  const auto* note = reinterpret_cast<const Note*>(bytes - sizeof(Note));
  held[static_cast<int>(note->owner)] -= note->bytes;
  std::free(bytes - front);
}

}  // namespace

OnBehalfOf::OnBehalfOf(Owner owner) : before_(current) {
  current = owner;
}
OnBehalfOf::~OnBehalfOf() {
  current = before_;
}

std::size_t held_by(Owner owner) {
  return held[static_cast<int>(owner)];
}

}  // namespace mrc::test

void* operator new(std::size_t size) {
  return mrc::test::take(size, 16);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return mrc::test::take(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  mrc::test::give(memory, 16);
}
void operator delete(void* memory, std::size_t) noexcept {
  mrc::test::give(memory, 16);
}
void operator delete(void* memory, std::align_val_t alignment) noexcept {
  mrc::test::give(memory, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory, std::size_t, std::align_val_t alignment) noexcept {
  mrc::test::give(memory, static_cast<std::size_t>(alignment));
}
