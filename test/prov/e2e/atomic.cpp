// SPDX-License-Identifier: BSD-2-Clause
// fi_atomic and its kin over the real provider: what is valid, counts that come out exactly (over loss and duplication
// too), every form of call, long vectors, refusals.
#include <algorithm>
#include <complex>
#include <cstring>
#include <numeric>

#include "talk.hpp"

namespace talk {
namespace {

constexpr std::uint64_t kBoth = FI_REMOTE_READ | FI_REMOTE_WRITE;

template <class T>
struct Region {
  Region(Host& host, std::size_t count, std::uint64_t key, std::uint64_t access = kBoth) : values(count) {
    OK(fi_mr_reg(host.domain, values.data(), count * sizeof(T), access, 0, key, 0, &mr, nullptr));
  }
  ~Region() { fi_close(&mr->fid); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  std::vector<T> values;
  fid_mr* mr = nullptr;
};

fi_datatype type(int number) {
  return static_cast<fi_datatype>(number);
}
fi_op operation(int number) {
  return static_cast<fi_op>(number);
}

void validity(Pair& pair) {
  Talk t(pair);
  int valid[3] = {};
  for (int datatype = 0; datatype < 30; ++datatype)
    for (int op = 0; op < 30; ++op) {
      std::size_t count[3] = {};
      const int answer[3] = {fi_atomicvalid(t.ep, type(datatype), operation(op), &count[0]),
                             fi_fetch_atomicvalid(t.ep, type(datatype), operation(op), &count[1]),
                             fi_compare_atomicvalid(t.ep, type(datatype), operation(op), &count[2])};
      constexpr std::uint64_t kFlags[3] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};
      for (int i = 0; i < 3; ++i) {
        fi_atomic_attr attr{};
        CHECK(fi_query_atomic(pair.host.domain, type(datatype), operation(op), &attr, kFlags[i]) == answer[i]);
        CHECK(answer[i] == 0 || answer[i] == -FI_EOPNOTSUPP);
        if (answer[i] == 0) ++valid[i];
        CHECK(answer[i] != 0 || (attr.count == count[i] && attr.count * attr.size * (i == 2 ? 2 : 1) == 16384));
        CHECK(fi_query_atomic(pair.host.domain, type(datatype), operation(op), &attr, kFlags[i] | FI_TAGGED) ==
              -FI_EOPNOTSUPP);
      }
    }
  // 16 datatypes: 10 integers, 3 real, 3 complex.
  const int diff = FI_VERSION_GE(fi_version(), FI_VERSION(2, 0)) ? 16 : 0;
  CHECK(valid[0] == 6 * 16 + 2 * 13 + 3 * 10 + diff);
  CHECK(valid[1] == valid[0] + 16);
  CHECK(valid[2] == 2 * 16 + 4 * 13 + 10);
  fi_atomic_attr attr{};
  CHECK(fi_query_atomic(pair.host.domain, FI_INT8, FI_SUM, &attr, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) ==
        -FI_EBADFLAGS);
  CHECK(fi_query_atomic(pair.host.domain, FI_INT8, FI_SUM, &attr, FI_MULTI_RECV) == -FI_EBADFLAGS);
  t.sync();
}

/// Both sides add to both sides' counters at the same time; every value is fetched once.
void counting(Pair& pair) {
  Talk t(pair);
  Region<std::uint64_t> memory(pair.host, 4, 21);
  const fi_addr_t own = t.insert(t.name());
  t.sync();
  constexpr std::size_t kCount = 600;
  const std::uint64_t one = 1;
  std::vector<std::uint64_t> theirs(kCount), mine(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    post(t.tx, [&] {
      return fi_fetch_atomic(t.ep, &one, 1, nullptr, &theirs[i], nullptr, t.peer, 0, 21, FI_UINT64, FI_SUM, &theirs[i]);
    });
    post(t.tx, [&] {
      return fi_fetch_atomic(t.ep, &one, 1, nullptr, &mine[i], nullptr, own, 0, 21, FI_UINT64, FI_SUM, &mine[i]);
    });
    post(t.tx, [&] { return fi_inject_atomic(t.ep, &one, 1, t.peer, 8, 21, FI_UINT64, FI_SUM); });
    post(t.tx, [&] { return fi_atomic(t.ep, &one, 1, nullptr, t.peer, 16, 21, FI_UINT64, FI_SUM, nullptr); });
  }
  for (std::size_t i = 0; i < 3 * kCount; ++i) {
    const Done done = take(t.tx);
    CHECK(done.error == 0);
    CHECK(done.entry.flags == (FI_ATOMIC | (done.entry.op_context != nullptr ? FI_READ : FI_WRITE)));
  }
  CHECK(fi_cntr_read(t.counter[Node::kRead]) == 2 * kCount);
  OK(fi_cntr_wait(t.counter[Node::kWritten], 2 * kCount, 20000));
  CHECK(std::is_sorted(theirs.begin(), theirs.end()) && std::is_sorted(mine.begin(), mine.end()));
  t.sync();
  CHECK((memory.values == std::vector<std::uint64_t>{2 * kCount, kCount, kCount, 0}));
  OK(fi_cntr_wait(t.counter[Node::kRemoteRead], 2 * kCount, 5000));
  OK(fi_cntr_wait(t.counter[Node::kRemoteWritten], 2 * kCount, 5000));
  // What I fetched from my memory and what the other side did are all the numbers there are.
  std::vector<std::uint64_t> other(kCount);
  t.pair.line.put(theirs.data(), kCount * 8);
  t.pair.line.get(other.data(), kCount * 8);
  other.insert(other.end(), mine.begin(), mine.end());
  std::sort(other.begin(), other.end());
  for (std::size_t i = 0; i < other.size(); ++i) CHECK(other[i] == i);
  t.sync();
}

/// Vectors in pieces, message forms with several target ranges, delivery complete.
void forms(Pair& pair) {
  Talk t(pair);
  Region<std::complex<double>> memory(pair.host, 1024, 22);
  for (std::size_t i = 0; i < memory.values.size(); ++i) memory.values[i] = {double(i), 1};
  t.sync();
  if (t.client) {
    using Value = std::complex<double>;
    std::vector<Value> operand(1024), old(1024), same(512), expected(1024);
    for (std::size_t i = 0; i < 1024; ++i) expected[i] = {double(i), 1}, operand[i] = {2, double(i % 7)};
    fi_ioc in[4] = {{&operand[0], 1}, {&operand[1], 500}, {&operand[501], 23}, {&operand[524], 500}};
    fi_ioc out[4] = {{&old[0], 1000}, {&old[1000], 20}, {&old[1020], 3}, {&old[1023], 1}};
    post(t.tx, [&] {
      return fi_fetch_atomicv(t.ep, in, nullptr, 4, out, nullptr, 4, t.peer, 0, 22, FI_DOUBLE_COMPLEX, FI_PROD, &old);
    });
    good(t.tx, &old);
    CHECK(old == expected);
    for (std::size_t i = 0; i < 1024; ++i) expected[i] *= operand[i];
    post(t.tx, [&] {
      return fi_fetch_atomic(t.ep, nullptr, 1024, nullptr, old.data(), nullptr, t.peer, 0, 22, FI_DOUBLE_COMPLEX,
                             FI_ATOMIC_READ, &old);
    });
    good(t.tx, &old);
    CHECK(old == expected);

    const fi_rma_ioc ranges[4] = {{160, 100, 22}, {3200, 12, 22}, {0, 4, 22}, {4800, 396, 22}};
    const auto place = [&](std::size_t i) {
      return i < 100 ? 10 + i : i < 112 ? 100 + i : i < 116 ? i - 112 : i - 116 + 300;
    };
    for (std::size_t i = 0; i < 512; ++i) same[i] = i % 3 == 0 ? expected[place(i)] : Value(-1, -1);
    fi_ioc swap = {operand.data(), 512}, compare[2] = {{&same[0], 7}, {&same[7], 505}}, result = {old.data(), 512};
    fi_msg_atomic m{};
    m.msg_iov = &swap;
    m.iov_count = 1;
    m.addr = t.peer;
    m.rma_iov = ranges;
    m.rma_iov_count = 4;
    m.datatype = FI_DOUBLE_COMPLEX;
    m.op = FI_CSWAP;
    m.context = &swap;
    post(t.tx, [&] {
      return fi_compare_atomicmsg(t.ep, &m, compare, nullptr, 2, &result, nullptr, 1,
                                  FI_COMPLETION | FI_DELIVERY_COMPLETE);
    });
    good(t.tx, &swap);
    for (std::size_t i = 0; i < 512; ++i) {
      CHECK(old[i] == expected[place(i)]);
      if (i % 3 == 0) expected[place(i)] = operand[i];
    }
    m.op = FI_ATOMIC_WRITE;
    m.rma_iov_count = 1;
    swap.count = 100;
    m.data = 0xfeed;
    CHECK(fi_atomicmsg(t.ep, &m, FI_INJECT | FI_COMPLETION) == -FI_EMSGSIZE);
    post(t.tx, [&] { return fi_atomicmsg(t.ep, &m, FI_COMPLETION | FI_REMOTE_CQ_DATA); });
    good(t.tx, &swap);
    std::copy_n(operand.begin(), 100, expected.begin() + 10);
    fi_ioc two[2] = {{&operand[0], 5}, {&operand[5], 5}};
    post(t.tx, [&] { return fi_atomicv(t.ep, two, nullptr, 2, t.peer, 16 * 10, 22, FI_DOUBLE_COMPLEX, FI_SUM, &two); });
    good(t.tx, &two);
    for (std::size_t i = 0; i < 10; ++i) expected[10 + i] += operand[i];
    t.sync();
    t.pair.line.put(expected.data(), 1024 * 16);
  } else {
    const Done done = take(t.rx, 40);
    CHECK(done.entry.flags == (FI_ATOMIC | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
    CHECK(done.entry.data == 0xfeed && done.entry.len == 1600);
    t.sync();
    std::vector<std::complex<double>> expected(1024);
    t.pair.line.get(expected.data(), 1024 * 16);
    CHECK(memory.values == expected);
  }
  t.sync();
}

void refusals(Pair& pair) {
  Talk t(pair);
  Region<std::uint32_t> readable(pair.host, 100, 30, FI_REMOTE_READ), writable(pair.host, 100, 31, FI_REMOTE_WRITE);
  t.sync();
  if (t.client) {
    std::uint32_t one = 1, result = 7;
    std::vector<std::uint32_t> many(5000);
    const auto base = [&](std::uint64_t address, std::uint64_t key) {
      post(t.tx, [&] { return fi_atomic(t.ep, &one, 1, nullptr, t.peer, address, key, FI_UINT32, FI_SUM, &one); });
      return take(t.tx).error;
    };
    const auto fetch = [&](fi_op op, std::uint64_t key) {
      post(t.tx, [&] {
        return fi_fetch_atomic(t.ep, &one, 1, nullptr, &result, nullptr, t.peer, 0, key, FI_UINT32, op, &one);
      });
      return take(t.tx).error;
    };
    CHECK(base(0, 99) == FI_EKEYREJECTED && base(0, 30) == FI_EACCES && base(397, 31) == FI_EINVAL);
    CHECK(fetch(FI_SUM, 30) == FI_EACCES && fetch(FI_SUM, 31) == FI_EACCES && fetch(FI_ATOMIC_READ, 31) == FI_EACCES);
    CHECK(result == 7 && fetch(FI_ATOMIC_READ, 30) == 0 && result == 0);
    CHECK(fi_atomic(t.ep, &one, 1, nullptr, t.peer, 0, 31, FI_UINT32, FI_ATOMIC_READ, &one) == -FI_EOPNOTSUPP);
    CHECK(fi_atomic(t.ep, &one, 1, nullptr, t.peer, 0, 31, FI_FLOAT, FI_BOR, &one) == -FI_EOPNOTSUPP);
    CHECK(fi_atomic(t.ep, &one, 1, nullptr, t.peer, 0, 31, type(29), FI_SUM, &one) == -FI_EOPNOTSUPP);
    CHECK(fi_atomic(t.ep, many.data(), many.size(), nullptr, t.peer, 0, 31, FI_UINT32, FI_SUM, &one) == -FI_EMSGSIZE);
    CHECK(fi_atomic(t.ep, &one, 0, nullptr, t.peer, 0, 31, FI_UINT32, FI_SUM, &one) == -FI_EINVAL);
    CHECK(fi_cntr_readerr(t.counter[Node::kWritten]) == 3 && fi_cntr_readerr(t.counter[Node::kRead]) == 3);
  }
  t.sync();
  CHECK(readable.values == std::vector<std::uint32_t>(100) && writable.values == readable.values);
  t.sync();
}

}  // namespace

std::vector<Test> atomic_tests() {
  return {{"atomics, what is valid", validity},
          {"atomics, counting", counting},
          {"atomics, every form", forms},
          {"atomics refused", refusals}};
}

}  // namespace talk
