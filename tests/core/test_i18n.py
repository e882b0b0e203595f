"""Every sentence exists in both languages, with the same things to fill in, and every key in use exists."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from bot.core.i18n import LANGUAGES, load_sentences, translate

ROOT = Path(__file__).parents[2]
USED = re.compile(
    r"""\b(?:translate|_translate_for_person|_post_notice|_post_ephemeral_notice)\(\s*(?:[\w.]+,\s*)*"([a-z_]+\.[a-z_]+)\""""
)
NOTED = re.compile(r"""Note\(key="([a-z_]+\.[a-z_]+)\"""")
CJK = re.compile(r"[\u4e00-\u9fff]")


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def find_problems(key: str, words: dict[str, str]) -> list[str]:
    """What is wrong with one sentence, each with its key."""
    if set(words) - {"en_one"} != set(LANGUAGES):
        return [f"{key}: said in {sorted(words)}"]
    problems = []
    if len({frozenset(placeholders(text)) for text in words.values()}) > 1:
        problems.append(f"{key}: other things to fill in")
    if not (all(text.strip() for text in words.values()) or key.endswith("_words")):
        problems.append(f"{key}: empty")
    if CJK.search(words["en"]) and not key.startswith(("page.", "rehearsal.")):
        problems.append(f"{key}: Chinese in the English")
    return problems


def test_every_sentence_is_said_in_both_languages() -> None:
    assert [problem for key, words in sorted(load_sentences().items()) for problem in find_problems(key, words)] == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"zh": "好"}, "said in"),
        ({"zh": "好", "en": "Good", "fr": "Bien"}, "said in"),
        ({"zh": "{count} 个", "en": "{number} of them"}, "other things"),
        ({"zh": "{n} 个", "en": "{n} of them", "en_one": "one of them"}, "other things"),
        ({"zh": "好", "en": " "}, "empty"),
        ({"zh": "好", "en": "Good 好"}, "Chinese in"),
    ],
)
def test_negative_control_a_faulty_sentence_is_a_problem(words: dict[str, str], problem: str) -> None:
    found = find_problems("turn.made_up", words)
    assert len(found) == 1
    assert problem in found[0]


def test_every_key_in_use_exists() -> None:
    used: set[str] = set()
    for file in [*ROOT.glob("bot/**/*.py"), *ROOT.glob("tools/**/*.py")]:
        text = file.read_text(encoding="utf-8")
        used |= set(USED.findall(text)) | set(NOTED.findall(text))
    assert used, "the patterns must find something"
    assert used <= set(load_sentences()), sorted(used - set(load_sentences()))


def test_a_missing_parameter_is_an_error() -> None:
    with pytest.raises(KeyError):
        translate("turn.too_long", "en")


def test_one_of_something_has_words_of_its_own_in_english() -> None:
    assert [translate("result.tasks", "en", n=n) for n in (0, 1, 2, "1")] == ["0 tasks", "1 task", "2 tasks", "1 task"]
    assert [translate("result.tasks", "zh", n=n) for n in (1, 2)] == ["1 项待办", "2 项待办"]


def test_in_chinese_a_space_stands_only_beside_what_is_not_chinese() -> None:
    by = {"张三": "张三已同意", "Ann Smith": "Ann Smith 已同意", "李四（代王五）": "李四（代王五）已同意"}
    assert {name: translate("outcome.approve", "zh", by=name) for name in by} == by
    assert translate("title.urge", "zh", names="李四", process="请假", request="L-1") == "催李四处理请假申请 L-1？"
    assert translate("receipt.by", "zh", by="李四", changed=" 有 空 格 ") == "李四  有 空 格 ", (
        "what people wrote stays"
    )
