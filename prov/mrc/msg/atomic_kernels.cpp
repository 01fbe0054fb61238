// SPDX-License-Identifier: BSD-2-Clause
// The kernels: one template for how an element changes, one for each operation, and the table of all that make sense.
#include "atomic_kernels.hpp"

#include <rdma/fi_domain.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include <array>
#include <cfloat>
#include <complex>
#include <cstring>
#include <type_traits>

namespace mrc::prov::msg {
namespace {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

template <class T>
inline constexpr bool kIs128 = std::is_same_v<T, Int128> || std::is_same_v<T, Uint128>;
template <class T>
inline constexpr bool kInteger = std::is_integral_v<T> || kIs128<T>;
template <class T>
inline constexpr bool kReal = kInteger<T> || std::is_floating_point_v<T>;

/// An element as it lies in memory: what is only moved keeps every bit, padding included.
template <class T>
using Raw = std::array<std::byte, sizeof(T)>;

template <class T>
T value_of(const Raw<T>& raw) {
  T value;
  std::memcpy(&value, raw.data(), sizeof value);
  return value;
}

/// Of a long double only 10 bytes carry the value; the rest becomes zero.
template <class T>
Raw<T> raw_of(const T& value) {
  constexpr std::size_t kSignificant = LDBL_MANT_DIG == 64 ? 10 : sizeof(long double);
  Raw<T> raw{};
  if constexpr (std::is_same_v<T, long double>) {
    std::memcpy(raw.data(), &value, kSignificant);
  } else if constexpr (std::is_same_v<T, std::complex<long double>>) {
    const long double parts[2] = {value.real(), value.imag()};
    std::memcpy(raw.data(), &parts[0], kSignificant);
    std::memcpy(raw.data() + sizeof(long double), &parts[1], kSignificant);
  } else {
    std::memcpy(raw.data(), &value, sizeof value);
  }
  return raw;
}

template <std::size_t Size>
struct WordOf {};
template <>
struct WordOf<1> {
  typedef std::uint8_t __attribute__((may_alias)) Type;
};
template <>
struct WordOf<2> {
  typedef std::uint16_t __attribute__((may_alias)) Type;
};
template <>
struct WordOf<4> {
  typedef std::uint32_t __attribute__((may_alias)) Type;
};
template <>
struct WordOf<8> {
  typedef std::uint64_t __attribute__((may_alias)) Type;
};
template <>
struct WordOf<16> {
  typedef Uint128 __attribute__((may_alias)) Type;
};

template <class Word>
Word load(Word* at) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

/// True if `*at` was `seen` and is `wanted` now; `seen` is what was there.
template <class Word>
bool swap(Word* at, Word& seen, Word wanted) {
  return __atomic_compare_exchange_n(at, &seen, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

#ifdef __x86_64__
constexpr std::size_t kLongestWord = 16;
/// Not by compare-and-swap: memory that may only be read must not be written, not even with what is there.
WordOf<16>::Type load(WordOf<16>::Type* at) {
  const __m128i both = _mm_load_si128(reinterpret_cast<const __m128i*>(at));
  WordOf<16>::Type word;
  std::memcpy(&word, &both, sizeof word);
  return word;
}
// Every x86-64 of the last fifteen years has cmpxchg16b; compilers assume older ones.
__attribute__((target("cx16"))) bool swap(WordOf<16>::Type* at, WordOf<16>::Type& seen, WordOf<16>::Type wanted) {
  const auto before = __sync_val_compare_and_swap(at, seen, wanted);
  const bool done = before == seen;
  seen = before;
  return done;
}
#else
constexpr std::size_t kLongestWord = 8;
#endif

/// Lets `next(old, fresh)` say what replaces the element (false: nothing), until nobody else came between.
template <class T, class Next>
Raw<T> change(std::byte* at, const Next& next) {
  Raw<T> old, fresh;
  if constexpr (sizeof(T) <= kLongestWord) {
    using Word = typename WordOf<sizeof(T)>::Type;
    if (reinterpret_cast<std::uintptr_t>(at) % sizeof(Word) == 0) {
      auto* word = reinterpret_cast<Word*>(at);
      Word seen = load(word);
      for (;;) {
        std::memcpy(old.data(), &seen, sizeof seen);
        if (!next(old, fresh)) return old;
        Word wanted;
        std::memcpy(&wanted, fresh.data(), sizeof wanted);
        if (swap(word, seen, wanted)) return old;
      }
    }
  }
  std::memcpy(old.data(), at, sizeof old);
  if (next(old, fresh)) std::memcpy(at, fresh.data(), sizeof fresh);
  return old;
}

// --- operations: those that compute a new value, and those that choose between old value and operand ----------------

/// Integers wrap around, and small ones must not be promoted to a signed int on the way.
template <class T>
using Wrapping = std::conditional_t<kIs128<T>, Uint128, std::uint64_t>;

template <class T, class F>
T arithmetic(T a, T b, F f) {
  if constexpr (kInteger<T>)
    return static_cast<T>(f(static_cast<Wrapping<T>>(a), static_cast<Wrapping<T>>(b)));
  else
    return f(a, b);
}

template <class T>
bool truth(T value) {
  return value != T{};
}

template <class T, unsigned Op>
T compute(T old, T operand, T compare) {
  if constexpr (Op == FI_SUM) return arithmetic(old, operand, [](auto a, auto b) { return a + b; });
  if constexpr (Op == kDiff) return arithmetic(old, operand, [](auto a, auto b) { return a - b; });
  if constexpr (Op == FI_PROD) return arithmetic(old, operand, [](auto a, auto b) { return a * b; });
  if constexpr (Op == FI_LOR) return static_cast<T>(truth(old) || truth(operand) ? 1 : 0);
  if constexpr (Op == FI_LAND) return static_cast<T>(truth(old) && truth(operand) ? 1 : 0);
  if constexpr (Op == FI_LXOR) return static_cast<T>(truth(old) != truth(operand) ? 1 : 0);
  if constexpr (Op == FI_BOR) return arithmetic(old, operand, [](auto a, auto b) { return a | b; });
  if constexpr (Op == FI_BAND) return arithmetic(old, operand, [](auto a, auto b) { return a & b; });
  if constexpr (Op == FI_BXOR) return arithmetic(old, operand, [](auto a, auto b) { return a ^ b; });
  if constexpr (Op == FI_MSWAP) {
    const T taken = arithmetic(operand, compare, [](auto a, auto b) { return a & b; });
    const T kept = arithmetic(old, compare, [](auto a, auto b) { return a & ~b; });
    return arithmetic(taken, kept, [](auto a, auto b) { return a | b; });
  }
}

/// Whether the operand takes the old value's place.
template <class T, unsigned Op>
bool choose(T old, T operand, T compare) {
  if constexpr (Op == FI_MIN) return operand < old;
  if constexpr (Op == FI_MAX) return operand > old;
  if constexpr (Op == FI_ATOMIC_WRITE) return true;
  if constexpr (Op == FI_CSWAP) return compare == old;
  if constexpr (Op == FI_CSWAP_NE) return compare != old;
  if constexpr (Op == FI_CSWAP_LE) return compare <= old;
  if constexpr (Op == FI_CSWAP_LT) return compare < old;
  if constexpr (Op == FI_CSWAP_GE) return compare >= old;
  if constexpr (Op == FI_CSWAP_GT) return compare > old;
}

constexpr bool compares(unsigned op) {
  return op >= FI_CSWAP && op <= FI_MSWAP;
}
constexpr bool chooses(unsigned op) {
  return op == FI_MIN || op == FI_MAX || op == FI_ATOMIC_WRITE || (compares(op) && op != FI_MSWAP);
}
constexpr bool bitwise(unsigned op) {
  return op == FI_BOR || op == FI_BAND || op == FI_BXOR || op == FI_MSWAP;
}
constexpr bool needs_order(unsigned op) {
  return op == FI_MIN || op == FI_MAX || (op >= FI_CSWAP_LE && op <= FI_CSWAP_GT);
}

template <class T, unsigned Op>
void run(std::byte* target, const std::byte* operand, const std::byte* compare, std::byte* result, std::size_t count) {
  for (std::size_t i = 0; i < count * sizeof(T); i += sizeof(T)) {
    Raw<T> source{}, comparand{};
    if constexpr (Op != FI_ATOMIC_READ) std::memcpy(source.data(), operand + i, sizeof source);
    if constexpr (compares(Op)) std::memcpy(comparand.data(), compare + i, sizeof comparand);
    const Raw<T> old = change<T>(target + i, [&](const Raw<T>& seen, Raw<T>& fresh) {
      if constexpr (Op == FI_ATOMIC_READ) {
        return false;
      } else if constexpr (Op == FI_ATOMIC_WRITE) {
        fresh = source;
        return true;
      } else if constexpr (chooses(Op)) {
        fresh = source;
        return choose<T, Op>(value_of<T>(seen), value_of<T>(source), value_of<T>(comparand));
      } else {
        fresh = raw_of<T>(compute<T, Op>(value_of<T>(seen), value_of<T>(source), value_of<T>(comparand)));
        return true;
      }
    });
    if (result != nullptr) std::memcpy(result + i, old.data(), sizeof old);
  }
}

// --- the table
// --------------------------------------------------------------------------------------------------------

constexpr unsigned kOps = kDiff + 1, kTypes = kUint128 + 1;

struct Type {
  std::size_t size = 0;
  std::array<AtomicKernel, kOps> kernels{};
};

template <class T, unsigned Op>
constexpr AtomicKernel kernel() {
  if constexpr ((bitwise(Op) && !kInteger<T>) || (needs_order(Op) && !kReal<T>))
    return nullptr;
  else
    return run<T, Op>;
}

template <class T, unsigned... Op>
constexpr Type type(std::integer_sequence<unsigned, Op...>) {
  return {sizeof(T), {kernel<T, Op>()...}};
}

template <class... T>
constexpr std::array<Type, sizeof...(T)> table() {
  return {type<T>(std::make_integer_sequence<unsigned, kOps>())...};
}

// In the order of enum fi_datatype.
constexpr std::array<Type, kTypes> kTable =
    table<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t, std::int64_t,
          std::uint64_t, float, double, std::complex<float>, std::complex<double>, long double,
          std::complex<long double>, Int128, Uint128>();
static_assert(FI_INT8 == 0 && FI_FLOAT == 8 && FI_LONG_DOUBLE == 12 && FI_LONG_DOUBLE_COMPLEX == 13);
static_assert(FI_MIN == 0 && FI_MSWAP == kDiff - 1);

}  // namespace

std::size_t atomic_size(unsigned datatype) {
  return datatype < kTypes ? kTable[datatype].size : 0;
}

AtomicKernel atomic_kernel(unsigned datatype, unsigned op, AtomicClass kind) {
  if (datatype >= kTypes || op >= kOps || compares(op) != (kind == AtomicClass::kCompare)) return nullptr;
  if (op == FI_ATOMIC_READ && kind == AtomicClass::kBase) return nullptr;
  return kTable[datatype].kernels[op];
}

std::uint64_t operand_length(AtomicType type, std::uint64_t length) {
  if (type.op == FI_ATOMIC_READ) return 0;
  if (type.kind != AtomicClass::kCompare) return length;
  return length > UINT64_MAX / 2 ? UINT64_MAX : 2 * length;
}

}  // namespace mrc::prov::msg
