# SPDX-License-Identifier: BSD-2-Clause
"""One mpirun of the suite: starts it in a session of its own, watches the ranks' records, and ends everything that it
started when no test made progress for too long. Says which tests it decided, and how."""
import json
import os
import shutil
import signal
import subprocess
import time
import uuid

STOP = 60  # seconds between the last test's end and the job's


class Job:
    def __init__(self, options, over, ranks, directory):
        self.options, self.over, self.ranks, self.directory = options, over, ranks, directory
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.mark = uuid.uuid4().hex
        self.library = self.why = ""
        self.records = {}

    def run(self, command):
        env = os.environ | {"MRC_SUITE_JOB": self.mark, "PYTHONDONTWRITEBYTECODE": "1"}
        if self.over == "mrc":
            env |= {"FI_MRC_STATS": str(self.directory / "stats"), "FI_MRC_STATS_INTERVAL": "1"}
            env.setdefault("FI_LOG_LEVEL", "warn")
            env.setdefault("FI_LOG_PROV", "mrc")
        with open(self.directory / "log", "wb") as log:
            process = subprocess.Popen([self.options.launch, self.options.mpi, str(self.ranks), self.over, *command],
                                       stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env,
                                       start_new_session=True, cwd=self.directory)
            size, since = -1, time.monotonic()
            while process.poll() is None:
                time.sleep(0.2)
                now = sum(file.stat().st_size for file in self.directory.glob("rank*.jsonl"))
                if now != size:
                    size, since = now, time.monotonic()
                elif time.monotonic() - since > (STOP if self.ended() else self.options.idle):
                    self.why = f"no progress for {time.monotonic() - since:.0f} s"
                    self.stacks()
                    break
            self.end(process)
        if not self.why and process.returncode:
            self.why = f"mpirun ended with status {process.returncode}"
        self.read()

    def processes(self):
        """Everything of this job that lives, wherever mpirun put it: its environment carries the job's mark."""
        mark = f"MRC_SUITE_JOB={self.mark}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environ:
                    if mark in environ.read().split(b"\0"):
                        yield int(pid)
            except OSError:
                continue

    def end(self, process):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        for pid in self.processes():
            try:
                # A switch that this job started serves others too, and ends by itself.
                if os.path.basename(os.readlink(f"/proc/{pid}/exe")) != "mrc-switch":
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        process.wait()

    def stacks(self):
        """Where the ranks are, for the person who has to find out."""
        if not shutil.which("gdb"):
            return
        with open(self.directory / "stacks", "wb") as out:
            for pid in self.processes():
                try:
                    if "python" not in os.readlink(f"/proc/{pid}/exe"):
                        continue
                    out.write(f"\n== {pid}\n".encode())
                    out.flush()
                    subprocess.run(["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all bt 40"],
                                   stdout=out, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60,
                                   check=False)
                except (OSError, subprocess.TimeoutExpired):
                    continue

    def read(self):
        for rank in range(self.ranks):
            file = self.directory / f"rank{rank}.jsonl"
            lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
            self.records[rank] = [json.loads(line) for line in lines if line.endswith("]")]
        for what, name, text in self.records[0]:
            if what == "library":
                self.library = f"{name}, {text}"

    def ended(self):
        return all(self.tail(rank).endswith(b'["end", "", ""]\n') for rank in range(self.ranks))

    def tail(self, rank):
        try:
            with open(self.directory / f"rank{rank}.jsonl", "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 64))
                return file.read()
        except OSError:
            return b""

    def finished(self):
        return self.ended() and not self.why

    def outcomes(self):
        """{test: [outcome, text]}, as of all ranks: the worst one counts."""
        order = {"ok": 1, "skip": 0, "fail": 2, "hangs": 3}
        worst, stopped = {}, {}
        for rank, records in self.records.items():
            for what, test, text in records:
                if what in order and order[what] >= order.get(worst.get(test, ["skip"])[0], 0):
                    worst[test] = [what, f"rank {rank}: {text}" if text else ""]
                elif what == "stop":
                    stopped[test] = stopped.get(test, 0) + 1
        if self.ended():
            if self.why:
                worst["set-up.the job's end"] = ["hangs", self.why]
            return worst
        # Tests that some rank did not leave: decided only if they can have been the cause.
        decided = {test: v for test, v in worst.items() if stopped.get(test, 0) == self.ranks or "." not in test}
        for rank, records in self.records.items():
            inside = [test for what, test, _ in records if what == "start"][-1:]
            if inside and stopped.get(inside[0], 0) < self.ranks and records[-1][0] != "stop":
                decided[inside[0]] = ["hangs", f"rank {rank} inside: {self.why or 'the job died'}"]
        return decided

    def counters(self):
        found = []
        for file in sorted(self.directory.glob("stats.*.json")):
            try:
                found.append(json.loads(file.read_text()))
            except ValueError:
                continue
        return found
