#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""One rank of mpi4py's test suite: runs test/main.py of the source distribution, leaves out the tests that an earlier
job already decided, and appends what happens to a file of this rank at once, so that a test that hangs or dies can be
named. usage: mpi4py_rank.py TESTS_DIRECTORY OUTPUT_DIRECTORY DONE_LIST [arguments of main.py]"""
import json
import os
import sys
import time
import unittest

TESTS, OUTPUT, DONE = sys.argv[1:4]
sys.dont_write_bytecode = True
sys.path.insert(0, TESTS)
import main as suite  # noqa: E402  mpi4py's test/main.py

with open(DONE, encoding="utf-8") as lines:
    done = set(lines.read().split())


class Record:
    """The rank's file: one JSON list a line, [what, test, text, seconds since the epoch]."""

    def __init__(self):
        from mpi4py import MPI

        self.rank = MPI.COMM_WORLD.Get_rank()
        self.file = os.open(os.path.join(OUTPUT, f"rank{self.rank}.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if self.rank == 0:
            levels = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
            level = MPI.Query_thread()
            threads = next(name for name in levels if getattr(MPI, f"THREAD_{name}") == level)
            version = MPI.Get_library_version().split("\n")[0].strip("\0 ")
            self("library", version, f"thread {threads.lower()}")

    def __call__(self, what, test="", text=""):
        os.write(self.file, (json.dumps([what, test, text, time.time()]) + "\n").encode())


class Result(unittest.TestResult):
    def __init__(self, record):
        super().__init__()
        self.record = record
        self.bad = None

    def startTest(self, test):
        super().startTest(test)
        self.bad = None
        self.record("start", test.id())

    def stopTest(self, test):
        super().stopTest(test)
        self.record("stop", test.id())

    def addSuccess(self, test):
        self.record("ok", test.id())

    def addExpectedFailure(self, test, err):
        self.record("ok", test.id())

    def addSkip(self, test, reason):
        self.record("skip", test.id(), reason)

    def addFailure(self, test, err):
        self.record("fail", test.id(), self._exc_info_to_string(err, test))

    addError = addFailure

    def addUnexpectedSuccess(self, test):
        self.record("fail", test.id(), "unexpected success")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.record("fail", test.id(), f"{subtest}: " + self._exc_info_to_string(err, test))


class Runner:
    def run(self, tests):
        record = Record()
        result = Result(record)
        without_decided(tests)
        record("begin", "", str(tests.countTestCases()))
        tests(result)
        record("end")
        return result


def without_decided(tests):
    """unittest's tree of suites, less the tests in `done`."""
    tests._tests = [t for t in tests if isinstance(t, unittest.TestSuite) or t.id() not in done]
    for child in tests:
        if isinstance(child, unittest.TestSuite):
            without_decided(child)


try:
    suite.main(module=None, argv=[os.path.join(TESTS, "main.py"), *sys.argv[4:]], testRunner=Runner())
except SystemExit:
    pass  # the records tell; a status would make mpirun kill the other ranks
