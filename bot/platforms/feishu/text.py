"""Converts text for Feishu's markdown (JSON 2.0): the model's Markdown, and people's own words, shown exactly.

Feishu's markdown is CommonMark with tags of its own (`<at>`, `<a>`, `<font>` and others). A numeric entity is never
markup: open.feishu.cn, "富文本组件", section "特殊字符转义说明"."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from itertools import count

from bot.platforms.feishu.message_content import is_person_id
from tools.characters import show_invisible

_MARKS = re.compile(r"[&<>*_~`\[\]()!#|\\$:+=-]|^\d{1,9}\.", re.MULTILINE)
_BLANKS = re.compile(r"^ +| {2,}| $|\t|(?<=\n)(?=\n)", re.MULTILINE)
"""The characters and the blanks of a text that Feishu's markdown would not show as written."""
_CODE = re.compile(
    r"^ {0,3}(`{3,}+|~{3,}+).*?(?:^ {0,3}\1[`~]*+ *+$|\Z)|(?<!`)(`{1,9}+)[^`]{1,400}+\2(?!`)",
    re.DOTALL | re.MULTILINE,
)
_MARKUP_IN_CODE = re.compile(r"(<(?=[A-Za-z/!?@]))|\](?=[(\[:])")
"""A tag or a link, if Feishu saw no code there: a backtick may belong to another one than ours."""
_MARKUP = re.compile(r"(?<!\\)(\\*+)(<(?=[A-Za-z/!?@])|&(?=#?\w{1,31};)|!(?=\[)|\](?=[(\[:]))")
"""The beginnings of a tag, an entity, a picture (Feishu refuses a card with an address in it) and a link whose text is
not its address, with the backslashes before them."""
_LARGE_HEADING = re.compile(r"^ {0,3}#{1,3}(?=\s)", re.MULTILINE)
_TABLE = re.compile(r"^ {0,3}\|?(?: *:?-+:? *\|)+(?: *:?-+:?)? *$", re.MULTILINE)
MAX_TABLES = 4
"""Most tables of a card. Feishu refuses a card with more than five."""


def format_mention(id: str) -> str:
    """Return a real mention for an open id, or an empty text for anything else. Only for ids from the directory."""
    return f"<at id={id}></at>" if is_person_id(id) else ""


def escape_text(text: str) -> str:
    """Escape a person's text, so that Feishu's markdown shows it character for character."""
    marked = _MARKS.sub(lambda found: f"{found[0][:-1]}&#{ord(found[0][-1])};", show_invisible(text))
    return _BLANKS.sub(lambda found: "&nbsp;" * max(1, len(found[0].expandtabs(4))), marked)


def has_layout(text: str) -> bool:
    """Return whether a text has more than one line, or blanks that markdown would drop."""
    return "\n" in text or "\t" in text or "  " in text or text != text.strip()


def limit_tables(text: str) -> str:
    """Return Markdown in which only the first tables are tables. The others show their bars."""
    number = count()
    return _TABLE.sub(lambda row: row[0] if next(number) < MAX_TABLES else row[0].replace("|", "\\|"), text)


def convert_markdown(text: str) -> str:
    """Convert the model's Markdown to Feishu's. Formatting stays. No tag, no mention, no picture and no link with a
    hidden target is left. In code, which shows entities as they are written, they get look-alike brackets."""
    pieces, end = list[str](), 0
    for code in _CODE.finditer(text):
        pieces += (
            _convert_prose(text[end : code.start()]),
            _MARKUP_IN_CODE.sub(lambda found: "‹" if found[1] else "］", code[0]),
        )
        end = code.end()
    return "".join([*pieces, _convert_prose(text[end:])])


def _convert_prose(text: str) -> str:
    # A backslash before an entity would show the entity.
    escaped = _MARKUP.sub(lambda found: "&#92;" * (len(found[1]) // 2) + f"&#{ord(found[2])};", text)
    return _LARGE_HEADING.sub("####", escaped)


def format_label(text: str, length: int) -> str:
    """Format a plain text of one line and at most `length` characters, with … for the rest."""
    flat = " ".join(show_invisible(text).split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def count_cost(text: str) -> int:
    """Count the bytes of a text in a request. The card is JSON inside JSON, which escapes other alphabets."""
    return len(json.dumps(json.dumps(text, ensure_ascii=False))) - len(json.dumps(json.dumps("")))


count_plain_cost = lru_cache(4_096)(count_cost)


def count_markdown_cost(sign: str) -> int:
    """Count the bytes of a character once converted."""
    return 6 if sign in "<&!]#" else count_plain_cost(sign)
