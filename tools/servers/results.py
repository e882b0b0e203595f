"""What a server answers, as an observation: data, bounded, with nothing in it but text and numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tools.servers.cards import Theirs
from tools.servers.config import Server
from tools.spec import Effect, Note, Outcome, ToolError

TEXT = 4_000
"""Characters of an answer that are passed on."""
MESSAGE = 500
"""Characters of what a server says about a failure."""


def outcome(server: Server, one: Theirs, result: Any) -> Outcome:
    """Of a `CallToolResult`. Raises `ToolError` `server_failed` if it says that it failed."""
    if result.is_error:
        raise failed(server, "\n".join(_pieces(result.content)))
    structured = server.masked(json.dumps(result.structured_content, ensure_ascii=False))
    if result.structured_content is not None and len(structured) <= TEXT:
        found: Any = json.loads(structured)
    else:
        found = _cut(server.masked("\n".join(_pieces(result.content)) or structured))
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
    said = json.dumps(server.masked(message)[:MESSAGE], ensure_ascii=False)
    return ToolError("server_failed", f"the server {server.name} says it failed: {said}", server=server.name)


def _cut(text: str) -> str:
    if len(text) <= TEXT:
        return text
    return f"{text[:TEXT]}… [cut: {TEXT} of {len(text)} characters; ask for less, or for its next part]"


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
