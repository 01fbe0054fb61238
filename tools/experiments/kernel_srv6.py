# SPDX-License-Identifier: BSD-2-Clause
"""Experiment kernel-srv6, inside the testbed that kernel_srv6.sh made: runs the program, cuts and heals a T1, watches
every T1 link, compares captures, and judges. Not for use by itself."""
import argparse
import ctypes
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import srv6_shift
from srv6_shift import T0, T1, usid

PLANES, T1S, T0S, HOSTS, GROUPS = 2, 2, 2, 2, 2
INTERVAL = 0.1       # seconds between samples of the counters
SNAP = 14 + 80 + 96  # captured bytes: outer and inner headers, BTH and some more
SETTLED = 1.0        # seconds after the cut from which on the T1 must get (next to) no data:
STRAY = 0.01         # each EV of each connection finds out for itself, when its turn comes
MPI = ["--map-by", "node", "--mca", "oob_tcp_if_include", "10.88.0.0/16", "--mca", "op", "^avx", "--mca", "pml", "cm",
       "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "mrc", "--mca", "orte_base_help_aggregate", "0"]


class Counters(threading.Thread):
    """Packets that each T1 has sent to each T0, over time. /proc/net/dev stays that of the namespace it was opened in."""

    def __init__(self):
        super().__init__(daemon=True)
        self.samples, self.stop = [], threading.Event()
        libc = ctypes.CDLL(None, use_errno=True)
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.files = {}
        for plane in range(PLANES):
            for t1 in range(T1S):
                there = os.open(f"/run/netns/mrc-p{plane}-t1-{t1}", os.O_RDONLY)
                if libc.setns(there, 0x40000000) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
                self.files[plane, t1] = open("/proc/thread-self/net/dev")
                libc.setns(home, 0x40000000)
                os.close(there)

    def read(self):
        out = {}
        for (plane, t1), file in self.files.items():
            file.seek(0)
            for line in file.read().splitlines():
                name, _, numbers = line.partition(":")
                if name.strip().startswith("d"):
                    out[f"p{plane} t1-{t1} -> t0-{name.strip()[1:]}"] = int(numbers.split()[9])
        return out

    def run(self):
        while not self.stop.wait(INTERVAL):
            self.samples.append((time.time(), self.read()))


class Experiment:
    def __init__(self, args):
        self.args, self.work = args, pathlib.Path(args.work)
        dice = random.Random(args.seed)
        self.plane, self.t1 = dice.randrange(PLANES), dice.randrange(T1S)
        self.cut_after = args.seconds * dice.uniform(0.35, 0.45)
        self.tcpdumps = []
        self.rounds_file = self.work / "rounds"

    def capture(self, node, port, direction, count=4000, more=""):
        """tcpdump on one side of a switch; the file's name comes back."""
        file = self.work / f"{node}.{port}.{direction}{'.late' if more else ''}.pcap"
        self.tcpdumps.append(subprocess.Popen(
            ["ip", "netns", "exec", f"mrc-{node}", "tcpdump", "-q", "-i", port, "-Q", direction, "-s", str(SNAP), "-B",
             "8192", "-c", str(count), "-w", str(file), "ip6 proto 41 " + more],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return file

    def end_captures(self):
        for one in self.tcpdumps:
            one.send_signal(signal.SIGINT)
        for one in self.tcpdumps:
            one.wait(10)
        self.tcpdumps.clear()

    def testbed(self, *words):
        subprocess.run([self.args.testbed, *words], check=True, timeout=20)

    def rounds(self):
        """[(start, end or None)] in seconds, by round."""
        out = []
        if self.rounds_file.exists():
            for line in self.rounds_file.read_text().splitlines():
                fields = line.split()
                if len(fields) == 3 and fields[0] == "start":
                    out.append((int(fields[2]) / 1e9, None))
                elif len(fields) == 3:
                    out[-1] = (out[-1][0], int(fields[2]) / 1e9)
        return out

    def wait(self, what, limit=60.0):
        until = time.time() + limit
        while not what():
            if self.job.poll() is not None:
                raise RuntimeError("the program ended early:\n" + (self.work / "job.log").read_text()[-3000:])
            if time.time() > until:
                raise RuntimeError(f"nothing happened for {limit:.0f} s")
            time.sleep(0.002)

    def run(self):
        args, plane, t1 = self.args, self.plane, self.t1
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", FI_LOG_LEVEL="warn",
                   FI_LOG_PROV="mrc", FI_MRC_STATS=str(self.work / "stats"))
        exported = [word for name in ("FI_PROVIDER_PATH", "FI_LOG_LEVEL", "FI_LOG_PROV", "FI_MRC_STATS") for word in ("-x", name)]
        hosts = ",".join(f"h{h}:{GROUPS}" for h in range(HOSTS))
        counters = Counters()
        counters.start()
        with open(self.work / "job.log", "w") as log:
            self.job = subprocess.Popen(
                [args.testbed, "exec", "mgmt", "timeout", str(args.seconds + 90), "mpirun", "--mca", "plm_rsh_agent",
                 args.testbed + " agent", "-H", hosts, "-n", str(HOSTS * GROUPS), *MPI, *exported, args.program,
                 str(args.seconds), str(args.mib), str(self.rounds_file)], env=env, stdout=log, stderr=log)
        try:
            self.wait(lambda: self.rounds())
            began = time.time()
            print(f"   running on {HOSTS * GROUPS} ranks; T1 {t1} of plane {plane} is to be cut", flush=True)
            points = self.shift_captures()
            files = [file for _, _, before, after in points for file in before + after]
            self.wait(lambda: all(file.exists() for file in files))
            captured = time.time() + 1.5
            self.wait(lambda: time.time() > captured)
            self.end_captures()

            # From here on: what the hosts still send by way of that T1 (its uSID is the second of the carrier).
            dead = f"and ip6[30:2] == {usid(plane, T1, t1)}"
            late = [self.capture(f"p{plane}-t0-{h % T0S}", f"n{h}g{g}", "in", 400000, dead)
                    for h in range(HOSTS) for g in range(GROUPS)]
            self.wait(lambda: time.time() > began + self.cut_after and all(file.exists() for file in late))
            seen = len(self.rounds())
            self.wait(lambda: len(self.rounds()) > seen)
            cut = time.time()
            self.testbed("cut", f"t1-{t1}", "plane", str(plane))
            cut = (cut, time.time())
            print(f"   cut at {cut[0] - began:.2f} s, during all-reduce {seen}", flush=True)
            self.wait(lambda: time.time() > max(cut[1] + 2.5 * SETTLED, began + args.seconds * 0.75))
            self.end_captures()
            heal = time.time()
            self.testbed("heal", f"t1-{t1}", "plane", str(plane))
            print(f"   put back at {heal - began:.2f} s", flush=True)
            code = self.job.wait(args.seconds + 90)
        finally:
            self.end_captures()
            if self.job.poll() is None:
                self.job.terminate()
                self.job.wait(20)
        counters.stop.set()
        counters.join()
        lines = (self.work / "job.log").read_text().splitlines()
        said = next((line for line in lines if line.startswith("total ")), "")
        if code != 0 or not said:
            print("\n".join(lines[-30:]), file=sys.stderr)
        return self.judge(code, said, began, cut, heal, points, late, counters.samples)

    def shift_captures(self):
        """(switch, its uSID, captures before it, captures after it), on the way from h0 to h1 in the plane to be cut."""
        plane, t1 = self.plane, self.t1
        first, top, last = f"p{plane}-t0-0", f"p{plane}-t1-{t1}", f"p{plane}-t0-1"
        return [
            (first, usid(plane, T0, 0), [self.capture(first, f"n0g{g}", "in") for g in range(GROUPS)],
             [self.capture(first, f"u{j}", "out") for j in range(T1S)]),
            (top, usid(plane, T1, t1), [self.capture(top, "d0", "in")], [self.capture(top, "d1", "out")]),
            (last, usid(plane, T0, 1), [self.capture(last, f"u{j}", "in") for j in range(T1S)],
             [self.capture(last, f"n1g{g}", "out") for g in range(GROUPS)]),
        ]

    def judge(self, code, said, began, cut, heal, points, late, samples):
        problems, shifts = [], []
        if code != 0:
            problems.append(f"the program ended with status {code}")
        if "contents right" not in said:
            problems.append("the program did not report right contents")
        rounds = self.rounds()
        # Cutting a T1 takes a command for each of its links, and those may span the end of one all-reduce and the
        # start of the next: the slowest of those that ran meanwhile is the one that was hit.
        during = [i for i, (start, end) in enumerate(rounds) if end and start < cut[1] and end > cut[0]]
        hit = max(during, key=lambda i: rounds[i][1] - rounds[i][0], default=None)
        if hit is None:
            problems.append("no all-reduce ran while the links were cut")
        for switch, own, before, after in points:
            pairs, mistakes, example = srv6_shift.compare(before, after, own)
            shifts.append({"switch": switch, "pairs": pairs, "mistakes": len(mistakes), "example": example})
            print(f"   {switch}: {pairs} packets on both sides, {len(mistakes)} not shifted as they should; {example}")
            if pairs < 100 or mistakes:
                problems.append(f"{switch}: {pairs} carriers compared, {len(mistakes)} wrong {mistakes[:1]}")

        name = f"p{self.plane} t1-{self.t1}"
        at = lambda when: next((s for t, s in samples if t >= when), samples[-1][1])  # noqa: E731
        between = lambda a, b: {link: at(b)[link] - at(a)[link] for link in samples[0][1]}  # noqa: E731
        before, dead, after = between(began, cut[0]), between(cut[1] + SETTLED, heal), between(heal + SETTLED, samples[-1][0])
        if min(before.values()) < 100:
            problems.append(f"a T1 link carried next to nothing before the cut: {before}")
        if min(count for link, count in dead.items() if not link.startswith(name)) < 100:
            problems.append(f"a T1 link that was whole carried next to nothing after the cut: {dead}")
        tried = sorted((p for file in late for p in srv6_shift.packets(file)), key=lambda p: p.seconds)
        data = [p.seconds - cut[0] for p in tried if p.opcode in srv6_shift.DATA and p.seconds > cut[0]]
        others = [p for p in tried if p.opcode not in srv6_shift.DATA and p.seconds > cut[1] + SETTLED]
        lasting = [t for t in data if t > cut[1] - cut[0] + SETTLED]
        bypass = max((t for t in data if t <= cut[1] - cut[0] + SETTLED), default=0.0)
        # Packets of all opcodes through the T1 at its side in the same time, which used to be as many.
        beside = sum(count for link, count in dead.items() if link.startswith(f"p{self.plane} ")) - len(lasting)
        stray = len(lasting) / max(beside, 1)
        if stray > STRAY:
            problems.append(f"{len(lasting)} data packets were still sent to the T1 later than {SETTLED} s after the cut")
        times = [end - start for start, end in rounds if end]
        usual = sorted(times)[len(times) // 2]
        result = {
            "experiment": "kernel-srv6", "seed": self.args.seed, "pass": not problems, "problems": problems,
            "program": said, "ranks": HOSTS * GROUPS, "cut": name, "cut_s": cut[0] - began, "cut_done_s": cut[1] - began,
            "heal_s": heal - began, "cut_in_round": hit, "median_all_reduce_s": usual,
            "cut_all_reduce_s": times[hit] if hit is not None else None, "last_data_after_cut_s": bypass,
            "data_packets_to_dead_t1_later": len(lasting), "share_to_dead_t1_later": stray, "other_packets_to_dead_t1_later": len(others),
            "t1_packets_before_cut": before, "t1_packets_while_cut": dead, "t1_packets_after_heal": after, "shifts": shifts,
            "rounds": [(s - began, e - began if e else None) for s, e in rounds],
            "samples": [(t - began, s) for t, s in samples],
        }
        out = pathlib.Path(self.args.out)
        (out / "kernel-srv6.json").write_text(json.dumps(result, indent=1) + "\n")
        plot(result, out / "kernel-srv6.png")
        for label, counts in (("before the cut", before), ("while cut", dead), ("after healing", after)):
            print(f"   {label}: " + ", ".join(f"{link} {count}" for link, count in counts.items()))
        for problem in problems:
            print("   PROBLEM: " + problem)
        pairs = sum(s["pairs"] for s in shifts)
        good = pairs - sum(s["mistakes"] for s in shifts)
        took = f"{times[hit]:.2f} s" if hit is not None else "?"
        print(f"   {said}; the last data packet to the dead T1 in the first second came {bypass * 1e3:.0f} ms after the cut")
        print(f"kernel-srv6: {len(times)} all-reduces, the one with the cut took {took} (median {usual:.2f} s), {good} of "
              f"{pairs} carriers shifted right, {stray:.3%} of its plane's packets sent to the dead T1 from {SETTLED:.0f} s after "
              f"the cut on (goal completes, contents right, all shifted, every T1 used, at most {STRAY:.0%}) "
              f"{'FAIL' if problems else 'PASS'}")
        return 1 if problems else 0


def plot(result, file):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(9, 6), sharex=True, height_ratios=(2, 1))
    times = [t for t, _ in result["samples"]]
    for link in result["samples"][0][1]:
        counts = [s[link] for _, s in result["samples"]]
        rates = [(b - a) / max(t2 - t1, 1e-3) / 1e3 for a, b, t1, t2 in zip(counts, counts[1:], times, times[1:])]
        style = {"linewidth": 2.2, "color": "black"} if link.startswith(result["cut"]) else {"linewidth": 1}
        top.plot(times[1:], rates, label=link, linestyle="--" if link.endswith("t0-1") else "-", **style)
    for axis in (top, bottom):
        axis.axvline(result["cut_s"], color="red", linewidth=1)
        axis.axvline(result["heal_s"], color="green", linewidth=1)
        axis.grid(alpha=0.3)
    top.set_ylabel("thousand packets/s")
    top.legend(fontsize=7, ncols=2)
    top.set_title(f"Kernel SRv6 switches: packets per T1 link; {result['cut']} cut (red), put back (green)")
    done = [(s, e - s) for s, e in result["rounds"] if e is not None]
    bottom.plot([s for s, _ in done], [took * 1e3 for _, took in done], ".-")
    bottom.set_ylabel("all-reduce, ms")
    bottom.set_xlabel("s")
    bottom.set_ylim(bottom=0)
    bottom.set_xlim(left=-0.5)
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("testbed", "program", "work", "out"):
        parser.add_argument("--" + name, required=True)
    for name in ("seed", "seconds", "mib"):
        parser.add_argument("--" + name, type=int, required=True)
    try:
        return Experiment(parser.parse_args()).run()
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"   PROBLEM: {error}")
        print("kernel-srv6: did not complete (goal completes, contents right) FAIL")
        return 1


if __name__ == "__main__":
    sys.exit(main())
