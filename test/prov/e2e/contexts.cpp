// SPDX-License-Identifier: BSD-2-Clause
// Endpoints behind endpoints: aliases, shared transmit and receive contexts, scalable endpoints with named receive
// contexts, and what the answers to fi_getpeer and fi_shutdown are.
#include <array>
#include <cstring>
#include <memory>

#include "talk.hpp"

namespace talk {
namespace {

template <class Fid>
struct Shut {
  void operator()(Fid* fid) const {
    if (fi_close(&fid->fid) != 0) std::abort();
  }
};
template <class Fid>
using Own = std::unique_ptr<Fid, Shut<Fid>>;

Own<fid_cq> open_cq(Host& host) {
  fi_cq_attr attr{};
  attr.size = 256;
  attr.format = FI_CQ_FORMAT_TAGGED;
  fid_cq* cq = nullptr;
  OK(fi_cq_open(host.domain, &attr, &cq, nullptr));
  return Own<fid_cq>(cq);
}

Own<fid_av> open_av(Host& host, int bits = 0) {
  fi_av_attr attr{};
  attr.type = FI_AV_TABLE;
  attr.rx_ctx_bits = bits;
  fid_av* av = nullptr;
  OK(fi_av_open(host.domain, &attr, &av, nullptr));
  return Own<fid_av>(av);
}

Name name_of(fid_ep* ep) {
  Name name{};
  name.length = sizeof name.bytes;
  OK(fi_getname(&ep->fid, name.bytes, &name.length));
  return name;
}

/// Another info of the host's, with so many contexts.
struct Contexts {
  Contexts(Host& host, std::size_t tx, std::size_t rx) : info(fi_dupinfo(host.info)) {
    info->ep_attr->tx_ctx_cnt = tx;
    info->ep_attr->rx_ctx_cnt = rx;
    info->caps |= FI_NAMED_RX_CTX;
  }
  ~Contexts() { fi_freeinfo(info); }
  fi_info* info;
};

void sync(Pair& pair) {
  constexpr char kHere = 'c';
  pair.line.swap(kHere);
}

void aliases(Pair& pair) {
  Talk t(pair);
  fid_ep* raw = nullptr;
  CHECK(fi_ep_alias(t.ep, &raw, FI_TRANSMIT | FI_RECV) == -FI_EINVAL);
  OK(fi_ep_alias(t.ep, &raw, FI_TRANSMIT | FI_DELIVERY_COMPLETE));
  Own<fid_ep> alias(raw);
  std::uint64_t flags = FI_TRANSMIT;
  OK(fi_control(&alias->fid, FI_GETOPSFLAG, &flags));
  CHECK(flags == FI_DELIVERY_COMPLETE);
  flags = FI_TRANSMIT;
  OK(fi_control(&t.ep->fid, FI_GETOPSFLAG, &flags));
  CHECK(flags == 0);
  CHECK(fi_close(&t.ep->fid) == -FI_EBUSY);
  CHECK(fi_ep_bind(alias.get(), &t.tx->fid, FI_TRANSMIT) < 0);

  // What the alias sends is complete only when it was delivered; what the endpoint sends, at once.
  Bytes got(100), mine = pattern(100, pair.client ? 1 : 2);
  int a = 0, b = 0;
  post(t.tx, [&] { return fi_send(alias.get(), mine.data(), mine.size(), nullptr, t.peer, &a); });
  Done done;
  CHECK(!try_take(t.tx, done, 0.1));
  t.sync();
  post(t.rx, [&] { return fi_recv(alias.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, &b); });
  good(t.rx, &b);
  CHECK(got == pattern(100, pair.client ? 2 : 1));
  good(t.tx, &a);
  t.sync();

  char text[64];
  std::size_t length = sizeof text;
  CHECK(fi_getpeer(t.ep, text, &length) == -FI_ENOTCONN);
  CHECK(fi_shutdown(t.ep, 0) == -FI_ENOTCONN);
}

/// Three endpoints over one transmit and one receive context.
void shared(Pair& pair) {
  constexpr std::size_t kEndpoints = 3;
  Host& host = pair.host;
  Contexts wish(host, FI_SHARED_CONTEXT, FI_SHARED_CONTEXT);
  fid_stx* raw_stx = nullptr;
  fid_ep* raw = nullptr;
  OK(fi_stx_context(host.domain, host.info->tx_attr, &raw_stx, nullptr));
  Own<fid_stx> stx(raw_stx);
  OK(fi_srx_context(host.domain, host.info->rx_attr, &raw, nullptr));
  Own<fid_ep> srx(raw);
  const auto av = open_av(host);
  std::array<Own<fid_cq>, kEndpoints> tx, rx;
  std::array<Own<fid_ep>, kEndpoints> eps;
  std::array<fi_addr_t, kEndpoints> peers{};
  for (std::size_t i = 0; i < kEndpoints; ++i) {
    OK(fi_endpoint(host.domain, wish.info, &raw, nullptr));
    eps[i].reset(raw);
    tx[i] = open_cq(host);
    rx[i] = open_cq(host);
    OK(fi_ep_bind(raw, &av->fid, 0));
    OK(fi_ep_bind(raw, &tx[i]->fid, FI_TRANSMIT));
    OK(fi_ep_bind(raw, &rx[i]->fid, FI_RECV));
    CHECK(fi_enable(raw) == -FI_EINVAL);
    OK(fi_ep_bind(raw, &stx->fid, 0));
    OK(fi_ep_bind(raw, &srx->fid, 0));
    OK(fi_enable(raw));
    const Name theirs = pair.line.swap(name_of(raw));
    CHECK(fi_av_insert(av.get(), theirs.bytes, 1, &peers[i], 0, nullptr) == 1);
  }
  CHECK(fi_close(&stx->fid) == -FI_EBUSY);
  CHECK(fi_close(&srx->fid) == -FI_EBUSY);

  // Small and large, expected and not: any buffer takes any endpoint's message, and its endpoint's queue tells.
  for (const std::size_t size : {std::size_t{64}, std::size_t{300000}}) {
    for (const bool expected : {true, false}) {
      std::array<Bytes, kEndpoints> got;
      std::array<int, kEndpoints> contexts{};
      const auto receive = [&] {
        for (std::size_t i = 0; i < kEndpoints; ++i) {
          got[i].assign(size, 0);
          OK(fi_trecv(srx.get(), got[i].data(), size, nullptr, FI_ADDR_UNSPEC, 7, 0, &contexts[i]));
        }
        sync(pair);
      };
      if (expected) receive();
      std::array<Bytes, kEndpoints> sent;
      for (std::size_t i = 0; i < kEndpoints; ++i) {
        sent[i] = pattern(size, static_cast<std::uint32_t>(i * 2 + (pair.client ? 1 : 0)));
        post(tx[i].get(), [&] { return fi_tsend(eps[i].get(), sent[i].data(), size, nullptr, peers[i], 7, nullptr); });
      }
      if (!expected) {
        for (std::size_t i = 0; i < kEndpoints; ++i) turn(rx[i].get());
        sync(pair);
        receive();
      }
      for (std::size_t i = 0; i < kEndpoints; ++i) {
        const Done done = take(rx[i].get());
        CHECK(done.error == 0 && done.entry.len == size && done.source == peers[i]);
        const auto which = static_cast<std::size_t>(static_cast<int*>(done.entry.op_context) - contexts.data());
        CHECK(which < kEndpoints);
        CHECK(got[which] == pattern(size, static_cast<std::uint32_t>(i * 2 + (pair.client ? 0 : 1))));
        good(tx[i].get(), nullptr);
      }
      sync(pair);
    }
  }

  // What no message brought is told to the first endpoint.
  char byte = 0;
  int context = 0;
  OK(fi_recv(srx.get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, &context));
  OK(fi_cancel(&srx->fid, &context));
  const Done done = take(rx[0].get());
  CHECK(done.error == FI_ECANCELED && done.entry.op_context == &context);
  CHECK(fi_cancel(&srx->fid, &context) == -FI_ENOENT);
  CHECK(fi_send(srx.get(), &byte, 1, nullptr, 0, nullptr) < 0);
  sync(pair);
  for (auto& ep : eps) ep.reset();
}

constexpr std::size_t kContexts = 3;
constexpr int kBits = 2;

struct Scalable {
  explicit Scalable(Pair& with) : pair(with), wish(with.host, kContexts, kContexts), av(open_av(with.host, kBits)) {
    fid_ep* raw = nullptr;
    OK(fi_scalable_ep(pair.host.domain, wish.info, &raw, nullptr));
    sep.reset(raw);
    OK(fi_scalable_ep_bind(raw, &av->fid, 0));
    for (std::size_t i = 0; i < kContexts; ++i) {
      tx_cq[i] = open_cq(pair.host);
      rx_cq[i] = open_cq(pair.host);
      OK(fi_tx_context(sep.get(), static_cast<int>(i), nullptr, &raw, nullptr));
      tx[i].reset(raw);
      CHECK(fi_ep_bind(raw, &tx_cq[i]->fid, FI_RECV) == -FI_EINVAL);
      OK(fi_ep_bind(raw, &tx_cq[i]->fid, FI_TRANSMIT));
      OK(fi_enable(raw));
      OK(fi_rx_context(sep.get(), static_cast<int>(i), nullptr, &raw, nullptr));
      rx[i].reset(raw);
      OK(fi_ep_bind(raw, &rx_cq[i]->fid, FI_RECV));
      OK(fi_enable(raw));
    }
    CHECK(fi_tx_context(sep.get(), 0, nullptr, &raw, nullptr) == -FI_EBUSY);
    CHECK(fi_rx_context(sep.get(), kContexts, nullptr, &raw, nullptr) == -FI_EINVAL);
    OK(fi_enable(sep.get()));
    CHECK(fi_close(&sep->fid) == -FI_EBUSY);
    const Name mine = name_of(sep.get());
    CHECK(mine.length <= 64);
    const Name theirs = pair.line.swap(mine);
    CHECK(fi_av_insert(av.get(), theirs.bytes, 1, &peer, 0, nullptr) == 1);
  }
  fi_addr_t at(std::size_t context) const { return fi_rx_addr(peer, static_cast<int>(context), kBits); }

  Pair& pair;
  Contexts wish;
  Own<fid_av> av;
  std::array<Own<fid_cq>, kContexts> tx_cq, rx_cq;
  Own<fid_ep> sep;
  std::array<Own<fid_ep>, kContexts> tx, rx;
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
};

/// Every transmit context to every receive context, small and large; each queue hears of its own only.
void scalable(Pair& pair) {
  Scalable s(pair);
  for (const std::size_t size : {std::size_t{40}, std::size_t{200000}}) {
    std::array<std::array<Bytes, kContexts>, kContexts> got, sent;
    const auto seed = [](bool client, std::size_t from, std::size_t to) {
      return static_cast<std::uint32_t>((client ? 100 : 0) + from * 10 + to);
    };
    for (std::size_t to = 0; to < kContexts; ++to)
      for (std::size_t from = 0; from < kContexts; ++from) {
        Bytes& into = got[from][to];
        into.assign(size, 0);
        // Directed: the source is the peer's one address, whichever of its contexts sends.
        OK(fi_trecv(s.rx[to].get(), into.data(), size, nullptr, s.at(1), from, 0, &into));
      }
    sync(pair);
    for (std::size_t from = 0; from < kContexts; ++from)
      for (std::size_t to = 0; to < kContexts; ++to) {
        Bytes& mine = sent[from][to];
        mine = pattern(size, seed(pair.client, from, to));
        post(s.tx_cq[from].get(),
             [&] { return fi_tsend(s.tx[from].get(), mine.data(), size, nullptr, s.at(to), from, &mine); });
      }
    for (std::size_t i = 0; i < kContexts; ++i)
      for (std::size_t n = 0; n < kContexts; ++n) {
        const Done in = take(s.rx_cq[i].get());
        CHECK(in.error == 0 && in.entry.len == size && in.source == s.peer);
        CHECK(in.entry.op_context == &got[in.entry.tag][i]);
        CHECK(got[in.entry.tag][i] == pattern(size, seed(!pair.client, in.entry.tag, i)));
        const Done out = take(s.tx_cq[i].get());
        CHECK(out.error == 0);
        const auto* which = static_cast<const Bytes*>(out.entry.op_context);
        CHECK(which >= sent[i].data() && which < sent[i].data() + kContexts);
      }
    sync(pair);
  }
  Done none;
  for (std::size_t i = 0; i < kContexts; ++i) CHECK(!try_take(s.rx_cq[i].get(), none, 0));
  sync(pair);
}

/// RMA with data tells the receive context that it names; a context that is not there is an error.
void scalable_rma(Pair& pair) {
  Scalable s(pair);
  Bytes memory(1000, 0);
  fid_mr* raw = nullptr;
  OK(fi_mr_reg(pair.host.domain, memory.data(), memory.size(), FI_REMOTE_WRITE | FI_REMOTE_READ, 0,
               pair.client ? 71 : 72, 0, &raw, nullptr));
  Own<fid_mr> mr(raw);
  sync(pair);
  const Bytes mine = pattern(100, pair.client ? 5 : 6);
  for (std::size_t i = 0; i < kContexts; ++i)
    post(s.tx_cq[1].get(), [&] {
      return fi_writedata(s.tx[1].get(), mine.data(), mine.size(), nullptr, 40 + i, s.at(i), i * 100,
                          pair.client ? 72 : 71, &memory);
    });
  for (std::size_t i = 0; i < kContexts; ++i) {
    good(s.tx_cq[1].get(), &memory);
    const Done done = take(s.rx_cq[i].get());
    CHECK(done.error == 0 && (done.entry.flags & FI_REMOTE_CQ_DATA) != 0 && done.entry.data == 40 + i);
    const Bytes theirs = pattern(100, pair.client ? 6 : 5);
    CHECK(std::memcmp(memory.data() + i * 100, theirs.data(), 100) == 0);
  }
  sync(pair);
  Bytes large(300000, 1);
  post(s.tx_cq[2].get(),
       [&] { return fi_send(s.tx[2].get(), large.data(), large.size(), nullptr, s.at(kContexts), &large); });
  const Done done = take(s.tx_cq[2].get());
  CHECK(done.error == FI_EADDRNOTAVAIL && done.entry.op_context == &large);
  sync(pair);

  // A context may be closed and opened again; what it had posted is forgotten.
  char byte = 0;
  OK(fi_recv(s.rx[0].get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, &byte));
  s.rx[0].reset();
  fid_ep* again = nullptr;
  OK(fi_rx_context(s.sep.get(), 0, nullptr, &again, nullptr));
  s.rx[0].reset(again);
  OK(fi_ep_bind(again, &s.rx_cq[0]->fid, FI_RECV));
  OK(fi_enable(again));
  CHECK(fi_cancel(&again->fid, &byte) == -FI_ENOENT);
  sync(pair);
}

}  // namespace

std::vector<Test> context_tests() {
  return {{"aliases", aliases},
          {"shared contexts", shared},
          {"scalable endpoints", scalable},
          {"scalable endpoints, RMA", scalable_rma}};
}

}  // namespace talk
