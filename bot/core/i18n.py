"""All sentences that people read, by key and language.

The sentences are in `words/*.toml` here, and in `words.toml` of folders of `bot.features` and `tools`, one table per
topic:
`[cards] open = {zh = "…", en = "…"}` is the key `cards.open`. `tools.languages` says where those of further languages
are.
A missing key or a missing parameter is a programming error and raises `KeyError`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from string import Formatter

import tools
from tools.languages import FOLDER, LANGUAGES, choose_words
from tools.spec import Identities, Person, Proposal, ReceiptLine, TextRef


@cache
def load_sentences() -> Mapping[str, Mapping[str, str]]:
    """Load key → {"zh": …, "en": …}, once."""
    sentences: dict[str, Mapping[str, str]] = {}
    for file in list_word_files():
        for topic, table in tomllib.loads(file.read_text(encoding="utf-8")).items():
            sentences.update({f"{topic}.{name}": words for name, words in table.items()})
    for language in LANGUAGES:
        for file in sorted(FOLDER.glob(f"{language}/*.toml")):
            for topic, table in tomllib.loads(file.read_text(encoding="utf-8")).items():
                for name, words in table.items():
                    forms = words if isinstance(words, dict) else {"other": words}
                    further = {language if form == "other" else f"{language}_{form}": forms[form] for form in forms}
                    sentences[f"{topic}.{name}"] = {**sentences.get(f"{topic}.{name}", {}), **further}
    return sentences


def list_word_files() -> list[Path]:
    own, features = Path(__file__).parent, Path(__file__).parents[1] / "features"
    return [*own.glob("words/*.toml"), *features.glob("*/words.toml"), *Path(tools.__path__[0]).glob("*/words.toml")]


def translate(key: str, language: str, /, **params: object) -> str:
    """Return the sentence `key` in `language`, with its `{placeholders}` filled in."""
    return "".join(map(str, translate_pieces(key, language, **params)))


def translate_pieces(key: str, language: str, /, **params: object) -> tuple[object, ...]:
    """Translate into pieces: values without words, such as a point in time, stay as they are.

    A sentence may have a singular form, `en_one`, which counts by its parameter `n`. In Chinese, a space between a
    value and the words beside it stays only if one of them is not Chinese."""
    if language not in load_sentences()[key]:
        language = "en"
    is_one = str(params.get("n")) == "1" and f"{language}_one" in load_sentences()[key]
    pieces, is_chinese = list[object](), language == "zh"
    for words, name in _split_sentence(key, f"{language}_one" if is_one else language):
        value = params[name] if name else ""
        if isinstance(value, str | int | float | Decimal | Mapping | TextRef | Identities):
            value = render_value(value, language)
        before = pieces[-1] if pieces else ""
        if is_chinese and _is_chinese(words[1:2]) and isinstance(before, str) and _is_chinese(before[-1:]):
            words = words.removeprefix(" ")
        _append_piece(pieces, words)
        if is_chinese and words.endswith(" ") and isinstance(value, str) and _is_chinese(value[:1]):
            before = str(pieces[-1])
            pieces[-1] = before[:-1] if _is_chinese(before[-2:-1]) else before
        _append_piece(pieces, value)
    return tuple(pieces)


@cache
def _split_sentence(key: str, form: str) -> tuple[tuple[str, str | None], ...]:
    """Split a sentence into (words, name of the parameter after them)."""
    return tuple((words, name) for words, name, _, _ in Formatter().parse(load_sentences()[key][form]))


def _append_piece(pieces: list[object], piece: object) -> None:
    """Append a piece; words next to each other become one piece."""
    if pieces and isinstance(pieces[-1], str) and isinstance(piece, str):
        pieces[-1] += piece
    elif piece != "":
        pieces.append(piece)


def _is_chinese(sign: str) -> bool:
    """Whether this is a Chinese character or a full-width sign."""
    return bool(sign) and any(
        first <= sign <= last for first, last in (("\u3000", "\u303f"), ("\u4e00", "\u9fff"), ("\uff00", "\uffef"))
    )


def render_value(value: object, language: str) -> str:
    """Render a value for this reader: words in their language, a note as a sentence, persons by name, anything else as
    text."""
    if isinstance(value, Identities):
        if value.text:
            return render_value(value.text, language)
        return translate("card.comma", language).join(one.get_name(language) for one in value.people)
    if isinstance(value, TextRef):
        return translate(value.key, language, **value.params)
    if isinstance(value, Mapping):
        return str(choose_words(value, language))
    return str(value)


def render_receipt_line(receipt_line: ReceiptLine, language: str) -> str:
    """Render a change, after its decider if the effect names one. Effects of the previous version name none."""
    by, changed = receipt_line.text.params.get("by"), render_value(receipt_line.text, language)
    return translate("receipt.by", language, by=by, changed=changed) if by else changed


def describe_matter(proposal: Proposal, reader: Person) -> str:
    """Describe the subject of a card as a statement: *leave request L-0001 of 张三*. Cards of tools without such a
    sentence keep their title."""
    title = proposal.get_title_for(reader.id)
    key = title.key.replace("title.", "matter.", 1)
    known = TextRef(key=key, params=title.params) if key in load_sentences() else title
    return render_value(known, reader.language)


def detect_terminal_language() -> str:
    """The language in which commands answer, from the locale of the environment."""
    named = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return "zh" if next(filter(None, named), "").startswith("zh") else "en"


def shorten_text(text: str, most: int) -> str:
    """Return the text on one line, at most `most` characters long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def translate_label(name: str | Mapping[str, str], language: str) -> str:
    """Translate a label: words from a process file, or the sentence `label.<name>`."""
    return choose_words(name, language) if isinstance(name, Mapping) else translate(f"label.{name}", language)
