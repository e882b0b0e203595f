"""Files on Feishu: those of a message, and their bytes.

The id of a file names its message, its type and its key. The uploader is the sender of that message, as Feishu says."""

from __future__ import annotations

from typing import Any

from bot.chat.feishu.client import NO_SCOPE_CODES, FeishuClient
from bot.chat.feishu.message_content import list_mappings, read_content
from bot.chat.messages import FetchedFile, Place, SentFile
from bot.core import logs
from bot.core.errors import ChatError, ChatUnavailableError, FileRefusedError
from tools.platform_ids import FILE_ID

log = logs.get_logger(__name__)


class FeishuFileSource:
    """Implements `bot.chat.messages.FileSource`. Needs `im:message:readonly` and `im:resource`."""

    def __init__(self, client: FeishuClient) -> None:
        self._client = client

    async def list_message_files(self, place: Place, at: str) -> tuple[SentFile, ...]:
        """Look up the message for its files."""
        message = await find_message(self._client, at)
        return read_content(message, "", "en").files if message and message["chat_id"] == place.channel else ()

    async def fetch_file(self, file: SentFile, max_bytes: int, only_from: str = "") -> FetchedFile:
        """Look up the file's message for its sender, then fetch the file."""
        if "/" not in file.id or not FILE_ID.fullmatch(file.id):
            raise FileRefusedError("gone")
        message_id, type, key = file.id.split("/")
        try:
            message = await find_message(self._client, message_id)
        except ChatUnavailableError:
            raise
        except ChatError as failed:
            is_scope = failed.code in NO_SCOPE_CODES
            if is_scope:
                log.error("a file cannot be looked up: the app needs the scope im:message:readonly", code=failed.code)
            raise FileRefusedError("no_scope" if is_scope else "gone") from failed
        if message is None or message["deleted"]:
            raise FileRefusedError("gone")
        uploader = message["sender"]
        if only_from and uploader != only_from:
            raise FileRefusedError("not_yours")
        if file.id not in [one.id for one in read_content(message, "", "en").files]:
            raise FileRefusedError("gone")
        path = f"im/v1/messages/{message_id}/resources/{key}"
        return FetchedFile(await self._client.download(path, query={"type": type}, max_bytes=max_bytes), uploader)


async def find_message(client: FeishuClient, id: str) -> dict[str, Any] | None:
    """Look a message up. The result has the form of an event's message, with the id of the person who sent it as
    `sender` (empty for others), and `deleted`. Raises `ChatError`."""
    answer = await client.call("GET", f"im/v1/messages/{id}", query={"user_id_type": "open_id"})
    found = next((one for one in list_mappings(answer.get("items")) if one.get("message_id") == id), None)
    if found is None:
        return None
    sender, body = found.get("sender"), found.get("body")
    is_person = isinstance(sender, dict) and (sender.get("sender_type"), sender.get("id_type")) == ("user", "open_id")
    return {
        **found,
        "message_type": found.get("msg_type"),
        "content": body.get("content") if isinstance(body, dict) else None,
        "chat_id": str(found.get("chat_id")),
        "sender": str(sender["id"]) if is_person and isinstance(sender, dict) and sender.get("id") else "",
        "deleted": found.get("deleted") is True,
    }
