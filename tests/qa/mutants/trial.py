"""Tries mutants out: writes each into a copy of the tree, and runs the tests there. The working tree stays as it is."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tests.harness.tied import build_tied_command, open_tie
from tests.qa.mutants.mutant import Mutant
from tests.qa.process import list_processes_in

TEST_LIMIT_S = 120  # for one test; what takes longer counts as timed out
_GRACE_S = 15.0
_SILENT = (0, 5)
"""Exit codes of a pytest that noticed nothing: all passed, or no test counted (a file may have slow ones only)."""
_PLUGIN = Path(__file__).with_name("plugin")


class Result(StrEnum):
    NOTICED = "noticed"
    SURVIVED = "survived"
    TIMED_OUT = "timed out"


class TrialError(Exception):
    """The tests cannot judge: the fault is not the mutant's."""


class Interrupted(Exception):
    """The trial was told to end."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`level`: of the tests that noticed it. `is_slow`: only one noticed it that is marked `slow`."""

    mutant: Mutant
    result: Result
    seconds: float
    level: str = ""
    is_slow: bool = False
    noticed_by: str = ""

    def __str__(self) -> str:
        told = f"{self.result:9} {self.seconds:4.0f} s  "
        if self.result is Result.SURVIVED:
            return f"{told}{self.mutant}"
        level = f"{self.level}{', slow' * self.is_slow}"
        return f"{told}{self.mutant.key.path}:{self.mutant.line}  {level}: {self.noticed_by}"


@dataclass(frozen=True, slots=True)
class _Run:
    code: int
    timed_out: bool
    failed: tuple[str, ...]
    output: str


@dataclass(slots=True)
class Trial:
    """One copy of the tree, where one mutant at a time is tried. `unfit`: tests that fail without any mutant, which are
    left out, and told."""

    folder: Path
    limit_s: float
    tell: Callable[[str], None]
    unfit: set[str] = field(default_factory=set)
    _fit: set[str] = field(default_factory=set)
    _child: subprocess.Popen[bytes] | None = None
    _ending: threading.Event = field(default_factory=threading.Event)

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    def judge(self, mutant: Mutant, tests: Mapping[str, Sequence[str]]) -> Verdict:
        """Whether these tests, by level, notice the mutant: level after level without the slow ones, then those of all
        levels. A test that fails without it as well notices nothing."""
        began, has_run = time.monotonic(), False
        levels = {file: level for level in reversed(tests) for file in tests[level]}
        everything = list(dict.fromkeys(file for files in tests.values() for file in files))
        for files, is_slow in [*((files, False) for files in tests.values() if files), (everything, True)]:
            run = self._run_fit(mutant, files, is_slow)
            has_run |= run.code != _SILENT[1]
            if run.code not in _SILENT:
                result = Result.TIMED_OUT if run.timed_out else Result.NOTICED
                level = levels[(run.failed or files)[0].partition("::")[0]]
                told = ", ".join(run.failed) or ("all of them together" if run.timed_out else "nothing was imported")
                return Verdict(mutant, result, time.monotonic() - began, level, is_slow, told)
        if not has_run:
            raise TrialError(f"no test was run for {mutant.key.path}")
        return Verdict(mutant, Result.SURVIVED, time.monotonic() - began)

    def _run_fit(self, mutant: Mutant, files: Sequence[str], is_slow: bool) -> _Run:
        """Again without what fails anyway, until that is no cause any more."""
        while True:
            run = self._run_mutated(mutant, files, is_slow)
            if run.code in _SILENT or (run.timed_out and not run.failed):
                return run
            if not (unfit := self._find_unfit(run.failed or files[:1])):
                return run
            if not run.failed:
                raise TrialError(f"{files[0]} does not run without a mutant:\n{run.output[-2000:]}")
            for test in unfit:
                self.tell(f"left out, it fails without a mutant: {test}")
            self.unfit |= unfit

    def stop(self) -> None:
        """End what runs, from another thread."""
        self._ending.set()
        if self._child is not None:
            self._end_child(self._child)

    def _run_mutated(self, mutant: Mutant, files: Sequence[str], is_slow: bool) -> _Run:
        file = self.tree / mutant.key.path
        before = file.read_text(encoding="utf-8")
        self._write(file, mutant.apply_to(before))
        try:
            return self._run_tests(files, "-m", "slow" if is_slow else "not slow")
        finally:
            self._write(file, before)

    def _write(self, file: Path, text: str) -> None:
        """Nothing compiled is left: Python compares time and size only, and two mutants of one second may be equally
        long."""
        file.write_text(text, encoding="utf-8")
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()

    def _find_unfit(self, tests: Sequence[str]) -> set[str]:
        """Those of these tests that fail without any mutant."""
        for test in tests:
            if test not in self._fit and self._run_tests((test,)).code in _SILENT:
                self._fit.add(test)
        return set(tests) - self._fit

    def _run_tests(self, tests: Sequence[str], *more: str) -> _Run:
        if self._ending.is_set():
            raise Interrupted
        temporary, cache, told = self.folder / "t", self.folder / "c", self.folder / "output"
        for folder in (temporary, cache):
            shutil.rmtree(folder, ignore_errors=True)
        temporary.mkdir()
        left_out = [part for one in sorted(self.unfit) for part in ("--deselect" if "::" in one else "--ignore", one)]
        options = ["-x", "-q", "-p", "unshrunk", f"--timeout={TEST_LIMIT_S}", "--hypothesis-seed=0", *more]
        options += ["-o", f"cache_dir={cache}"]
        with told.open("wb") as output:
            child = self._child = subprocess.Popen(
                build_tied_command(sys.executable, "-m", "pytest", *options, *left_out, *tests),
                pass_fds=[open_tie()],
                cwd=self.tree,
                env={**os.environ, "PYTHONPATH": f"{self.tree}{os.pathsep}{_PLUGIN}", "TMPDIR": str(temporary)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        if self._ending.is_set():  # told to end before there was a child to be ended
            self._end_child(child)
        has_ended = False
        try:
            child.wait(self.limit_s)
            has_ended = True
        except subprocess.TimeoutExpired:
            self._end_child(child)
        finally:
            self._child = None
            for process in list_processes_in(self.folder):  # servers of tests that a kill has kept from ending them
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        if self._ending.is_set():
            raise Interrupted
        text, failed = told.read_text(encoding="utf-8", errors="replace"), cache / "v" / "cache" / "lastfailed"
        names = tuple(json.loads(failed.read_text(encoding="utf-8"))) if failed.is_file() else ()
        return _Run(child.returncode, not has_ended or "Failed: Timeout (" in text, names, text)

    def _end_child(self, child: subprocess.Popen[bytes]) -> None:
        """Like Ctrl-C first, so that the tests end what they have started."""
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGINT)
            try:
                child.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def copy_tree(root: Path, target: Path) -> None:
    """What git knows or would add, as it is now."""
    asked = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
