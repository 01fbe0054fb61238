// SPDX-License-Identifier: BSD-2-Clause
// Writes the seed corpus from the golden packets: each variant once, a few damaged, trimmed, and INIT bodies.
//   make_corpus FOLDER
#include <array>
#include <cstdio>
#include <fstream>

#include "../wire/golden.hpp"
#include "mrc/wire/init.hpp"

using namespace mrc::wire;

namespace {

bool save(const std::string& path, unsigned parameters, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.put(static_cast<char>(parameters));
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return out.good();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/";
  bool good = true;
  std::size_t index = 0;
  for (const auto& g : test::golden_packets()) {
    const unsigned split = g.params.ev_split == EvSplit::kLowInPort;
    // Of the four variants of each row two are enough: plain with split a, outer with split b.
    if (g.packet.has_outer == (split == 0)) continue;
    good &= save(folder + g.name, split, g.bytes);
    auto damaged = g.bytes;
    switch (index++ % 4) {
      case 0:  // trimmed by a switch
        damaged[0] = std::byte{0x6c};
        damaged[1] = std::byte{0x80};
        damaged.resize(damaged.size() * 3 / 4);
        break;
      case 1:  // cut off
        damaged.resize(damaged.size() - 5);
        break;
      case 2:  // lengths
        damaged[5] ^= std::byte{4};
        break;
      default:  // opcode
        damaged[g.packet.has_outer ? 88 : 48] ^= std::byte{0x1e};
        break;
    }
    good &= save(folder + g.name + "_damaged", split, damaged);
  }
  InitBody body{.features = 3, .qpn = 0x123456, .psn = 0xabcdef, .incarnation = 7, .mtu = 4096, .window = 2048};
  std::array<std::byte, kMaxInitBody> out;
  good &= save(folder + "init", 0, std::span(out).first(encode(body, out)));
  const std::array<std::byte, 32> authenticator{};
  body.authenticator = authenticator;
  good &= save(folder + "init_authenticated", 0, std::span(out).first(encode(body, out)));
  return good ? 0 : 1;
}
