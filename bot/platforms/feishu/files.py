"""Looks up messages on Feishu: their files, the bytes of these, and what they forward.

The id of a file names its message, its type and its key. The uploader is the sender of that message, as Feishu says."""

from __future__ import annotations

from typing import Any

from bot.chat.messages import ChatDirectory, FetchedFile, Message, Place, SentFile
from bot.core import logs
from bot.core.errors import ChatError, ChatRefusedError, FileRefusedError
from bot.platforms.feishu.client import NO_SCOPE_CODES, TOO_LARGE_CODES, FeishuClient
from bot.platforms.feishu.message_content import read_content
from bot.platforms.shared import (
    MAX_QUOTES,
    cut_quote,
    find_value,
    get_known_language,
    join_quotes,
    list_mappings,
    quote_forwarded,
)
from tools.platform_ids import FILE_ID

log = logs.get_logger(__name__)


class FeishuFileSource:
    """Implements `bot.chat.messages.FileSource`. Needs `im:message:readonly` and `im:resource`."""

    def __init__(self, client: FeishuClient) -> None:
        self._client = client

    async def list_message_files(self, place: Place, at: str) -> tuple[SentFile, ...]:
        message = await find_message(self._client, at)
        return read_content(message, "", "en").files if message and message["chat_id"] == place.channel else ()

    async def fetch_file(self, file: SentFile, max_bytes: int, only_from: str = "") -> FetchedFile:
        """Look up the file's message for its sender, then fetch the file."""
        if "/" not in file.id or not FILE_ID.fullmatch(file.id):
            raise FileRefusedError("gone")
        message_id, type, key = file.id.split("/")
        path = f"im/v1/messages/{message_id}/resources/{key}"
        try:
            message = await find_message(self._client, message_id)
            if message is None or message["deleted"]:
                raise FileRefusedError("gone")
            if only_from and message["sender"] != only_from:
                raise FileRefusedError("not_yours")
            if file.id not in [one.id for one in read_content(message, "", "en").files]:
                raise FileRefusedError("gone")
            content = await self._client.download(path, query={"type": type}, max_bytes=max_bytes)
        except ChatRefusedError as failed:
            if failed.code in NO_SCOPE_CODES:
                log.error("a file cannot be read: the app needs im:message:readonly and im:resource", code=failed.code)
                raise FileRefusedError("no_scope") from failed
            raise FileRefusedError("too_large" if failed.code in TOO_LARGE_CODES else "gone") from failed
        return FetchedFile(content, message["sender"])


async def read_bundle(client: FeishuClient, directory: ChatDirectory, message: Message) -> str:
    """Read the messages of a forwarded bundle as text, each under a line that names its writer, if Feishu tells
    them."""
    language = get_known_language(directory, message.person)
    try:
        found = await list_messages(client, message.at)
    except ChatError as failed:
        log.info("a bundle is not read", reason=str(failed))
        return ""
    bundled = [one for one in found if one.get("upper_message_id") == message.at]
    quotes = list[str]()
    for one in bundled[:MAX_QUOTES]:
        writer, text = directory.find_known_person(one["sender"]), read_content(one, "", language).text
        quotes.append(quote_forwarded(writer.name if writer else "?", cut_quote(text), language))
    return join_quotes(quotes, len(bundled) - MAX_QUOTES, language)


async def find_message(client: FeishuClient, id: str) -> dict[str, Any] | None:
    """Look a message up. Raises `ChatError`."""
    return next((one for one in await list_messages(client, id) if one.get("message_id") == id), None)


async def list_messages(client: FeishuClient, id: str) -> list[dict[str, Any]]:
    """Look up a message, and those that it forwards. Each has the form of an event's message, with the id of the person
    who sent it as `sender` (empty for others), and `deleted`. Raises `ChatError`."""
    answer = await client.call("GET", f"im/v1/messages/{id}", query={"user_id_type": "open_id"})
    messages = list[dict[str, Any]]()
    for found in list_mappings(answer.get("items")):
        kind, id_type, sender = (find_value(found, "sender", name) for name in ("sender_type", "id_type", "id"))
        shape = {
            "message_type": found.get("msg_type"),
            "content": find_value(found, "body", "content"),
            "chat_id": str(found.get("chat_id")),
            "sender": str(sender or "") if (kind, id_type) == ("user", "open_id") else "",
            "deleted": found.get("deleted") is True,
        }
        messages.append({**found, **shape})
    return messages
