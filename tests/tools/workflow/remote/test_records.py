"""A record survives the engine's short variables, and what others wrote is no record."""

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.tools.workflow.remote.company import NOW
from tools.workflow.engine.commands import CommentCommand, DecideCommand
from tools.workflow.engine.state import Decision
from tools.workflow.remote.rebuild import (
    PIECE_LENGTH,
    CommandRecord,
    build_record_variables,
    find_decision_record,
    find_start_record,
    list_action_records,
)

TEXTS = st.builds(
    lambda letters, n: letters * n, st.sampled_from(["请", 'a"\\', "|", "😀 "]), st.integers(0, 2 * PIECE_LENGTH)
)


def comment(text: str, key: str = "k") -> CommandRecord:
    return CommandRecord(key=key, at=NOW, command=CommentCommand(request="L-0001", actor="U1", text=text))


@given(TEXTS, TEXTS)
def test_a_record_of_any_length_is_read_back_also_over_a_longer_one(before: str, text: str) -> None:
    variables: dict[str, object] = {**build_record_variables(comment(before)), "days": 2.0, "reason": None}
    variables |= build_record_variables(comment(text))
    assert [r.command for r in list_action_records(variables)] == [comment(text).command]
    assert all(len(str(v)) <= PIECE_LENGTH + 4 for v in variables.values())


def test_a_decision_belongs_to_its_task_and_a_record_that_is_no_start_starts_nothing() -> None:
    command = DecideCommand(task="L-0001-28", actor="U2", decision=Decision.APPROVE)
    variables = build_record_variables(CommandRecord(key="k", at=NOW, command=command), "28")
    assert list(variables) == ["countersign_task_28"]
    found = find_decision_record(variables, "28")
    assert found and found.command == command and find_decision_record(variables, "29") is None
    assert not list_action_records(variables)
    (text,) = build_record_variables(comment("x")).values()
    assert find_start_record({"countersign_start": text}) is None
    assert find_decision_record({"countersign_task_28": text}, "28") is None


@corpus("value", [None, "", "x", "1|", "1|{}", "99999999999|x", "-1|x", 7, {"a": 1}, "²|x"])
def test_what_others_wrote_is_no_record(value: object) -> None:
    variables = {"countersign_start": value, "countersign_task_28": value, "countersign_act_1": value}
    assert find_start_record(variables) is find_decision_record(variables, "28") is None
    assert list_action_records(variables) == ()
