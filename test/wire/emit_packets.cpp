// SPDX-License-Identifier: BSD-2-Clause
// Prints random packets as JSON lines for the cross-checks in Python: bytes as sent (with iCRC) beside the fields that
// went in, or damaged bytes beside the parser's verdict.
//   emit_packets [--seed N] [--count N] [--damage] [--pcap FILE]
#include <CLI/CLI.hpp>
#include <boost/crc.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "mrc/random.hpp"
#include "mrc/wire/icrc.hpp"
#include "random_packet.hpp"

using namespace mrc::wire;
using namespace mrc::wire::test;
using Json = nlohmann::json;

namespace {

std::uint32_t crc32(std::span<const std::byte> bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

Json ip_fields(const Ipv6Header& h) {
  return {{"traffic_class", h.traffic_class},
          {"hop_limit", h.hop_limit},
          {"source", to_hex(std::as_bytes(std::span(h.source.bytes)))},
          {"destination", to_hex(std::as_bytes(std::span(h.destination.bytes)))}};
}

Json bth_fields(const Bth& h) {
  return {{"opcode", static_cast<int>(h.opcode)},
          {"solicited", h.solicited},
          {"migrated", h.migrated},
          {"pkey", h.pkey},
          {"dest_qpn", h.dest_qpn},
          {"ack_request", h.ack_request},
          {"retransmit", h.retransmit},
          {"timestamp", h.timestamp},
          {"psn", h.psn}};
}

void add_extensions(const Packet& p, Json& to) {
  switch (p.bth.opcode) {
    case Opcode::kSack:
      to["seth"] = {{"mark", static_cast<int>(p.seth.mark)},
                    {"probe_reply", p.seth.probe_reply},
                    {"ack_psn_offset", p.seth.ack_psn_offset},
                    {"echoed_ev", p.seth.echoed_ev},
                    {"source_context", p.seth.source_context},
                    {"dest_context", p.seth.dest_context},
                    {"cumulative_psn", p.seth.cumulative_psn},
                    {"cc_type", p.seth.cc_type},
                    {"cc_flags", p.seth.cc_flags},
                    {"mpr", p.seth.mpr},
                    {"sack_offset", p.seth.sack_offset},
                    {"bitmap", p.seth.bitmap}};
      if (p.seth.cc_type != 0) {
        to["cc_state"] = {{"echoed_timestamp", p.cc.echoed_timestamp},
                          {"ooo_count", p.cc.ooo_count},
                          {"restore_cwnd", p.cc.restore_cwnd},
                          {"rcv_cwnd_pen", p.cc.rcv_cwnd_pen},
                          {"rcvd_bytes", p.cc.rcvd_bytes}};
      }
      return;
    case Opcode::kNack:
      to["neth"] = {{"reason", static_cast<int>(p.neth.reason)},
                    {"ev", p.neth.ev},
                    {"source_context", p.neth.source_context},
                    {"dest_context", p.neth.dest_context},
                    {"nack_psn", p.neth.nack_psn},
                    {"cc_type", p.neth.cc_type},
                    {"timestamp", p.neth.timestamp}};
      return;
    case Opcode::kProbeRequest:
      to["peth"] = {{"probe_id", p.peth.probe_id},
                    {"source_context", p.peth.source_context},
                    {"dest_context", p.peth.dest_context},
                    {"timestamp", p.peth.timestamp}};
      return;
    case Opcode::kEndpointRequest:
      to["erth"] = {{"op", static_cast<int>(p.erth.op)}, {"version", p.erth.version},
                    {"body_length", p.erth.body_length}, {"argument", p.erth.argument},
                    {"source_qpn", p.erth.source_qpn},   {"ev", p.erth.ev}};
      return;
    case Opcode::kEndpointResponse:
      to["eeth"] = {{"op", static_cast<int>(p.eeth.op)}, {"version", p.eeth.version},
                    {"body_length", p.eeth.body_length}, {"status", p.eeth.status},
                    {"argument", p.eeth.argument},       {"source_qpn", p.eeth.source_qpn},
                    {"request_psn", p.eeth.request_psn}, {"echoed_ev", p.eeth.echoed_ev},
                    {"incarnation", p.eeth.incarnation}, {"received_length", p.eeth.received_length}};
      return;
    case Opcode::kAcknowledge:
      to["aeth"] = {{"syndrome", p.aeth.syndrome}, {"msn", p.aeth.msn}};
      return;
    default:
      break;
  }
  to["meth"] = {{"rqmsn", p.meth.rqmsn}, {"msn", p.meth.msn}};
  if (p.bth.timestamp) to["tseth"] = {{"timestamp", p.tseth.timestamp}, {"flags", p.tseth.flags}};
  to["reth"] = {{"va", p.reth.va}, {"rkey", p.reth.rkey}, {"length", p.reth.length}};
  if (has_imm(p.bth.opcode)) to["imm"] = {{"value", p.imm.value}};
}

Json params_fields(const Params& p) {
  return {{"ev_split", p.ev_split == EvSplit::kHighInPort ? "high_in_port" : "low_in_port"},
          {"udp_port", p.udp_port},
          {"icrc", p.icrc},
          {"dscp_trimmed", p.dscp.trimmed},
          {"dscp_trimmed_lasthop", p.dscp.trimmed_lasthop}};
}

Json fields_of(const Packet& p, std::span<const std::byte> payload) {
  Json fields{{"ev", p.ev}, {"inner", ip_fields(p.inner)}, {"bth", bth_fields(p.bth)}, {"payload", to_hex(payload)}};
  if (p.has_outer) {
    fields["outer"] = ip_fields(p.outer);
    fields["outer"]["traffic_class"] = p.inner.traffic_class;
  }
  add_extensions(p, fields);
  return fields;
}

/// As the driver does it: eight bytes in front, mask, CRC, unmask, four bytes behind.
void add_icrc(Bytes& packet, bool has_outer) {
  Bytes frame(kIcrcPrefix + packet.size());
  std::copy(packet.begin(), packet.end(), frame.begin() + kIcrcPrefix);
  const std::size_t inner = has_outer ? Ipv6Header::kSize : 0;
  const auto crc = icrc(std::span(frame).subspan(inner, frame.size() - inner - kIcrcSize), crc32);
  std::copy(crc.begin(), crc.end(), packet.end() - kIcrcSize);
}

/// One to three bytes of the headers changed, sometimes the DSCP of a trimmed packet; sometimes cut or lengthened.
void damage(Bytes& packet, mrc::Random& random) {
  if (random.chance(0.2)) {
    const std::size_t at = packet[6] == std::byte{Ipv6Header::kNextIpv6} && random.chance(0.5) ? 40 : 0;
    const unsigned dscp = random.chance(0.5) ? Dscp{}.trimmed : Dscp{}.trimmed_lasthop;
    packet[at] = static_cast<std::byte>(0x60 | dscp >> 2);
    packet[at + 1] = static_cast<std::byte>((dscp & 3) << 6);
  }
  const auto size = static_cast<std::uint32_t>(packet.size());
  for (std::uint32_t i = random.below(3) + 1; i > 0; --i) {
    const std::uint32_t at = random.below(std::min(size, 140u));
    packet[at] = random.chance(0.5) ? static_cast<std::byte>(random.next())
                                    : packet[at] ^ static_cast<std::byte>(1u << random.below(8));
  }
  if (random.chance(0.2)) packet.resize(random.below(size + 1));
  if (random.chance(0.1)) packet.resize(packet.size() + random.below(8));
}

class Pcap {
 public:
  explicit Pcap(const std::string& path) : out_(path, std::ios::binary) {
    // magic, 2.4, no zone, no accuracy, snap length, LINKTYPE_IPV6
    for (const std::uint32_t word : {0xa1b2c3d4u, 0x00040002u, 0u, 0u, 65535u, 229u}) put(word);
  }
  void add(const Bytes& packet) {
    const auto size = static_cast<std::uint32_t>(packet.size());
    for (const std::uint32_t word : {seconds_++, 0u, size, size}) put(word);
    out_.write(reinterpret_cast<const char*>(packet.data()), static_cast<std::streamsize>(size));
  }

 private:
  void put(std::uint32_t word) { out_.write(reinterpret_cast<const char*>(&word), sizeof word); }
  std::ofstream out_;
  std::uint32_t seconds_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seed = 1;
  unsigned count = 100;
  bool damaged = false;
  std::string pcap_path;
  CLI::App app{"Random MRC packets as JSON lines"};
  app.add_option("--seed", seed, "Seed of the random packets");
  app.add_option("--count", count, "How many");
  app.add_flag("--damage", damaged, "Damage each packet and print the parser's verdict");
  app.add_option("--pcap", pcap_path, "Also write them to this capture file (link type IPv6)");
  CLI11_PARSE(app, argc, argv);

  mrc::Random random(seed);
  std::optional<Pcap> pcap;
  if (!pcap_path.empty()) pcap.emplace(pcap_path);
  for (unsigned i = 0; i < count; ++i) {
    const RandomPacket r = random_packet([&random] { return random.next(); });
    Bytes bytes = assemble(r.packet, r.payload, r.params);
    add_icrc(bytes, r.packet.has_outer);
    Json line{{"params", params_fields(r.params)}};
    if (damaged) {
      damage(bytes, random);
      Packet p;
      const ParseError error = parse(bytes, r.params, p);
      line["verdict"] = to_string(error);
      if (error == ParseError::kNone) {
        line["trimmed"] = p.trimmed;
        if (!p.trimmed) {
          line["fields"] = fields_of(p, p.payload);
          if (p.has_outer) line["fields"]["outer"] = ip_fields(p.outer);
        }
      }
    } else {
      line["fields"] = fields_of(r.packet, r.payload);
    }
    line["bytes"] = to_hex(bytes);
    if (pcap) pcap->add(bytes);
    std::puts(line.dump().c_str());
  }
  return 0;
}
