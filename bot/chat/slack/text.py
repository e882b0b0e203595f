"""Text in and out of Slack.

In: Slack's escapes are undone and its references made readable. Out: nothing that anybody wrote can
become a mention, a link or formatting; what is shown is what was written, character for character.
Slack's rules: docs.slack.dev, "Formatting message text" (only `& < >` are special).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_REFERENCE = re.compile(r"<([^<>\n]+)>")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
_FORMATTING = re.compile(r"[*_~`\n\t]|^\s|\s$|^[>•]|:[\w+'-]+:|  ")
_HIDES_TARGET = re.compile(r"\](?=[(\[:])")


def clean(text: str) -> str:
    """Text without lone surrogates, which no later store or wire could carry."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def readable(text: str, bot: str) -> str:
    """What a person typed: the bot's own mention gone, people as `<@U…>`, links and channels in words."""
    spoken = re.sub(rf"\s*<@{re.escape(bot)}(?:\|[^<>]*)?>[ \t]*[,:，：]?\s*", " ", text)
    named = _REFERENCE.sub(lambda found: _reference(found[1]), spoken)
    return clean(unescape(named)).strip()


def unescape(text: str) -> str:
    """Slack's three escapes undone, once."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _reference(inside: str) -> str:
    """One `<…>` of Slack's, in words."""
    target, _, name = inside.partition("|")
    if target.startswith("@"):
        return f"<{target}>"
    if target.startswith("#"):
        return f"#{name or target[1:]}"
    if target.startswith("!"):
        return name or "@" + target[1:].split("^")[0]
    address = target.removeprefix("mailto:").removeprefix("tel:")
    return address if not name or name in address else f"{name} ({address})"


def escape(text: str) -> str:
    """`& < >` made harmless: what remains cannot mention, link or ping."""
    return "".join(_ESCAPES.get(sign, sign) for sign in clean(text))


def visible(text: str) -> str:
    """Control and direction-changing characters shown by their number: a card must not read differently
    from what it will execute."""
    return _HIDDEN.sub(lambda found: f"⟨{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def formats(text: str) -> bool:
    """True when Slack's mrkdwn would show this text otherwise than it is written."""
    return bool(_FORMATTING.search(text))


def fenced(text: str) -> str:
    """Text as a preformatted block, which Slack shows as it is; runs of backticks cannot close it."""
    return "```\n" + re.sub(r"`(?=``)", "`\u200b", escape(text)) + "\n```"


def prose(text: str) -> str:
    """Markdown for Slack's `markdown` block: formatting stays; mentions and links with a hidden target go."""
    return _HIDES_TARGET.sub(r"]\\", escape(text))


def shortened(text: str, length: int) -> str:
    """At most `length` UTF-16 units, … for what was left out: for labels and notifications only."""
    text = clean(text)
    if units(text) <= length:
        return text
    kept = text[: length - 1]
    while units(kept) > length - 1:
        kept = kept[:-1]
    return kept + "…"


def units(text: str) -> int:
    """UTF-16 code units: what Slack counts lengths in."""
    return len(text.encode("utf-16-le")) // 2


def plain(text: str, length: int) -> str:
    """A label."""
    return shortened(bracketless(" ".join(visible(text).split())), length)


def bracketless(text: str) -> str:
    """Angle brackets replaced by look-alikes: plain text has no escapes."""
    return text.replace("<", "‹").replace(">", "›")


def chunks(text: str, limit: int) -> Iterator[str]:
    """The text in pieces of at most `limit` UTF-8 bytes once escaped; joined, they are the text."""
    start, size, newline = 0, 0, 0
    for at, sign in enumerate(text):
        cost = weight(sign)
        if size + cost > limit:
            end = newline if newline > start + (at - start) // 2 else at
            yield text[start:end]
            start, size = end, sum(map(weight, text[end:at]))
        size += cost
        if sign == "\n":
            newline = at + 1
    if start < len(text):
        yield text[start:]


def weight(sign: str) -> int:
    """UTF-8 bytes of one character once escaped: never less than Slack's own count of it."""
    return 4 if sign == "`" else len(_ESCAPES.get(sign, sign).encode("utf-8", "replace"))
