"""Golden files notice what they are there for, and nothing else; and each of them is compared with something."""

import re
from pathlib import Path

import pytest

from tests.golden.golden_files import MAX_FILES, RECORDED, compare_sections
from tests.golden.scenes import SCENES
from tests.golden.stored import describe_shape, generalize

KEPT = {"card": ["title    发起请假申请？", "fact     天数: 2"], "message": ["text     A03abcdef012345 is open"]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `kept.txt` is recorded; from then on it is compared, also while other tests record."""
    monkeypatch.setenv("GOLDEN", "write")
    compare_sections("kept.txt", KEPT, tmp_path)
    monkeypatch.delenv("GOLDEN")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({**KEPT, "card": KEPT["card"][::-1]}, 2),
        ({**KEPT, "card": [*KEPT["card"], "button   [确认] confirm"]}, 4),
        ({"card": KEPT["card"]}, 4),
        ({"kard": KEPT["card"], "message": KEPT["message"]}, 1),
    ],
)
def test_negative_control_a_change_is_noticed_with_its_file_and_line(
    folder: Path, changed: dict[str, list[str]], line: int
) -> None:
    with pytest.raises(AssertionError) as told:
        compare_sections("kept.txt", changed, folder)
    assert f"kept.txt:{line} differs" in str(told.value) and "+++ now" in str(told.value)


def test_of_what_is_stored_names_and_kinds_are_kept_and_nothing_else() -> None:
    one, same = '{"v": 1, "kind": "open_card", "text": "a"}', '{"v": 1, "kind": "open_card", "text": "b"}'
    assert describe_shape(one) == describe_shape(same) == "{kind=open_card, text, v=1}"
    assert describe_shape('{"v": 2, "kind": "open_card", "words": "a"}') == "{kind=open_card, v=2, words}"
    assert generalize("cs:{q03}:apr:A03abcdef012345") == "cs:{q}:apr:<A-id>"
    assert generalize("cs:{wf}:todo:U2 E-0001-1") == "cs:{wf}:todo:<person> <task>"


def test_every_recorded_file_is_compared_and_they_are_few() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py"))
    named = {name for name in re.findall(r'"([\w/]+\.txt)"', sources) if name not in ("kept.txt", "nothing.txt")}
    named |= {f"messages/{name}.txt" for name in SCENES} | {f"model/{name}.txt" for name in ("native", "text", "json")}
    found = {file.relative_to(RECORDED).as_posix() for file in RECORDED.rglob("*") if file.is_file()}
    assert 20 < len(found) <= MAX_FILES
    assert found == named | {name for name in found if re.fullmatch(r"stored/forms_\d+\.txt", name)}
