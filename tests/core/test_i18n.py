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


@pytest.mark.parametrize("key", sorted(load_sentences()))
def test_said_in_both_languages(key: str) -> None:
    words = load_sentences()[key]
    assert set(words) == set(LANGUAGES), key
    assert placeholders(words["zh"]) == placeholders(words["en"])
    assert all(text.strip() for text in words.values()) or key.endswith("_words")
    assert not CJK.search(words["en"]) or key.startswith(("page.", "rehearsal.")), "English without Chinese in it"


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
