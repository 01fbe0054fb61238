# SPDX-License-Identifier: BSD-2-Clause
"""One mpirun: starts it in a session of its own, watches whether it makes progress, ends everything that it started
when it does not, and reads mrc's counters of its processes."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

PORTS = 32  # of each of mrc-switch's two copies of DPDK, one a plane of each process
LAUNCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch.sh")


def crowd():
    """How much longer to wait because others want this machine's processors too: 1 to 4."""
    return min(4.0, max(1.0, os.getloadavg()[0] / (4 * os.cpu_count())))


class Switch:
    """An mrc-switch of the suite's own, with as many planes as its ports allow for so many processes."""

    def __init__(self, processes):
        self.planes = max((n for n in range(1, 5) if 2 * (PORTS // n) >= processes), default=1)

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="mrc-suite-")
        self.socket = os.path.join(self.directory, "switch.sock")
        with open(os.path.join(self.directory, "log"), "wb") as log:
            self.process = subprocess.Popen([os.environ["FI_MRC_SWITCH"], "--socket", self.socket, "--stay", "--planes",
                                             str(self.planes)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(600):
            if os.path.exists(self.socket):
                break
            time.sleep(0.05)
        else:
            raise RuntimeError("mrc-switch did not open its socket")
        os.environ["FI_MRC_SWITCH_SOCKET"] = self.socket
        return self

    def __exit__(self, *_):
        del os.environ["FI_MRC_SWITCH_SOCKET"]
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.directory, ignore_errors=True)


class Job:
    def __init__(self, mpi, over, ranks, directory, idle):
        self.mpi, self.over, self.ranks, self.directory, self.idle = mpi, over, ranks, directory, idle
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.log = directory / "log"
        self.mark = uuid.uuid4().hex
        self.why = ""  # why it did not end well
        self.unborn = []  # of one that hangs: processes that have not come to the network yet
        self.seconds = 0.0

    def size(self):
        """What grows while the job makes progress."""
        return self.log.stat().st_size

    def patience(self):
        """How long it may stand still now, in seconds."""
        return self.idle

    def run(self, command, env=None):
        env = os.environ | {"MRC_SUITE_JOB": self.mark, "PYTHONDONTWRITEBYTECODE": "1"} | (env or {})
        if self.over == "mrc":
            env |= {"FI_MRC_STATS": str(self.directory / "stats"), "FI_MRC_STATS_INTERVAL": "1"}
            env.setdefault("FI_LOG_LEVEL", "warn")
            env.setdefault("FI_LOG_PROV", "mrc")
        started = time.monotonic()
        with open(self.log, "wb") as log:
            process = subprocess.Popen([LAUNCH, self.mpi, str(self.ranks), self.over, *command], stdout=log,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env,
                                       start_new_session=True, cwd=self.directory)
            size, since = -1, time.monotonic()
            while process.poll() is None:
                time.sleep(0.1)
                now = self.size()
                if now != size:
                    size, since = now, time.monotonic()
                elif time.monotonic() - since > self.patience() * crowd():
                    self.why = f"no progress for {time.monotonic() - since:.0f} s"
                    self.unborn = self.without_network()
                    if self.over == "mrc":
                        self.stacks()
                    break
            self.end(process)
        self.seconds = time.monotonic() - started
        if not self.why and process.returncode:
            self.why = f"mpirun ended with status {process.returncode}"

    def processes(self):
        """Everything of this job that lives, wherever mpirun put it: its environment carries the job's mark. A switch
        that the job started serves others too, and ends by itself."""
        mark = f"MRC_SUITE_JOB={self.mark}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environ:
                    ours = mark in environ.read().split(b"\0")
                if ours and os.path.basename(os.readlink(f"/proc/{pid}/exe")) != "mrc-switch":
                    yield int(pid)
            except OSError:
                continue

    def without_network(self):
        """Ranks that have loaded nothing to send with: not even the MPI's start-up is over there, and what they wait for
        is the launcher's."""
        # Open MPI 5 has its components within libmpi, so that over anything else there is nothing to see.
        library = "libmrc-fi.so" if self.over == "mrc" else "mca_pml_" if self.mpi == "openmpi4" else None
        found = []
        for pid in self.processes() if library else ():
            try:
                if os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python"):
                    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
                        if library not in maps.read():
                            found.append(pid)
            except OSError:
                continue
        return found

    def end(self, process):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        process.wait()

    def stacks(self):
        """Where its processes are, for the person who has to find out."""
        if not shutil.which("gdb"):
            return
        with open(self.directory / "stacks", "wb") as out:
            for pid in self.processes():
                try:
                    out.write(f"\n== {pid} {os.readlink(f'/proc/{pid}/exe')}\n".encode())
                    out.flush()
                    subprocess.run(["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all bt 40"],
                                   stdout=out, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=30,
                                   check=False)
                except (OSError, subprocess.TimeoutExpired):
                    continue

    def counters(self):
        found = []
        for file in sorted(self.directory.glob("stats.*.json")):
            try:
                found.append(json.loads(file.read_text()))
            except ValueError:
                continue
        return found


def traffic(processes):
    """(payload bytes, packets) that processes sent, by their counters."""
    return (sum(one["transport"]["tx_bytes"] for one in processes),
            sum(plane["tx_packets"] for one in processes for plane in one["planes"]))
