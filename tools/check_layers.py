#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fails the build when a file includes what lies above its layer, or the sans-IO core what it may not know.

    prov -> include -> datapath {engine -> port, control, transport -> path, wire}

Usage: check_layers.py SOURCE_ROOT [STAMP]
"""
import pathlib
import re
import sys

# What each layer may include of include/mrc/<layer>/ (itself included).
BELOW = {
    "wire": {"wire"},
    "path": {"path", "wire"},
    "transport": {"transport", "path", "wire"},
    "fabric": {"fabric", "path", "wire"},
    "probe": {"probe", "path", "wire"},
    "sim": {"sim", "fabric", "transport", "path", "wire"},
    "port": {"port", "wire"},
    "control": {"control", "path", "wire"},
    "engine": {"engine", "control", "port", "transport", "path", "wire"},
}
CORE = {"wire", "path", "transport"}
SANS_IO = CORE | {"fabric", "sim", "probe"}
SYSTEM_IO = re.compile(r'<(sys/|unistd|time\.h|ctime|chrono|random|thread|mutex|iostream|cstdio|stdio|fcntl|poll|net/|netinet/)')
CORE_FORBIDDEN = re.compile(r"<(vector|string|map|unordered_map|set|deque|list|functional)>")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"][^>"]+[>"])', re.M)


def layer_of(path: pathlib.PurePath) -> str:
    layer = path.parts[2] if path.parts[0] == "include" else path.parts[1]
    return "sim" if layer == "fabric" and path.stem.startswith("sim") else layer


def check(path: pathlib.PurePath, text: str) -> list[str]:
    wrong = []
    layer = layer_of(path) if path.parts[0] in ("include", "datapath") and len(path.parts) > 3 or path.parts[0] == "datapath" else ""
    for include in INCLUDE.findall(text):
        name = include[1:-1]
        if name.startswith("rte_") and layer != "port":
            wrong.append(f"{path}: includes {name}: DPDK is known to datapath/port only")
        if name.startswith("rdma/") and path.parts[0] in ("include", "datapath"):
            wrong.append(f"{path}: includes {name}: libfabric is known to prov/ only")
        if path.parts[0] == "prov" and name.startswith("datapath/"):
            wrong.append(f"{path}: includes {name}: prov/ may include only include/mrc/")
        if not layer:
            continue
        match = re.match(r"mrc/(\w+)/", name)
        if match:
            target = "sim" if name.startswith("mrc/fabric/sim") else match.group(1)
            if target not in BELOW[layer]:
                wrong.append(f"{path}: layer {layer} includes {name}, which is not below it")
        if layer in SANS_IO and SYSTEM_IO.match(include):
            wrong.append(f"{path}: {include} in the sans-IO layer {layer}")
        if layer in CORE and CORE_FORBIDDEN.match(include):
            wrong.append(f"{path}: {include} in the core: its memory comes from arenas")
    return wrong


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    wrong = []
    for top in ("include", "datapath", "prov"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix in (".hpp", ".cpp", ".h", ".c"):
                wrong += check(file.relative_to(root), file.read_text())
    for line in wrong:
        print(line, file=sys.stderr)
    if not wrong and len(sys.argv) > 2:
        pathlib.Path(sys.argv[2]).write_text("ok\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
