"""Malformed BPMN files: `corpus/*.bpmn`, each with one defect; `corpus/expected.toml` says how each is refused."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident

import pytest

from tests.harness.corpus import corpus
from tests.linear.pace import measure_pace
from tests.tools.workflow.drawing import PEOPLE, drawn
from tests.tools.workflow.refused_files import CORPUS, EXPECTED, TYPES
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.bpmn.reader import compile_bpmn

REACHING = ("open", "exec", "compile", "import", "os.", "subprocess.", "socket.", "shutil.", "ctypes.", "code.")
"""Audit events of reading files, running code and talking to others."""


class Watch:
    """What the interpreter itself reports while something is watched."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._thread = 0
        sys.addaudithook(self._hear)

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        self.seen, self._thread = [], get_ident()
        try:
            yield self.seen
        finally:
            self._thread = 0

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._thread == get_ident() and event.startswith(REACHING):
            self.seen.append(event)


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


def refused(source: bytes, watch: Watch) -> InvalidDefinitionError:
    """How it was refused: in under a second of this thread's time, more on a slow machine, reaching for nothing."""
    began = time.thread_time()
    with watch.watching() as reached, pytest.raises(InvalidDefinitionError) as found:
        compile_bpmn(source, TYPES, PEOPLE)
    took_s = time.thread_time() - began
    assert took_s < 1 or took_s < measure_pace()
    assert reached == []
    return found.value


@corpus("name", *EXPECTED)
def test_a_malformed_file_is_refused_with_element_and_reason(name: str, watch: Watch) -> None:
    found = refused((CORPUS / f"{name}.bpmn").read_bytes(), watch)
    assert (found.element, EXPECTED[name]["reason"] in found.reason) == (EXPECTED[name]["element"], True), found


def test_the_files_without_the_defect_are_accepted_and_every_file_is_listed(watch: Watch) -> None:
    for name in sorted(path.stem for path in (CORPUS / "sound").glob("*.bpmn")):
        source = (CORPUS / "sound" / f"{name}.bpmn").read_bytes()
        with watch.watching() as reached:
            assert compile_bpmn(source, TYPES, PEOPLE).key == "trip"
        assert reached == [], name
    with watch.watching() as reached:  # reading and running would have been noticed
        (CORPUS / "expected.toml").read_bytes()
        exec("1")
    assert {"open", "exec"} <= set(reached)
    assert {path.stem for path in CORPUS.glob("*.bpmn")} == EXPECTED.keys()
    assert len(EXPECTED) > 100


NESTED = "<a>" * 9000 + "</a>" * 9000
BRANCHES = "\n".join(f"all+ -> n{n} -> done+" for n in range(60))
CHOICES = "\n".join(f"g{n}? -> g{n + 1}?: days > {n}\ng{n}? -> a" for n in range(99))
LARGE: dict[str, tuple[Callable[[], str], str, str]] = {
    "ten megabytes": (lambda: drawn("submitted -> a -> all_rejected") + " " * 10_000_000, "file", "larger than"),
    "nested deeply": (lambda: "<a>" * 30_000 + "</a>" * 30_000, "file", "root element"),
    "nested in a note": (
        lambda: drawn("submitted -> a -> lost", more=f"<bpmn:documentation>{NESTED}</bpmn:documentation>"),
        "lost",
        "one outgoing flow",
    ),
    "many attributes": (lambda: '<a ' + ' '.join(f"a{n}='1'" for n in range(20_000)) + '/>', "file", "root element"),
    "many nodes": (
        lambda: drawn("\n".join(f"submitted -> n{n}" for n in range(200))), "p", "more than 200 nodes",
    ),
    "many flows": (
        lambda: drawn("\n".join(f"n{a} -> m{b}" for a in range(21) for b in range(21))), "p", "400 flows",
    ),
    "many side by side": (
        lambda: drawn(f"submitted -> all+\n{BRANCHES}\ndone+ -> all_approved"), "p", "too many combinations",
    ),
    "many choices": (
        lambda: drawn(f"submitted -> g0?\n{CHOICES}\ng99? -> a -> g0?"), "submitted", "no path from here reaches an",
    ),
}  # fmt: skip


@corpus("name", *LARGE)
def test_a_large_file_is_refused_as_quickly(name: str, watch: Watch) -> None:
    file, element, reason = LARGE[name]
    found = refused(file().encode(), watch)
    assert (found.element, reason in found.reason) == (element, True), found
