// SPDX-License-Identifier: BSD-2-Clause
// Reading the TOML file. Every key is looked at: what is not known is an error, not a silent default.
#include "mrc/engine/config.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>

#include "mrc/engine/identity.hpp"
#include "mrc/engine/rate.hpp"
#include "mrc/toml.hpp"

namespace mrc::engine {
namespace {

// Remembers the first error; later reads return defaults.
class Reader {
 public:
  explicit Reader(std::string origin) : origin_(std::move(origin)) {}

  void complain(const toml::node& at, const std::string& what) {
    if (!error_) error_ = Error{EINVAL, fmt::format("{}, line {}: {}", origin_, at.source().begin.line, what)};
  }
  const std::optional<Error>& error() const { return error_; }

  void only(const toml::table& table, const std::string& where, std::initializer_list<std::string_view> known) {
    for (const auto& [key, value] : table) {
      if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
      std::string list;
      for (const std::string_view name : known) list.append(list.empty() ? "" : ", ").append(name);
      complain(value, fmt::format("unknown key \"{}\" in {}; known are {}", std::string(key.str()), where, list));
    }
  }

  template <class T>
  T integer(const toml::table& table, std::string_view key, T fallback, std::int64_t low, std::int64_t high) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return fallback;
    const auto value = node->value_exact<std::int64_t>();
    if (!value || *value < low || *value > high) {
      complain(*node, fmt::format("{} must be a whole number from {} to {}", std::string(key), low, high));
      return fallback;
    }
    return static_cast<T>(*value);
  }

  std::optional<std::string> text(const toml::table& table, std::string_view key) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return std::nullopt;
    const auto value = node->value_exact<std::string>();
    if (!value) complain(*node, fmt::format("{} must be a text in quotes", std::string(key)));
    return value;
  }

 private:
  std::string origin_;
  std::optional<Error> error_;
};

// "fd6d:7263::/48" → its first `bits` bits.
std::optional<std::uint64_t> ipv6_prefix(const std::string& text, unsigned bits) {
  const auto slash = text.find('/');
  if (slash == std::string::npos || text.substr(slash + 1) != std::to_string(bits)) return std::nullopt;
  std::uint8_t bytes[16];
  if (inet_pton(AF_INET6, text.substr(0, slash).c_str(), bytes) != 1) return std::nullopt;
  std::uint64_t value = 0;
  for (unsigned i = 0; i < 16; ++i) {
    if (i < bits / 8) {
      value = value << 8 | bytes[i];
    } else if (bytes[i] != 0) {
      return std::nullopt;
    }
  }
  return value;
}

void read_fabric(Reader& in, const toml::table& table, FabricConfig& out) {
  in.only(table, "[fabric]", {"prefix", "locator", "planes", "uplinks", "usid_plane_bits"});
  if (const auto text = in.text(table, "prefix")) {
    if (const auto value = ipv6_prefix(*text, 48)) {
      out.prefix = *value;
    } else {
      in.complain(*table.get("prefix"), "prefix must be an IPv6 prefix of 48 bits such as \"fd6d:7263::/48\"");
    }
  }
  if (const auto text = in.text(table, "locator")) {
    if (const auto value = ipv6_prefix(*text, 32)) {
      out.locator = static_cast<std::uint32_t>(*value);
    } else {
      in.complain(*table.get("locator"), "locator must be an IPv6 prefix of 32 bits such as \"fcbb:bb00::/32\"");
    }
  }
  out.planes = in.integer<std::uint8_t>(table, "planes", 0, 1, path::kMaxPlanes);
  out.uplinks = in.integer<std::uint16_t>(table, "uplinks", 1, 1, 256);
  out.usid.plane_bits = in.integer<std::uint8_t>(table, "usid_plane_bits", out.usid.plane_bits, 3, 8);
}

void read_group(Reader& in, const toml::table& table, std::vector<port::PortGroup>& out) {
  in.only(table, "[[group]]", {"ip", "t0", "nic", "gateway", "ports", "rate"});
  port::PortGroup group;
  if (const auto ip = in.text(table, "ip")) {
    group.ipv4 = *ip;
    if (!parse_ipv4(*ip)) in.complain(*table.get("ip"), "ip must be an IPv4 address such as \"10.77.0.1\"");
  }
  group.t0 = in.integer<int>(table, "t0", -1, 0, 65535);
  group.nic = in.integer<int>(table, "nic", -1, 0, 65535);
  if (const auto gateway = in.text(table, "gateway")) {
    std::uint8_t bytes[16];
    group.gateway = *gateway;
    if (inet_pton(AF_INET6, gateway->c_str(), bytes) != 1) {
      in.complain(*table.get("gateway"), "gateway must be an IPv6 address such as \"fe80::1\"");
    }
  }
  if (const auto text = in.text(table, "rate")) {
    const auto rate = parse_rate(*text);
    if (!rate) in.complain(*table.get("rate"), fmt::format("rate must be {}", kRateRule));
    group.link_bps = rate.value_or(0);
  }
  const toml::array* ports = table.get_as<toml::array>("ports");
  if (ports == nullptr || ports->empty() || ports->size() > path::kMaxPlanes) {
    const toml::node* node = table.get("ports");
    in.complain(node != nullptr ? *node : table,
                fmt::format("ports must be a list of 1 to {} ports, one a plane, such as [\"af_packet:mrc0\"]",
                            path::kMaxPlanes));
    return;
  }
  for (const toml::node& node : *ports) {
    const auto text = node.value_exact<std::string>();
    if (!text) {
      in.complain(node, "a port must be a text in quotes such as \"af_packet:mrc0\"");
      return;
    }
    auto spec = port::parse_port(*text);
    if (!spec) {
      in.complain(node, spec.error().text);
      return;
    }
    group.ports.push_back(std::move(*spec));
  }
  out.push_back(std::move(group));
}

void read_prefix(Reader& in, const toml::table& table, std::vector<PrefixEntry>& out) {
  in.only(table, "[[prefix]]", {"net", "t0", "nic"});
  const auto net = in.text(table, "net");
  const toml::node& at = table.get("net") != nullptr ? *table.get("net") : static_cast<const toml::node&>(table);
  const std::string rule = "net must be an IPv4 prefix such as \"10.77.0.0/24\", its host bits 0";
  PrefixEntry entry;
  const auto slash = net ? net->find('/') : std::string::npos;
  if (slash == std::string::npos) return in.complain(at, rule);
  const auto address = parse_ipv4(net->substr(0, slash));
  int length = -1;
  try {
    length = std::stoi(net->substr(slash + 1));
  } catch (const std::exception&) {
    length = -1;
  }
  if (!address || length < 0 || length > 32) return in.complain(at, rule);
  const std::uint32_t mask = length == 0 ? 0 : ~std::uint32_t{0} << (32 - length);
  if ((*address & ~mask) != 0) return in.complain(at, rule);
  entry.network = *address;
  entry.length = static_cast<std::uint8_t>(length);
  if (table.get("t0") == nullptr) in.complain(table, "a [[prefix]] needs t0, the index of its T0 switch");
  entry.t0 = in.integer<std::uint16_t>(table, "t0", 0, 0, 65535);
  entry.nic = in.integer<std::uint16_t>(table, "nic", 0, 0, 65535);
  out.push_back(entry);
}

void read_deny(Reader& in, const toml::table& table, std::vector<path::DenyRule>& out) {
  in.only(table, "[[deny]]", {"plane", "t0", "t1", "nic", "ev", "why"});
  path::DenyRule rule;
  rule.plane = in.integer<std::int16_t>(table, "plane", -1, 0, path::kMaxPlanes - 1);
  rule.t0 = in.integer<std::int16_t>(table, "t0", -1, 0, 16383);
  rule.t1 = in.integer<std::int16_t>(table, "t1", -1, 0, 255);
  rule.nic = in.integer<std::int16_t>(table, "nic", -1, 0, 16383);
  rule.ev = in.integer<std::int64_t>(table, "ev", -1, 0, UINT32_MAX);
  static_cast<void>(in.text(table, "why"));  // for the reader of the file
  if (rule == path::DenyRule{}) in.complain(table, "a [[deny]] needs plane, t0, t1 or ev: it would deny nothing");
  if (rule.nic >= 0 && rule.t0 < 0) in.complain(table, "nic in a [[deny]] needs t0, the switch above that NIC");
  if (rule.nic >= 0 && rule.t1 >= 0) in.complain(table, "a [[deny]] names a NIC's link or a T1's: nic or t1, not both");
  if (out.size() == path::kMaxDenyRules) {
    return in.complain(table,
                       fmt::format("there are more than {} [[deny]] entries; deny a whole switch or plane instead",
                                   path::kMaxDenyRules));
  }
  out.push_back(rule);
}

template <class F>
void each_table(Reader& in, const toml::table& root, std::string_view key, F&& read) {
  const toml::node* node = root.get(key);
  if (node == nullptr) return;
  const toml::array* list = node->as_array();
  if (list == nullptr || !list->is_array_of_tables()) {
    return in.complain(*node, fmt::format("{0} must be written as [[{0}]] tables", std::string(key)));
  }
  for (const toml::node& item : *list) read(*item.as_table());
}

Result<toml::table> parse_toml(std::string_view text, const std::string& origin) {
  toml::parse_result parsed = toml::parse(text, origin);
  if (parsed) return std::move(parsed).table();
  return fail(EINVAL,
              fmt::format("{}, line {}: {}", origin, parsed.error().source().begin.line, parsed.error().description()));
}

Result<std::string> read_file(const std::string& path, const char* what, const char* variable) {
  std::ifstream file(path);
  const auto failed = [&]() -> Result<std::string> {
    return fail(errno != 0 ? errno : EIO,
                fmt::format("cannot read the {} {} ({}): {}", what, path, variable, std::strerror(errno)));
  };
  if (!file) return failed();
  std::string text{std::istreambuf_iterator<char>(file), {}};  // may be empty, which operator<< takes for an error
  if (file.bad()) return failed();
  return text;
}

void check_indices(Reader& in, const toml::table& root, const FileConfig& config) {
  const std::int64_t most = (1 << config.fabric.usid.index_bits()) - 1;
  const auto bad = [most](std::int64_t value) { return value > most; };
  for (const PrefixEntry& entry : config.prefixes) {
    if (bad(entry.t0) || bad(entry.nic)) {
      in.complain(root, fmt::format("t0 and nic of prefix {}/{} must be at most {} (uSID index bits)",
                                    to_text(entry.network), entry.length, most));
    }
  }
  for (const port::PortGroup& group : config.groups) {
    if (bad(group.t0) || bad(group.nic)) {
      in.complain(root, fmt::format("t0 and nic of a [[group]] must be at most {} (uSID index bits)", most));
    }
  }
}

}  // namespace

Result<FileConfig> parse_config(std::string_view text, const std::string& origin) {
  const auto parsed = parse_toml(text, origin);
  if (!parsed) return tl::unexpected(parsed.error());
  const toml::table& root = *parsed;
  FileConfig config;
  Reader in(origin);
  in.only(root, "the file", {"fabric", "group", "prefix", "deny"});
  if (const toml::node* node = root.get("fabric")) {
    if (const toml::table* table = node->as_table()) {
      read_fabric(in, *table, config.fabric);
    } else {
      in.complain(*node, "fabric must be written as a [fabric] table");
    }
  }
  each_table(in, root, "group", [&](const toml::table& table) { read_group(in, table, config.groups); });
  each_table(in, root, "prefix", [&](const toml::table& table) { read_prefix(in, table, config.prefixes); });
  each_table(in, root, "deny", [&](const toml::table& table) { read_deny(in, table, config.denied); });
  check_indices(in, root, config);
  if (in.error()) return tl::unexpected(*in.error());
  return config;
}

Result<FileConfig> load_config(const std::string& path) {
  const auto text = read_file(path, "configuration", "FI_MRC_CONFIG");
  if (!text) return tl::unexpected(text.error());
  return parse_config(*text, path);
}

Result<std::vector<path::DenyRule>> parse_denylist(std::string_view text, const std::string& origin) {
  const auto root = parse_toml(text, origin);
  if (!root) return tl::unexpected(root.error());
  std::vector<path::DenyRule> out;
  Reader in(origin);
  in.only(*root, "a denylist", {"deny"});
  each_table(in, *root, "deny", [&](const toml::table& table) { read_deny(in, table, out); });
  if (in.error()) return tl::unexpected(*in.error());
  return out;
}

Result<std::vector<path::DenyRule>> load_denylist(const std::string& path) {
  const auto text = read_file(path, "denylist", "FI_MRC_DENYLIST");
  if (!text) return tl::unexpected(text.error());
  return parse_denylist(*text, path);
}

std::optional<path::Location> locate(const std::vector<PrefixEntry>& prefixes, std::uint32_t ipv4) {
  const PrefixEntry* best = nullptr;
  for (const PrefixEntry& entry : prefixes) {
    const std::uint32_t mask = entry.length == 0 ? 0 : ~std::uint32_t{0} << (32 - entry.length);
    if ((ipv4 & mask) == entry.network && (best == nullptr || entry.length > best->length)) best = &entry;
  }
  if (best == nullptr) return std::nullopt;
  return path::Location{best->t0, static_cast<std::uint16_t>(best->nic + (ipv4 - best->network))};
}

}  // namespace mrc::engine
