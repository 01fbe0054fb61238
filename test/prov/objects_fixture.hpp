// SPDX-License-Identifier: BSD-2-Clause
// A fabric and a domain over the fake engine, opened through libfabric's own inline functions.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <memory>

#include "fake_engine.hpp"
#include "support/catch.hpp"

namespace mrc::test {

struct FidCloser {
  template <class T>
  void operator()(T* fid) const {
    CHECK(fi_close(&fid->fid) == 0);
  }
};
template <class T>
using Fid = std::unique_ptr<T, FidCloser>;

struct InfoFree {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, InfoFree>;

/// The provider's own fi_getinfo; `code` gets what it returned.
Info get_info(const fi_info* hints, int* code = nullptr, const char* node = nullptr, const char* service = nullptr,
              std::uint64_t flags = 0, std::uint32_t version = FI_VERSION(1, 17));

struct Objects {
  explicit Objects(int mr_mode = 0, std::uint32_t addr_format = FI_FORMAT_UNSPEC);
  Info info;
  Fid<fid_fabric> fabric;
  Fid<fid_domain> domain;
  std::shared_ptr<FakeEngine> engine = FakeEngine::instance();

  Fid<fid_cq> open_cq(fi_cq_attr attr);
  Fid<fid_eq> open_eq(fi_eq_attr attr);
  Fid<fid_av> open_av(fi_av_attr attr);
  Fid<fid_cntr> open_cntr(fi_cntr_attr attr = {});
};

}  // namespace mrc::test
