// SPDX-License-Identifier: BSD-2-Clause
// Port strings: what is accepted, and that each kind of bad input is refused in words that name it.
#include <rapidcheck.h>

#include "datapath/port/options.hpp"
#include "mrc/port/port.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::port;

namespace {

std::string refusal(std::string_view text) {
  const auto spec = parse_port(text);
  REQUIRE(!spec);
  REQUIRE(spec.error().code == EINVAL);
  return spec.error().text;
}

std::string group_refusal(std::string_view text) {
  const auto groups = parse_groups(text);
  REQUIRE(!groups);
  REQUIRE(groups.error().code == EINVAL);
  return groups.error().text;
}

}  // namespace

TEST_CASE("every kind of port parses", "[parse]") {
  struct Case {
    std::string_view text;
    PortKind kind;
    std::string target;
  };
  for (const auto& c : std::vector<Case>{{"eth1", PortKind::kAfPacket, "eth1"},
                                         {" af_packet:mrc0 ", PortKind::kAfPacket, "mrc0"},
                                         {"af_packet:enp3s0.100", PortKind::kAfPacket, "enp3s0.100"},
                                         {"tap:mrc0,mac=02:00:00:00:00:01", PortKind::kTap, "mrc0"},
                                         {"memif:/run/x.sock,id=1,role=server", PortKind::kMemif, "/run/x.sock"},
                                         {"af_xdp:eth1,queue=2", PortKind::kAfXdp, "eth1"},
                                         {"pci:0000:3b:00.1", PortKind::kPci, "0000:3b:00.1"},
                                         {"pci:3b:00.1,mtu=9000", PortKind::kPci, "3b:00.1"},
                                         {"mlx5:mlx5_0", PortKind::kPci, "mlx5_0"}}) {
    INFO(c.text);
    const auto spec = parse_port(c.text);
    REQUIRE(spec);
    REQUIRE(spec->kind == c.kind);
    REQUIRE(spec->target == c.target);
  }
  const auto memif = parse_port("memif:/run/x.sock,id=7,role=server,mtu=4096,ring=10");
  REQUIRE(memif);
  REQUIRE(memif->options == std::vector<std::pair<std::string, std::string>>{
                                {"id", "7"}, {"role", "server"}, {"mtu", "4096"}, {"ring", "10"}});
  REQUIRE(number_option(*memif, "id", 0) == 7);
  REQUIRE(number_option(*memif, "queue", 42) == 42);
}

TEST_CASE("bad ports are refused in words", "[parse]") {
  using Catch::Matchers::Contains;
  REQUIRE_THAT(refusal(""), Contains("empty"));
  REQUIRE_THAT(refusal("   "), Contains("empty"));
  REQUIRE_THAT(refusal("ring:x"), Contains("unknown kind \"ring\"") && Contains("af_packet, tap, memif"));
  REQUIRE_THAT(refusal("af_packet:"), Contains("does not name an interface"));
  REQUIRE_THAT(refusal("averyveryverylongname"), Contains("does not name an interface"));
  REQUIRE_THAT(refusal("a b"), Contains("does not name an interface"));
  REQUIRE_THAT(refusal(".."), Contains("does not name an interface"));
  REQUIRE_THAT(refusal("memif:relative.sock"), Contains("absolute socket path"));
  REQUIRE_THAT(refusal("memif:/" + std::string(120, 'x')), Contains("longer than 107 bytes"));
  REQUIRE_THAT(refusal("pci:eth0"), Contains("PCI address"));
  REQUIRE_THAT(refusal("pci:0000:3b:00.9"), Contains("PCI address"));
  REQUIRE_THAT(refusal("mlx5:../x"), Contains("RDMA device"));
  REQUIRE_THAT(refusal("eth1,mtu"), Contains("key=value"));
  REQUIRE_THAT(refusal("eth1,=3"), Contains("key=value"));
  REQUIRE_THAT(refusal("eth1,mtu=9000"), Contains("no option \"mtu\"") && Contains("framecnt"));
  REQUIRE_THAT(refusal("tap:t0,mtu=9000,mtu=9000"), Contains("twice"));
  REQUIRE_THAT(refusal("tap:t0,mtu=12"), Contains("1280 to"));
  REQUIRE_THAT(refusal("tap:t0,mtu=9000x"), Contains("not a number"));
  REQUIRE_THAT(refusal("tap:t0,mtu=99999999999999999999"), Contains("not a number"));
  REQUIRE_THAT(refusal("tap:t0,mac=ff:ff:ff:ff:ff:ff"), Contains("unicast"));
  REQUIRE_THAT(refusal("tap:t0,mac=02-00-00-00-00-01"), Contains("unicast"));
  REQUIRE_THAT(refusal("memif:/x,role=master"), Contains("neither server nor client"));
  REQUIRE_THAT(refusal("memif:/x,id=-1"), Contains("not a number"));
}

TEST_CASE("groups parse", "[parse]") {
  const auto groups =
      parse_groups("ip=10.77.0.1;t0=3;nic=1;gateway=fe80::1;a0;af_xdp:a1,queue=1| ip=10.77.0.2 ; b0 ; tap:b1");
  REQUIRE(groups);
  REQUIRE(groups->size() == 2);
  const auto& first = groups->front();
  REQUIRE(first.ipv4 == "10.77.0.1");
  REQUIRE(first.t0 == 3);
  REQUIRE(first.nic == 1);
  REQUIRE(first.gateway == "fe80::1");
  REQUIRE(first.ports.size() == 2);
  REQUIRE(first.ports[1].kind == PortKind::kAfXdp);
  const auto& second = groups->back();
  REQUIRE(second.ipv4 == "10.77.0.2");
  REQUIRE(second.t0 == -1);
  REQUIRE(second.ports[1].target == "b1");

  const auto plain = parse_groups("memif:/tmp/a=b.sock;memif:/tmp/a=b.sock,role=server");
  REQUIRE(plain);
  REQUIRE(plain->front().ipv4.empty());
  REQUIRE(plain->front().ports.size() == 2);
}

TEST_CASE("bad groups are refused in words", "[parse]") {
  using Catch::Matchers::Contains;
  REQUIRE_THAT(group_refusal(""), Contains("no port"));
  REQUIRE_THAT(group_refusal("ip=10.0.0.1"), Contains("has no port"));
  REQUIRE_THAT(group_refusal("a0|"), Contains("empty"));
  REQUIRE_THAT(group_refusal("a0;;a1"), Contains("empty"));
  REQUIRE_THAT(group_refusal("ip=10.0.0;a0"), Contains("not an IPv4 address"));
  REQUIRE_THAT(group_refusal("ip=127.0.0.1;a0"), Contains("cannot be"));
  REQUIRE_THAT(group_refusal("ip=10.0.0.1;ip=10.0.0.2;a0"), Contains("twice"));
  REQUIRE_THAT(group_refusal("ip=10.0.0.1;a0|ip=10.0.0.1;a1"), Contains("own address"));
  REQUIRE_THAT(group_refusal("t0=-1;a0"), Contains("0 to 65535"));
  REQUIRE_THAT(group_refusal("nic=x;a0"), Contains("0 to 65535"));
  REQUIRE_THAT(group_refusal("gateway=10.0.0.1;a0"), Contains("IPv6"));
  REQUIRE_THAT(group_refusal("colour=red;a0"), Contains("unknown setting"));
  REQUIRE_THAT(group_refusal("a0;af_packet:a0"), Contains("listed twice"));
  REQUIRE_THAT(group_refusal("ip=10.0.0.1;a0|ip=10.0.0.2;a0"), Contains("listed twice"));
  std::string many;
  for (int i = 0; i < 17; ++i) many += (i == 0 ? "p" : ";p") + std::to_string(i);
  REQUIRE_THAT(group_refusal(many), Contains("at most 16 planes"));
}

TEST_CASE("no text crashes the parser, and what it accepts it accepts again", "[parse]") {
  REQUIRE(rc::check("parse", [] {
    const auto text = *rc::gen::container<std::string>(rc::gen::weightedOneOf<char>(
        {{8, rc::gen::element('e', 't', 'h', '0', ':', ',', ';', '=', '|', '/', '.', 'm', 'i', 'p', 'a', 'f', '_')},
         {1, rc::gen::arbitrary<char>()}}));
    if (const auto spec = parse_port(text)) {
      const auto again = parse_port(spec->text);
      RC_ASSERT(again.has_value());
      RC_ASSERT(again->target == spec->target);
    } else {
      RC_ASSERT(!spec.error().text.empty());
    }
    if (const auto groups = parse_groups(text)) RC_ASSERT(!groups->empty());
  }));
}
