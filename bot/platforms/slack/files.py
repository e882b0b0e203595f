"""Files on Slack: those of a payload, those of a message, and their bytes.

The bot's token goes to nobody but Slack: over https to Slack's own hosts, or to the very server that is set as the
API's address. A redirect is followed only as far as that holds. Slack may answer with a sign-in page (status 200) in
place of a file, and such a page is not taken for one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from aiohttp import ClientError, ClientResponse, ClientTimeout
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import FetchedFile, Place, SentFile
from bot.core import logs
from bot.core.errors import ChatRefusedError, ChatUnavailableError, FileRefusedError
from bot.platforms.shared import list_mappings
from bot.platforms.slack.payload_shape import is_short_text
from bot.platforms.slack.web_api import UNREACHABLE, Method, call_slack

log = logs.get_logger(__name__)

MAX_LISTED = 500
"""Most files of one payload. Slack's clients send 10 with a message."""
HOSTS = ("slack.com", "slack-gov.com")
"""Slack's own hosts. Hosts under them count too."""
REDIRECTS = 3
FETCH_S = 120.0
"""Time limit for one file (s)."""
CHUNK = 64 * 1024
GONE = frozenset({"tombstone", "hidden_by_limit"})
"""Modes of a file that Slack no longer shows."""
SCOPE_ERRORS = frozenset({"missing_scope", "no_permission", "not_allowed_token_type"})


def parse_sent_files(value: object) -> tuple[SentFile, ...]:
    """Parse the files that a payload lists. A file without an id is kept by its name, so that it can be named."""
    files = list[SentFile]()
    for row in value[:MAX_LISTED] if isinstance(value, list) else []:
        if isinstance(row, Mapping):
            id, name, size = row.get("id"), row.get("name") or row.get("title"), row.get("size")
            file = SentFile(
                id=id if is_short_text(id) else "",
                name=name[:255] if isinstance(name, str) else "",
                size=size if isinstance(size, int) and size >= 0 else 0,
            )
            files.append(file)
    return tuple(files)


class SlackFileSource:
    """Implements `bot.chat.messages.FileSource`. Needs `files:read`."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client, self._token = client, client.token or ""
        self._api = urlsplit(client.base_url)

    async def list_message_files(self, place: Place, at: str) -> tuple[SentFile, ...]:
        """Look up the message for its files, because `app_mention` carries none."""
        where: dict[str, Any] = {"channel": place.channel, "latest": at, "oldest": at, "inclusive": True, "limit": 1}
        method: Method = self._client.conversations_history
        if place.thread and place.thread != at:
            method, where["ts"] = self._client.conversations_replies, place.thread
            where["limit"] = 2  # the first message of a thread may come with it
        answer = await call_slack(method, where)
        rows = list_mappings(answer.get("messages"))
        return next((parse_sent_files(one.get("files")) for one in rows if one.get("ts") == at), ())

    async def fetch_file(self, file: SentFile, max_bytes: int, only_from: str = "") -> FetchedFile:
        """Look up a file, then fetch it. An event may name a file that Slack shows only on request (Slack Connect)."""
        if not file.id:
            raise FileRefusedError("gone")
        try:
            answer = await call_slack(self._client.files_info, {"file": file.id})
        except ChatRefusedError as failed:
            if failed.code in SCOPE_ERRORS:
                log.error("a file cannot be looked up: the app needs the scope files:read", code=failed.code)
            raise FileRefusedError("no_scope" if failed.code in SCOPE_ERRORS else "gone") from failed
        found = answer.get("file")
        about = found if isinstance(found, Mapping) else {}
        uploader = about.get("user")
        if only_from and uploader != only_from:
            raise FileRefusedError("not_yours")
        if about.get("is_external") or about.get("mode") == "external":
            raise FileRefusedError("external")
        if about.get("mode") in GONE or about.get("file_access") == "access_denied":
            raise FileRefusedError("gone")
        size = about.get("size")
        if isinstance(size, int) and size > max_bytes:
            raise FileRefusedError("too_large")
        url = about.get("url_private_download") or about.get("url_private")
        if not isinstance(url, str) or len(url) > 4_000:
            raise FileRefusedError("gone")
        try:
            async with asyncio.timeout(FETCH_S):
                content = await self._download(url, max_bytes)
        except (ClientError, TimeoutError, OSError) as failed:
            raise ChatUnavailableError(UNREACHABLE, "download") from failed
        is_page = content[:512].lstrip().lower().startswith((b"<!doctype html", b"<html"))
        if is_page and not str(about.get("mimetype", "")).startswith("text/"):
            log.error("Slack shows a page to sign in on in place of a file: the app needs the scope files:read")
            raise FileRefusedError("no_scope")
        return FetchedFile(content, uploader if is_short_text(uploader) else "")

    async def _download(self, url: str, max_bytes: int) -> bytes:
        for _ in range(REDIRECTS + 1):
            if not self._may_have_token(url):
                log.warning("a file is not fetched: it lies outside of Slack")
                raise FileRefusedError("elsewhere")
            headers = {"Authorization": f"Bearer {self._token}", "Accept-Encoding": "identity"}
            wait = ClientTimeout(total=FETCH_S, sock_read=30)
            if self._client.session is None:
                raise TypeError("the client has no connection pool")
            async with self._client.session.get(
                url, headers=headers, allow_redirects=False, proxy=self._client.proxy, timeout=wait
            ) as answer:
                if answer.status in (301, 302, 303, 307, 308):
                    try:
                        url = urljoin(url, answer.headers.get("Location", "")[:4_000])
                    except ValueError:
                        url = ""
                    continue
                return await _read_answer(answer, max_bytes)
        raise FileRefusedError("elsewhere")

    def _may_have_token(self, url: str) -> bool:
        """Return whether the address is one of Slack's hosts over https, or the server of the API itself."""
        try:
            at = urlsplit(url)
            port, api_port = at.port, self._api.port
        except ValueError:
            return False
        if at.username is not None or at.password is not None or not at.hostname:
            return False
        if (at.scheme, at.hostname, port) == (self._api.scheme, self._api.hostname, api_port):
            return at.scheme == "https" or at.hostname in ("127.0.0.1", "::1", "localhost")
        is_slack = any(at.hostname == host or at.hostname.endswith(f".{host}") for host in HOSTS)
        return at.scheme == "https" and port in (None, 443) and is_slack


async def _read_answer(answer: ClientResponse, max_bytes: int) -> bytes:
    """Read an answer, never more than one chunk over the limit, whatever length the server states."""
    if answer.status == 429 or answer.status >= 500:
        raise ChatUnavailableError(UNREACHABLE, f"download ({answer.status})")
    if answer.status != 200:
        raise FileRefusedError("no_scope" if answer.status in (401, 403) else "gone")
    content = bytearray()
    async for chunk in answer.content.iter_chunked(CHUNK):
        content += chunk
        if len(content) > max_bytes:
            raise FileRefusedError("too_large")
    return bytes(content)
