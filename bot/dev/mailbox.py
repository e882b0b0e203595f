"""A mailbox on loopback: an SMTP server that keeps the mails it receives and forwards nothing.

Mails survive a restart in `mails.jsonl` of the data directory; the newest 500 are kept."""

from __future__ import annotations

import asyncio
import email
import email.policy
import json
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Literal, get_args

from aiosmtpd.smtp import SMTP, Envelope, Session

from bot.core.errors import LocalStartError
from bot.core.private import make_private_folder, open_private

HOST = "127.0.0.1"
KEPT = 500
LARGEST = 10_000_000
"""Maximum size of one mail in bytes."""

Fault = Literal["refuse_rcpt", "refuse_data", "drop_before_data", "drop_after_data", "down"]
"""Faults of the next mail. The recipient or the text is refused for good, or nobody answers at all. The connection may
also break before the text, or after it was kept, which the sender cannot know."""
Mail = dict[str, Any]
"""A mail: `{"id", "at" (ISO 8601, UTC), "from", "to" (list), "subject", "body", "reply_to", "message_id"}`."""


class Mailbox:
    """An SMTP server on 127.0.0.1, on the running event loop."""

    def __init__(
        self, data_dir: Path | None = None, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Without `data_dir`, nothing outlives the process."""
        self._clock = clock
        self.on_change: Callable[[Mail], None] | None = None
        """Called with each mail once it is kept."""
        self._file = data_dir / "mails.jsonl" if data_dir else None
        self._mails: deque[Mail] = deque(read_mails(self._file), maxlen=KEPT)
        self._count = self._mails[-1]["id"] if self._mails else 0
        self._faults: list[Fault] = []
        self.connections: set[SmtpConnection] = set()
        self._server: asyncio.Server | None = None

    @property
    def mails(self) -> list[Mail]:
        """List the kept mails, oldest first."""
        return list(self._mails)

    def fail_next_mail(self, fault: Fault, times: int = 1) -> None:
        """Make the next attempts fail. Faults queue up and each is used once."""
        if fault not in get_args(Fault):
            raise ValueError(f"unknown fault {fault!r}; there are {', '.join(get_args(Fault))}")
        self._faults += [fault] * times

    async def start(self, port: int = 0) -> int:
        """Listen and return the port. Raises `LocalStartError` if the port is taken."""
        if self._file:
            make_private_folder(self._file.parent)
            self._write_mails(self._mails, "w")
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: SmtpConnection(self, loop), HOST, port)
        except OSError as error:
            raise LocalStartError(
                f"The mailbox cannot listen on {HOST}:{port} ({error.strerror}). It takes the port after LOCAL_PORT; "
                "set that to another number."
            ) from error
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and drop open connections. Kept mails stay."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self.connections):
            connection.hang_up()
        await self._server.wait_closed()
        self._server = None

    def consume_fault(self, fault: Fault) -> bool:
        """Use up `fault` if it is the next one due; return whether it was."""
        if self._faults[:1] != [fault]:
            return False
        self._faults.pop(0)
        return True

    async def handle_RCPT(
        self, server: SmtpConnection, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Answer to a recipient (a hook of aiosmtpd, as the next one)."""
        if self.consume_fault("refuse_rcpt"):
            return "550 5.1.1 No such mailbox (rehearsed)"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SmtpConnection, session: Session, envelope: Envelope) -> str:
        """Answer to a text."""
        if self.consume_fault("refuse_data"):
            return "554 5.7.1 Message refused (rehearsed)"
        self.store_mail(envelope.mail_from or "", list(envelope.rcpt_tos), envelope.original_content or b"")
        if self.consume_fault("drop_after_data"):
            server.hang_up()
        return "250 OK kept"

    def store_mail(self, sender: str, recipients: list[str], content: bytes) -> None:
        parsed = email.message_from_bytes(content, policy=email.policy.default)
        self._count += 1
        mail: Mail = {
            "id": self._count,
            "at": self._clock().isoformat(timespec="seconds"),
            "from": sender,
            "to": recipients,
            "subject": str(parsed.get("Subject", "")),
            "body": decode_mail_text(parsed),
            "reply_to": str(parsed.get("Reply-To", "")),
            "message_id": str(parsed.get("Message-ID", "")).strip(),
        }
        self._mails.append(mail)
        self._write_mails([mail], "a")
        if self.on_change:
            self.on_change(mail)

    def _write_mails(self, mails: deque[Mail] | list[Mail], mode: Literal["a", "w"]) -> None:
        if self._file:
            with open_private(self._file, mode, encoding="utf-8") as file:
                file.writelines(json.dumps(mail, ensure_ascii=False) + "\n" for mail in mails)


class SmtpConnection(SMTP):
    def __init__(self, mailbox: Mailbox, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(mailbox, loop=loop, hostname="localhost", enable_SMTPUTF8=True, data_size_limit=LARGEST)
        self._mailbox = mailbox

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._mailbox.connections.add(self)
        super().connection_made(transport)
        if self._mailbox.consume_fault("down"):
            self.hang_up()

    def connection_lost(self, error: Exception | None) -> None:
        self._mailbox.connections.discard(self)
        super().connection_lost(error)

    def hang_up(self) -> None:
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    async def smtp_DATA(self, arg: str) -> None:
        if self._mailbox.consume_fault("drop_before_data"):
            self.hang_up()
        else:
            await super().smtp_DATA(arg)


def decode_mail_text(mail: EmailMessage) -> str:
    """Return the plain text of a mail, decoded. Unknown charsets are read as UTF-8 with replacements."""
    part = mail.get_body(("plain", "html"))
    if part is None:
        return ""
    try:
        text = str(part.get_content())
    except LookupError:
        raw = part.get_payload(decode=True)
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else ""
    return text.replace("\r\n", "\n").rstrip("\n")


def read_mails(file: Path | None) -> list[Mail]:
    """Read the mails of a file. A line cut short by a crash is skipped."""
    found: list[Mail] = []
    if file and file.exists():
        for line in file.read_text(encoding="utf-8").split("\n")[-KEPT - 1 :]:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found
