"""Malformed BPMN files: `corpus/*.bpmn`, each with one defect; `corpus/expected.toml` says how each is refused."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher
from threading import get_ident

import pytest

from tests.tools.workflow.drawing import PEOPLE, drawn
from tests.tools.workflow.refused_files import CORPUS, EXPECTED, TYPES
from tools.workflow.bpmn.graph import InvalidDefinitionError, ProcessDefinition
from tools.workflow.bpmn.reader import compile_bpmn

SOUND = sorted(path.stem for path in (CORPUS / "sound").glob("*.bpmn"))

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


def compiled(source: bytes) -> ProcessDefinition:
    return compile_bpmn(source, TYPES, PEOPLE)


def refused(source: bytes, watch: Watch) -> InvalidDefinitionError:
    """How it was refused: in under a second of this thread's time, reaching for nothing."""
    began = time.thread_time()
    with watch.watching() as reached, pytest.raises(InvalidDefinitionError) as found:
        compiled(source)
    assert time.thread_time() - began < 1
    assert reached == []
    return found.value


@pytest.mark.parametrize("name", EXPECTED)
def test_a_malformed_file_is_refused_with_element_and_reason(name: str, watch: Watch) -> None:
    found = refused((CORPUS / f"{name}.bpmn").read_bytes(), watch)
    assert (found.element, EXPECTED[name]["reason"] in found.reason) == (EXPECTED[name]["element"], True), found


@pytest.mark.parametrize("name", SOUND)
def test_the_files_without_the_defect_are_accepted(name: str, watch: Watch) -> None:
    source = (CORPUS / "sound" / f"{name}.bpmn").read_bytes()
    with watch.watching() as reached:
        assert compiled(source).key == "trip"
    assert reached == []


def test_reading_and_running_would_have_been_noticed(watch: Watch) -> None:
    with watch.watching() as reached:
        (CORPUS / "expected.toml").read_bytes()
        exec("1")
    assert {"open", "exec"} <= set(reached)


def test_every_file_is_listed_and_there_are_many() -> None:
    assert {path.stem for path in CORPUS.glob("*.bpmn")} == EXPECTED.keys()
    assert len(EXPECTED) > 100


def test_a_malformed_file_is_the_sound_one_but_for_a_few_lines() -> None:
    other = list[str]()
    for name, about in EXPECTED.items():
        if about["sound"]:
            lines = (CORPUS / f"{name}.bpmn").read_text(encoding="utf-8").splitlines()
            sound = (CORPUS / "sound" / f"{about['sound']}.bpmn").read_text(encoding="utf-8").splitlines()
            if SequenceMatcher(None, sound, lines, autojunk=False).ratio() <= 0.6:
                other.append(name)
    assert other == []


def ten_megabytes() -> str:
    return drawn("submitted -> a -> all_rejected") + " " * 10_000_000


def nested_deeply() -> str:
    return "<a>" * 30_000 + "</a>" * 30_000


def nested_in_a_note() -> str:
    nested = "<a>" * 9000 + "</a>" * 9000
    return drawn("submitted -> a -> lost", more=f"<bpmn:documentation>{nested}</bpmn:documentation>")


def many_attributes() -> str:
    attributes = " ".join(f"a{n}='1'" for n in range(20_000))
    return f"<a {attributes}/>"


def many_nodes() -> str:
    return drawn("\n".join(f"submitted -> n{n}" for n in range(200)))


def many_flows() -> str:
    return drawn("\n".join(f"n{a} -> m{b}" for a in range(21) for b in range(21)))


def many_side_by_side() -> str:
    branches = "\n".join(f"all+ -> n{n} -> done+" for n in range(60))
    return drawn(f"submitted -> all+\n{branches}\ndone+ -> all_approved")


def many_choices() -> str:
    choices = "\n".join(f"g{n}? -> g{n + 1}?: days > {n}\ng{n}? -> a" for n in range(99))
    return drawn(f"submitted -> g0?\n{choices}\ng99? -> a -> g0?")


@pytest.mark.parametrize(
    ("file", "element", "reason"),
    [
        (ten_megabytes, "file", "larger than"),
        (nested_deeply, "file", "root element"),
        (nested_in_a_note, "lost", "one outgoing flow"),
        (many_attributes, "file", "root element"),
        (many_nodes, "p", "more than 200 nodes"),
        (many_flows, "p", "400 flows"),
        (many_side_by_side, "p", "too many combinations"),
        (many_choices, "submitted", "no path from here reaches an end"),
    ],
)
def test_a_large_file_is_refused_as_quickly(file: Callable[[], str], element: str, reason: str, watch: Watch) -> None:
    found = refused(file().encode(), watch)
    assert (found.element, reason in found.reason) == (element, True), found
