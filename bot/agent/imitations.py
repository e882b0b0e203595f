"""Removes lines that only code writes (receipts, marks, events) from a model's text. A model may copy what it has
read."""

from __future__ import annotations

import re

_BEFORE = r"[ \t　>*_`\-•]{0,12}+"
_NAMED = (
    r"(?:系统记录|on record|waiting for a button|unverified|not verified|未经核实"
    r"|the person (?:took|has taken) the card back)"
)
_OPEN, _CLOSE = r"[\[［【〔(（]", r"[\]］】〕)）]"
_LINE = re.compile(
    rf"^{_BEFORE}(?:{_OPEN}[ \t]{{0,4}}+[*_]{{0,3}}+{_NAMED}\b"  # an opened mark, whatever follows
    rf"|⚠️?[ \t]{{0,4}}+(?:未经核实|not verified)|(?:系统记录|on record|waiting for a button)[*_ \t]{{0,4}}+[:：])",
    re.IGNORECASE,
)
_INLINE = re.compile(
    rf"[\[［【〔][ \t]{{0,4}}+{_NAMED}[ \t]{{0,4}}+[:：][^\[\]［］【】〔〕\n]{{0,600}}+[\]］】〕]", re.IGNORECASE
)
_EVENT = re.compile(r"[<＜][ \t]{0,4}+event(?=[ \t]++(?:at|kind)[ \t]*+=)[^>＞\n]{0,200}+[>＞]?", re.IGNORECASE)
_END = re.compile(r"[<＜][ \t]{0,4}+[/／][ \t]{0,4}+event[ \t]{0,4}+[>＞]", re.IGNORECASE)


def cut_imitations(text: str) -> str:
    """Return the text without lines and marks that look like ours. Return the text unchanged if there are none."""
    # An imitated event ends at the next closing tag. Without one, it ends with its paragraph or with the text.
    pieces, at, ends = list[str](), 0, [found.end() for found in _END.finditer(text)][::-1]
    while (opening := _EVENT.search(text, at)) is not None:
        pieces.append(text[at : opening.start()])
        while ends and ends[-1] < opening.end():
            ends.pop()
        paragraph = text.find("\n\n", opening.end())
        if not ends and paragraph < 0:
            at = len(text)
            break
        at = ends[-1] if ends else paragraph
    without_events = _END.sub("", "".join([*pieces, text[at:]]))
    cut = "\n".join(_INLINE.sub("", line) for line in without_events.split("\n") if not _LINE.match(line))
    return text if cut == text else cut.strip()
