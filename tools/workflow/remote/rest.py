"""One small HTTP client for engines that speak JSON: what happened to a call is always one of four things.

It was done (2xx); it was refused (`Refused`, with the status); it was never sent (`ToolError` `engine_down`); or it was
sent and nobody answered (`Unanswered`: it may have happened). No POST is sent twice (PUT and DELETE, which mean the
same when repeated, aiohttp repeats once when a connection breaks), no redirect is followed (the login would go with
it), and no error carries an address, a login or what the engine wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    encode_basic_auth,
)
from pydantic import SecretStr
from yarl import URL

from tools.spec import ToolError

Query = Mapping[str, str | int]


class Refused(Exception):
    """The engine answered, and not with success. Its error bodies vary with the version: only the status counts."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class Missing(Refused):
    """404."""


class Unanswered(Exception):
    """Sent, and no answer came: nobody knows whether it was done."""


class Rest:
    """`url` is the base of the engine's API, e.g. `http://host/flowable-rest/service` or `http://host/engine-rest`."""

    def __init__(self, session: ClientSession, url: str, user: str, password: SecretStr, timeout_s: float) -> None:
        self._session, self._base = session, url.rstrip("/")
        login = encode_basic_auth(user, password.get_secret_value()) if user else ""
        self._headers = {"Authorization": login} if login else {}
        self._timeout = ClientTimeout(total=timeout_s)

    async def read(self, *path: str, query: Query | None = None, body: object = None) -> Any:
        """JSON; with a `body` it is a question that is too long for an address. Raises `Missing`, or `ToolError`:
        `engine_down`, `engine_refused`, `engine_failed`."""
        text = await self.text(*path, query=query, body=body)
        try:
            return json.loads(text)
        except ValueError:
            raise ToolError("engine_failed", "the workflow engine did not answer with JSON", status="JSON") from None

    async def text(self, *path: str, query: Query | None = None, body: object = None) -> str:
        """As `read`, before it is parsed."""
        try:
            return await self._call("GET" if body is None else "POST", self._url(path), query, body)
        except Unanswered:
            raise _down() from None
        except Missing:
            raise
        except Refused as refused:
            raise failed(refused) from None

    async def write(
        self, method: str, *path: str, query: Query | None = None, body: object = None, beside: bool = False
    ) -> str:
        """The answer's text. `beside`: the path stands beside the base's last part, not below it. Raises `Refused`,
        `Unanswered`, or `ToolError`: `engine_down`, `engine_refused`; then it was not done."""
        return await self._call(method, self._url(path, beside=beside), query, body)

    def _url(self, path: tuple[str, ...], *, beside: bool = False) -> URL:
        """Each part is quoted: an id never becomes a path."""
        base = self._base.rpartition("/")[0] if beside else self._base
        return URL("/".join((base, *(quote(part, safe="") for part in path))), encoded=True)

    async def _call(self, method: str, url: URL, query: Query | None, body: object) -> str:
        try:
            async with self._session.request(
                method,
                url,
                params=query,
                json=body,
                headers=self._headers,
                timeout=self._timeout,
                allow_redirects=False,
            ) as answer:
                text = await answer.text("utf-8", errors="replace")
                status = answer.status
        except (ClientConnectorError, ConnectionTimeoutError):
            raise _down() from None
        except (TimeoutError, ClientError):
            raise Unanswered from None
        if status in (401, 403):
            raise ToolError("engine_refused", "the workflow engine refuses our login; an administrator has to look")
        if not 200 <= status < 300:
            raise Missing(status) if status == 404 else Refused(status)
        return text


def failed(refused: Refused) -> ToolError:
    """For people and the model: that it was not done."""
    text = f"the workflow engine answered with HTTP {refused.status}; nothing was changed"
    return ToolError("engine_failed", text, status=f"HTTP {refused.status}")


def _down() -> ToolError:
    return ToolError("engine_down", "the workflow engine cannot be reached; nothing was changed")
