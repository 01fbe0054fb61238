#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a command over mrc-switch, cuts and restores one plane meanwhile, samples the switch's counters per plane, and
ends with a table and a picture of throughput per plane over time.

Example: watch.py --switch build/tools/mrc-switch/mrc-switch --seconds 12 --plane 1 -- mpirun -n 2 ./mpi_transfer 12
"""
import argparse
import csv
import json
import subprocess
import sys
import threading
import time

INTERVAL = 0.1  # seconds between samples


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switch", required=True, help="the mrc-switch executable")
    parser.add_argument("--seconds", type=float, required=True, help="length of the transfer")
    parser.add_argument("--plane", type=int, default=1, help="plane to cut for the middle third")
    parser.add_argument("--csv", default="planes.csv")
    parser.add_argument("--picture", default="planes.png")
    parser.add_argument("--table", default="table.txt")
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def control(switch, *words):
    done = subprocess.run([switch, "ctl", *words], capture_output=True, text=True, timeout=10)
    if done.returncode != 0:
        raise RuntimeError(f"mrc-switch ctl {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def plane_bytes(switch):
    """Cumulative bytes that left the fabric per plane."""
    stats = json.loads(control(switch, "stats"))
    return [plane["bytes"] for plane in stats["plane_counters"]]


def newline():
    """Ends a moving progress line."""
    return "\n" if sys.stdout.isatty() else ""


class Transfer(threading.Thread):
    """The command, its progress lines shown and its start noted (the first progress line, or 1 s)."""

    def __init__(self, command):
        super().__init__()
        self.command, self.started, self.code, self.told = command, threading.Event(), None, 0.0

    def run(self):
        process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in process.stdout:
            if line.startswith("progress"):
                self.started.set()
                _, at, done = line.split()
                # A line that moves on a terminal, a line every two seconds elsewhere.
                if sys.stdout.isatty():
                    print(f"\r   {float(at):5.1f} s  {int(done) / 2**20:8.0f} MiB sent ", end="", flush=True)
                elif float(at) >= self.told + 2:
                    self.told = float(at)
                    print(f"   {float(at):5.1f} s  {int(done) / 2**20:8.0f} MiB sent", flush=True)
            else:
                print(f"{newline()}   {line.rstrip()}", flush=True)
        self.code = process.wait()
        self.started.set()


def watch(args):
    """Samples until the transfer ends; returns its exit code, samples [(t, [bytes])] and events [(t, what)]."""
    transfer = Transfer(args.command)
    transfer.start()
    transfer.started.wait(60)
    samples, events = [], []
    begin = time.monotonic()
    plan = [(args.seconds / 3, "down"), (args.seconds * 2 / 3, "up")]
    while transfer.is_alive():
        now = time.monotonic() - begin
        if plan and now >= plan[0][0]:
            state = plan.pop(0)[1]
            control(args.switch, "plane", str(args.plane), state)
            events.append((now, state))
            print(f"{newline()}   {now:5.1f} s  plane {args.plane} {'CUT' if state == 'down' else 'RESTORED'}", flush=True)
        try:
            samples.append((time.monotonic() - begin, plane_bytes(args.switch)))
        except (RuntimeError, subprocess.TimeoutExpired):
            if transfer.is_alive():
                raise
        time.sleep(INTERVAL)
    transfer.join()
    return transfer.code, samples, events


def rates(samples):
    """[(t, [Gb/s per plane])] between successive samples."""
    result = []
    for (t0, b0), (t1, b1) in zip(samples, samples[1:]):
        result.append((t1, [(y - x) * 8 / (t1 - t0) / 1e9 for x, y in zip(b0, b1)]))
    return result


def mean_between(series, start, end, plane):
    inside = [gbps[plane] for t, gbps in series if start <= t < end]
    return sum(inside) / len(inside) if inside else 0.0


def table(series, events, planes, cut):
    down = next((t for t, what in events if what == "down"), None)
    up = next((t for t, what in events if what == "up"), None)
    end = series[-1][0]
    settle = 0.5  # seconds after a change that count as neither
    phases = [("before", 0.0, down if down is not None else end)]
    if down is not None and up is not None:
        phases += [("cut", down + settle, up), ("restored", up + settle, end)]
    lines = ["plane  " + "".join(f"{name + ' Gb/s':>16} {'share':>6}" for name, _, _ in phases)]
    means = {name: [mean_between(series, a, b, p) for p in range(planes)] for name, a, b in phases}
    for plane in range(planes):
        cells = ""
        for name, _, _ in phases:
            total = sum(means[name]) or 1.0
            cells += f"{means[name][plane]:16.3f} {means[name][plane] / total:6.1%}"
        lines.append(f"{plane}{' *' if plane == cut else '  '}    {cells}")
    lines.append("all    " + "".join(f"{sum(means[name]):16.3f} {'':>6}" for name, _, _ in phases))
    lines.append("* the plane that was cut. Throughput of the emulated fabric on this machine, headers included.")
    return "\n".join(lines), means


def picture(path, series, events, planes, cut):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(9, 6), layout="constrained")
    times = [t for t, _ in series]
    for plane in range(planes):
        upper.plot(times, [gbps[plane] for _, gbps in series], label=f"plane {plane}", linewidth=1.6)
    upper.set_ylabel("Gb/s per plane")
    upper.legend(ncols=planes, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
    lower.stackplot(times, *[[gbps[p] for _, gbps in series] for p in range(planes)], alpha=0.8)
    lower.set_ylabel("Gb/s, all planes")
    lower.set_xlabel("seconds")
    for axis in (upper, lower):
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
        for t, what in events:
            axis.axvline(t, color="black", linestyle="--", linewidth=1)
    for t, what in events:
        upper.annotate(f"plane {cut} {'cut' if what == 'down' else 'restored'}", (t, upper.get_ylim()[1]),
                       xytext=(3, -10), textcoords="offset points", fontsize=9)
    figure.suptitle("One MPI transfer over mrc: every packet takes another path; one plane is cut and restored")
    figure.savefig(path, dpi=110)


def main():
    args = arguments()
    code, samples, events = watch(args)
    print()
    if code != 0:
        print(f"   the command ended with status {code}", file=sys.stderr)
        return 1
    series = rates(samples)
    if len(events) != 2 or len(series) < 10:
        print("   too few samples: the transfer ended before the plane was cut and restored", file=sys.stderr)
        return 1
    planes = len(samples[0][1])
    with open(args.csv, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["seconds"] + [f"plane{p}_gbps" for p in range(planes)])
        writer.writerows([f"{t:.3f}"] + [f"{g:.4f}" for g in gbps] for t, gbps in series)
    text, means = table(series, events, planes, args.plane)
    with open(args.table, "w") as file:
        file.write(text + "\n")
    print("\n".join("   " + line for line in text.splitlines()))
    picture(args.picture, series, events, planes, args.plane)
    # The picture must mean something: all planes carry traffic, the cut one goes quiet and comes back.
    quiet = means["cut"][args.plane] < 0.05 * max(means["cut"])
    back = means["restored"][args.plane] > 0.1 * max(means["restored"])
    everywhere = all(gbps > 0 for gbps in means["before"])
    if not (quiet and back and everywhere):
        print(f"   unexpected: all planes used before: {everywhere}, cut plane quiet: {quiet}, back after: {back}",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
