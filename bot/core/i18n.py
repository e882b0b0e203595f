"""Every sentence a person reads, in zh and en, by key.

The sentences stand in `words/*.toml`, one table a topic: `[cards] open = {zh = "…", en = "…"}` is the key
`cards.open`. A missing key or a missing parameter is a programming error and raises `KeyError`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib import resources

from tools.people.names import join_in_both_languages
from tools.spec import Identities, ReceiptLine, TextRef

LANGUAGES = ("zh", "en")


@cache
def load_sentences() -> Mapping[str, Mapping[str, str]]:
    """key → {"zh": …, "en": …}, read once."""
    sentences: dict[str, Mapping[str, str]] = {}
    for file in sorted(resources.files("bot.core").joinpath("words").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            for topic, table in tomllib.loads(file.read_text(encoding="utf-8")).items():
                sentences.update({f"{topic}.{name}": words for name, words in table.items()})
    return sentences


def translate(key: str, language: str, /, **params: object) -> str:
    """The sentence `key` in `language`, with its `{placeholders}` filled in."""
    return load_sentences()[key][language].format(**{k: render_value(v, language) for k, v in params.items()})


def render_value(value: object, language: str) -> str:
    """A value as this reader sees it: words in their language, a note as a sentence, persons by name, anything else as
    text."""
    if isinstance(value, Identities):
        return render_value(value.text or join_in_both_languages(one.name for one in value.people), language)
    if isinstance(value, TextRef):
        return translate(value.key, language, **value.params)
    if isinstance(value, Mapping):
        return str(value[language])
    return str(value)


def render_receipt_line(receipt_line: ReceiptLine, language: str) -> str:
    """A change, after its decider if the effect names one. Effects of the version before name none."""
    by, changed = receipt_line.text.params.get("by"), render_value(receipt_line.text, language)
    return f"{by} {changed}" if by else changed


def detect_terminal_language() -> str:
    """The language in which commands answer, from the locale of the environment."""
    named = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return "zh" if next(filter(None, named), "").startswith("zh") else "en"


def format_amount(amount: Decimal) -> str:
    """An amount without an exponent and without trailing zeros: `0.0123`."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def shorten_text(text: str, most: int) -> str:
    """The text on one line, at most `most` characters long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def translate_label(name: str | Mapping[str, str], language: str) -> str:
    """A label: words from a process file, or the sentence `label.<name>`."""
    return name[language] if isinstance(name, Mapping) else translate(f"label.{name}", language)
