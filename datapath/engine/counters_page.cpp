// SPDX-License-Identifier: BSD-2-Clause
// docs/counters.md, made from the table.
#include <fmt/format.h>

#include <iterator>

#include "mrc/engine/counter_table.hpp"
#include "mrc/wire/packet.hpp"

namespace mrc::engine {
namespace {

constexpr const char* kHead = R"(# Counters

Everything that a process tells about itself, and what it means. Made from `datapath/engine/counter_table.cpp`; a test
compares this page with it.

Three ways to read it, the same names in each:

- `FI_MRC_STATS=prefix`: JSON in `<prefix>.<pid>.json`, written at exit. With `FI_MRC_STATS_INTERVAL=2s` it is also
  written anew every two seconds while the process runs (another file, then renamed: a reader never sees half of it).
- `FI_MRC_TELEMETRY=1`: DPDK's telemetry socket, `<runtime folder>/dpdk/mrc-<pid>-<number>/dpdk_telemetry.v2`
  (`/var/run/dpdk/…` for root, else below `$XDG_RUNTIME_DIR` or `/tmp`). `dpdk-telemetry.py -f mrc-<pid>-<number>` asks
  by hand (`-l` lists what there is). A process that is too busy to answer within 200 ms says `{"busy": 1}`.
- `Engine::stats_json_locked()` in C++.

Reading takes the engine's lock for well under a millisecond; nothing is done for it on the packet path. Counters count
from the start of the process. In telemetry a list becomes an object with the index as key, and true is 1.

)";

void row(std::string& out, const CounterText& text) {
  fmt::format_to(std::back_inserter(out), "| `{}` | {} | {} |\n", text.name, text.unit, text.meaning);
}

void head(std::string& out, const char* title, const char* what) {
  fmt::format_to(std::back_inserter(out), "## {}\n\n{}\n\n| name | unit | meaning |\n|---|---|---|\n", title, what);
}

template <class Range>
void rows(std::string& out, const Range& range) {
  for (const auto& item : range) {
    if constexpr (requires { item.text; }) {
      row(out, item.text);
    } else {
      row(out, item);
    }
  }
  out += '\n';
}

}  // namespace

std::string counters_page() {
  std::string out = kHead;
  head(out, "Process", "Top level of the JSON; `/mrc/info`.");
  rows(out, process_texts());
  head(out, "Transport", "`transport`; `/mrc/counters`. All connections together.");
  rows(out, transport_counters());
  out += "`rx_malformed.<reason>` (packets): dropped because they could not be read. Reasons:";
  for (std::size_t i = 1; i < static_cast<std::size_t>(wire::ParseError::kCount); ++i) {
    fmt::format_to(std::back_inserter(out), "{} `{}`", i == 1 ? "" : ",",
                   wire::to_string(static_cast<wire::ParseError>(i)));
  }
  out += ".\n\n";
  head(out, "Driver", "`driver`; `/mrc/counters`. The poll loop between ports and transport.");
  rows(out, driver_counters());
  head(out, "Pools", "`pools`; `/mrc/counters`. Back at their first level when nothing is outstanding.");
  rows(out, pool_levels());
  head(out, "Planes", "`planes[]`; `/mrc/planes`.");
  rows(out, plane_texts());
  head(out, "Ports", "`planes[].port`; `/mrc/ports`.");
  rows(out, port_counters());
  head(out, "Connections", "`connections[]`; `/mrc/connection,<id>`, ids from `/mrc/connections`.");
  rows(out, connection_texts());
  head(out, "Planes of a connection", "`connections[].planes[]`; in `/mrc/connection,<id>`.");
  rows(out, connection_plane_texts());
  head(out, "EV states", "`ev_states` of a connection and of each of its planes; `/mrc/evs,<id>` lists the values.");
  rows(out, ev_state_texts());
  out += "## Telemetry commands\n\n| command | |\n|---|---|\n";
  for (const TelemetryText& text : telemetry_texts()) {
    fmt::format_to(std::back_inserter(out), "| `{}` | {} |\n", text.command, text.help);
  }
  return out;
}

}  // namespace mrc::engine
