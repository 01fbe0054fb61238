// SPDX-License-Identifier: BSD-2-Clause
// The golden table. The hex is written by hand from docs/wire-format.md, not printed by the encoder.
#include "golden.hpp"

#include <cctype>
#include <cstring>

namespace mrc::wire::test {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return std::tolower(static_cast<unsigned char>(c)) - 'a' + 10;
}

constexpr std::string_view kOuterAddresses =
    "fcbb bb00 0001 0000 0000 0000 0000 0001"
    "fcbb bb00 0101 0201 0301 0e01 0000 0000";
constexpr std::string_view kInnerAddresses =
    "fd00 0000 0001 0001 0a00 0001 1389 0000"
    "fd00 0000 0001 0002 0a00 0002 138a 0000";
constexpr std::string_view kIcrc = "a5b6 c7d8";

Ipv6Address address(std::string_view hex) {
  Ipv6Address a;
  const Bytes bytes = from_hex(hex);
  std::memcpy(a.bytes.data(), bytes.data(), 16);
  return a;
}

/// One row: everything after UDP, by hand.
struct Row {
  std::string_view name;
  std::string_view traffic_class;  ///< two hex digits
  std::uint8_t traffic_class_value;
  std::string_view inner_length;  ///< IPv6 payload = UDP length, 4 hex digits
  std::string_view outer_length;  ///< the same + 40
  std::string_view from_bth;      ///< BTH, extension headers, payload, pad
  std::string_view payload;
  void (*fill)(Packet&);
};

void data(Packet& p, Opcode op) {
  p.bth.opcode = op;
  p.bth.dest_qpn = 0x123456;
  p.bth.psn = 0xabcdef;
  p.meth = {.rqmsn = 0x0102, .msn = 0x0304};
  p.reth = {.va = 0x1122334455667788, .rkey = 0x99aabbcc, .length = 0x2000};
  p.reth_present = true;
}

void control(Packet& p, Opcode op, std::uint32_t qpn) {
  p.bth.opcode = op;
  p.bth.dest_qpn = qpn;
  p.bth.psn = 0x000102;
}

// EV 0xC1234567 in all rows. Lengths: UDP 8 + BTH 12 + extension + payload + pad + iCRC 4.
const Row kRows[] = {
    {"write_first", "2a", 0x2a, "0034", "005c",
     "c6 40 ffff 00 123456 00 abcdef  0102 0304  1122334455667788 99aabbcc 00002000  de ad be ef f0 0d ca fe",
     "deadbeeff00dcafe", [](Packet& p) { data(p, Opcode::kWriteFirst); }},
    {"write_middle_rtx", "32", 0x32, "0034", "005c",
     "c7 40 ffff 00 123456 20 abcdef  0102 0304  1122334455667788 99aabbcc 00002000  de ad be ef f0 0d ca fe",
     "deadbeeff00dcafe",
     [](Packet& p) {
       data(p, Opcode::kWriteMiddle);
       p.bth.retransmit = true;
     }},
    {"write_last_pad1", "2a", 0x2a, "0034", "005c",
     "c8 50 ffff 00 123456 80 abcdef  0102 0304  1122334455667788 99aabbcc 00002000  de ad be ef f0 0d ca 00",
     "deadbeeff00dca",
     [](Packet& p) {
       data(p, Opcode::kWriteLast);
       p.bth.ack_request = true;
       p.bth.pad = 1;
     }},
    {"write_last_imm_pad2", "2b", 0x2b, "0038", "0060",
     "c9 e0 ffff 00 123456 00 abcdef  0102 0304  1122334455667788 99aabbcc 00002000  01020304  de ad be ef f0 0d 00 00",
     "deadbeeff00d",
     [](Packet& p) {
       data(p, Opcode::kWriteLastImm);
       p.bth.solicited = true;
       p.bth.pad = 2;
       p.imm.value = 0x01020304;
     }},
    {"write_only_ts_pad3", "2a", 0x2a, "0034", "005c",
     "ca 70 ffff 00 123456 90 abcdef  0102 0304  a1a2 0001  1122334455667788 99aabbcc 00002000  de 00 00 00", "de",
     [](Packet& p) {
       data(p, Opcode::kWriteOnly);
       p.bth.ack_request = p.bth.timestamp = true;
       p.bth.pad = 3;
       p.tseth = {.timestamp = 0xa1a2, .flags = 1};
     }},
    {"write_only_empty", "2a", 0x2a, "002c", "0054",
     "ca 40 8001 00 123456 00 abcdef  0102 0304  1122334455667788 99aabbcc 00000000", "",
     [](Packet& p) {
       data(p, Opcode::kWriteOnly);
       p.bth.pkey = 0x8001;
       p.reth.length = 0;
     }},
    {"write_only_imm_ts", "2a", 0x2a, "0038", "0060",
     "cb 00 ffff 00 123456 10 abcdef  0102 0304  a1a2 0001  1122334455667788 99aabbcc 00000004  fffefdfc  de ad be ef",
     "deadbeef",
     [](Packet& p) {
       data(p, Opcode::kWriteOnlyImm);
       p.bth.migrated = false;
       p.bth.timestamp = true;
       p.tseth = {.timestamp = 0xa1a2, .flags = 1};
       p.reth.length = 4;
       p.imm.value = 0xfffefdfc;
     }},
    {"acknowledge", "c0", 0xc0, "001c", "0044", "d1 40 ffff 00 123456 00 000102  1f 00abcd", "",
     [](Packet& p) {
       control(p, Opcode::kAcknowledge, 0x123456);
       p.aeth.msn = 0xabcd;
     }},
    {"nak_access", "c0", 0xc0, "001c", "0044", "d1 40 ffff 00 123456 00 000102  62 fffffe", "",
     [](Packet& p) {
       control(p, Opcode::kAcknowledge, 0x123456);
       p.aeth = {.syndrome = Aeth::kNakAccess, .msn = 0xfffffe};
     }},
    {"endpoint_request_init", "c0", 0xc0, "0030", "0058",
     "d8 40 ffff 00 000002 00 000102  80 01 0008 00000000 00 abcdef 0badcafe  01 02 03 04 05 06 07 08",
     "0102030405060708",
     [](Packet& p) {
       control(p, Opcode::kEndpointRequest, kEndpointQpn);
       p.erth = {.op = EndpointOp::kInit, .version = 1, .body_length = 8, .source_qpn = 0xabcdef, .ev = 0x0badcafe};
     }},
    {"endpoint_request_port_status", "c0", 0xc0, "0028", "0050",
     "d8 40 ffff 00 000002 00 000102  00 00 0000 000000f7 00 abcdef 0badcafe", "",
     [](Packet& p) {
       control(p, Opcode::kEndpointRequest, kEndpointQpn);
       p.erth = {.op = EndpointOp::kPortStatus, .argument = 0xf7, .source_qpn = 0xabcdef, .ev = 0x0badcafe};
     }},
    {"endpoint_response_ev_probe", "c0", 0xc0, "003c", "0064",
     "d9 40 ffff 00 000002 00 000102  01 01 0000 07 abcdef 000000f7 00 fedcba 0badcafe 0102030405060708 00001234"
     "00000000",
     "",
     [](Packet& p) {
       control(p, Opcode::kEndpointResponse, kEndpointQpn);
       p.eeth = {.op = EndpointOp::kEvProbe,
                 .version = 1,
                 .status = 7,
                 .argument = 0xf7,
                 .source_qpn = 0xabcdef,
                 .request_psn = 0xfedcba,
                 .echoed_ev = 0x0badcafe,
                 .incarnation = 0x0102030405060708,
                 .received_length = 0x1234};
     }},
    {"sack", "c0", 0xc0, "0034", "005c",
     "dc 40 ffff 00 123456 00 000102  40 00 fffe 0badcafe 1111 2222 abcdef 00 10 00 0001 8000000000000005", "",
     [](Packet& p) {
       control(p, Opcode::kSack, 0x123456);
       p.seth = {.mark = EvMark::kSkipOnce,
                 .ack_psn_offset = -2,
                 .echoed_ev = 0x0badcafe,
                 .source_context = 0x1111,
                 .dest_context = 0x2222,
                 .cumulative_psn = 0xabcdef,
                 .mpr = 16,
                 .bitmap = 0x8000000000000005};
     }},
    {"sack_cc_state", "c0", 0xc0, "003c", "0064",
     "dc 40 ffff 00 123456 00 000102  a0 00 8001 0badcafe 1111 2222 abcdef 13 20 00 ffc0 0000000000000001"
     "a1a2 7fff c1 abcdef",
     "",
     [](Packet& p) {
       control(p, Opcode::kSack, 0x123456);
       p.seth = {.mark = EvMark::kAlwaysSkip,
                 .probe_reply = true,
                 .ack_psn_offset = -32767,
                 .echoed_ev = 0x0badcafe,
                 .source_context = 0x1111,
                 .dest_context = 0x2222,
                 .cumulative_psn = 0xabcdef,
                 .cc_type = 1,
                 .cc_flags = 3,
                 .mpr = 32,
                 .sack_offset = -64,
                 .bitmap = 1};
       p.cc = {.echoed_timestamp = 0xa1a2,
               .ooo_count = 0x7fff,
               .restore_cwnd = true,
               .rcv_cwnd_pen = 0x41,
               .rcvd_bytes = 0xabcdef};
       p.cc_present = true;
     }},
    {"nack_trimmed", "c0", 0xc0, "002c", "0054",
     "dd 40 ffff 00 123456 00 000102  01 000000 0badcafe 1111 2222 abcdef 01 a1a2 0000", "",
     [](Packet& p) {
       control(p, Opcode::kNack, 0x123456);
       p.neth = {.ev = 0x0badcafe,
                 .source_context = 0x1111,
                 .dest_context = 0x2222,
                 .nack_psn = 0xabcdef,
                 .cc_type = 1,
                 .timestamp = 0xa1a2};
     }},
    {"probe_request", "c0", 0xc0, "0028", "0050",
     "de 40 ffff 00 123456 00 000102  cafe 0000 1111 2222 a1a2 0000 00000000", "",
     [](Packet& p) {
       control(p, Opcode::kProbeRequest, 0x123456);
       p.peth = {.probe_id = 0xcafe, .source_context = 0x1111, .dest_context = 0x2222, .timestamp = 0xa1a2};
     }},
    {"probe_request_padded", "c0", 0xc0, "0030", "0058",
     "de 70 ffff 00 123456 00 000102  cafe 0000 1111 2222 a1a2 0000 00000000  aa bb cc dd ee 00 00 00", "aabbccddee",
     [](Packet& p) {
       control(p, Opcode::kProbeRequest, 0x123456);
       p.bth.pad = 3;
       p.peth = {.probe_id = 0xcafe, .source_context = 0x1111, .dest_context = 0x2222, .timestamp = 0xa1a2};
     }},
};

Golden build(const Row& row, bool outer, EvSplit split) {
  const bool high_in_port = split == EvSplit::kHighInPort;
  const std::string label = high_in_port ? "04567" : "0c123";
  const std::string port = high_in_port ? "c123" : "4567";
  std::string first_word{'6'};
  first_word.append(row.traffic_class).append(label);

  std::string hex;
  if (outer) hex.append(first_word).append(row.outer_length).append("29 40").append(kOuterAddresses);
  hex.append(first_word).append(row.inner_length).append("11 3f").append(kInnerAddresses);
  hex.append(port).append("12b7").append(row.inner_length).append("0000");
  hex.append(row.from_bth).append(kIcrc);

  Golden golden;
  golden.name.append(row.name).append(outer ? "_outer" : "_plain").append(high_in_port ? "_a" : "_b");
  golden.bytes = from_hex(hex);
  golden.payload = from_hex(row.payload);
  golden.params.ev_split = split;

  Packet& p = golden.packet;
  const auto flow_label = high_in_port ? 0x4567u : 0xc123u;
  const auto length = static_cast<std::uint16_t>(std::stoul(std::string(row.inner_length), nullptr, 16));
  p.has_outer = outer;
  p.inner = {.traffic_class = row.traffic_class_value,
             .flow_label = flow_label,
             .payload_length = length,
             .next_header = Ipv6Header::kNextUdp,
             .hop_limit = 0x3f,
             .source = address(kInnerAddresses.substr(0, 39)),
             .destination = address(kInnerAddresses.substr(39))};
  if (outer) {
    p.outer = {.traffic_class = row.traffic_class_value,
               .flow_label = flow_label,
               .payload_length = static_cast<std::uint16_t>(length + 40),
               .next_header = Ipv6Header::kNextIpv6,
               .hop_limit = 0x40,
               .source = address(kOuterAddresses.substr(0, 39)),
               .destination = address(kOuterAddresses.substr(39))};
  }
  p.udp = {.source_port = static_cast<std::uint16_t>(high_in_port ? 0xc123 : 0x4567),
           .destination_port = 4791,
           .length = length};
  p.ev = 0xc1234567;
  row.fill(p);
  return golden;
}

}  // namespace

Bytes from_hex(std::string_view text) {
  Bytes out;
  int high = -1;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c))) continue;
    if (high < 0) {
      high = digit(c);
    } else {
      out.push_back(static_cast<std::byte>(high << 4 | digit(c)));
      high = -1;
    }
  }
  return out;
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out += kDigits[std::to_integer<unsigned>(b) >> 4];
    out += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

std::vector<Golden> golden_packets() {
  std::vector<Golden> all;
  for (const Row& row : kRows) {
    for (const bool outer : {false, true}) {
      for (const EvSplit split : {EvSplit::kHighInPort, EvSplit::kLowInPort}) all.push_back(build(row, outer, split));
    }
  }
  return all;
}

bool same_headers(const Packet& a, const Packet& b) {
  if (a.has_outer != b.has_outer || (a.has_outer && a.outer != b.outer)) return false;
  if (a.inner != b.inner || a.udp != b.udp || a.ev != b.ev || a.bth != b.bth) return false;
  switch (a.bth.opcode) {
    case Opcode::kSack:
      return a.seth == b.seth && (a.seth.cc_type == 0 || a.cc == b.cc);
    case Opcode::kNack:
      return a.neth == b.neth;
    case Opcode::kProbeRequest:
      return a.peth == b.peth;
    case Opcode::kEndpointRequest:
      return a.erth == b.erth;
    case Opcode::kEndpointResponse:
      return a.eeth == b.eeth;
    case Opcode::kAcknowledge:
      return a.aeth == b.aeth;
    default:
      break;
  }
  return a.meth == b.meth && (!a.bth.timestamp || a.tseth == b.tseth) && a.reth == b.reth &&
         (!has_imm(a.bth.opcode) || a.imm == b.imm);
}

}  // namespace mrc::wire::test
