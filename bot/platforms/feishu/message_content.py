"""Reads the content of Feishu's messages: words, mentions and files.

The content is JSON in a text. Its form depends on the type of the message, and its length is checked before it is
parsed. A key such as `@_user_1` stands for a person, whom the event names beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from bot.chat.messages import SentFile
from bot.core.i18n import translate
from bot.platforms.shared import cut_out_mentions, find_value, list_mappings, parse_object
from tools.characters import replace_surrogates, show_invisible
from tools.platform_ids import FILE_ID

CONTENT_MAX = 150_000
"""Characters of content, as Feishu sends it, that are read. Feishu's own limit is 150 KB."""
ID_MAX, NAME_MAX, FILES_MAX, DEPTH_MAX = 255, 80, 500, 6
"""Characters of an id and of a name, files of a message, and levels of objects and lists around the words."""
ALL = "@_all"
_KEY = re.compile(r"@_(?:user_[0-9]{1,4}|all)(?![A-Za-z0-9_])")
_MENTION = re.compile(rf"({_KEY.pattern})[ \t]*+[,:，：]?")
_AT_TAG = re.compile(r'<at user_id="([^"<>]{1,255})">[^<>]{0,255}</at>')
_PERSON = re.compile(r"ou_[0-9a-z]{6,64}")
_WORDS = ("title", "text", "topic", "summary", "name")
"""Names under which the types keep their words."""
_FILES = {"image": "image", "img": "image", "file": "file", "media": "file", "audio": "file"}
"""Type of a message or of a part of it → type of its file."""


@dataclass(frozen=True, slots=True)
class MessageContent:
    text: str = ""
    files: tuple[SentFile, ...] = ()
    unread: int = 0
    """Length of a content that is too long to read."""


def is_short_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= ID_MAX


def is_person_id(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(_PERSON.fullmatch(value))


def read_mentions(message: Mapping[str, Any], bot: str) -> dict[str, str]:
    """Return key → text for the mentioned people. The bot's own text is empty."""
    mentions = {ALL: "@all"}
    for one in list_mappings(message.get("mentions")):
        key, id, name = one.get("key"), one.get("id"), one.get("name")
        person = id.get("open_id") if isinstance(id, Mapping) else id
        if not is_short_text(key) or key == ALL:
            continue
        if is_person_id(person):
            mentions[key] = "" if person == bot else f"<@{person}>"
        elif isinstance(name, str):
            mentions[key] = "@" + show_invisible(" ".join(name[:NAME_MAX].split()))
    return mentions


def read_content(message: Mapping[str, Any], bot: str, language: str) -> MessageContent:
    """Read a message of any type, in the form of an event. Parts without Feishu's form are left out. `language` is that
    of a sentence about a message without words."""
    kind, raw, id = message.get("message_type"), message.get("content"), message.get("message_id")
    if not (is_short_text(kind) and isinstance(raw, str) and is_short_text(id)):
        return MessageContent()
    if len(raw) > CONTENT_MAX:
        return MessageContent(unread=len(raw))
    content, mentions = parse_object(raw), read_mentions(message, bot)
    if kind == "text":
        typed = find_value(content, "text")
        text = typed if isinstance(typed, str) else ""
        rest = cut_out_mentions(text, (one for one in _MENTION.finditer(text) if mentions.get(one[1]) == ""))
        named = _KEY.sub(lambda found: mentions.get(found[0], found[0]), rest)
        return MessageContent(replace_surrogates(named).strip())
    files = tuple(dict.fromkeys(_list_files(content, kind, id)))[:FILES_MAX]
    text = replace_surrogates("\n".join(_read_lines(content, mentions, bot))).strip()
    if kind == "merge_forward" or (kind != "post" and not (text or files)):
        text = "\n".join(filter(None, (translate("feishu.no_words", language, type=show_invisible(kind)), text)))
    return MessageContent(text, files)


def _read_lines(content: object, mentions: Mapping[str, str], bot: str, depth: int = 0) -> Iterator[str]:
    """Yield the lines of rich text or of another type with words. Rich text may be inside of its language's key."""
    if not isinstance(content, Mapping) or depth > DEPTH_MAX:
        return
    for name in _WORDS:
        words = content.get(name)
        if isinstance(words, str) and words:
            yield words
        else:
            yield from _read_lines(words, mentions, bot, depth + 1)
    paragraphs = content.get("content") or content.get("content_v2") or content.get("elements")
    if isinstance(paragraphs, list):
        for paragraph in paragraphs:
            parts = list_mappings(paragraph if isinstance(paragraph, list) else [paragraph])
            yield "".join(_read_part(part, mentions, bot) for part in parts)
        return
    options = content.get("options")
    yield from (one for one in options if isinstance(one, str)) if isinstance(options, list) else ()
    further = [one for name, one in content.items() if name not in _WORDS and isinstance(one, Mapping)]
    yield from _read_lines(next(iter(further), None), mentions, bot, depth + 1)


def _read_part(part: Mapping[str, Any], mentions: Mapping[str, str], bot: str) -> str:
    """Return the words of a part of a paragraph. Text that a person typed is never read as a mention."""
    given, tag = part.get("text"), part.get("tag")
    text = given if isinstance(given, str) else ""
    if tag == "at":
        return _read_at(part.get("user_id"), part.get("user_name"), mentions, bot)
    if tag == "a":
        link = part.get("href")
        is_shown = not isinstance(link, str) or not link or link in text
        return text if is_shown else f"{text} ({link})" if text else str(link)
    if tag == "md":
        return _AT_TAG.sub(lambda found: _read_at(found[1], "", mentions, bot), text)
    if tag == "emotion":
        emoji = part.get("emoji_type")
        return f":{emoji}:" if is_short_text(emoji) else ""
    return text


def _read_at(id: object, name: object, mentions: Mapping[str, str], bot: str) -> str:
    """Return the text of a mention in rich text: of a key, or of a person's own id."""
    if is_person_id(id):
        return "" if id == bot else f"<@{id}>"
    if id in ("all", ALL):
        return mentions[ALL]
    known = mentions.get(id) if isinstance(id, str) else None
    shown = name[:NAME_MAX] if isinstance(name, str) else ""
    return known if known is not None else f"@{show_invisible(' '.join(shown.split()))}"


def _list_files(content: object, kind: str, message: str, depth: int = 0) -> Iterator[SentFile]:
    """Yield the files of a message, or of the parts of a rich text. A file without a usable key is kept by its name."""
    if depth > DEPTH_MAX or (kind != "post" and kind not in _FILES):
        return
    if isinstance(content, list):
        for one in content:
            yield from _list_files(one, kind, message, depth + 1)
    elif isinstance(content, Mapping) and kind == "post":
        for name, inner in content.items() if content.get("tag") not in _FILES else ():
            yield from _list_files(inner, "file" if name == "files" else "post", message, depth + 1)
        yield from _list_files(content, str(content.get("tag")), message, depth + 1)
    elif isinstance(content, Mapping) and content.get("is_folder") is not True:
        type, name = _FILES[kind], content.get("file_name")
        id = f"{message}/{type}/{content.get(f'{type}_key')}"
        # Feishu names no picture. People are shown a name, and never an id in its place.
        shown = replace_surrogates(name[:255]) if isinstance(name, str) else f"{type}-{id[-4:]}"
        yield SentFile(id=id if FILE_ID.fullmatch(id) else "", name=shown)
