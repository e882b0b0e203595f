"""Calls Feishu's API. Tokens, time limits, rate limits, dropped connections and refusals are handled here."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, FormData

from bot.core import logs, metrics
from bot.core.errors import (
    ChatAccountError,
    ChatBusyError,
    ChatError,
    ChatUnavailableError,
    FileRefusedError,
    PlaceClosedError,
    SettingsError,
)
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
UNREACHABLE = "unreachable"
"""Our code for a call without an answer, which may or may not have taken effect."""
LIMITED = frozenset({"99991400", "230020", "11232", "11233", "11247", "1000004"})
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
    {"10003", "10005", "10013", "10014", "10015", "11205", "230006", "99991401", "99991543", "99991662", "99991673"}
)
"""The app or its credentials are not valid (any more): unknown, switched off, without a bot, not from this address."""
DEAD_TOKEN = frozenset({"99991661", "99991663", "99991664", "99991668"})
UNCLEAR_CODES = frozenset({"1", "1500", "2200", "55001", "230049", "99991001", "99991002", "99991003"})
"""Feishu's own failures, and a message that is just being sent."""
NO_SCOPE_CODES = frozenset({"99991672", "99991679", "230027", "234002", "234019"})
TOO_LARGE_CODES = frozenset({"234006", "234037"})
NO_BOT = "11205"
_ID = re.compile(r"/(?:[a-z]{1,4}_|[A-Z0-9])[\w-]{5,}+")


@dataclass(frozen=True, slots=True)
class FeishuBot:
    """The bot's identity in this tenant."""

    open_id: str
    name: str
    tenant: str


@dataclass(slots=True)
class FeishuClient:
    """Feishu's API, by one connection pool."""

    session: ClientSession
    base_url: str
    app_id: str
    app_secret: str = field(repr=False)
    _token: str = field(default="", repr=False)
    _renew_at: float = 0.0
    _ends_at: float = 0.0
    _renewal: asyncio.Task[None] | None = None

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
    ) -> dict[str, Any]:
        """Call a path below `/open-apis/` and return the answer's `data`. A call has to be repeatable: a message by its
        `uuid`. The call waits out a rate limit; without `waits_out_limit`, it raises `ChatBusyError` at once.
        `before_each_try` runs right before each try, and an exception there ends the call. Raises `ChatError` with
        Feishu's number, and `ChatUnavailableError` when Feishu cannot be reached or takes no more."""
        raise NotImplementedError

    async def upload(
        self, path: str, fields: Mapping[str, str], *, file_field: str, name: str, content: bytes
    ) -> dict[str, Any]:
        """Upload a file and return the answer's `data`. Raises what `call` raises."""
        raise NotImplementedError

    async def download(self, path: str, *, query: Mapping[str, str], max_bytes: int) -> bytes:
        """Download a file. Raises `FileRefusedError` (`too_large`, `gone`, `no_scope`), `ChatUnavailableError`."""
        raise NotImplementedError

    async def request_connection(self) -> dict[str, Any]:
        """Ask for the address of a long connection. The answer's `data` has `URL`, a secret, and `ClientConfig`. Raises
        `ChatError` with the number of a refusal, `ChatUnavailableError`."""
        raise NotImplementedError


@asynccontextmanager
async def open_feishu_client(app_id: str, app_secret: str, base_url: str) -> AsyncIterator[FeishuClient]:
    """Open a client with one connection pool. `base_url` is without `/open-apis`."""
    is_local = is_local_host(urlsplit(base_url).hostname or "")
    async with ClientSession(timeout=ClientTimeout(total=TIMEOUT_S), trust_env=not is_local) as session:
        yield FeishuClient(session, base_url.rstrip("/"), app_id, app_secret)


async def identify_bot(client: FeishuClient) -> FeishuBot:
    """Identify the bot. Raises `SettingsError` for credentials that Feishu refuses, `ChatUnavailableError` when Feishu
    cannot be reached."""
    raise NotImplementedError
