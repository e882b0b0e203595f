"""Arguments of a Web API call, read from JSON, a form or a query string, and converted to their types."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.world import Json


class MethodArguments:
    """Arguments by name. A missing or invalid one raises `WorkspaceError("invalid_arguments")`."""

    def __init__(self, values: Json) -> None:
        self.values = values

    def require_text(self, name: str) -> str:
        value = self.read_text(name)
        if not value:
            raise WorkspaceError("invalid_arguments", [f"[ERROR] missing required field: {name}"])
        return value

    def read_text(self, name: str) -> str:
        value = self.values.get(name)
        return "" if value is None else str(value)

    def has_value(self, name: str) -> bool:
        return self.values.get(name) is not None

    def read_flag(self, name: str) -> bool:
        return self.values.get(name) in (True, 1, "1", "true", "True")

    def read_number(self, name: str, default: int, most: int) -> int:
        """Read a whole number from 1 to `most`."""
        try:
            value = int(self.values.get(name, default))
        except (TypeError, ValueError):
            raise WorkspaceError("invalid_arguments", [f"[ERROR] must be an integer [json-pointer:/{name}]"]) from None
        if not 1 <= value <= most:
            raise WorkspaceError("invalid_limit" if name == "limit" else "invalid_arguments")
        return value

    def read_json(self, name: str) -> Any:
        """Read a JSON value, which forms carry as a string; `None` if it is not given."""
        value = self.values.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            raise WorkspaceError(f"invalid_{name}_format" if name == "blocks" else "invalid_arguments") from None


async def read_method_arguments(request: web.Request) -> MethodArguments:
    """Read the arguments from the query string and the body; the body takes precedence. Raises `WorkspaceError` for an
    unreadable body."""
    values: Json = dict(request.query)
    if request.content_type == "application/json":
        values |= await read_json_body(request)
    elif request.content_type in ("application/x-www-form-urlencoded", "multipart/form-data"):
        values |= {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
    return MethodArguments(values)


async def read_json_body(request: web.Request) -> Json:
    try:
        body = await request.json()
    except ValueError:
        raise WorkspaceError("invalid_json") from None
    if not isinstance(body, dict):
        raise WorkspaceError("json_not_object")
    return body
