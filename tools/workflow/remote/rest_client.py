"""A small HTTP client for JSON engines. Every call has one of four results.

The call was done (2xx). The engine refused it (`EngineRefusedError`, with the status). The call was never sent
(`ToolError` `engine_down`). Or the call was sent without an answer of the engine (`EngineNoAnswerError`), so it may
have happened. An answer of something in between, such as 502, 503 or 504, says nothing about the engine.

No POST is sent twice; aiohttp repeats PUT and DELETE, which mean the same when repeated, once after a broken
connection. No redirect is followed, because the login would go with it. No error contains an address, a login or the
engine's text; only an administrator is shown why it refuses a file (`EngineRefusedError.words`). An engine may be
broken or hostile: its answers are read up to a limit, in limited time, and never decompressed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from http import HTTPStatus
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    FormData,
    encode_basic_auth,
)
from pydantic import SecretStr
from yarl import URL

from tools.spec import ToolError

Query = Mapping[str, str | int]
ANSWER_MAX, LIST_MAX = 4 * 1024 * 1024, 16 * 1024 * 1024
"""Most bytes of one answer, and of all pages of a list. A page of 100 instances with their variables has three MB at
most, a list of 20,000 tasks twelve."""
WORDS_MAX = 1_000
"""Most characters of an engine's words about a file."""
LIST_TIMEOUT_FACTOR = 3
"""A list may take as long as this many answers."""
SIBLING = ".."
"""The first part of a path beside the base's last part, not below it."""
CHUNK_BYTES = 64 * 1024
JSON_TYPE = "application/json"
UNEXPECTED_SHAPE_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
"""Exceptions raised by reading an answer of another shape than the engine's."""
ERRORS = {
    "engine_down": "the workflow engine cannot be reached; nothing was changed",
    "engine_refused": "the workflow engine refuses our login; an administrator has to look",
    "engine_absent": "the address answers, but no workflow engine is there; nothing was changed",
    "engine_too_large": "the answer of the workflow engine is too long, and was not read; nothing was changed",
    "engine_unreadable": "the workflow engine answered with something that cannot be read; nothing was changed",
}
log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")


class EngineRefusedError(Exception):
    """The engine answered with an error. Error bodies vary with the version, so only the status counts. `words` is what
    the engine says of a file that it refuses, in one line."""

    def __init__(self, status: int, words: str = "") -> None:
        super().__init__(f"HTTP {status}")
        self.status, self.words = status, words


class EngineNotFoundError(EngineRefusedError):
    """The engine answered 404."""


class EngineNoAnswerError(Exception):
    """The call was sent without an answer of the engine: it may have been done or not."""


@dataclass(slots=True)
class ByteBudget:
    """The number of bytes of a list that may still be read."""

    bytes_left: int = LIST_MAX

    def consume_bytes(self, size: int) -> None:
        """Take bytes from the budget. Raises `ToolError` `engine_too_large`."""
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise build_engine_error("engine_too_large")


def reject_unreadable(read: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap the reading of an answer. An answer of another shape than the engine's raises `ToolError`
    `engine_unreadable`; a 404 that the reading does not expect raises `engine_absent`."""

    @wraps(read)
    async def read_or_reject(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await read(*args, **kwargs)
        except UNEXPECTED_SHAPE_ERRORS as odd:
            raise build_engine_error("engine_unreadable") from odd
        except EngineNotFoundError:
            raise build_engine_error("engine_absent") from None

    return read_or_reject


@dataclass(slots=True)
class OutageLog:
    """Logs once that a part of the engine is away, and once that it is back."""

    part: str
    _problem: str = ""

    def record_state(self, problem: str = "") -> None:
        if problem != self._problem:
            log.warning("%s: %s", self.part, problem or "back again")
        self._problem = problem


class RestClient:
    """A client of one engine. `url` is the base of its API, e.g. `http://host/flowable-rest/service` or
    `http://host/engine-rest`."""

    def __init__(self, session: ClientSession, url: str, user: str, password: SecretStr, timeout_s: float) -> None:
        self._session, self._base = session, url.rstrip("/")
        login = encode_basic_auth(user, password.get_secret_value()) if user else ""
        self._hidden = (password.get_secret_value(), user, self._base, URL(url).authority)
        self._headers = {"Authorization": login} if login else {}
        self._headers["Accept-Encoding"] = "identity"
        self._timeout = ClientTimeout(total=timeout_s)
        self.list_timeout_s = LIST_TIMEOUT_FACTOR * timeout_s

    async def read_json(
        self,
        *path: str,
        query: Query | None = None,
        body: object = None,
        allowance: ByteBudget | None = None,
        parse: Callable[[str], Any] = json.loads,
    ) -> Any:
        """Read JSON. A `body` is a query that is too long for an address; `allowance` is that of the list to which this
        page belongs; `parse` reads another format. Raises `EngineNotFoundError`, or `ToolError`: `engine_down`,
        `engine_refused`, `engine_failed`, `engine_too_large`."""
        try:
            text = await self._send_request("GET" if body is None else "POST", path, query, body)
        except EngineNoAnswerError:
            raise build_engine_error("engine_down") from None
        except EngineNotFoundError:
            raise
        except EngineRefusedError as refused:
            raise build_engine_failed_error(refused) from None
        if text is None:
            raise build_engine_error("engine_too_large")
        if allowance:
            allowance.consume_bytes(len(text))
        try:
            return parse(text)
        except (ValueError, RecursionError):
            raise ToolError("engine_failed", "the workflow engine did not answer with JSON", status="JSON") from None

    async def write(self, method: str, *path: str, query: Query | None = None, body: object = None) -> str:
        """Send a write; return the answer's body, or nothing if it is too long. Raises `EngineRefusedError`,
        `EngineNoAnswerError`, or `ToolError` (`engine_down`, `engine_refused`); after a `ToolError`, nothing was
        done."""
        return await self._send_request(method, path, query, body) or ""

    async def write_file(self, *path: str, file: str, content: bytes, fields: Mapping[str, str]) -> None:
        """Upload a file as a form, together with these fields. Raises the errors of `write`."""
        form = FormData(fields)
        form.add_field("data", content, filename=file, content_type="application/xml")
        await self._send_request("POST", path, None, form)

    async def _send_request(self, method: str, path: Sequence[str], query: Query | None, body: object) -> str | None:
        """Send a request; return the answer's body, or None if it is too long. Each part of the path is quoted, so that
        an id never becomes a path."""
        base = self._base.rpartition("/")[0] if path[0] == SIBLING else self._base
        parts = [quote(part, safe="") for part in path if part != SIBLING]
        url = URL("/".join((base, *parts)), encoded=True)
        try:
            async with self._session.request(
                method,
                url,
                params=query,
                json=None if isinstance(body, FormData) else body,
                data=body if isinstance(body, FormData) else None,
                headers=self._headers,
                timeout=self._timeout,
                allow_redirects=False,
                auto_decompress=False,
            ) as answer:
                status = answer.status
                # Something in between may answer an error after it passed the call on. The engines answer 500 in JSON,
                # and no higher status.
                is_final = status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.REQUEST_TIMEOUT
                if status == HTTPStatus.INTERNAL_SERVER_ERROR:
                    is_final = answer.content_type == JSON_TYPE
                is_read = 200 <= status < 300 or isinstance(body, FormData)
                text = await _read_body(answer) if is_read else ""
        except (ClientConnectorError, ConnectionTimeoutError):
            raise build_engine_error("engine_down") from None
        except (TimeoutError, ClientError):
            raise EngineNoAnswerError from None
        if not is_final:
            raise EngineNoAnswerError
        if status in (401, 403):
            raise build_engine_error("engine_refused")
        if status == HTTPStatus.NOT_FOUND:
            raise EngineNotFoundError(status)
        if not 200 <= status < 300:
            raise EngineRefusedError(status, self._pick_words(text or ""))
        return text

    def _pick_words(self, text: str) -> str:
        """The words in an error's body, without whatever somebody could come in with."""
        try:
            body = json.loads(text)
            words = " ".join(str(body.get("exception") or body["message"]).split())
        except UNEXPECTED_SHAPE_ERRORS:
            return ""
        for secret in (self._headers.get("Authorization", "").removeprefix("Basic "), *self._hidden):
            words = words.replace(secret, "…") if secret else words
        return words[:WORDS_MAX]


def parse_id(answer: str) -> str:
    """The id in the answer to a write; empty for any other answer."""
    try:
        name = json.loads(answer)["id"]
    except UNEXPECTED_SHAPE_ERRORS:
        return ""
    return name if isinstance(name, str) else ""


def build_engine_failed_error(refused: EngineRefusedError) -> ToolError:
    """The error that tells people and the model that nothing was done."""
    text = f"the workflow engine answered with HTTP {refused.status}; nothing was changed"
    return ToolError("engine_failed", text, status=f"HTTP {refused.status}")


async def _read_body(answer: ClientResponse) -> str | None:
    """The whole body. None for a body above `ANSWER_MAX`, and for a compressed body: nobody requested one, and it may
    become a thousand times as long."""
    body = bytearray()
    is_long = answer.headers.get("Content-Encoding", "identity").lower() != "identity"
    while not is_long and (piece := await answer.content.read(CHUNK_BYTES)):
        body += piece
        is_long = len(body) > ANSWER_MAX
    if is_long:
        answer.close()
        return None
    return body.decode("utf-8", "replace")


def build_engine_error(code: str) -> ToolError:
    return ToolError(code, ERRORS[code])
