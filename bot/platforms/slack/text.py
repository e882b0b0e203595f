"""Converts text from Slack and for Slack.

Incoming text: Slack's escapes are undone and its references made readable. Outgoing text: no person's text can become a
mention, a link or formatting, and it is shown character for character. Slack's rules: docs.slack.dev, "Formatting
message text" (only `& < >` are special)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from bot.platforms.shared import cut_out_mentions
from tools.characters import replace_surrogates, show_invisible, split_text

_MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^<>]*+)?>[ \t]*+[,:，：]?")
_REFERENCE = re.compile(r"<([^<>\n]+)>")
_FORMATTING = re.compile(r"[*_~`\n\t]|^\s|\s$|^[>•]|:[\w+'-]+:|  ")
USER_ID = re.compile(r"[UW][A-Z0-9]{2,30}")
_HIDES_TARGET = re.compile(r"\](?=[(\[:])")
_ENTITY = re.compile(r"&(?=#?\w{1,31};)")
_QUOTATION = re.compile(r"^(?:[ ]{0,3}>)+", re.MULTILINE)


def parse_message_text(text: str, bot: str) -> str:
    """Return what a person typed, without the bot's own mention, with people as `<@U…>`, and links and channels in
    words."""
    rest = cut_out_mentions(text, (one for one in _MENTION.finditer(text) if one[1] == bot))
    named = _REFERENCE.sub(lambda found: _format_reference(found[1]), rest)
    return replace_surrogates(unescape_text(named)).strip()


def unescape_text(text: str) -> str:
    """Undo Slack's three escapes, once."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _format_reference(inside: str) -> str:
    target, _, name = inside.partition("|")
    if target.startswith("@"):
        return f"<{target}>"
    if target.startswith("#"):
        return f"#{name or target[1:]}"
    if target.startswith("!subteam^"):  # with its id, because a group may be called like a person
        group = "group " + target.removeprefix("!subteam^")
        return f"{name} ({group})" if name else f"@{group}"
    if target.startswith("!"):
        return name or "@" + target[1:].split("^")[0]
    address = target.removeprefix("mailto:").removeprefix("tel:")
    return address if not name or name in address else f"{name} ({address})"


def escape_text(text: str) -> str:
    """Escape `& < >`, so that the result cannot mention, link or ping."""
    return html.escape(replace_surrogates(text), quote=False)


def format_mention(id: str) -> str:
    """Return a real mention, which Slack shows with its own profile, for an id of Slack's form. Return an empty text
    for anything else. Only for ids from the directory, never for a person's text."""
    return f"<@{id}>" if USER_ID.fullmatch(id) else ""


def quote_inline(text: str) -> str:
    """Quote a person's text inside a line of mrkdwn, on one line and unchanged: as code where Slack would format it."""
    flat = " ".join(show_invisible(text).split())
    return f"`{escape_text(flat.replace('`', '⟨U+0060⟩'))}`" if has_formatting(flat) else escape_text(flat)


def has_formatting(text: str) -> bool:
    """Return whether Slack's mrkdwn would not show this text as written."""
    return bool(_FORMATTING.search(text))


def quote_block(text: str) -> str:
    """Quote text as a preformatted block, which Slack shows unchanged. Three backticks in a row would close the block,
    so the third becomes its numeric code. An invisible separator would be copied with the text."""
    return "```\n" + escape_text(text).replace("```", "``⟨U+0060⟩") + "\n```"


def escape_markdown(text: str) -> str:
    """Escape Markdown for Slack's `markdown` block. Formatting stays. Mentions and links with a hidden target are
    removed. An `&` that begins no entity stays, because Slack would put `&amp;` into the address of a link. A `>` that
    begins a quotation stays too."""
    text = _ENTITY.sub("&amp;", replace_surrogates(text)).replace("<", "&lt;")
    quoted = _QUOTATION.sub(lambda found: found[0].replace(">", "\0"), text)
    return _HIDES_TARGET.sub(r"]\\", quoted.replace(">", "&gt;").replace("\0", ">"))


def truncate_text(text: str, length: int) -> str:
    """Return at most `length` UTF-16 units, with … for the rest. Only for labels and notifications."""
    text = replace_surrogates(text)
    if count_utf16_units(text) <= length:
        return text
    kept = text.encode("utf-16-le")[: 2 * length - 2]
    return kept.decode("utf-16-le", "ignore") + "…"  # without half a character at the cut


def count_utf16_units(text: str) -> int:
    """Count UTF-16 code units, in which Slack counts lengths."""
    return len(text.encode("utf-16-le")) // 2


def format_plain_label(text: str, length: int) -> str:
    """Format a plain-text label of at most `length` UTF-16 units."""
    return truncate_text(replace_brackets(" ".join(show_invisible(text).split())), length)


def replace_brackets(text: str) -> str:
    """Replace angle brackets by look-alikes, because plain text has no escapes."""
    return text.replace("<", "‹").replace(">", "›")


def split_into_chunks(text: str, limit: int) -> Iterator[str]:
    """Yield pieces of at most `limit` UTF-8 bytes once escaped. Joined, the pieces are the text."""
    return split_text(text, limit, count_escaped_bytes)


def count_escaped_bytes(sign: str) -> int:
    """Count the UTF-8 bytes of one character once escaped. The count is never less than Slack's own. A bracket may get
    a backslash after it."""
    if sign == "]":
        return 2
    return 5 if sign == "`" else len(escape_text(sign).encode())
