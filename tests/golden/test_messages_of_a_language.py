"""A further language is one folder of sentences; English stands where it has none."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.core import i18n
from bot.core.i18n import load_sentences, translate
from tests.golden.golden_files import format_sections, read_golden_file
from tests.golden.scenes import SCENES, open_stage
from tools import languages

FRENCH = """\
[language]
name = "Français"
[choice]
approve = "Approuver"
[outcome]
approve = "Approuvé par {by}"
[result]
tasks = { one = "{n} tâche", other = "{n} tâches" }
"""


@pytest.fixture
def french(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The product with a folder of French sentences."""
    (tmp_path / "fr").mkdir()
    (tmp_path / "fr" / "cards.toml").write_text(FRENCH, encoding="utf-8")
    known, shipped = (*languages.LANGUAGES, "fr"), languages.LANGUAGES
    monkeypatch.setattr(i18n, "FOLDER", tmp_path)
    for module in list(sys.modules.values()):
        if getattr(module, "LANGUAGES", None) is shipped:
            monkeypatch.setattr(module, "LANGUAGES", known)
    load_sentences.cache_clear()
    i18n._split_sentence.cache_clear()
    yield
    monkeypatch.undo()
    load_sentences.cache_clear()
    i18n._split_sentence.cache_clear()


@pytest.mark.usefixtures("french")
def test_what_is_said_in_french_has_a_singular_and_what_is_not_is_said_in_english() -> None:
    assert translate("outcome.approve", "fr", by="Li Si") == "Approuvé par Li Si"
    assert [translate("result.tasks", "fr", n=n) for n in (1, 2)] == ["1 tâche", "2 tâches"]
    assert translate("turn.too_long", "fr", length=4, most=3) == translate("turn.too_long", "en", length=4, most=3)


@pytest.mark.usefixtures("french")
async def test_what_people_are_told_in_a_language_of_few_sentences_is_the_english_with_these(redis: Redis) -> None:
    read_back, translated = {"Approuver": "Approve", "Approuvé par": "Approved by", "tâche": "task"}, 0
    for name, scenes in SCENES.items():
        told: list[str] = []
        for play in scenes:
            await redis.flushall()
            stage = open_stage(redis, "fr")
            await play(stage)
            told.extend(stage.transcript.lines)
        text = format_sections({"en": told})
        for word, meaning in read_back.items():
            translated += text.count(word)
            text = text.replace(word, meaning)
        english = read_golden_file(f"messages/{name}.txt").partition("== en\n")[2]
        assert text.partition("== en\n")[2].rstrip() == english.rstrip(), name
    assert translated > 20
