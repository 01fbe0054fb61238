// SPDX-License-Identifier: BSD-2-Clause
// What an endpoint object refuses: to be enabled incomplete, to be bound twice or late, to be used too early.
#include "talk.hpp"

namespace talk {
namespace {

void binding(Pair& pair) {
  Host& host = pair.host;
  fid_ep* ep = nullptr;
  fid_cq* cq = nullptr;
  fid_av* av = nullptr;
  fid_cntr* counter = nullptr;
  fi_cq_attr cq_attr{};
  fi_av_attr av_attr{};
  av_attr.type = FI_AV_MAP;
  OK(fi_endpoint(host.domain, host.info, &ep, nullptr));
  OK(fi_cq_open(host.domain, &cq_attr, &cq, nullptr));
  OK(fi_av_open(host.domain, &av_attr, &av, nullptr));
  OK(fi_cntr_open(host.domain, nullptr, &counter, nullptr));

  char byte = 0;
  Name name{};
  CHECK(fi_enable(ep) == -FI_ENOAV);
  CHECK(fi_send(ep, &byte, 1, nullptr, 0, nullptr) == -FI_EOPBADSTATE);
  CHECK(fi_recv(ep, &byte, 1, nullptr, 0, nullptr) == -FI_EOPBADSTATE);
  CHECK(fi_write(ep, &byte, 1, nullptr, 0, 0, 0, nullptr) == -FI_EOPBADSTATE);
  name.length = sizeof name.bytes;
  CHECK(fi_getname(&ep->fid, name.bytes, &name.length) == -FI_EOPBADSTATE);
  CHECK(fi_ep_bind(ep, &cq->fid, 0) == -FI_EBADFLAGS);
  CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_REMOTE_WRITE) == -FI_EBADFLAGS);
  CHECK(fi_ep_bind(ep, &counter->fid, 0) == -FI_EBADFLAGS);
  OK(fi_ep_bind(ep, &av->fid, 0));
  CHECK(fi_ep_bind(ep, &av->fid, 0) == -FI_EINVAL);
  CHECK(fi_enable(ep) == -FI_ENOCQ);
  OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT));
  CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT) == -FI_EINVAL);
  OK(fi_ep_bind(ep, &cq->fid, FI_RECV));
  OK(fi_enable(ep));
  CHECK(fi_enable(ep) == -FI_EOPBADSTATE);
  CHECK(fi_ep_bind(ep, &counter->fid, FI_SEND) == -FI_EOPBADSTATE);

  name.length = 2;
  CHECK(fi_getname(&ep->fid, name.bytes, &name.length) == -FI_ETOOSMALL && name.length > 2);
  OK(fi_getname(&ep->fid, name.bytes, &name.length));
  // No address was ever inserted.
  CHECK(fi_send(ep, &byte, 1, nullptr, 12345, nullptr) == -FI_EINVAL);
  CHECK(fi_close(&cq->fid) == -FI_EBUSY);
  CHECK(fi_close(&av->fid) == -FI_EBUSY);
  CHECK(fi_close(&host.domain->fid) == -FI_EBUSY);
  OK(fi_close(&ep->fid));

  // With nothing that would hear of receives it takes none; it may still be written to.
  OK(fi_endpoint(host.domain, host.info, &ep, nullptr));
  OK(fi_ep_bind(ep, &av->fid, 0));
  OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT));
  OK(fi_enable(ep));
  CHECK(fi_recv(ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr) == -FI_ENOCQ);
  CHECK(fi_send(ep, &byte, 1, nullptr, 12345, nullptr) == -FI_EINVAL);
  OK(fi_close(&ep->fid));
  OK(fi_endpoint(host.domain, host.info, &ep, nullptr));
  OK(fi_ep_bind(ep, &av->fid, 0));
  OK(fi_ep_bind(ep, &cq->fid, FI_RECV));
  OK(fi_enable(ep));
  CHECK(fi_send(ep, &byte, 1, nullptr, 12345, nullptr) == -FI_ENOCQ);
  OK(fi_close(&ep->fid));
  OK(fi_close(&cq->fid));
  OK(fi_close(&av->fid));
  OK(fi_close(&counter->fid));
  constexpr char kHere = 'b';
  pair.line.swap(kHere);
}

}  // namespace

std::vector<Test> binding_tests() {
  return {{"binding and enabling", binding}};
}

}  // namespace talk
