# SPDX-License-Identifier: BSD-2-Clause
"""A job of mpi4py's test suite: reads the ranks' records, and says which tests it decided, and how."""
import json
import os

from job import Job

STOP = 60  # seconds between the last test's end and the job's


class SuiteJob(Job):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.library = ""
        self.records = {}

    def size(self):
        return sum(file.stat().st_size for file in self.directory.glob("rank*.jsonl"))

    def patience(self):
        return min(STOP, self.idle) if self.ended() else self.idle

    def run(self, command, env=None):
        super().run(command, env)
        for rank in range(self.ranks):
            file = self.directory / f"rank{rank}.jsonl"
            lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
            self.records[rank] = [json.loads(line) for line in lines if line.endswith("]")]
        for what, name, text, _ in self.records[0]:
            if what == "library":
                self.library = f"{name}, {text}"

    def ended(self):
        return all(b'["end", "", ""' in self.tail(rank) for rank in range(self.ranks))

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
            for what, test, text, _ in records:
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
            inside = [test for what, test, _, _ in records if what == "start"][-1:]
            if inside and stopped.get(inside[0], 0) < self.ranks and records[-1][0] != "stop":
                decided[inside[0]] = ["hangs", f"rank {rank} inside: {self.why or 'the job died'}"]
        return decided
