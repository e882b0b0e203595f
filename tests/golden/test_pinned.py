"""Golden files notice what they are there for, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.pinned import compare_json, list_distinct, pick_shapes, unfold

KEPT = {"id": "A03abcdef012345", "state": "open", "proposal": '{"args": {"to": "李四"}, "deciders": ["U01ZHANG"]}'}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `kept.json` is recorded; from then on it is compared, also while other tests record."""
    monkeypatch.setenv("GOLDEN", "write")
    compare_json("kept.json", unfold(KEPT), tmp_path)
    monkeypatch.delenv("GOLDEN")
    return tmp_path


def test_negative_control_a_changed_record_is_noticed_and_its_difference_is_shown(folder: Path) -> None:
    renamed = {**KEPT, "proposal": KEPT["proposal"].replace("deciders", "assignees")}
    with pytest.raises(AssertionError) as told:
        compare_json("kept.json", unfold(renamed), folder)
    assert "kept.json differs" in str(told.value)
    assert "-" in str(told.value) and '"deciders": ["U01ZHANG"]' in str(told.value)
    assert '"assignees": ["U01ZHANG"]' in str(told.value)


@pytest.mark.parametrize("changed", [{"state": "decided"}, {"proposal": "{}"}, {"more": ""}, {"id": "x"}])
def test_every_change_of_a_record_is_noticed(folder: Path, changed: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="differs"):
        compare_json("kept.json", unfold(KEPT | changed), folder)


def test_another_id_and_another_time_are_no_change(folder: Path) -> None:
    compare_json("kept.json", unfold({**KEPT, "id": "A07fedcba543210"}), folder)
    times = (1_763_000_000_123, 4_071_000_000_456)
    first, second = ({"at_ms": at, "ts": f"{at // 1000}.000100", "tokens_in": at % 977} for at in times)
    assert unfold(first) == unfold(second)


def test_what_is_not_recorded_yet_is_said(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="GOLDEN=write"):
        compare_json("nothing.json", {}, tmp_path)


def test_of_several_values_of_one_shape_one_is_kept_and_a_new_shape_is_another_one() -> None:
    open_, other, decided = ({"state": state, "n": n} for state, n in (("open", 2), ("open", 1), ("decided", 3)))
    assert pick_shapes([open_, other, decided]) == [decided, other]
    assert list_distinct([open_, open_]) == [open_]
