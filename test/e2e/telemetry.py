#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Asks a process with FI_MRC_TELEMETRY=1 everything that there is to ask, and checks the answers.

Usage: telemetry.py PID [--planes N]; speaks DPDK's telemetry protocol (SOCK_SEQPACKET, JSON answers).
"""
import argparse
import glob
import json
import os
import socket
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("pid", type=int)
parser.add_argument("--planes", type=int, default=4)
parser.add_argument("--page", required=True, help="docs/counters.md")
args = parser.parse_args()


def find():
    places = ["/var/run/dpdk", os.environ.get("XDG_RUNTIME_DIR", "/nowhere") + "/dpdk", "/tmp/dpdk"]
    for _ in range(200):
        for place in places:
            found = glob.glob(f"{place}/mrc-{args.pid}-*/dpdk_telemetry.v2")
            if found:
                return found[0]
        time.sleep(0.05)
    raise SystemExit(f"no telemetry socket of process {args.pid} in {places}")


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for _ in range(100):  # bound before it listens
            try:
                self.socket.connect(path)
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        self.socket.settimeout(20)
        self.hello = json.loads(self.socket.recv(65536))
        self.busy = 0

    def ask(self, command):
        name = command.split(",")[0]
        for _ in range(50):
            self.socket.send(command.encode())
            answer = json.loads(self.socket.recv(65536))[name]
            if not isinstance(answer, dict) or "busy" not in answer:
                return answer
            self.busy += 1
        raise SystemExit(f"{command}: busy 50 times")


path = find()
client = Client(path)
assert client.hello["pid"] == args.pid, client.hello
page = open(args.page).read()
for _ in range(100):  # the socket is there before the ports are
    commands = client.ask("/")
    if "/mrc/evs" in commands:
        break
    time.sleep(0.05)
for command in ("info", "counters", "ports", "planes", "connections", "connection", "evs"):
    assert f"/mrc/{command}" in commands, commands
    text = client.ask(f"/help,/mrc/{command}")
    assert "arameter" in json.dumps(text), text


def names(value):
    for key, inner in value.items():
        yield key
        if isinstance(inner, dict):
            yield from names(inner)


info = client.ask("/mrc/info")
assert info["pid"] == args.pid and info["ipv4"].count(".") == 3, info

# Traffic runs while we ask: counters grow, and nothing ever goes back.
deadline = time.time() + 30
before = client.ask("/mrc/counters")
while client.ask("/mrc/counters")["transport"]["tx_data"] <= before["transport"]["tx_data"] + 100:
    assert time.time() < deadline, "no traffic"
    time.sleep(0.05)
after = client.ask("/mrc/counters")
for group in ("transport", "driver"):
    for name, value in before[group].items():
        assert name == "rx_malformed" or after[group][name] >= value, (group, name)
planes = client.ask("/mrc/planes")
ports = client.ask("/mrc/ports")
assert len(planes) == len(ports) == args.planes, (planes, ports)
for p in range(args.planes):
    assert planes[str(p)]["up"] == 1 and planes[str(p)]["tx_packets"] > 0, planes
    assert ports[str(p)]["tx_frames"] > 0 and ports[str(p)]["mtu"] >= 1500, ports

listed = client.ask("/mrc/connections")
assert listed["total"] >= 1, listed
identity, text = next(iter(listed["list"].items()))
assert text.endswith(" established"), text
one = client.ask(f"/mrc/connection,{identity}")
assert one["peer"] == text.split()[0] and one["established"] == 1, one
assert one["window"] >= 128 and one["cwnd"] > 0 and one["srtt_ns"] > 0 and one["next"] >= one["una"], one
assert sum(one["planes"][str(p)]["tx_packets"] for p in range(args.planes)) > 0, one
evs = client.ask(f"/mrc/evs,{identity}")
total = sum(len(values) for plane in evs.values() for values in plane.values())
assert total >= 128 and len(evs) == args.planes, (total, evs)
for answer in (before["transport"], before["driver"], before["pools"], info, one):
    for name in names(answer):
        assert name.isdigit() or f"`{name}`" in page or f"`{name}.<" in page or name in ("tx", "rx"), f"{name} is not on the page"

# What is not there is said in words.
for bad in ("/mrc/connection,99999", "/mrc/connection", "/mrc/connection,x", "/mrc/evs,-1", "/mrc/evs,99999"):
    assert "error" in client.ask(bad), bad

# Several clients at once.
answers = []
threads = [threading.Thread(target=lambda: [answers.append(other.ask("/mrc/counters")) for other in [Client(path)]
                                            for _ in range(50)]) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(answers) == 200
print(f"{path}: {len(commands)} commands; connection {identity} to {one['peer']}, {one['next'] - one['una']} in flight, "
      f"cwnd {one['cwnd']}, srtt {one['srtt_ns'] / 1000:.0f} us; {total} EVs; {client.busy} times busy")
