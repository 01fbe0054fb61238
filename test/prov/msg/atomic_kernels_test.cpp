// SPDX-License-Identifier: BSD-2-Clause
// The atomic kernels against a model that knows numbers, not types: integers of any width as boost's big ones, floating
// point as pairs of long double. Also what they must not touch, and several threads at once.
#include "../../../prov/mrc/msg/atomic_kernels.hpp"

#include <rdma/fi_domain.h>
#include <sys/mman.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "mrc/random.hpp"
#include "support/catch.hpp"

using namespace mrc::prov::msg;
using boost::multiprecision::cpp_int;
using Bytes = std::vector<std::byte>;

namespace {

enum class Family { kSigned, kUnsigned, kReal, kComplex };
struct Kind {
  Family family;
  std::size_t width;  ///< of one number
  std::size_t size() const { return family == Family::kComplex ? 2 * width : width; }
  bool integer() const { return family == Family::kSigned || family == Family::kUnsigned; }
};
/// In the order of enum fi_datatype.
const Kind kKinds[] = {{Family::kSigned, 1}, {Family::kUnsigned, 1}, {Family::kSigned, 2},  {Family::kUnsigned, 2},
                       {Family::kSigned, 4}, {Family::kUnsigned, 4}, {Family::kSigned, 8},  {Family::kUnsigned, 8},
                       {Family::kReal, 4},   {Family::kReal, 8},     {Family::kComplex, 4}, {Family::kComplex, 8},
                       {Family::kReal, 16},  {Family::kComplex, 16}, {Family::kSigned, 16}, {Family::kUnsigned, 16}};

/// An element as numbers: an integer, or one or two floating-point ones.
struct Number {
  cpp_int integer;
  long double part[2] = {0, 0};
};

Number read(const Kind& kind, const std::byte* at) {
  Number n;
  if (kind.integer()) {
    for (std::size_t i = kind.width; i-- > 0;) n.integer = n.integer * 256 + static_cast<unsigned>(at[i]);
    if (kind.family == Family::kSigned && static_cast<unsigned>(at[kind.width - 1]) >= 128)
      n.integer -= cpp_int(1) << (8 * kind.width);
    return n;
  }
  for (std::size_t i = 0; i < kind.size() / kind.width; ++i) {
    float f;
    double d;
    switch (kind.width) {
      case 4:
        std::memcpy(&f, at + 4 * i, 4);
        n.part[i] = f;
        break;
      case 8:
        std::memcpy(&d, at + 8 * i, 8);
        n.part[i] = d;
        break;
      default:
        std::memcpy(&n.part[i], at + 16 * i, 16);
    }
  }
  return n;
}

void write(const Kind& kind, const Number& n, std::byte* at) {
  if (kind.integer()) {
    cpp_int value = n.integer % (cpp_int(1) << (8 * kind.width));
    if (value < 0) value += cpp_int(1) << (8 * kind.width);
    for (std::size_t i = 0; i < kind.width; ++i, value /= 256)
      at[i] = static_cast<std::byte>(static_cast<unsigned>(value % 256));
    return;
  }
  for (std::size_t i = 0; i < kind.size() / kind.width; ++i) {
    const auto f = static_cast<float>(n.part[i]);
    const auto d = static_cast<double>(n.part[i]);
    if (kind.width == 4) std::memcpy(at + 4 * i, &f, 4);
    if (kind.width == 8) std::memcpy(at + 8 * i, &d, 8);
    if (kind.width == 16) {
      std::memset(at + 16 * i, 0, 16);
      std::memcpy(at + 16 * i, &n.part[i], 10);
    }
  }
}

bool same(const Kind& kind, const std::byte* a, const std::byte* b) {
  const Number x = read(kind, a), y = read(kind, b);
  if (kind.integer()) return x.integer == y.integer;
  return std::memcmp(&x.part[0], &y.part[0], 10) == 0 && std::memcmp(&x.part[1], &y.part[1], 10) == 0;
}

bool exists(const Kind& kind, unsigned op, AtomicClass function) {
  switch (op) {
    case FI_MIN:
    case FI_MAX:
      return function != AtomicClass::kCompare && kind.family != Family::kComplex;
    case FI_SUM:
    case FI_PROD:
    case FI_LOR:
    case FI_LAND:
    case FI_LXOR:
    case FI_ATOMIC_WRITE:
    case kDiff:
      return function != AtomicClass::kCompare;
    case FI_BOR:
    case FI_BAND:
    case FI_BXOR:
      return function != AtomicClass::kCompare && kind.integer();
    case FI_ATOMIC_READ:
      return function == AtomicClass::kFetch;
    case FI_CSWAP:
    case FI_CSWAP_NE:
      return function == AtomicClass::kCompare;
    case FI_CSWAP_LE:
    case FI_CSWAP_LT:
    case FI_CSWAP_GE:
    case FI_CSWAP_GT:
      return function == AtomicClass::kCompare && kind.family != Family::kComplex;
    case FI_MSWAP:
      return function == AtomicClass::kCompare && kind.integer();
    default:
      return false;
  }
}

/// fi_atomic(3), on numbers. Bitwise operations are done on bytes.
void model(const Kind& kind, unsigned op, std::byte* target, const std::byte* operand, const std::byte* compare) {
  const auto bitwise = [&](auto f) {
    for (std::size_t i = 0; i < kind.width; ++i) target[i] = f(target[i], operand[i], compare[i]);
  };
  const Number a = read(kind, target), b = read(kind, operand), c = read(kind, compare);
  const bool true_a = kind.integer() ? a.integer != 0 : a.part[0] != 0 || a.part[1] != 0;
  const bool true_b = kind.integer() ? b.integer != 0 : b.part[0] != 0 || b.part[1] != 0;
  const auto put = [&](bool truth) {
    Number one;
    if (truth) one.integer = 1, one.part[0] = 1;
    write(kind, one, target);
  };
  const auto take_if = [&](bool yes) {
    if (yes) std::memcpy(target, operand, kind.size());
  };
  const bool equal = kind.integer() ? c.integer == a.integer : c.part[0] == a.part[0] && c.part[1] == a.part[1];
  const bool less = kind.integer() ? c.integer < a.integer : c.part[0] < a.part[0];
  const bool greater = kind.integer() ? c.integer > a.integer : c.part[0] > a.part[0];
  Number r;
  switch (op) {
    case FI_MIN:
      return take_if(kind.integer() ? b.integer < a.integer : b.part[0] < a.part[0]);
    case FI_MAX:
      return take_if(kind.integer() ? b.integer > a.integer : b.part[0] > a.part[0]);
    case FI_SUM:
      r.integer = a.integer + b.integer;
      r.part[0] = a.part[0] + b.part[0];
      r.part[1] = a.part[1] + b.part[1];
      return write(kind, r, target);
    case kDiff:
      r.integer = a.integer - b.integer;
      r.part[0] = a.part[0] - b.part[0];
      r.part[1] = a.part[1] - b.part[1];
      return write(kind, r, target);
    case FI_PROD:
      r.integer = a.integer * b.integer;
      r.part[0] = a.part[0] * b.part[0];
      if (kind.family == Family::kComplex) {
        r.part[0] -= a.part[1] * b.part[1];
        r.part[1] = a.part[0] * b.part[1] + a.part[1] * b.part[0];
      }
      return write(kind, r, target);
    case FI_LOR:
      return put(true_a || true_b);
    case FI_LAND:
      return put(true_a && true_b);
    case FI_LXOR:
      return put((true_a && !true_b) || (!true_a && true_b));
    case FI_BOR:
      return bitwise([](auto x, auto y, auto) { return x | y; });
    case FI_BAND:
      return bitwise([](auto x, auto y, auto) { return x & y; });
    case FI_BXOR:
      return bitwise([](auto x, auto y, auto) { return x ^ y; });
    case FI_ATOMIC_WRITE:
      return take_if(true);
    case FI_CSWAP:
      return take_if(equal);
    case FI_CSWAP_NE:
      return take_if(!equal);
    case FI_CSWAP_LE:
      return take_if(less || equal);
    case FI_CSWAP_LT:
      return take_if(less);
    case FI_CSWAP_GE:
      return take_if(greater || equal);
    case FI_CSWAP_GT:
      return take_if(greater);
    case FI_MSWAP:
      return bitwise([](auto x, auto y, auto z) { return (y & z) | (x & ~z); });
    default:
      return;
  }
}

/// Numbers with few significant bits, so that the model's arithmetic is exact; integers also at the ends of their
/// range.
void draw(const Kind& kind, mrc::Random& random, std::byte* at) {
  Number n;
  if (!kind.integer()) {
    for (auto& part : n.part) part = (static_cast<long double>(random.below(33)) - 16) / 4;
    if (kind.family == Family::kReal) n.part[1] = 0;
  } else if (random.below(3) == 0) {
    n.integer = random.below(5);
    n.integer -= 2;
  } else {
    for (int i = 0; i < 2; ++i) n.integer = (n.integer << 64) + random.next();
    if (random.below(3) == 0) n.integer = (cpp_int(1) << (8 * kind.width - 1)) - random.below(2);
  }
  write(kind, n, at);
}

}  // namespace

TEST_CASE("every atomic operation on every datatype does what fi_atomic(3) says, and nothing else") {
  mrc::Random random(20260);
  for (unsigned type = 0; type < 24; ++type) {
    REQUIRE(atomic_size(type) == (type < std::size(kKinds) ? kKinds[type].size() : 0));
    for (unsigned op = 0; op < 24; ++op)
      for (const auto function : {AtomicClass::kBase, AtomicClass::kFetch, AtomicClass::kCompare}) {
        CAPTURE(type, op, static_cast<int>(function));
        const AtomicKernel kernel = atomic_kernel(type, op, function);
        REQUIRE((kernel != nullptr) == (type < std::size(kKinds) && exists(kKinds[type], op, function)));
        if (kernel == nullptr) continue;
        const Kind& kind = kKinds[type];
        for (unsigned round = 0; round < 40; ++round) {
          const std::size_t count = 1 + random.below(5), size = kind.size(), bytes = count * size;
          const std::size_t shift = random.below(2) == 0 ? 0 : 1 + random.below(15);
          alignas(64) std::byte memory[512], before[512];
          for (auto& b : memory) b = static_cast<std::byte>(random.next());
          std::byte* target = memory + 64 + shift;
          Bytes operand(bytes), compare(bytes), result(bytes);
          for (std::size_t i = 0; i < count; ++i) {
            draw(kind, random, target + i * size);
            draw(kind, random, operand.data() + i * size);
            draw(kind, random, compare.data() + i * size);
            if (random.below(2) == 0) std::memcpy(compare.data() + i * size, target + i * size, size);
          }
          std::memcpy(before, memory, sizeof memory);
          const bool wants_result = function != AtomicClass::kBase;
          kernel(target, op == FI_ATOMIC_READ ? nullptr : operand.data(), compare.data(),
                 wants_result ? result.data() : nullptr, count);
          std::byte* expected = before + 64 + shift;
          if (wants_result) REQUIRE(std::memcmp(result.data(), expected, bytes) == 0);
          for (std::size_t i = 0; i < count; ++i) {
            model(kind, op, expected + i * size, operand.data() + i * size, compare.data() + i * size);
            REQUIRE(same(kind, target + i * size, expected + i * size));
          }
          std::memcpy(expected, target, bytes);
          REQUIRE(std::memcmp(memory, before, sizeof memory) == 0);
        }
      }
  }
}

TEST_CASE("operands: none to read, one to change, two to compare") {
  REQUIRE(operand_length({FI_UINT64, FI_ATOMIC_READ, AtomicClass::kFetch}, 80) == 0);
  REQUIRE(operand_length({FI_UINT64, FI_SUM, AtomicClass::kBase}, 80) == 80);
  REQUIRE(operand_length({FI_UINT64, FI_CSWAP, AtomicClass::kCompare}, 80) == 160);
  REQUIRE(operand_length({FI_UINT64, FI_CSWAP, AtomicClass::kCompare}, UINT64_MAX - 3) == UINT64_MAX);
}

TEST_CASE("not a number never compares, and minus zero equals zero") {
  const double nan = std::nan(""), one = 1, zero = 0.0, minus = -0.0, five = 5;
  const auto run = [](unsigned op, AtomicClass function, double target, const double& operand, const double& compare) {
    double old = 0;
    atomic_kernel(FI_DOUBLE, op, function)(
        reinterpret_cast<std::byte*>(&target), reinterpret_cast<const std::byte*>(&operand),
        reinterpret_cast<const std::byte*>(&compare), reinterpret_cast<std::byte*>(&old), 1);
    return target;
  };
  for (const unsigned op : {FI_MIN, FI_MAX}) {
    REQUIRE(run(op, AtomicClass::kFetch, 1, nan, 0) == 1);
    REQUIRE(std::isnan(run(op, AtomicClass::kFetch, nan, one, 0)));
  }
  REQUIRE(run(FI_CSWAP, AtomicClass::kCompare, minus, five, zero) == 5);
  REQUIRE(std::isnan(run(FI_CSWAP, AtomicClass::kCompare, nan, five, nan)));
  REQUIRE(run(FI_CSWAP_NE, AtomicClass::kCompare, nan, five, nan) == 5);
  for (const unsigned op : {FI_CSWAP_LE, FI_CSWAP_LT, FI_CSWAP_GE, FI_CSWAP_GT})
    REQUIRE(run(op, AtomicClass::kCompare, 1, five, nan) == 1);
}

TEST_CASE("an atomic read does not write") {
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  std::byte out[128];
  for (unsigned type = 0; type < std::size(kKinds); ++type)
    for (const std::size_t shift : {0u, 1u}) {
      std::memset(out, 0xff, sizeof out);
      atomic_kernel(type, FI_ATOMIC_READ, AtomicClass::kFetch)(static_cast<std::byte*>(page) + shift, nullptr, nullptr,
                                                               out, 3);
      for (std::size_t i = 0; i < 3 * atomic_size(type); ++i) REQUIRE(out[i] == std::byte{0});
    }
  munmap(page, 4096);
}

TEST_CASE("aligned elements up to 16 bytes are atomic towards other threads, whatever those use") {
  alignas(16) std::byte memory[16] = {};
  constexpr unsigned kTimes = 20000;
  for (unsigned type = 0; type < std::size(kKinds); ++type) {
    const Kind& kind = kKinds[type];
    if (kind.size() > 16) continue;
    CAPTURE(type);
    std::memset(memory, 0, sizeof memory);
    std::byte one[16] = {};
    Number n;
    n.integer = 1;
    n.part[0] = 1;
    write(kind, n, one);
    const auto add = [&] {
      const auto kernel = atomic_kernel(type, FI_SUM, AtomicClass::kBase);
      for (unsigned i = 0; i < kTimes; ++i) kernel(memory, one, nullptr, nullptr, 1);
    };
    std::thread other(add);
    // The local CPU's own atomics join in where there are any.
    if (type == FI_UINT64 || type == FI_INT64)
      for (unsigned i = 0; i < kTimes; ++i)
        __atomic_fetch_add(reinterpret_cast<std::uint64_t*>(memory), 1, __ATOMIC_RELAXED);
    else
      add();
    other.join();
    const Number total = read(kind, memory);
    if (kind.integer())
      REQUIRE((total.integer - 2 * kTimes) % (cpp_int(1) << (8 * kind.width)) == 0);
    else
      REQUIRE(total.part[0] == 2 * kTimes);
  }
}
