"""Typed text as the platform passes it on: escaped, with mentions and links marked up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bot.dev.workspace.world import WorkspaceMember, WorkspaceRoom

LINK = re.compile(r"https?://[^\s<>|]+[^\s<>|.,;:!?)\]}，。；：！？）】]")
MAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
ENCODED = re.compile(r"<@[A-Z0-9]+>|&(?:amp|lt|gt);|[&<>]")


def escape_text(text: str) -> str:
    """Replace `&`, `<` and `>` by entities, so that typed text cannot become a mention or a link by itself."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mark_up_text(
    text: str, people: Iterable[WorkspaceMember], rooms: Iterable[WorkspaceRoom], *, encoded: bool = False
) -> str:
    """Convert typed text to the form that apps get: entities escaped, and `@name`, `#channel`, links and addresses
    marked up.

    `encoded`: a client has escaped it and written `<@U…>` for people. Its entities and mentions stay unchanged."""
    if encoded:
        clean = ENCODED.sub(lambda m: m[0] if len(m[0]) > 1 else escape_text(m[0]), text.strip())
    else:
        clean = escape_text(text.strip())
    out = MAIL.sub(lambda m: f"<mailto:{m[0]}|{m[0]}>", LINK.sub(lambda m: f"<{m[0]}>", clean))
    channels = {room.name.lower(): f"<#{room.id}|{room.name}>" for room in rooms if room.kind == "channel"}
    return replace_names(replace_names(out, "@", build_mention_names(people)), "#", channels)


def replace_names(text: str, sign: str, names: Mapping[str, str]) -> str:
    longest_first = sorted(names, key=len, reverse=True)
    if not longest_first:
        return text
    pattern = rf"(?<![\w.|]){sign}({'|'.join(map(re.escape, longest_first))})(?![A-Za-z0-9_])"
    return re.sub(pattern, lambda m: names[m[1].lower()], text, flags=re.IGNORECASE | re.ASCII)


def build_mention_names(people: Iterable[WorkspaceMember]) -> dict[str, str]:
    names = {"channel": "<!channel>", "here": "<!here>", "everyone": "<!everyone>"}
    for person in people:
        for name in (person.name, person.display_name, person.real_name):
            if name:
                names.setdefault(name.lower(), f"<@{person.id}>")
    return names
