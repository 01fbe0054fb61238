// SPDX-License-Identifier: BSD-2-Clause
// FI_MRC_PORTS and the configuration's port strings: parsed strictly, every refusal says what was expected.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>

#include "datapath/port/options.hpp"
#include "mrc/port/port.hpp"

namespace mrc::port {
namespace {

struct KindName {
  std::string_view name;
  PortKind kind;
  std::string_view target;                ///< what the text after ':' means, for messages
  std::vector<std::string_view> options;  ///< keys that the kind's opener reads
};

const std::vector<KindName>& kind_names() {
  static const std::vector<KindName> names{
      {"af_packet", PortKind::kAfPacket, "an interface, e.g. af_packet:eth1", {"framecnt", "qdisc_bypass"}},
      {"tap", PortKind::kTap, "the tap interface to make, e.g. tap:mrc0", {"mac", "mtu"}},
      {"memif", PortKind::kMemif, "an absolute socket path, e.g. memif:/run/m.sock", {"id", "role", "mtu", "ring"}},
      {"af_xdp", PortKind::kAfXdp, "an interface, e.g. af_xdp:eth1", {"queue"}},
      {"pci", PortKind::kPci, "a PCI address, e.g. pci:0000:3b:00.1", {"mtu"}},
      {"mlx5", PortKind::kPci, "an RDMA device, e.g. mlx5:mlx5_0", {"mtu"}},
  };
  return names;
}

std::string known_kinds() {
  std::string text;
  for (const auto& known : kind_names()) text += (text.empty() ? "" : ", ") + std::string(known.name);
  return text;
}

bool is_interface_name(std::string_view text) {
  // The kernel's rule (dev_valid_name): 1 to 15 bytes, no '/', ':' or white space, not "." or "..".
  return !text.empty() && text.size() <= 15 && text != "." && text != ".." &&
         text.find_first_of("/: \t\n,;|=") == std::string_view::npos;
}

bool is_pci_address(std::string_view text) {
  // [domain:]bus:device.function
  const auto hex = [](std::string_view digits, std::size_t most) {
    return !digits.empty() && digits.size() <= most &&
           std::ranges::all_of(digits, [](unsigned char c) { return std::isxdigit(c) != 0; });
  };
  const auto dot = text.rfind('.');
  if (dot == std::string_view::npos || dot + 2 != text.size() || text[dot + 1] < '0' || text[dot + 1] > '7')
    return false;
  const auto colon = text.rfind(':', dot);
  if (colon == std::string_view::npos || !hex(text.substr(colon + 1, dot - colon - 1), 2)) return false;
  const auto front = text.substr(0, colon);
  const auto first = front.find(':');
  if (first == std::string_view::npos) return hex(front, 2);
  return hex(front.substr(0, first), 8) && hex(front.substr(first + 1), 2);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

Result<void> check_target(const KindName& known, std::string_view target, std::string_view text) {
  bool good = true;
  if (known.name == "memif")
    good = target.size() > 1 && target.front() == '/' && target.size() < kMemifPathLimit;
  else if (known.name == "pci")
    good = is_pci_address(target);
  else
    good = known.name == "mlx5" ? !target.empty() && target.find('/') == std::string_view::npos && target[0] != '.'
                                : is_interface_name(target);
  if (good) return {};
  std::string why = fmt::format("port \"{}\": \"{}\" does not name {}", text, target, known.target);
  if (known.name == "memif" && target.size() >= kMemifPathLimit)
    why = fmt::format("port \"{}\": the socket path is longer than {} bytes, which is the system's limit", text,
                      kMemifPathLimit - 1);
  return fail(EINVAL, why);
}

Result<void> check_option(const KindName& known, std::string_view key, std::string_view value, std::string_view text) {
  if (std::ranges::find(known.options, key) == known.options.end()) {
    std::string list;
    for (auto option : known.options) list += (list.empty() ? "" : ", ") + std::string(option);
    return fail(EINVAL, fmt::format("port \"{}\": {} has no option \"{}\" (it has: {})", text, known.name, key, list));
  }
  const auto in_range = [&](std::uint32_t low, std::uint32_t high) -> Result<void> {
    const auto number = parse_number(value);
    if (number && *number >= low && *number <= high) return {};
    return fail(EINVAL, fmt::format("port \"{}\": {}={} is not a number from {} to {}", text, key, value, low, high));
  };
  if (key == "mtu") return in_range(kMtuFloor, known.kind == PortKind::kMemif ? kMemifMtuLimit : 65521);
  if (key == "id") return in_range(0, UINT32_MAX);
  if (key == "ring") return in_range(4, 14);
  if (key == "queue") return in_range(0, 1023);
  if (key == "framecnt") return in_range(64, 65536);
  if (key == "qdisc_bypass") return in_range(0, 1);
  if (key == "role" && value != "server" && value != "client")
    return fail(EINVAL, fmt::format("port \"{}\": role={} is neither server nor client", text, value));
  if (key == "mac" && !parse_mac(value))
    return fail(EINVAL,
                fmt::format("port \"{}\": mac={} is not a unicast address such as 02:00:00:00:00:01", text, value));
  return {};
}

/// The key of "key=value" when `element` is a group's setting and not a port.
std::optional<std::string_view> setting_key(std::string_view element) {
  const auto equals = element.find('=');
  if (equals == std::string_view::npos || element.find_first_of(":,/") < equals) return std::nullopt;
  return element.substr(0, equals);
}

Result<void> apply_setting(PortGroup& group, std::string_view key, std::string_view value,
                           std::set<std::string>& seen) {
  if (!seen.emplace(key).second)
    return fail(EINVAL, fmt::format("port group: {}= is given twice; separate groups with '|'", key));
  const std::string text(value);
  std::array<std::uint8_t, 16> address{};
  if (key == "ip") {
    if (inet_pton(AF_INET, text.c_str(), address.data()) != 1)
      return fail(EINVAL, fmt::format("port group: ip={} is not an IPv4 address such as 10.77.0.1", text));
    if (address[0] == 0 || address[0] == 127 || address[0] >= 224)
      return fail(EINVAL, fmt::format("port group: ip={} cannot be a host's own address on the fabric", text));
    group.ipv4 = text;
  } else if (key == "gateway") {
    if (inet_pton(AF_INET6, text.c_str(), address.data()) != 1)
      return fail(EINVAL, fmt::format("port group: gateway={} is not an IPv6 address such as fe80::1", text));
    group.gateway = text;
  } else if (key == "t0" || key == "nic") {
    const auto number = parse_number(value);
    if (!number || *number > 65535)
      return fail(EINVAL, fmt::format("port group: {}={} is not a number from 0 to 65535", key, text));
    (key == "t0" ? group.t0 : group.nic) = static_cast<int>(*number);
  } else {
    return fail(EINVAL, fmt::format("port group: unknown setting \"{}=\" (known: ip, t0, nic, gateway)", key));
  }
  return {};
}

}  // namespace

std::optional<std::uint32_t> parse_number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<MacAddress> parse_mac(std::string_view text) {
  MacAddress mac{};
  if (text.size() != 17) return std::nullopt;
  for (std::size_t i = 0; i < 6; ++i) {
    const char* from = text.data() + 3 * i;
    const auto [end, error] = std::from_chars(from, from + 2, mac[i], 16);
    if (error != std::errc{} || end != from + 2 || (i < 5 && text[3 * i + 2] != ':')) return std::nullopt;
  }
  if ((mac[0] & 1) != 0 || mac == MacAddress{}) return std::nullopt;
  return mac;
}

const std::string* find_option(const PortSpec& spec, std::string_view key) {
  for (const auto& [name, value] : spec.options)
    if (name == key) return &value;
  return nullptr;
}

std::uint32_t number_option(const PortSpec& spec, std::string_view key, std::uint32_t otherwise) {
  const std::string* value = find_option(spec, key);
  return value == nullptr ? otherwise : parse_number(*value).value_or(otherwise);
}

Result<PortSpec> parse_port(std::string_view given) {
  const auto text = trim(given);
  if (text.empty())
    return fail(EINVAL, "a port is empty: expected an interface (eth1) or kind:target with a kind of " + known_kinds());
  const auto parts = split(text, ',');
  std::string_view head = trim(parts[0]);
  const KindName* known = kind_names().data();
  if (const auto colon = head.find(':'); colon != std::string_view::npos) {
    const auto name = head.substr(0, colon);
    const auto found = std::ranges::find(kind_names(), name, &KindName::name);
    if (found == kind_names().end())
      return fail(EINVAL, fmt::format("port \"{}\": unknown kind \"{}\" (known: {})", text, name, known_kinds()));
    known = &*found;
    head.remove_prefix(colon + 1);
  }
  if (auto good = check_target(*known, head, text); !good) return tl::unexpected(good.error());

  PortSpec spec{known->kind, std::string(head), {}, std::string(text)};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto part = trim(parts[i]);
    const auto equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == part.size())
      return fail(EINVAL, fmt::format("port \"{}\": option \"{}\" is not of the form key=value", text, part));
    const auto key = part.substr(0, equals);
    const auto value = part.substr(equals + 1);
    if (find_option(spec, key) != nullptr)
      return fail(EINVAL, fmt::format("port \"{}\": option {} is given twice", text, key));
    if (auto good = check_option(*known, key, value, text); !good) return tl::unexpected(good.error());
    spec.options.emplace_back(key, value);
  }
  if (known->name == "mlx5") spec.options.emplace_back(kRdmaDeviceOption, "1");
  return spec;
}

Result<std::vector<PortGroup>> parse_groups(std::string_view text) {
  if (trim(text).empty()) return fail(EINVAL, "no port is given: list interfaces such as FI_MRC_PORTS=\"eth1;eth2\"");
  std::vector<PortGroup> groups;
  std::set<std::pair<PortKind, std::string>> targets;
  std::set<std::string> addresses;
  for (const auto part : split(text, '|')) {
    PortGroup group;
    std::set<std::string> seen;
    for (const auto raw : split(part, ';')) {
      const auto element = trim(raw);
      if (const auto key = setting_key(element)) {
        auto good = apply_setting(group, *key, element.substr(key->size() + 1), seen);
        if (!good) return tl::unexpected(good.error());
        continue;
      }
      auto spec = parse_port(element);
      if (!spec) return tl::unexpected(spec.error());
      // A memif path may serve several ids and both roles; everything else can be opened once only.
      std::string target = spec->target;
      if (spec->kind == PortKind::kMemif) {
        const std::string* role = find_option(*spec, "role");
        target += fmt::format(",{},{}", number_option(*spec, "id", 0), role == nullptr ? "client" : *role);
      }
      if (!targets.emplace(spec->kind, target).second)
        return fail(EINVAL, fmt::format("port \"{}\" is listed twice; each plane needs its own port", element));
      group.ports.push_back(std::move(*spec));
    }
    if (group.ports.empty())
      return fail(EINVAL, fmt::format("port group {} has no port: list at least one, e.g. \"ip=10.77.0.1;eth1\"",
                                      groups.size() + 1));
    if (group.ports.size() > kMaxPlanes)
      return fail(EINVAL, fmt::format("port group {} has {} ports; a fabric has at most {} planes", groups.size() + 1,
                                      group.ports.size(), kMaxPlanes));
    if (!group.ipv4.empty() && !addresses.insert(group.ipv4).second)
      return fail(EINVAL, fmt::format("two port groups have ip={}; each group needs its own address", group.ipv4));
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace mrc::port
