"""Calls Feishu's API. Tokens, time limits, rate limits, dropped connections and refusals are handled here."""

from __future__ import annotations

import asyncio
import io
import math
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, FormData

from bot.core import logs, metrics
from bot.core.errors import (
    ChatAccountError,
    ChatBusyError,
    ChatError,
    ChatRefusedError,
    ChatUnavailableError,
    FileRefusedError,
    PlaceClosedError,
    SettingsError,
)
from bot.platforms.shared import find_value, is_outage, parse_object
from tools.local_host import is_local_host

log = logs.get_logger(__name__)

TIMEOUT_S, FILE_S = 20.0, 120.0
"""Time limits for a call, and for a file (s)."""
ANSWER_MAX = 8_388_608
"""Most bytes of an answer that is read."""
RENEW_S = 1_200.0
"""How long before its end a token is renewed (s). Feishu gives a new one in the last half hour, and takes both."""
RENEW_PAUSE_S = 30.0
"""Time between two tries to renew a token that is still valid (s)."""
WAIT_MAX_S = 60.0
"""Longest wait that a rate limit may ask for (s)."""
UNREACHABLE, RATE_LIMITED = "unreachable", "ratelimited"
"""Our codes for a call without an answer, which may or may not have taken effect, and for one beyond a limit."""
LIMIT_CODES = frozenset({"99991400", "230020", "11232", "11233", "11247"})
"""Refusals by a rate limit: of an app, of a chat."""
GONE_CODES = frozenset({"230011", "230050", "230110", "231003"})
"""The message was recalled or deleted, or the bot cannot see it any more."""
TOO_OLD_CODES = frozenset({"230031"})
"""The card is older than the 14 days for which Feishu lets it be updated."""
CLOSED_CODES = frozenset(
    {"230002", "230013", "230018", "230029", "230035", "230038", "230053", "232009", "232010", "232011"}
)
"""The bot may not post in this chat: not in it, switched off for this person, groups that let nobody write."""
ACCOUNT_CODES = frozenset(
    {"10005", "10013", "10014", "10015", "11205", "230006", "99991401", "99991543", "99991662", "99991673"}
)
"""The app or its credentials are not valid (any more): unknown, switched off, without a bot, not from this address."""
DEAD_TOKEN_CODES = frozenset({"99991661", "99991663", "99991664", "99991668"})
UNCLEAR_CODES = frozenset({"1", "1500", "2200", "55001", "230049", "1000040343", "99991001", "99991002", "99991003"})
"""Feishu's own failures, and a message that is just being sent."""
NO_SCOPE_CODES = frozenset({"99991672", "99991679", "230027", "234002", "234019"})
"""The app lacks a permission."""
TOO_LARGE_CODES = frozenset({"234006", "234037"})
TOKEN_PATH, ENDPOINT_PATH = "/open-apis/auth/v3/tenant_access_token/internal", "/callback/ws/endpoint"
_OUTCOMES = {"0": "ok", RATE_LIMITED: "limited", UNREACHABLE: "unreachable"}
_ID = re.compile(r"/(?:(?=[^/]*[A-Z]|\d)[^/]{6,}+|(?=[^/]*\d)[a-z]{1,4}[_-][^/]{5,}+)")
_PATH = re.compile(r"[\w-]+(?:/[\w:@~-]+)+", re.ASCII)
"""A path of the API: no dots, no blanks and no signs by which an id would make another path."""
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class FeishuBot:
    open_id: str
    name: str
    tenant: str


@dataclass(frozen=True, slots=True)
class _Answer:
    """Feishu's answer. `code` is its number as text, or ours."""

    code: str
    data: Mapping[str, Any] = field(default_factory=dict)
    log_id: str = ""
    """Feishu's support finds a call by it."""
    wait_s: float | None = None
    """How long a rate limit wants a pause; None if it does not say."""

    def build_chat_error(self, name: str) -> ChatError:
        """Build the exception for a failure of a call. An outage differs from a refusal: after an outage the call is
        tried again later, also when the app has to be fixed."""
        where = f"{name} [{self.log_id}]" if self.log_id else name
        if self.code == RATE_LIMITED and self.wait_s is not None:
            return ChatBusyError(math.ceil(self.wait_s * 1000), where)
        kinds = (
            (ACCOUNT_CODES | DEAD_TOKEN_CODES, ChatAccountError),
            (CLOSED_CODES, PlaceClosedError),
            ({UNREACHABLE, RATE_LIMITED}, ChatUnavailableError),
        )
        return next((kind for codes, kind in kinds if self.code in codes), ChatRefusedError)(self.code, where)


@dataclass(slots=True)
class FeishuClient:
    session: ClientSession
    base_url: str
    app_id: str
    app_secret: str = field(repr=False)
    _token: str = field(default="", repr=False)
    _renew_at: float = -math.inf
    _ends_at: float = -math.inf
    _renewal: asyncio.Task[None] | None = field(default=None, repr=False)

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        tries: int = 3,
        before_each_try: Callable[[], Awaitable[None]] | None = None,
        waits_out_limit: bool = True,
        retry_delay_s: float = 0.3,
        **how: Any,
    ) -> dict[str, Any]:
        """Call a path below `/open-apis/` until Feishu answers with success, and return the answer's `data`. A call has
        to be repeatable: a message by its `uuid`. A dead token is replaced once and counts as no try. A rate limit is
        waited out; without `waits_out_limit`, it raises `ChatBusyError` at once. `before_each_try` runs right before
        each try, and an exception there ends the call. `how`: see `_ask`. Raises `ChatError` with Feishu's number, and
        `ChatUnavailableError` when Feishu cannot be reached or takes no more."""
        name, tried, is_token_new = name_call(method, path), 0, False
        while True:
            tried += 1
            if before_each_try:
                await before_each_try()
            with metrics.time_outcome(metrics.CHAT_CALLS, method=name) as ended:
                token = await self._get_token()
                headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
                about: dict[str, Any] = {"params": query, "json": body, "headers": headers}
                answer = await self._ask(method, f"/open-apis/{path}", **about, **how)
                ended.name = _OUTCOMES.get(answer.code, "refused")
            if answer.code == "0":
                return dict(answer.data)
            if answer.code in DEAD_TOKEN_CODES and not is_token_new:
                is_token_new, tries = True, tries + 1
                if token == self._token:
                    self._renew_at = self._ends_at = -math.inf
                continue
            pause_s = retry_delay_s * 2 ** (tried - 1) * random.uniform(1, 1.5)  # noqa: S311
            if answer.code == RATE_LIMITED:
                metrics.CHAT_LIMITS.labels(name).inc()
                pause_s = max(pause_s, answer.wait_s or 0)
                if not waits_out_limit or tried >= tries or pause_s > WAIT_MAX_S:
                    raise replace(answer, wait_s=pause_s).build_chat_error(name)
            elif answer.code != UNREACHABLE or tried >= tries:
                raise answer.build_chat_error(name)
            await asyncio.sleep(pause_s)

    async def upload(self, kind: str, name: str, content: bytes, fields: Mapping[str, str], **how: Any) -> str:
        """Upload a file (`kind`: `image` or `file`) and return its key. `how`: see `call`, whose errors it raises."""
        form = FormData(fields)
        form.add_field(kind, io.BytesIO(content), filename=name)
        limit = ClientTimeout(total=FILE_S)
        return str((await self.call("POST", f"im/v1/{kind}s", data=form, timeout=limit, **how))[f"{kind}_key"])

    async def download(self, path: str, *, query: Mapping[str, str], max_bytes: int) -> bytes:
        """Download a file, never more than one chunk over the limit, whatever length the server states. Raises
        `FileRefusedError`, `ChatError`."""
        limit = ClientTimeout(total=FILE_S, sock_read=TIMEOUT_S)
        answer = await self.call("GET", path, query=query, tries=2, file_max=max_bytes, timeout=limit)
        return bytes(answer["file"])

    async def request_connection(self) -> dict[str, Any]:
        """Ask for the address of a long connection. The answer's `data` has `URL`, a secret, and `ClientConfig`. Raises
        `ChatError` with the number of a refusal, `ChatUnavailableError`."""
        credentials = {"AppID": self.app_id, "AppSecret": self.app_secret}
        answer = await self._ask("POST", ENDPOINT_PATH, json=credentials, headers={"locale": "zh"})
        if answer.code != "0":
            raise answer.build_chat_error("ws/endpoint")
        return dict(answer.data)

    async def _get_token(self) -> str:
        """Return a valid token. One task at a time fetches the next one, ahead of the end of the present one."""

        def finish_renewal(task: asyncio.Task[None]) -> None:
            self._renewal = None
            if not task.cancelled() and (failed := task.exception()):
                log.warning("feishu_no_token", error=str(failed))
                self._renew_at = min(self._ends_at, time.monotonic() + RENEW_PAUSE_S)

        now = time.monotonic()
        if now >= self._renew_at:
            if self._renewal is None:
                self._renewal = asyncio.create_task(self._renew_token())
                self._renewal.add_done_callback(finish_renewal)
            if now >= self._ends_at:
                await asyncio.shield(self._renewal)
        return self._token

    async def _renew_token(self) -> None:
        answer = await self._ask("POST", TOKEN_PATH, json={"app_id": self.app_id, "app_secret": self.app_secret})
        token, life_s = answer.data.get("tenant_access_token"), answer.data.get("expire")
        name = "tenant_access_token"
        if answer.code == RATE_LIMITED:
            raise replace(answer, wait_s=answer.wait_s or 1).build_chat_error(name)
        if answer.code not in ("0", UNREACHABLE):
            raise ChatAccountError(answer.code, name)
        if not (answer.code == "0" and isinstance(token, str) and token and isinstance(life_s, int)):
            raise replace(answer, code=UNREACHABLE).build_chat_error(name)
        now = time.monotonic()
        self._token, self._ends_at = token, now + life_s
        self._renew_at = now + max(life_s - RENEW_S, life_s / 2)

    async def _ask(self, method: str, path: str, *, file_max: int = 0, **request: Any) -> _Answer:
        """Ask once. `file_max` is the most bytes of a file, if that is asked for. `request`: see
        `ClientSession.request`."""
        try:
            async with self.session.request(method, self.base_url + path, allow_redirects=False, **request) as response:
                return await _read_answer(response, file_max)
        except (ClientError, TimeoutError, OSError):
            return _Answer(UNREACHABLE)


@asynccontextmanager
async def open_feishu_client(app_id: str, app_secret: str, base_url: str) -> AsyncIterator[FeishuClient]:
    """Open a client with one connection pool. `base_url` is without `/open-apis`."""
    is_local = is_local_host(urlsplit(base_url).hostname or "")
    async with ClientSession(timeout=ClientTimeout(total=TIMEOUT_S), trust_env=not is_local) as session:
        client = FeishuClient(session, base_url.rstrip("/"), app_id, app_secret)
        try:
            yield client
        finally:
            if client._renewal is not None:
                client._renewal.cancel()


async def identify_bot(client: FeishuClient) -> FeishuBot:
    """Identify the bot. Raises `SettingsError` for an app that Feishu refuses, `ChatUnavailableError` when Feishu
    cannot be reached."""
    try:
        bot = (await client.call("GET", "bot/v3/info")).get("bot") or {}
        tenant = (await client.call("GET", "tenant/v2/tenant/query")).get("tenant") or {}
    except ChatError as failed:
        if failed.code in NO_SCOPE_CODES:
            raise SettingsError(
                "Feishu does not tell this app its tenant. Add the permission tenant:tenant:readonly in the developer "
                "console → your app → Permissions & Scopes, and publish a new version."
            ) from failed
        if is_outage(failed):
            raise
        raise SettingsError(
            f"Feishu refuses FEISHU_APP_ID and FEISHU_APP_SECRET ({failed.code}). Copy both from the developer console "
            "→ your app → Credentials; add the capability Bot there, and publish a version."
        ) from failed
    if not (bot.get("open_id") and tenant.get("tenant_key")):
        raise ChatUnavailableError(UNREACHABLE, "bot/v3/info")
    return FeishuBot(open_id=bot["open_id"], name=str(bot.get("app_name") or ""), tenant=tenant["tenant_key"])


async def _read_answer(response: ClientResponse, file_max: int) -> _Answer:
    """Read an answer in JSON, or a file. A page of a gateway and a server error are as unclear as a dropped
    connection."""
    # Feishu names every file that it sends; a refusal is JSON without a name.
    is_file = file_max > 0 and response.status == 200 and "Content-Disposition" in response.headers
    text = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        text.extend(chunk)
        if len(text) > (file_max if is_file else ANSWER_MAX):
            if is_file:
                raise FileRefusedError("too_large")
            return _Answer(UNREACHABLE)
    if is_file:
        return _Answer("0", {"file": text})
    known = parse_object(text) or {}
    # Older methods, like `bot/v3/info`, put the data beside the code.
    data = known.get("data", {name: value for name, value in known.items() if name not in ("code", "msg")})
    log_id = response.headers.get("X-Tt-Logid") or str(find_value(known, "error", "log_id") or "")
    code = str(known["code"]) if type(known.get("code")) is int else UNREACHABLE
    if response.status == 429 or code in LIMIT_CODES:
        try:
            wait_s = max(0.0, float(response.headers.get("x-ogw-ratelimit-reset", "")))
        except ValueError:
            wait_s = None
        return _Answer(RATE_LIMITED, log_id=log_id[:100], wait_s=wait_s)
    if response.status >= 500 or code in UNCLEAR_CODES:
        code = UNREACHABLE
    if code != "0":
        log.info(
            "feishu_refused", code=code, status=response.status, log_id=log_id[:100], said=str(known.get("msg"))[:300]
        )
    return _Answer(code, data if isinstance(data, dict) else {}, log_id[:100])


def name_call(method: str, path: str) -> str:
    """Name a call for logs and metrics, without the ids in its path. Raises `ChatRefusedError` for a path that an id
    has changed into another."""
    if not _PATH.fullmatch(path):
        raise ChatRefusedError("invalid_path", f"{method} {path[:100]!a}")
    return f"{method} {_ID.sub('/:id', path)}"
