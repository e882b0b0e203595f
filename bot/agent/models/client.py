"""The client for an endpoint, and the errors that an endpoint answers with.

The client is the public one of the `openai` SDK, for requests that are already bytes. The SDK's work on each typed
message would cost more CPU than all the rest of a step. Every answer is bounded before it is parsed.

The shapes of errors are those of OpenAI, Azure, Gemini (an array), OpenRouter (inside a 200), FastAPI and vLLM (no
`error`), and of relays that put another endpoint's error into a text."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import cache
from ssl import SSLContext
from typing import Any

from aiohttp import ClientError
from httpx2 import URL, HTTPError, Response, Timeout, create_ssl_context
from openai import APIConnectionError, AsyncAzureOpenAI, AsyncOpenAI, AsyncStream, DefaultAioHttpClient, Omit

from bot.agent.models.fields import parse_json, read_field, read_list, read_string
from bot.core import logs
from bot.core.errors import ModelFailureCause, ModelRejectedError, ModelUnavailableError

MAX_BYTES = 8 * 1024 * 1024
"""Most bytes of one answer: far more than any reply that is read (`bot.agent.formats.reply_text.MAX_REPLY_LENGTH`)."""
CONNECTION_ERRORS = (APIConnectionError, HTTPError, ClientError)
"""Exceptions that the SDK and the two libraries under it raise for a connection that fails."""
CONNECT_ONLY = Timeout(None, connect=5.0)
"""Time limit of a connection (s). Each reply has a limit of its own, and timers for each part would only cost CPU."""
ENDS = (b"\ndata: [DONE]", b"\ndata:[DONE]")
"""Marks of the end of a stream. Some servers keep the connection open after it."""

MACHINE_HEADERS = {
    f"X-Stainless-{name}": Omit()
    for name in (
        *("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async"),
        *("Retry-Count", "Read-Timeout"),
    )
}
"""Headers about this machine that the SDK would send."""
ASKED: dict[str, Any] = {
    "cast_to": Response,
    "stream": True,
    "stream_cls": AsyncStream[object],
    "options": {"headers": MACHINE_HEADERS},
}
"""Arguments by which the SDK returns the response before it reads the body."""


class RefusalError(Exception):
    """The endpoint answered with an error."""

    def __init__(self, refusal: ErrorResponse) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


@cache
def load_certificates() -> SSLContext:
    """Load the certificates that the SDK trusts, once for each process, because loading takes 30 ms."""
    return create_ssl_context()


@asynccontextmanager
async def open_client(url: str, key: str) -> AsyncIterator[AsyncOpenAI]:
    """Open a client for an address. An empty address is OpenAI's. An address with `api-version` is one of Azure's older
    ones. A user and password in the address go before the key. A redirect is an error, so that the prompt goes to no
    other address."""
    http = DefaultAioHttpClient(
        verify=load_certificates(), follow_redirects=False, event_hooks={"response": [_raise_refusal]}
    )
    address = URL(url)
    if address.username:
        http.auth = (address.username, address.password)
    bare, query = address.copy_with(username=None, password=None, query=None, fragment=None), dict(address.params)
    how: dict[str, Any] = {"base_url": str(bare) or None, "api_key": key, "default_query": query, "http_client": http}
    is_azure = "api-version" in query
    how |= {"api_version": query["api-version"]} if is_azure else {}
    async with (AsyncAzureOpenAI if is_azure else AsyncOpenAI)(**how, max_retries=0, timeout=CONNECT_ONLY) as client:
        yield client


async def send_request(
    client: AsyncOpenAI, path: str, body: bytes = b"", on_progress: Callable[[], None] | None = None
) -> bytes:
    """Return the answer's body. `on_progress` is called for every part of a stream. Raises `RefusalError`, `ValueError`
    and `CONNECTION_ERRORS`."""
    url = f"{client.base_url}{path}"  # whole, because the SDK would parse a relative one three times
    response = await (client.post(url, content=body, **ASKED) if body else client.get(url, **ASKED))
    async with aclosing(response):
        return await _read_body(response, on_progress)


async def _read_body(response: Response, on_progress: Callable[[], None] | None = None) -> bytes:
    """Read a bounded body, up to the end of the stream in it. A comment keeps a connection open and is no progress.
    Raises `ValueError`."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_BYTES:
            raise ValueError("the endpoint's answer was too long")
        if on_progress is not None and b"data:" in part:
            on_progress()
        if body[-32:].rstrip().endswith(ENDS):
            break
    return bytes(body)


async def _raise_refusal(response: Response) -> None:
    """Raise `RefusalError` with a bounded error. The SDK would read the error without a bound."""
    if response.status_code != 200:
        raise RefusalError(parse_error_response(response.status_code, response.headers, await _read_body(response)))


MAX_REASON, MAX_READ = 200, 4_000
"""Characters of an error that administrators see, and characters that are read."""
RETRYABLE_STATUSES = frozenset({408, 409, 429})
"""Statuses for which a retry may help, besides any 5xx. The SDK has the same rule."""
UNSTATED_STATUS = 502
"""The status of an error inside a 200 that states none."""
CONTENT_FILTER_CODES = frozenset(
    {"content_filter", "content_policy_violation", "invalid_prompt", "data_inspection_failed", "1301"}
)
"""Codes for a prompt that a content filter withheld: Azure, OpenAI, Qwen, GLM."""
QUOTA_CODES = frozenset(
    {
        *("insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached"),
        *("exceeded_current_quota_error", "1113", *map(str, range(1308, 1322))),
    }
)
"""Codes and types for a used-up quota: OpenAI, Kimi, GLM."""
UNKNOWN = frozenset({"model_not_found", "model_not_exist", "deploymentnotfound"})
TOOL_PLACE = re.compile(r"\btools[.\[]\d+\]?[.\w\[\]]{0,60}\.(?:name|parameters|input_schema)\b|function_?declaration")
"""A part of a tool, named in a refusal."""
TOO_LONG = (
    *("maximum context length", "exceeds the context window", "context length exceeded", "prompt is too long"),
    *("exceeds the available context", "input is too long", "request too large for", "exceed_context_size"),
)
HINTS = {
    ModelFailureCause.QUOTA: "what was paid for is used up",
    ModelFailureCause.TOOLS: "it refuses the schema of a tool",
}


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An endpoint's error. Missing parts are empty."""

    status: int
    text: str = ""
    code: str = ""
    kind: str = ""
    """The error's `type`, or Google's `status`."""
    param: str = ""
    inner: str = ""
    """Azure's reason inside the error."""
    headers: Mapping[str, str] = field(default_factory=dict)
    json: bool = True
    """Whether the body was JSON. A proxy's error is not, and neither is that of a server without such a path."""

    @property
    def lowered_text(self) -> str:
        """The error's text in lower case, for searching."""
        return self.text.casefold()

    @property
    def reason(self) -> str:
        """The error on one line, for administrators."""
        return f"HTTP {self.status} {logs.redact_text(self.text)[:MAX_REASON]}".strip()

    @property
    def is_about_tools(self) -> bool:
        """Whether a tool's schema or name is refused: not the conversation, a call, or the form of the reply."""
        text = f"{self.param} {self.lowered_text}"
        is_other = any(
            one in text for one in ("tool call", "tool_call", "response_format", "json_schema", "text.format")
        )
        if is_other or self.status not in (400, 422):
            return False
        is_schema = "schema" in text and ("function" in text or "tool" in text)
        return self.code == "invalid_function_parameters" or is_schema or TOOL_PLACE.search(text) is not None

    @property
    def is_content_filtered(self) -> bool:
        """Whether a content filter withheld the conversation."""
        flagged = self.status == 403 and ("moderation" in self.lowered_text or "flagged" in self.lowered_text)
        return flagged or self.code in CONTENT_FILTER_CODES or self.inner == "ResponsibleAIPolicyViolation"


def parse_error_response(status: int, headers: Mapping[str, str], body: bytes) -> ErrorResponse:
    """Parse the error in an answer other than 200."""
    try:
        return replace(parse_error_body(status, parse_json(body)), headers=headers)
    except ValueError:
        return ErrorResponse(status, headers=headers, json=False)


def parse_error_body(status: int, answer: Any) -> ErrorResponse:
    """Parse an error in JSON, whatever its shape."""
    whole = answer[0] if isinstance(answer, list) and answer else answer
    error = read_field(whole, "error")
    if isinstance(error, str):
        return ErrorResponse(status, _collapse_whitespace(error))
    if not isinstance(error, dict):
        error = whole if isinstance(whole, dict) else {}
    if details := read_list(read_field(error, "detail")):
        # FastAPI's first finding: the place in the body, and the problem.
        place = ".".join(str(one) for one in read_list(read_field(details[0], "loc")) if isinstance(one, int | str))
        text = _collapse_whitespace(read_string(read_field(details[0], "msg")))
        return ErrorResponse(status, text, param=read_string(place[:MAX_READ].removeprefix("body.")))
    message = read_string(error.get("message") or error.get("detail"))
    inner = read_string(read_field(error, "metadata", "raw"))  # OpenRouter: the provider's own words
    return ErrorResponse(
        status,
        _collapse_whitespace(f"{message} {inner}"),
        _read_code(error.get("code")),
        _read_code(error.get("type")) or _read_code(error.get("status")),
        _read_code(error.get("param")),
        _read_code(read_field(error, "innererror", "code")),
    )


def find_embedded_error(answer: Any) -> ErrorResponse | None:
    """Return the error inside an answer with status 200, or None. Relays begin to answer before they know of an
    error."""
    if isinstance(answer, list):
        return parse_error_body(UNSTATED_STATUS, answer)
    first = next(iter(read_list(read_field(answer, "choices"))), None)
    if not (error := read_field(answer, "error") or read_field(first, "error")):
        return None
    status = read_field(error, "code")
    known = isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599
    return parse_error_body(status if known else UNSTATED_STATUS, {"error": error})


def build_model_error(refusal: ErrorResponse, wait_s: float = 0.0) -> ModelUnavailableError | ModelRejectedError:
    """Build the exception for a refusal: the request may work later, elsewhere, or never."""
    cause = classify_error(refusal)
    if cause in (ModelFailureCause.CONTEXT, ModelFailureCause.REQUEST):
        return ModelRejectedError(refusal.reason, cause)
    if cause is ModelFailureCause.BUSY:
        return ModelUnavailableError(f"HTTP {refusal.status}", wait_s, cause)
    hint = HINTS.get(cause, "check its key, its address and its name")
    return ModelUnavailableError(f"{refusal.reason}: {hint}", wait_s, cause)


def classify_error(refusal: ErrorResponse) -> ModelFailureCause:
    """Classify why an endpoint refuses: by status, then by codes, then by words."""
    status, named = refusal.status, {refusal.code, refusal.kind}
    is_quota = not named.isdisjoint(QUOTA_CODES) or any(one.endswith("_spend_limit_exceeded") for one in named)
    if status == 402 or (status in (403, 429) and is_quota):
        return ModelFailureCause.QUOTA
    if refusal.code == "context_length_exceeded" or refusal.kind == "exceed_context_size_error":
        return ModelFailureCause.CONTEXT
    if status in (400, 413, 422, 429, 500) and any(words in refusal.lowered_text for words in TOO_LONG):
        return ModelFailureCause.CONTEXT
    if status in (400, 404) and is_unknown_model(refusal):
        return ModelFailureCause.UNKNOWN_MODEL
    if status in (401, 403) or refusal.code == "invalid_api_key" or "api key not valid" in refusal.lowered_text:
        return ModelFailureCause.KEY
    if status == 404:
        return ModelFailureCause.ADDRESS
    if refusal.is_about_tools:
        return ModelFailureCause.TOOLS
    return ModelFailureCause.BUSY if status in RETRYABLE_STATUSES or status >= 500 else ModelFailureCause.REQUEST


def is_unknown_model(refusal: ErrorResponse) -> bool:
    """Return whether the endpoint has no model of that name."""
    if refusal.code.casefold() in UNKNOWN:
        return True
    missing = any(words in refusal.lowered_text for words in ("not exist", "not found", "no such"))
    return missing and "model" in refusal.lowered_text and refusal.json


def can_retry_request(refusal: ErrorResponse) -> bool:
    """Return whether a retry may help. The endpoint's own `x-should-retry: false` has precedence."""
    return classify_error(refusal) is ModelFailureCause.BUSY and refusal.headers.get("x-should-retry") != "false"


def parse_retry_after_s(headers: Mapping[str, str], now: float) -> float:
    """Return how long the endpoint asks us to wait (s): `Retry-After-Ms`, or `Retry-After` in seconds or as an HTTP
    date. Return 0 if these headers are missing or unreadable."""
    retry_after, found_s = headers.get("retry-after", ""), 0.0
    with suppress(ValueError, TypeError, OverflowError):
        found_s = parsedate_to_datetime(retry_after).timestamp() - now
    for text, unit in ((retry_after, 1), (headers.get("retry-after-ms", ""), 1000)):
        with suppress(ValueError):
            found_s = float(text) / unit
    return found_s if 0 < found_s < math.inf else 0.0


def _collapse_whitespace(text: str) -> str:
    return " ".join(text[:MAX_READ].split())


def _read_code(value: Any) -> str:
    """Return a code, written as text or as a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return read_string(value)[:MAX_READ]
