"""Converts a server's answer to an observation: bounded data with text and numbers only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from tools.mcp.config import McpServer
from tools.mcp.tool_adapter import PAGE_ARGUMENT, McpTool
from tools.spec import ReceiptLine, TextRef, ToolError, ToolOutcome
from tools.tool import slice_page

PAGE_LENGTH = 4_000
"""Most characters of one page of an answer."""
PAGE_JSON_LENGTH = 5_000
"""Most characters of one page of an answer, written as JSON."""
MAX_PAGES = 10
MAX_READ_LENGTH = (MAX_PAGES + 1) * PAGE_LENGTH
"""Most characters that are read of an answer: those of its pages and one page more, because half a secret is a secret
too."""
MAX_ERROR_LENGTH = 500
"""Most characters of a server's message about a failure."""


def parse_read_result(server: McpServer, tool: McpTool, result: Any, page: int = 1) -> ToolOutcome:
    """Convert a `CallToolResult` to an observation. If the result is too long, one page is returned if the tool only
    reads; repeated calls return the others. Raises `ToolError` `server_failed` if the server reports a failure."""
    if result.is_error:
        raise build_server_failed_error(server, _join_pieces(_list_pieces(result.content))[0])
    text, length = _join_pieces(_list_pieces(result.content))
    structured = json.dumps(result.structured_content, ensure_ascii=False)
    has_data = result.structured_content is not None and (len(structured) <= MAX_READ_LENGTH or not text)
    if has_data:
        text, length = structured, len(structured)
    content: Any = server.mask_secrets(text[:MAX_READ_LENGTH])  # before it is divided
    if length > MAX_READ_LENGTH:
        content = content[: MAX_PAGES * PAGE_LENGTH]  # a secret may be cut at the end
    elif has_data or content[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            content = json.loads(content)
    data: dict[str, Any] = {"server": tool.server}
    if is_single_page(content):
        data["result"] = content
    elif not tool.has_pages:
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        data["result"] = f"{text[:PAGE_LENGTH]}… [cut: {PAGE_LENGTH} of {length} characters]"
    else:
        pages = split_result_pages(content)
        shown, more = slice_page(pages, page, 1)
        data |= {"result": shown[0] if shown else None, "page": page, "pages": len(pages)}
        data |= {"more": f"the same call with {PAGE_ARGUMENT}: {more}"} if more else {}
        if length > MAX_READ_LENGTH:
            data["cut"] = f"of {length} characters, no more than {MAX_PAGES * PAGE_LENGTH} can be read"
    return ToolOutcome(data=data, summary=TextRef(key="result.server", params={"server": tool.server}))


def is_single_page(content: Any) -> bool:
    if isinstance(content, str) and len(content) > PAGE_LENGTH:
        return False
    return len(json.dumps(content, ensure_ascii=False)) <= PAGE_JSON_LENGTH


def split_result_pages(content: Any) -> list[Any]:
    """Split a long content into pages: elements of a list, or of the longest list in an object, if they fit. Otherwise
    the pages are pieces of the text, cut at line ends where possible."""
    whole = json.dumps(content, ensure_ascii=False)
    if isinstance(content, dict):
        lists = {name: len(json.dumps(one)) for name, one in content.items() if isinstance(one, list)}
        name = max(lists, key=lambda one: lists[one], default="")
        rest = {key: one for key, one in content.items() if key != name}
        beside = len(json.dumps({**rest, name: []}, ensure_ascii=False))
        has_room = name in lists and beside <= PAGE_JSON_LENGTH // 4
        groups = _group_elements(content[name], PAGE_JSON_LENGTH - beside) if has_room else []
        only = next(iter(content.values())) if len(content) == 1 else None
        return [{**rest, name: group} for group in groups] or _cut_text(only if isinstance(only, str) else whole)
    if isinstance(content, list):
        return _group_elements(content, PAGE_JSON_LENGTH) or _cut_text(whole)
    return _cut_text(content if isinstance(content, str) else whole)


def _group_elements(elements: list[Any], max_length: int) -> list[Any]:
    """Elements in pages of at most `max_length` characters; an empty list if one element is longer."""
    groups, room = list[Any](), 0
    for element in elements:
        size = len(json.dumps(element, ensure_ascii=False)) + 2
        if size + 2 > max_length:
            return []
        if size > room:
            groups.append([])
            room = max_length - 2
        groups[-1].append(element)
        room -= size
    return groups


def _cut_text(text: str) -> list[Any]:
    pages = list[Any]()
    while text:
        piece = text[:PAGE_LENGTH]
        while not is_single_page(piece):
            piece = piece[: len(piece) // 2]
        end = piece.rfind("\n", len(piece) // 2) + 1 if len(piece) < len(text) else 0
        piece = piece[:end] if end else piece
        pages.append(piece)
        text = text[len(piece) :]
    return pages


def parse_gated_result(server: McpServer, tool: McpTool, result: Any) -> ToolOutcome:
    """Convert the answer of a tool with consequences. Raises `ToolError` `server_unsure` if the server reports a
    failure, because the call may have had an effect before that."""
    try:
        return parse_read_result(server, tool, result)
    except ToolError as error:
        params: dict[str, Any] = {"server": tool.server, "tool": tool.name}
        maybe = ReceiptLine(text=TextRef(key="effect.server_unsure", params=params), subject=tool.full_name)
        raise ToolError("server_unsure", error.text, possible_effect=maybe, server=tool.server) from None


def build_server_failed_error(server: McpServer, message: str) -> ToolError:
    """Build the error of a failed call. The model gets the server's message as data; people read our own text."""
    masked = server.mask_secrets(message[:MAX_READ_LENGTH])
    said = json.dumps(
        masked if len(masked) <= MAX_ERROR_LENGTH else masked[: MAX_ERROR_LENGTH - 1] + "…", ensure_ascii=False
    )
    return ToolError("server_failed", f"the server {server.name} says it failed: {said}", server=server.name)


def _join_pieces(pieces: Iterable[str]) -> tuple[str, int]:
    """Join the pieces as lines, up to `MAX_READ_LENGTH`, and count the characters of all of them."""
    lines, length = list[str](), 0
    for piece in pieces:
        if length < MAX_READ_LENGTH:
            lines.append(piece[:MAX_READ_LENGTH])
        length += len(piece) + 1
    return "\n".join(lines), max(length - 1, 0)


def _list_pieces(content: Any) -> Iterator[str]:
    """Yield the texts of a content unchanged; for anything else, a description of its kind."""
    for part in content:
        match part.type:
            case "text":
                yield part.text
            case "resource" if hasattr(part.resource, "text"):
                yield part.resource.text
            case "resource_link":
                yield f"[link, not opened: {str(part.uri)[:200]}]"
            case kind:
                yield f"[{kind}, not shown: {str(getattr(part, 'mime_type', '') or 'of no known type')[:60]}]"
