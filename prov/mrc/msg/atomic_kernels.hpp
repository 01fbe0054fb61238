// SPDX-License-Identifier: BSD-2-Clause
// What libfabric's atomic operations do to memory: fi_atomic(3)'s operations on its datatypes, on any architecture that
// stores them as x86-64 does. Operations and datatypes are libfabric's numbers, so that one binary serves headers that
// know fewer of them; numbers that mean nothing here are simply not supported.
// Atomicity: naturally aligned elements of 1, 2, 4, 8 and 16 bytes change by one compare-and-swap of the CPU, so other
// processes and the local CPU's own atomics may work on the same memory. Longer elements (long double complex) and
// misaligned ones are atomic among callers that hold the same lock, which is all that fi_atomic(3) asks for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mrc::prov::msg {

enum class AtomicClass : std::uint8_t {
  kBase,     ///< fi_atomic: changes the target
  kFetch,    ///< fi_fetch_atomic: brings what was there before
  kCompare,  ///< fi_compare_atomic: the same, and has a second operand
};

/// What an atomic operation is, in libfabric's numbers (enum fi_datatype, enum fi_op).
struct AtomicType {
  std::uint8_t datatype = 0;
  std::uint8_t op = 0;
  AtomicClass kind = AtomicClass::kBase;
};

/// `count` elements at `target`, one after the other. `operand` and `compare` are read where the operation has them,
/// `result` gets the old values where it is not null. No alignment is asked of anything; nothing may overlap.
using AtomicKernel = void (*)(std::byte* target, const std::byte* operand, const std::byte* compare, std::byte* result,
                              std::size_t count);

/// FI_INT128 and FI_UINT128 (FI_DATATYPE_LAST and what follows it in libfabric 1.x), FI_DIFF (libfabric 2.x).
inline constexpr unsigned kInt128 = 14, kUint128 = 15, kDiff = 19;

/// Bytes of one element; 0 for a datatype that is not known.
std::size_t atomic_size(unsigned datatype);
/// Null if that class of functions does not have the operation, or the operation not the datatype.
AtomicKernel atomic_kernel(unsigned datatype, unsigned op, AtomicClass kind);
/// Bytes of operands that go with `length` bytes of target: none to read, two for each to compare, else one.
std::uint64_t operand_length(AtomicType type, std::uint64_t length);

}  // namespace mrc::prov::msg
