// SPDX-License-Identifier: BSD-2-Clause
// mrc-probe's command line.
#include "options.hpp"

#include <CLI/CLI.hpp>

namespace mrc::tool {

bool parse_options(int argc, char** argv, Options& out, int& exit_code) {
  CLI::App app{
      "mrc-probe: sends probes over every source-routed path that leads back to this host, and names the link or\n"
      "switch that loses them. Runs beside applications on a running mrc-switch, or on ports of its own."};
  app.footer(
      "Exit status: 0 nothing is wrong, 1 something is, 2 it could not be found out.\n"
      "Examples:\n"
      "  mrc-probe                                   through this user's mrc-switch\n"
      "  mrc-probe --config /etc/mrc.toml --rate 20000 --denylist /run/mrc/deny.toml\n"
      "  mrc-probe --json > a.json                   on one host under each T0, then\n"
      "  mrc-probe --merge a.json b.json             tells switches from their links\n"
      "  FI_MRC_DENYLIST=/run/mrc/deny.toml mpirun … keeps packets away from what was found");
  app.add_option("--ports", out.ports, "ports of our own, as FI_MRC_PORTS")->envname("FI_MRC_PORTS");
  app.add_option("--config", out.config, "TOML configuration, as FI_MRC_CONFIG")->envname("FI_MRC_CONFIG");
  app.add_option("--socket", out.socket, "control socket of a running mrc-switch")->envname("FI_MRC_SWITCH_SOCKET");
  app.add_option("--t0s", out.t0s, "T0 switches per plane (default: as the configuration or mrc-switch says)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--rate", out.rate, "probes a second, all paths together")
      ->check(CLI::Range(1.0, 5e6))
      ->capture_default_str();
  app.add_option("--duration", out.duration, "seconds of sending")
      ->check(CLI::Range(0.01, 86400.0))
      ->capture_default_str();
  app.add_option("--wait", out.wait, "seconds to wait for the last probes")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  app.add_option("--size", out.size, "bytes to pad each probe with: some faults take long packets only")
      ->check(CLI::Range(0, 65000));
  app.add_option("--rounds", out.rounds, "repeat so often, each time with a report; 0 = until interrupted")
      ->capture_default_str();
  app.add_option("--threshold", out.rules.threshold, "loss of a path that is still good (0.01 = 1 %)")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  app.add_option("--seed", out.seed, "of the order of the paths")->capture_default_str();
  app.add_flag("--all", out.all, "show good links too");
  app.add_flag("--json", out.json, "write paths, links and findings as JSON to stdout");
  app.add_option("--denylist", out.denylist, "write what was found as a TOML denylist (FI_MRC_DENYLIST reads it)")
      ->type_name("FILE");
  app.add_option("--merge", out.merge, "judge results written by --json on several hosts; sends nothing")
      ->type_name("FILE");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;
    return false;
  }
  return true;
}

}  // namespace mrc::tool
