// SPDX-License-Identifier: BSD-2-Clause
// Memory regions: keys, rights, bounds, pieces.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <vector>

#include <rapidcheck.h>

#include "domain.hpp"
#include "objects_fixture.hpp"

using namespace mrc;
using prov::RegionPiece;
using test::Fid;
using test::Objects;

namespace {

prov::Domain& domain_of(Objects& o) {
  return prov::self_of<prov::DomainObject>(o.domain.get());
}

constexpr std::uint64_t kAll = FI_REMOTE_READ | FI_REMOTE_WRITE;

Fid<fid_mr> reg(Objects& o, std::vector<iovec> pieces, std::uint64_t access, std::uint64_t key, int expect = 0) {
  fid_mr* mr = nullptr;
  const int code = fi_mr_regv(o.domain.get(), pieces.data(), pieces.size(), access, 0, key, 0, &mr, nullptr);
  CHECK(code == expect);
  return Fid<fid_mr>(code == 0 ? mr : nullptr);
}

struct Resolved {
  int code = 0;
  std::vector<RegionPiece> pieces;
  prov::Region region;
};

Resolved resolve(Objects& o, std::uint64_t key, std::uint64_t address, std::size_t length, std::uint64_t access) {
  std::array<RegionPiece, 8> out;
  std::size_t count = out.size();
  Resolved r;
  r.code = domain_of(o).resolve(key, address, length, access, out.data(), &count, &r.region);
  if (r.code == 0) r.pieces.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
  return r;
}

}  // namespace

TEST_CASE("offset addressing with the application's keys") {
  Objects o;
  std::byte buffer[100];
  const std::uint64_t key = 0xdeadbeefcafe0001;
  auto mr = reg(o, {{buffer, sizeof buffer}}, kAll, key);
  CHECK(fi_mr_key(mr.get()) == key);
  CHECK(fi_mr_desc(mr.get()) != nullptr);
  Resolved r = resolve(o, key, 10, 90, FI_REMOTE_WRITE);
  REQUIRE(r.code == 0);
  REQUIRE(r.pieces.size() == 1);
  CHECK(r.pieces[0].base == buffer + 10);
  CHECK(r.pieces[0].length == 90);
  CHECK(r.region.key == key);
  CHECK(resolve(o, key, 100, 0, FI_REMOTE_READ).code == 0);
  CHECK(resolve(o, key, 10, 91, FI_REMOTE_WRITE).code == -FI_EINVAL);
  CHECK(resolve(o, key, 101, 0, FI_REMOTE_WRITE).code == -FI_EINVAL);
  CHECK(resolve(o, key, UINT64_MAX, 2, FI_REMOTE_WRITE).code == -FI_EINVAL);
  CHECK(resolve(o, key, 1, SIZE_MAX, FI_REMOTE_WRITE).code == -FI_EINVAL);
  CHECK(resolve(o, key + 1, 0, 1, FI_REMOTE_WRITE).code == -FI_EKEYREJECTED);
}

TEST_CASE("a key is taken once, and gone with its region") {
  Objects o;
  std::byte buffer[8];
  auto mr = reg(o, {{buffer, 8}}, kAll, 5);
  reg(o, {{buffer, 8}}, kAll, 5, -FI_ENOKEY);
  const std::uint64_t before = domain_of(o).mr_generation();
  CHECK(fi_close(&o.domain->fid) == -FI_EBUSY);
  mr.reset();
  CHECK(domain_of(o).mr_generation() != before);
  CHECK(resolve(o, 5, 0, 1, FI_REMOTE_READ).code == -FI_EKEYREJECTED);
  mr = reg(o, {{buffer, 8}}, kAll, 5);
  // Regions that no peer can name take no key.
  const auto local = reg(o, {{buffer, 8}}, FI_SEND | FI_RECV, 5);
  CHECK(resolve(o, 5, 0, 1, FI_REMOTE_READ).code == 0);
}

TEST_CASE("rights are kept") {
  Objects o;
  std::byte buffer[8];
  const auto read_only = reg(o, {{buffer, 8}}, FI_REMOTE_READ, 1);
  const auto write_only = reg(o, {{buffer, 8}}, FI_REMOTE_WRITE | FI_SEND, 2);
  CHECK(resolve(o, 1, 0, 8, FI_REMOTE_READ).code == 0);
  CHECK(resolve(o, 1, 0, 8, FI_REMOTE_WRITE).code == -FI_EACCES);
  CHECK(resolve(o, 2, 0, 8, FI_REMOTE_WRITE).code == 0);
  CHECK(resolve(o, 2, 0, 8, FI_REMOTE_READ).code == -FI_EACCES);
}

TEST_CASE("virtual addressing with the provider's keys") {
  for (const int mode : {int{FI_MR_BASIC}, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY}) {
    Objects o(mode);
    std::byte buffer[64];
    auto one = reg(o, {{buffer, 64}}, kAll, 5);
    const auto two = reg(o, {{buffer, 64}}, kAll, 5);
    const std::uint64_t key = fi_mr_key(one.get());
    CHECK(key != fi_mr_key(two.get()));
    CHECK(key != FI_KEY_NOTAVAIL);
    const auto base = reinterpret_cast<std::uint64_t>(buffer);
    Resolved r = resolve(o, key, base + 3, 61, FI_REMOTE_READ);
    REQUIRE(r.code == 0);
    CHECK(r.pieces[0].base == buffer + 3);
    CHECK(resolve(o, key, base - 1, 1, FI_REMOTE_READ).code == -FI_EINVAL);
    CHECK(resolve(o, key, base + 3, 62, FI_REMOTE_READ).code == -FI_EINVAL);
    one.reset();
    const auto three = reg(o, {{buffer, 64}}, kAll, 0);
    CHECK(fi_mr_key(three.get()) != key);  // a stale key finds nothing
    CHECK(resolve(o, key, base, 1, FI_REMOTE_READ).code == -FI_EKEYREJECTED);
  }
}

TEST_CASE("several pieces read as one stretch") {
  Objects o;
  REQUIRE(rc::check([&](std::vector<std::uint8_t> sizes, std::uint16_t start, std::uint16_t length) {
    if (sizes.size() > 8) sizes.resize(8);
    if (sizes.empty()) sizes.push_back(5);
    std::vector<std::vector<std::byte>> memory;
    std::vector<iovec> pieces;
    std::vector<std::byte*> expected;
    for (const std::uint8_t size : sizes) {
      auto& piece = memory.emplace_back(std::size_t{size} + 1);
      pieces.push_back({piece.data(), size});
      for (std::size_t i = 0; i < size; ++i) expected.push_back(piece.data() + i);
    }
    const auto mr = reg(o, pieces, kAll, 9);
    const std::size_t at = start % (expected.size() + 2);
    const std::size_t bytes = length % (expected.size() + 2);
    const Resolved r = resolve(o, 9, at, bytes, FI_REMOTE_READ);
    if (at + bytes > expected.size()) {
      RC_ASSERT(r.code == -FI_EINVAL);
      return;
    }
    RC_ASSERT(r.code == 0);
    std::vector<std::byte*> got;
    for (const RegionPiece& piece : r.pieces)
      for (std::size_t i = 0; i < piece.length; ++i) got.push_back(piece.base + i);
    RC_ASSERT(got == std::vector<std::byte*>(expected.begin() + static_cast<std::ptrdiff_t>(at),
                                             expected.begin() + static_cast<std::ptrdiff_t>(at + bytes)));
  }));
}

TEST_CASE("a region's counter hears of remote writes") {
  Objects o;
  std::byte buffer[8];
  const auto cntr = o.open_cntr();
  const auto reads = o.open_cntr();
  auto mr = reg(o, {{buffer, 8}}, kAll, 1);
  REQUIRE(fi_mr_bind(mr.get(), &cntr->fid, FI_REMOTE_WRITE) == 0);
  CHECK(fi_mr_bind(mr.get(), &cntr->fid, FI_REMOTE_WRITE) == -FI_EINVAL);
  CHECK(fi_mr_bind(mr.get(), &o.domain->fid, 0) == -FI_EINVAL);
  CHECK(fi_mr_enable(mr.get()) == 0);
  CHECK(fi_mr_refresh(mr.get(), nullptr, 0, 0) == 0);
  CHECK(resolve(o, 1, 0, 1, FI_REMOTE_WRITE).region.remote_counter == prov::counter_of(&cntr->fid));
  CHECK(resolve(o, 1, 0, 1, FI_REMOTE_READ).region.remote_counter == nullptr);
  REQUIRE(fi_mr_bind(mr.get(), &reads->fid, FI_REMOTE_READ) == 0);
  CHECK(resolve(o, 1, 0, 1, FI_REMOTE_READ).region.remote_counter == prov::counter_of(&reads->fid));
  CHECK(resolve(o, 1, 0, 1, FI_REMOTE_WRITE).region.remote_counter == prov::counter_of(&cntr->fid));
  CHECK(fi_close(&cntr->fid) == -FI_EBUSY);
  CHECK(fi_close(&reads->fid) == -FI_EBUSY);
}

TEST_CASE("the whole address space, as MPI's dynamic windows register it: only memory resolves") {
  Objects o;
  const auto mr = reg(o, {{nullptr, UINTPTR_MAX}}, kAll, 1);
  REQUIRE(mr);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* pages =
      static_cast<std::byte*>(mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  REQUIRE(mprotect(pages + page, page, PROT_READ) == 0);
  REQUIRE(munmap(pages + 2 * page, page) == 0);
  const auto at = reinterpret_cast<std::uintptr_t>(pages);
  const Resolved r = resolve(o, 1, at + 5, page - 5, FI_REMOTE_WRITE);
  REQUIRE(r.code == 0);
  REQUIRE(r.pieces.size() == 1);
  CHECK(r.pieces.front().base == pages + 5);
  CHECK(r.pieces.front().length == page - 5);
  CHECK(resolve(o, 1, at, 2 * page, FI_REMOTE_READ).code == 0);
  CHECK(resolve(o, 1, at, page + 1, FI_REMOTE_WRITE).code == -FI_EINVAL);
  CHECK(resolve(o, 1, at, 2 * page + 1, FI_REMOTE_READ).code == -FI_EINVAL);
  CHECK(resolve(o, 1, at + 2 * page, 1, FI_REMOTE_READ).code == -FI_EINVAL);
  CHECK(resolve(o, 1, 0, 1, FI_REMOTE_READ).code == -FI_EINVAL);
  CHECK(resolve(o, 1, UINTPTR_MAX - 1, 1, FI_REMOTE_READ).code == -FI_EINVAL);
  CHECK(resolve(o, 1, 1, UINTPTR_MAX - 1, FI_REMOTE_READ).code == -FI_EINVAL);
  munmap(pages, 2 * page);
}

TEST_CASE("what cannot be registered") {
  Objects o;
  std::byte buffer[8];
  reg(o, {{nullptr, 4096}}, kAll, 1, -FI_EINVAL);
  reg(o, {{nullptr, SIZE_MAX - 1}}, kAll, 1, -FI_EINVAL);
  reg(o, {{buffer, SIZE_MAX}}, kAll, 1, -FI_EINVAL);
  reg(o, {{buffer, 8}}, FI_ATOMIC, 1, -FI_EINVAL);
  reg(o, std::vector<iovec>(9, {buffer, 8}), kAll, 1, -FI_EINVAL);
  fid_mr* mr = nullptr;
  CHECK(fi_mr_reg(o.domain.get(), buffer, 8, kAll, 4, 1, 0, &mr, nullptr) == -FI_EINVAL);
  const iovec piece{buffer, 8};
  fi_mr_attr a{};
  a.mr_iov = &piece;
  a.iov_count = 1;
  a.iface = FI_HMEM_CUDA;
  CHECK(fi_mr_regattr(o.domain.get(), &a, 0, &mr) == -FI_EOPNOTSUPP);  // the domain was not opened with FI_HMEM
  a.iface = FI_HMEM_ZE;
  CHECK(fi_mr_regattr(o.domain.get(), &a, 0, &mr) == -FI_ENOSYS);
}
