// SPDX-License-Identifier: BSD-2-Clause
// End: libfabric's objects, opened and closed.
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <array>
#include <stdexcept>

#include "bench.hpp"

namespace mrc::bench {
namespace {

constexpr std::uint64_t kTag = 42;

void check(ssize_t status, const char* what) {
  if (status < 0) throw std::runtime_error(std::string(what) + ": " + fi_strerror(static_cast<int>(-status)));
}

}  // namespace

End::End() {
  fi_info* hints = fi_allocinfo();
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = FI_TAGGED;
  hints->mode = FI_CONTEXT;
  const int status = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info_);
  fi_freeinfo(hints);
  check(status, "fi_getinfo");
  check(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
  check(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
  open();
}

End::End(const End* same)
    : info_(fi_dupinfo(same->info_)), fabric_(same->fabric_), domain_(same->domain_), owner_(false) {
  open();
}

void End::open() {
  fi_av_attr av{};
  av.type = FI_AV_TABLE;
  check(fi_av_open(domain_, &av, &av_, nullptr), "fi_av_open");
  fi_cq_attr cq{};
  cq.format = FI_CQ_FORMAT_TAGGED;
  cq.size = 4096;
  check(fi_cq_open(domain_, &cq, &cq_, nullptr), "fi_cq_open");
  check(fi_endpoint(domain_, info_, &ep_, nullptr), "fi_endpoint");
  check(fi_ep_bind(ep_, &av_->fid, 0), "fi_ep_bind");
  check(fi_ep_bind(ep_, &cq_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
  check(fi_enable(ep_), "fi_enable");
}

End::~End() {
  for (fid* f : {&ep_->fid, &cq_->fid, &av_->fid}) fi_close(f);
  if (owner_) {
    fi_close(&domain_->fid);
    fi_close(&fabric_->fid);
  }
  fi_freeinfo(info_);
}

std::vector<std::byte> End::name() const {
  std::vector<std::byte> out(128);
  std::size_t length = out.size();
  check(fi_getname(&ep_->fid, out.data(), &length), "fi_getname");
  out.resize(length);
  return out;
}

fi_addr_t End::insert(const std::vector<std::byte>& name) {
  fi_addr_t out = FI_ADDR_UNSPEC;
  if (fi_av_insert(av_, name.data(), 1, &out, 0, nullptr) != 1) throw std::runtime_error("fi_av_insert");
  return out;
}

bool End::send(const void* data, std::size_t size, fi_addr_t to, bool inject) {
  const ssize_t status =
      inject ? fi_tinject(ep_, data, size, to, kTag) : fi_tsend(ep_, data, size, nullptr, to, kTag, nullptr);
  if (status == -FI_EAGAIN) return false;
  check(status, "fi_tsend");
  return true;
}

bool End::receive(void* data, std::size_t size) {
  const ssize_t status = fi_trecv(ep_, data, size, nullptr, FI_ADDR_UNSPEC, kTag, 0, nullptr);
  if (status == -FI_EAGAIN) return false;
  check(status, "fi_trecv");
  return true;
}

End::Polled End::poll() {
  std::array<fi_cq_tagged_entry, 64> entries;
  Polled out;
  const ssize_t n = fi_cq_read(cq_, entries.data(), entries.size());
  if (n == -FI_EAGAIN) return out;
  check(n, "fi_cq_read");
  for (ssize_t i = 0; i < n; ++i) ++(entries[static_cast<std::size_t>(i)].flags & FI_SEND ? out.sent : out.received);
  return out;
}

}  // namespace mrc::bench
