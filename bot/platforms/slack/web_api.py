"""Calls Slack's Web API. All rate limits, dropped connections and refusals are handled here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.core import metrics
from bot.core.errors import (
    ChatAccountError,
    ChatBusyError,
    ChatError,
    ChatRefusedError,
    ChatUnavailableError,
    PlaceClosedError,
)

Method = Callable[..., Awaitable[AsyncSlackResponse]]
Penalty = Callable[[int], Awaitable[None]]

UNREACHABLE = "unreachable"
"""Our code for a call without an answer, which may or may not have taken effect."""
LIMITED = "ratelimited"
ACCOUNT = frozenset(
    {"account_inactive", "invalid_auth", "not_authed", "team_access_not_granted", "token_expired", "token_revoked"}
)
"""Errors of a token or an app that is not valid (any more). Nothing is wrong with the message itself."""
CLOSED = frozenset(
    {"is_archived", "not_in_channel", "restricted_action", "restricted_action_non_threadable_channel"}
    | {
        "restricted_action_read_only_channel",
        "restricted_action_thread_locked",
        "restricted_action_thread_only_channel",
    }
)
"""Errors of `chat.postMessage` for a channel in which the app may not post."""
UNCLEAR_ERRORS = frozenset({"internal_error", "fatal_error", "service_unavailable"})
"""Slack's own failures. Its reference says that *some aspect of the operation may have succeeded*."""
_OUTCOMES = {LIMITED: "limited", UNREACHABLE: "unreachable"}


async def call_slack(
    method: Method,
    arguments: Mapping[str, Any],
    *,
    tries: int = 3,
    repeatable: bool = True,
    on_rate_limit: Penalty | None = None,
    retry_delay_s: float = 0.3,
    before_each_try: Callable[[], Awaitable[None]] | None = None,
    waits_out_limit: bool = True,
) -> dict[str, Any]:
    """Call a method of Slack and return its answer, with its `headers`. The call waits out a 429 (Slack says how long)
    and reports its ms to `on_rate_limit`. Without `waits_out_limit`, it raises `ChatBusyError` at once. A dropped
    connection or a server error is retried only if the call is `repeatable`. `before_each_try` runs right before each
    try, and an exception there ends the call. Raises `ChatError` with Slack's error name, and `ChatUnavailableError`
    when Slack cannot be reached or takes no more."""
    for tries_left in range(tries - 1, -1, -1):
        if before_each_try:
            await before_each_try()
        with metrics.time_outcome(metrics.CHAT_CALLS, method=_format_method_name(method) or metrics.OTHER) as ended:
            try:
                answer = await method(**arguments)
                return {**answer.data, "headers": answer.headers}  # type: ignore[dict-item]
            except SlackApiError as error:
                code, wait_s = _parse_slack_error(error, retry_delay_s)
                again = code == LIMITED or (code == UNREACHABLE and repeatable)
            except (ClientError, TimeoutError, OSError):
                code, wait_s, again = UNREACHABLE, retry_delay_s, repeatable
            ended.name = _OUTCOMES.get(code, "refused")
        if code == LIMITED:
            metrics.CHAT_LIMITS.labels(_format_method_name(method) or metrics.OTHER).inc()
        if code == LIMITED and on_rate_limit:
            await on_rate_limit(int(wait_s * 1000))
        if code == LIMITED and not waits_out_limit:
            raise ChatBusyError(int(wait_s * 1000), _format_method_name(method))
        if not (again and tries_left):
            raise _build_chat_error(code, _format_method_name(method))
        await asyncio.sleep(wait_s)
    raise _build_chat_error(UNREACHABLE, _format_method_name(method))


async def stream_pages(
    method: Method, arguments: Mapping[str, Any], most: int, *, before_each: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[dict[str, Any]]:
    """Yield Slack's answers page after page, at most `most`. The last of them has a cursor if there are more.
    `before_each` runs before each page. Raises what `call_slack` raises."""
    cursor = ""
    for _ in range(most):
        if before_each:
            await before_each()
        answer = await call_slack(method, {**arguments, "cursor": cursor} if cursor else arguments)
        yield answer
        cursor = get_next_cursor(answer)
        if not cursor:
            return


def get_next_cursor(answer: Mapping[str, Any]) -> str:
    """Return where the next page of a list begins. Empty after the last page."""
    return str((answer.get("response_metadata") or {}).get("next_cursor") or "")


async def upload_content(client: AsyncWebClient, url: str, content: bytes) -> None:
    """Upload to an address from Slack. The token does not go there, because the address is the secret. Raises
    `ChatError` (`upload_refused`), or `ChatUnavailableError` when the address cannot be reached."""
    if client.session is None:
        raise TypeError("the client has no connection pool")
    for pause_s in (0.3, 0.3, 0):
        try:
            async with client.session.post(url, data=content, proxy=client.proxy, allow_redirects=False) as answer:
                status = answer.status
        except (ClientError, TimeoutError, OSError):
            status = 0
        if status == 200:
            return
        if status and status < 500 and status != 429:
            raise ChatRefusedError("upload_refused", f"upload ({status})")
        await asyncio.sleep(pause_s)
    raise ChatUnavailableError(UNREACHABLE, "upload")


def _build_chat_error(code: str, method: str) -> ChatError:
    """Build the exception for a failure. An outage differs from a refusal: after an outage the call is tried again
    later, also when the token has to be fixed."""
    if code in ACCOUNT:
        return ChatAccountError(code, method)
    if code in CLOSED:
        return PlaceClosedError(code, method)
    return ChatUnavailableError(code, method) if code in (UNREACHABLE, LIMITED) else ChatRefusedError(code, method)


def _parse_slack_error(error: SlackApiError, pause_s: float) -> tuple[str, float]:
    """Return (code, seconds to wait) of a refusal. A server error is as unclear as a dropped connection."""
    answer: Any = error.response
    status = int(getattr(answer, "status_code", 0) or getattr(answer, "status", 0))
    if status == 429:
        try:
            return LIMITED, max(0.0, float(answer.headers.get("Retry-After") or 1))
        except ValueError:
            return LIMITED, 1.0
    if not isinstance(answer, AsyncSlackResponse) or status >= 500 or not isinstance(answer.data, dict):
        return UNREACHABLE, pause_s  # no dict: a gateway's page, not Slack's answer
    code = str(answer.get("error") or UNREACHABLE)
    return (UNREACHABLE, pause_s) if code in UNCLEAR_ERRORS else (code, 0.0)


def _format_method_name(method: Method) -> str:
    return getattr(method, "__name__", "").replace("_", ".")
