"""What a server answers, as an observation: data, bounded, with nothing in it but text and numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tools.servers.cards import Theirs
from tools.servers.config import Server
from tools.spec import Effect, Note, Outcome, ToolError

TEXT = 4_000
"""Characters of an answer that are passed on."""
READ = 4 * TEXT
"""Characters of an answer that are looked at."""
MESSAGE = 500
"""Characters of what a server says about a failure."""


def outcome(server: Server, one: Theirs, result: Any) -> Outcome:
    """Of a `CallToolResult`. Raises `ToolError` `server_failed` if it says that it failed."""
    if result.is_error:
        raise failed(server, _join(_pieces(result.content))[0])
    structured = server.masked(json.dumps(result.structured_content, ensure_ascii=False))
    if result.structured_content is not None and len(structured) <= TEXT:
        found: Any = json.loads(structured)
    else:
        text, length = _join(_pieces(result.content))
        found = _cut(server, text, length) if text else _cut(server, structured, len(structured))
    return Outcome(
        data={"server": one.server, "result": found},
        note=Note(key="result.server", params={"server": one.server}),
    )


def done(server: Server, one: Theirs, result: Any) -> Outcome:
    """The same of a tool with consequences. Raises `ToolError` `server_unsure` if it says that it failed: some of it
    may have been done before."""
    try:
        return outcome(server, one, result)
    except ToolError as error:
        params: dict[str, Any] = {"server": one.server, "tool": one.name}
        maybe = Effect(note=Note(key="effect.server_unsure", params=params), subject=one.called)
        raise ToolError("server_unsure", error.text, maybe=maybe, server=one.server) from None


def failed(server: Server, message: str) -> ToolError:
    """The server's own words are for the model, as data; people read ours."""
    masked = server.masked(message[:READ])
    said = json.dumps(masked if len(masked) <= MESSAGE else masked[: MESSAGE - 1] + "…", ensure_ascii=False)
    return ToolError("server_failed", f"the server {server.name} says it failed: {said}", server=server.name)


def _join(pieces: Iterable[str]) -> tuple[str, int]:
    """The pieces as lines, as far as any of it may be passed on, and how many characters all of them have."""
    kept, length = list[str](), 0
    for piece in pieces:
        if length < READ:
            kept.append(piece[:READ])
        length += len(piece) + 1
    return "\n".join(kept), max(length - 1, 0)


def _cut(server: Server, text: str, length: int) -> str:
    """Masked before it is cut: half a secret is one too."""
    masked = server.masked(text[:READ])
    if length <= TEXT:
        return masked
    return f"{masked[:TEXT]}… [cut: {TEXT} of {length} characters; ask for less, or for its next part]"


def _pieces(content: Any) -> Iterator[str]:
    """Texts as they are; of anything else, what it is."""
    for one in content:
        match one.type:
            case "text":
                yield one.text
            case "resource" if hasattr(one.resource, "text"):
                yield one.resource.text
            case "resource_link":
                yield f"[link, not opened: {str(one.uri)[:200]}]"
            case kind:
                yield f"[{kind}, not shown: {str(getattr(one, 'mime_type', '') or 'of no known type')[:60]}]"
