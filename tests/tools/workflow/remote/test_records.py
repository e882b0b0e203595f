"""A record survives the engine's short variables, and what others wrote is no record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.workflow.remote.company import NOW
from tools.workflow.commands import Comment, Decide
from tools.workflow.remote.records import PIECE, Record, acts, decided, started, written
from tools.workflow.state import Decision

TEXTS = st.builds(
    lambda letters, n: letters * n, st.sampled_from(["请", 'a"\\', "|", "😀 "]), st.integers(0, 2 * PIECE)
)


def comment(text: str, key: str = "k") -> Record:
    return Record(key=key, at=NOW, command=Comment(request="L-0001", actor="U1", text=text))


@given(TEXTS, TEXTS)
def test_a_record_of_any_length_is_read_back_also_over_a_longer_one(before: str, text: str) -> None:
    variables: dict[str, object] = {**written(comment(before)), "days": 2.0, "reason": None}
    variables |= written(comment(text))
    assert [r.command for r in acts(variables)] == [comment(text).command]
    assert all(len(str(v)) <= PIECE + 4 for v in variables.values())


def test_a_decision_belongs_to_its_task() -> None:
    command = Decide(task="L-0001-28", actor="U2", decision=Decision.APPROVE)
    variables = written(Record(key="k", at=NOW, command=command), "28")
    assert list(variables) == ["countersign_task_28"]
    found = decided(variables, "28")
    assert found and found.command == command and decided(variables, "29") is None and not acts(variables)


@pytest.mark.parametrize("value", [None, "", "x", "1|", "1|{}", "99999999999|x", "-1|x", 7, {"a": 1}, "²|x"])
def test_what_others_wrote_is_no_record(value: object) -> None:
    variables = {"countersign_start": value, "countersign_task_28": value, "countersign_act_1": value}
    assert started(variables) is None and decided(variables, "28") is None and acts(variables) == ()


def test_a_record_that_is_no_start_starts_nothing() -> None:
    (text,) = written(comment("x")).values()
    assert started({"countersign_start": text}) is None and decided({"countersign_task_28": text}, "28") is None
