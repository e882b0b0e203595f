"""All that is missing of the program's parts is said in one run; each check has its negative control."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from pkgutil import iter_modules

import pytest

from bot import chat, features, platforms
from bot.core.i18n import load_sentences
from bot.features import welcome
from bot.ops import parts
from bot.ops.parts import (
    find_feature_gaps,
    find_process_gaps,
    find_sentence_gaps,
    find_tool_gaps,
    list_gaps,
    pick_first_gaps,
)
from tools.catalog import TOOLS
from tools.languages import LANGUAGES
from tools.mail.send_email import SEND_EMAIL
from tools.spec import FrozenModel, Gate
from tools.workflow.process.definition import SHIPPED

DEFINITIONS = Path("tools/workflow/definitions")


def test_nothing_is_missing() -> None:
    assert [list_gaps(language, ("zh", "en")) for language in LANGUAGES] == [[]] * len(LANGUAGES), (
        "others may lack sentences"
    )


FAULTY: list[tuple[Mapping[str, str], str]] = [
    ({"zh": "好"}, "en is missing"),
    ({"zh": "好", "en": "Good", "xx": "Bien"}, "its languages do not match"),
    ({"zh": "{count} 个", "en": "{number} of them"}, "its languages do not match"),
    ({"zh": "{n} 个", "en": "{n} of them", "en_one": "one of them"}, "its languages do not match"),
    ({"zh": "好", "en": " "}, "en is missing"),
    ({"zh": "好", "en": "Good 好"}, "Chinese in the English"),
    ({"fr": "Bien"}, "there is no such sentence; its key is misspelt"),
]


def test_a_faulty_sentence_a_title_without_its_statement_and_a_third_language() -> None:
    for words, gap in FAULTY:
        assert list(find_sentence_gaps({"turn.made_up": words}, "en")) == [f"turn.made_up: {gap}"]
    said = {"title.tea": {"zh": "茶？", "en": "Tea?"}}
    assert list(find_sentence_gaps(said, "en")) == ["title.tea: matter.tea is missing"]
    assert len(list(find_sentence_gaps(load_sentences(), "en", ("zh", "en", "xx")))) >= len(load_sentences())


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_new_language_hides_no_other_gap(language: str) -> None:
    gaps = [*list_gaps(language, ("zh", "en", "xx", "yy")), "order_lunch: use_when is missing"]
    picked = pick_first_gaps(gaps, 10)
    assert len(gaps) > 2_000 and len(picked) == 10 + 10 + 1 and picked[-1] == gaps[-1]
    assert picked[:20] == gaps[:20] and pick_first_gaps(gaps, len(gaps)) == gaps


class Undescribed(FrozenModel):
    lunch: str


def test_all_that_a_tool_lacks_is_said_at_once() -> None:
    bare = replace(
        SEND_EMAIL, name="order_lunch", use_when=" ", privacy=None, args=Undescribed, effects={}, prepare=None,
        stored_args=None, errors={"no_lunch": "Say so."}, also=frozenset(),
    )  # fmt: skip
    gaps = find_tool_gaps([bare], load_sentences(), {"send_email"}, "en")
    assert [one.removeprefix("order_lunch: ").removesuffix(" is missing") for one in gaps] == [
        *("use_when", "privacy", "effects", "prepare", "stored_args", "scenario"),
        *("description: lunch", "tool.order_lunch", "error.no_lunch", "tools/catalog.py"),
    ]
    ungated = replace(SEND_EMAIL, gate=Gate.NONE, effect_place=None)
    gaps = find_tool_gaps([ungated], load_sentences(), (), "zh")
    assert list(gaps) == ["send_email：缺 gate", "send_email：缺 tools/catalog.py"], "an effect, and no gate"
    assert list(find_tool_gaps(TOOLS, load_sentences(), {tool.name for tool in TOOLS}, "zh")) == []


def test_a_feature_that_no_list_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(find_feature_gaps([welcome], load_sentences(), "en")) == []
    for name in ("FEATURES", "MODELS"):
        monkeypatch.setattr(parts, name, ())
    assert sorted(find_feature_gaps([welcome], (), "en")) == [
        "bot.features.welcome.WelcomePerson: MODELS is missing",
        "bot.features.welcome.WelcomePerson: dead.kind_welcome_person is missing",
        "bot.features.welcome: FEATURES is missing",
    ]


def test_every_feature_and_platform_stands_in_the_import_contracts() -> None:
    """A part that they do not name may import everything, and `lint-imports` says nothing of it."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    layers, _, port, *_ = project["tool"]["importlinter"]["contracts"]
    named = {room.strip() for layer in layers["layers"] for room in re.split("[|:]", layer)}
    parts = [
        (f"{package.__name__}.{one.name}", one)
        for package in (chat, features, platforms)
        for one in iter_modules(package.__path__)
    ]
    assert {name for name, _ in parts} <= named
    adapters = {name for name, one in parts if one.ispkg and name.startswith("bot.platforms.")}
    assert adapters == set(port["source_modules"])


def test_a_process_without_its_form_or_outside_the_list_or_unusable(tmp_path: Path) -> None:
    for key in SHIPPED:
        for suffix in (".bpmn", ".toml"):
            (tmp_path / f"{key}{suffix}").write_bytes((DEFINITIONS / f"{key}{suffix}").read_bytes())
    assert list(find_process_gaps(tmp_path, "en")) == []
    (tmp_path / "expense.toml").rename(tmp_path / "tea.toml")
    (tmp_path / "leave.toml").write_text("tea = 1")
    gaps = list(find_process_gaps(tmp_path, "en"))
    assert gaps[0] == "expense: expense.toml is missing" and gaps[1].startswith("leave: ")
    assert gaps[-2:] == ["tea: tea.bpmn is missing", "tea: SHIPPED is missing"]
