// SPDX-License-Identifier: BSD-2-Clause
// Opening and closing of libfabric's objects, and reading of their completions.
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "talk.hpp"

namespace talk {

Bytes pattern(std::size_t length, std::uint32_t seed) {
  Bytes bytes(length);
  std::uint32_t x = seed * 2654435761U + 12345;
  for (auto& byte : bytes) {
    x = x * 1664525U + 1013904223U;
    byte = static_cast<std::uint8_t>(x >> 24);
  }
  return bytes;
}

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void nap(double seconds) {
  usleep(static_cast<useconds_t>(seconds * 1e6));
}

void Line::put(const void* data, std::size_t length) {
  CHECK(::send(fd_, data, length, MSG_NOSIGNAL) == static_cast<ssize_t>(length));
}

void Line::get(void* data, std::size_t length) {
  if (::recv(fd_, data, length, MSG_WAITALL) != static_cast<ssize_t>(length))
    throw std::runtime_error("the other process has ended");
}

Host::Host(const char* service) {
  fi_info* hints = fi_allocinfo();
  hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_RMA_EVENT;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = 0;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->fabric_attr->prov_name = strdup("mrc");
  const int status = fi_getinfo(FI_VERSION(1, 17), nullptr, service, service != nullptr ? FI_SOURCE : 0, hints, &info);
  fi_freeinfo(hints);
  OK(status);
  CHECK(info->domain_attr->mr_mode == 0 && info->domain_attr->cq_data_size == 8);
  OK(fi_fabric(info->fabric_attr, &fabric, nullptr));
  OK(fi_domain(fabric, info, &domain, nullptr));
}

Host::~Host() {
  if (domain != nullptr) fi_close(&domain->fid);
  if (fabric != nullptr) fi_close(&fabric->fid);
  fi_freeinfo(info);
}

Node::Node(Host& from, const Shape& shape) : host(from) {
  OK(fi_endpoint(host.domain, host.info, &ep, nullptr));
  fi_cq_attr cq_attr{};
  cq_attr.size = shape.cq_size;
  cq_attr.format = shape.format;
  cq_attr.wait_obj = shape.wait;
  OK(fi_cq_open(host.domain, &cq_attr, &tx, nullptr));
  OK(fi_cq_open(host.domain, &cq_attr, &rx, nullptr));
  fi_av_attr av_attr{};
  av_attr.type = FI_AV_TABLE;
  OK(fi_av_open(host.domain, &av_attr, &av, nullptr));
  OK(fi_ep_bind(ep, &tx->fid, FI_TRANSMIT));
  OK(fi_ep_bind(ep, &rx->fid, FI_RECV));
  OK(fi_ep_bind(ep, &av->fid, 0));
  constexpr std::uint64_t kKinds[kCounters] = {FI_SEND, FI_RECV, FI_WRITE, FI_READ, FI_REMOTE_WRITE, FI_REMOTE_READ};
  for (int i = 0; i < kCounters; ++i) {
    fi_cntr_attr attr{};
    attr.events = FI_CNTR_EVENTS_COMP;
    attr.wait_obj = FI_WAIT_UNSPEC;
    OK(fi_cntr_open(host.domain, &attr, &counter[i], nullptr));
    OK(fi_ep_bind(ep, &counter[i]->fid, kKinds[i]));
  }
  if (shape.min_multi_recv != 0)
    OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &shape.min_multi_recv, sizeof(std::size_t)));
  OK(fi_enable(ep));
}

Node::~Node() {
  const auto shut = [](auto* object) {
    if (object != nullptr && fi_close(&object->fid) != 0) std::abort();
  };
  shut(ep);
  shut(av);
  for (auto* one : counter) shut(one);
  shut(tx);
  shut(rx);
}

Name Node::name() const {
  Name name{};
  name.length = sizeof name.bytes;
  OK(fi_getname(&ep->fid, name.bytes, &name.length));
  return name;
}

fi_addr_t Node::insert(const Name& other) const {
  fi_addr_t address = FI_ADDR_NOTAVAIL;
  CHECK(fi_av_insert(av, other.bytes, 1, &address, 0, nullptr) == 1);
  return address;
}

bool try_take(fid_cq* cq, Done& done, double seconds) {
  const double limit = now() + seconds;
  done = Done{};
  for (;;) {
    const ssize_t n = fi_cq_readfrom(cq, &done.entry, 1, &done.source);
    if (n == 1) return true;
    if (n == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      CHECK(fi_cq_readerr(cq, &error, 0) == 1);
      done.entry = {error.op_context, error.flags, error.len, error.buf, error.data, error.tag};
      done.error = error.err;
      done.prov_errno = error.prov_errno;
      done.cut_off = error.olen;
      return true;
    }
    CHECK(n == -FI_EAGAIN);
    if (now() > limit) return false;
  }
}

Done take(fid_cq* cq, double seconds) {
  Done done;
  CHECK(try_take(cq, done, seconds));
  return done;
}

Done good(fid_cq* cq, const void* context, double seconds) {
  const Done done = take(cq, seconds);
  if (done.error != 0)
    throw std::runtime_error(std::string("a completion failed: ") + fi_strerror(done.error) + ", " +
                             fi_cq_strerror(cq, done.prov_errno, nullptr, nullptr, 0));
  CHECK(done.entry.op_context == context);
  return done;
}

void turn(fid_cq* cq) {
  fi_cq_read(cq, nullptr, 0);
}

Talk::Talk(Pair& with, const Shape& shape) : Node(with.host, shape), pair(with), client(with.client) {
  peer = insert(pair.line.swap(name()));
}

void Talk::sync() {
  constexpr char kHere = 'h';
  pair.line.swap(kHere);
}

void Talk::send(const Bytes& bytes, void* context) {
  post(tx, [&] { return fi_send(ep, bytes.data(), bytes.size(), nullptr, peer, context); });
}

void Talk::recv(Bytes& bytes, void* context, fi_addr_t from) {
  post(rx, [&] { return fi_recv(ep, bytes.data(), bytes.size(), nullptr, from, context); });
}

void Talk::tsend(const Bytes& bytes, std::uint64_t tag, void* context) {
  post(tx, [&] { return fi_tsend(ep, bytes.data(), bytes.size(), nullptr, peer, tag, context); });
}

void Talk::trecv(Bytes& bytes, std::uint64_t tag, std::uint64_t ignore, void* context) {
  post(rx, [&] { return fi_trecv(ep, bytes.data(), bytes.size(), nullptr, FI_ADDR_UNSPEC, tag, ignore, context); });
}

}  // namespace talk
