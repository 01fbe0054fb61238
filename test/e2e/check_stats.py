#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Proves from mrc's own counters (FI_MRC_STATS files, one a process) that traffic really went through mrc:
payload bytes, every plane used and roughly equally, enough distinct entropy values."""
import argparse
import json
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--min-bytes", type=int, default=1)
    parser.add_argument("--planes", type=int, required=True)
    parser.add_argument("--min-evs", type=int, default=100)
    parser.add_argument("--files", type=int, default=0, help="expected number of processes")
    parser.add_argument("--retransmitted", action="store_true", help="there must have been retransmissions")
    parser.add_argument("stats", nargs="+")
    args = parser.parse_args()
    stats = [json.load(open(name)) for name in args.stats]
    assert not args.files or len(stats) == args.files, f"{len(stats)} files, expected {args.files}"
    total = {"tx_bytes": 0, "rx_bytes": 0, "tx_retransmit": 0}
    for name, one in zip(args.stats, stats):
        transport = one["transport"]
        for key in total:
            total[key] += transport[key]
        planes = [plane["tx_packets"] for plane in one["planes"]]
        assert len(planes) == args.planes, f"{name}: {len(planes)} planes"
        assert transport["tx_bytes"] + transport["rx_bytes"] > 0, f"{name}: no payload went through mrc"
        assert all(count > 0 for count in planes), f"{name}: a plane was not used: {planes}"
        assert max(planes) < 1.5 * min(planes) + 200, f"{name}: planes are uneven: {planes}"
        evs = one["distinct_evs"]["tx"]
        assert evs >= args.min_evs, f"{name}: only {evs} distinct EVs"
    assert total["tx_bytes"] >= args.min_bytes, total
    assert total["rx_bytes"] == total["tx_bytes"], f"sent and placed payload differ: {total}"
    if args.retransmitted:
        assert total["tx_retransmit"] > 0, total
    evs = min(one["distinct_evs"]["tx"] for one in stats)
    planes = [sum(one["planes"][p]["tx_packets"] for one in stats) for p in range(args.planes)]
    print(f"   mrc's counters: {len(stats)} processes, {total['tx_bytes']} payload bytes sent and placed, packets per "
          f"plane {planes}, at least {evs} distinct EVs a process, {total['tx_retransmit']} retransmissions")


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        print(f"FAILED: {error}", file=sys.stderr)
        sys.exit(1)
