# SPDX-License-Identifier: BSD-2-Clause
"""--real: an experiment's plan in real time. MPI ranks (DPDK, memif) stream over a mrc-switch of their own, which gets the
plan's commands; gates: right contents, no application error, every plane used. Figures are told beside the virtual ones,
not judged: with more pollers than cores a hop can take milliseconds."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

INTERVAL = 0.1


def removal():
    return [(0.6 * i, f"port nic0.0 plane {p} {state}")
            for i, (p, state) in enumerate([(p, "down") for p in range(7, 0, -1)] + [(p, "up") for p in range(1, 8)], 1)]


def failures():
    dead = [(i % 4, (i * 5 + 1) % 16) for i in range(20)]
    flapping = [(i % 4, (i * 5 + 3) % 16) for i in range(8)]
    plan = [(1 + 0.2 * i, f"link t0-{i % 2} t1-{t1} plane {p} down") for i, (p, t1) in enumerate(dead)]
    plan += [(5.5, f"link t0-0 t1-{t1} plane {p} flap 200ms 0.5") for p, t1 in flapping]
    plan += [(7.5, f"link t0-0 t1-{t1} plane {p} flap off") for p, t1 in flapping]
    plan += [(7.6, f"link t0-{i % 2} t1-{t1} plane {p} up") for i, (p, t1) in enumerate(dead)]
    return plan + [(8.5, "switch t1-3 plane 0 down")]


# planes, ranks, flows, seconds, plan [(at, command)], switch options, environment (FI_MRC_DENYLIST: what the file says)
PLANS = {
    "nic-link-removal": (8, 2, ["0:1", "1:0"], 9.5, removal(), [], {}),
    "t0-t1-failures": (4, 2, ["0:1"], 10, failures(), ["--t1", "16"], {}),
    "bad-ev": (4, 2, ["0:1"], 6, [(1.5, "link t0-0 t1-2 plane 1 loss 20%"), (4.5, "link t0-0 t1-2 plane 1 loss 0")], [],
               {}),
    "loss": (4, 2, ["0:1"], 8, [(2, "loss 0.1%"), (4, "loss 1%"), (6, "loss 5%")], [], {}),
    "incast": (2, 10, [f"{i}:7" for i in range(7)] + ["8:9"], 6, [], [], {}),
    "shared-ev": (4, 4, ["0:1", "2:3"], 6, [(3, "lift the denylist")], ["--rate", "400M"],
                  {"FI_MRC_DENYLIST": "".join(f"[[deny]]\nt1 = {t1}\n" for t1 in (0, 1, 3))}),
    "uneven-planes": (4, 2, ["0:1"], 7, [(2, "plane 2 rate 25%"), (5, "plane 2 rate full")], ["--rate", "400M"], {}),
    "lossy-nic-link": (4, 2, ["0:1", "1:0"], 7, [(2, "port nic0.0 plane 1 loss 5%"), (5, "port nic0.0 plane 1 loss 0")],
                       [], {}),
}


class Switch:
    """A mrc-switch of this run's own, until the end of the with block."""

    def __init__(self, build, work, planes, options):
        self.program, self.socket = build / "tools/mrc-switch/mrc-switch", work / "switch.sock"
        self.log = open(work / "switch.log", "w")
        self.process = subprocess.Popen([self.program, "--socket", self.socket, "--stay", "--planes", str(planes), *options],
                                        stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        for _ in range(200):
            if self.socket.exists():
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.__exit__()
        raise RuntimeError("mrc-switch did not start: " + pathlib.Path(self.log.name).read_text().strip()[-500:])

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.log.close()

    def ctl(self, *words):
        done = subprocess.run([self.program, "ctl", "--socket", self.socket, *words], capture_output=True, text=True,
                              timeout=20)
        if done.returncode != 0:
            raise RuntimeError(f"mrc-switch ctl {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def plane_bytes(self):
        return [plane["bytes"] for plane in json.loads(self.ctl("stats"))["plane_counters"]]


class Ranks(threading.Thread):
    """mpirun with the flows; its lines as they come, and when the ranks started."""

    def __init__(self, build, work, ranks, flows, seconds, socket, extra):
        super().__init__()
        env = dict(os.environ, FI_PROVIDER_PATH=str(build / "prov/mrc"), FI_MRC_SWITCH_SOCKET=str(socket),
                   FI_MRC_AUTOSTART="0", FI_MRC_STATS=str(work / "stats"), OMPI_ALLOW_RUN_AS_ROOT="1",
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", FI_LOG_LEVEL="warn", FI_LOG_PROV="mrc", **extra)
        command = ["timeout", str(int(seconds * 4 + 90)), "mpirun", "--oversubscribe", "-n", str(ranks), "--mca", "op", "^avx",
                   "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "mrc",
                   str(build / "tools/experiments/mpi_flows"), str(seconds), *flows]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.started, self.lines, self.code = threading.Event(), [], None

    def run(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if line.startswith("started"):
                self.started.set()
        self.code = self.process.wait()
        self.started.set()


def one(name, build, out):
    planes, ranks, flows, seconds, plan, options, env = PLANS[name]
    work = pathlib.Path(tempfile.mkdtemp(prefix="mrc-experiment."))
    samples, events = [], []
    denylist = work / "deny.toml"
    if "FI_MRC_DENYLIST" in env:
        denylist.write_text(env["FI_MRC_DENYLIST"])
        env = dict(env, FI_MRC_DENYLIST=str(denylist))
    try:
        with Switch(build, work, planes, options) as switch:
            run = Ranks(build, work, ranks, flows, seconds, switch.socket, env)
            run.start()
            run.started.wait(60)
            begin = time.monotonic()
            left = sorted(plan)
            while run.is_alive():
                now = time.monotonic() - begin
                while left and now >= left[0][0]:
                    command = left.pop(0)[1]
                    if command == "lift the denylist":
                        denylist.write_text("")
                    else:
                        switch.ctl(*command.split())
                    events.append((round(now, 3), command))
                    print(f"  {now:5.1f} s  {command}", flush=True)
                samples.append((time.monotonic() - begin, switch.plane_bytes()))
                time.sleep(INTERVAL)
            run.join()
        stats = [json.loads(p.read_text()) for p in sorted(work.glob("stats.*.json"))]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    series = [(t1, [(y - x) * 8e-9 / (t1 - t0) for x, y in zip(b0, b1)])
              for (t0, b0), (t1, b1) in zip(samples, samples[1:])]
    got = {line.split()[1]: int(line.split()[2]) * 8e-9 / float(line.split()[3])
           for line in run.lines if line.startswith("flow ")}
    used = [sum(process["planes"][p]["tx_packets"] for process in stats) for p in range(planes)] if stats else []
    gates = {"ranks ended well": run.code == 0, "contents right": "contents right" in run.lines,
             "every flow reported": len(got) == len(flows), "every plane used": bool(used) and min(used) > 0,
             "whole plan applied": not left}
    for gate, held in gates.items():
        print(f"  {'ok  ' if held else 'FAIL'} {gate}")
    if run.code != 0:
        print("\n".join("  | " + line for line in run.lines[-15:]))
    transport = {key: sum(process["transport"].get(key, 0) for process in stats)
                 for key in ("tx_data", "tx_retransmit", "rto", "spurious", "ev_blamed", "ev_restored")}
    phases = []
    edges = [0.0] + sorted({t for t, _ in events}) + [samples[-1][0] if samples else 0.0]
    for a, b in zip(edges, edges[1:]):
        inside = [sum(g) for t, g in series if a < t <= b]
        if inside:
            phases.append({"from": a, "to": b, "gbps": sum(inside) / len(inside)})
    report = {"name": name, "real": True, "pass": all(gates.values()), "gates": gates, "flows_gbps": got, "events": events,
              "phases": phases, "packets_per_plane": used, "transport": transport}
    virtual = out / f"{name}.json"
    if virtual.exists():
        report["virtual"] = json.loads(virtual.read_text()).get("verdict")
    (out / f"{name}.real.json").write_text(json.dumps(report, indent=1) + "\n")
    for phase in phases:
        print(f"  {phase['from']:5.1f}-{phase['to']:5.1f} s  {phase['gbps']:7.3f} Gb/s on the fabric's links to the ranks")
    print(f"  {transport}; packets per plane {used}")
    if "virtual" in report:
        print(f"  virtual: {report['virtual']}")
    rates = ", ".join(f"{flow} {gbps:.2f}" for flow, gbps in got.items())
    bad = [gate for gate, held in gates.items() if not held]
    print(f"{name} (real): {rates} Gb/s (goal contents right, no error, every plane used{'; not: ' + ', '.join(bad) if bad else ''}) "
          f"{'FAIL' if bad else 'PASS'}", flush=True)
    return 1 if bad else 0


def run(name, build, out):
    if name == "sweeps":
        print("run: sweeps compares parameters in virtual time only")
        return 2
    try:
        return max(one(n, build, out) for n in (PLANS if name == "all" else [name]))
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print(f"run: {error}")
        return 2
