"""Sends email over SMTP and reports whether it went out.

`Mailer.send_mail` either sends, or is sure that nothing was sent (`ToolError` `mail_refused`, `mail_down`), or says
that nobody can know (`EffectUnknownError`): the connection broke after the text had begun to go out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime, formataddr
from typing import Any
from urllib.parse import unquote, urlsplit

import aiosmtplib

from tools.local_host import is_local_host
from tools.spec import EffectUnknownError, Person, ToolError

TIMEOUT_S = 20.0


class SmtpMailer:
    """SMTP by `smtp://[user:password@]host[:port]` (STARTTLS where offered) or `smtps://…`.

    A password only ever travels encrypted: with one, and a host other than this machine, STARTTLS is required. Raises
    `ValueError` for an invalid URL, without repeating it: it may contain a password.

    `assert_may_send` is asked after the server has taken the recipient, right before the text goes out; what it raises
    is raised, and nothing was sent."""

    def __init__(
        self,
        url: str,
        sender: str,
        *,
        clock: Callable[[], datetime] | None = None,
        timeout_s: float = TIMEOUT_S,
        assert_may_send: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._assert_may_send = assert_may_send
        parts = urlsplit(url)
        if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
            raise ValueError("the SMTP URL should look like smtp://host:port or smtps://user:password@host")
        tls = parts.scheme == "smtps"
        requires_tls = bool(parts.username) and not tls and not is_local_host(parts.hostname)
        self._options: dict[str, Any] = {
            "hostname": parts.hostname,
            "port": parts.port,
            "username": unquote(parts.username) if parts.username else None,
            "password": unquote(parts.password) if parts.password else None,
            "use_tls": tls,
            "start_tls": None if not (tls or requires_tls) else requires_tls,
            "timeout": timeout_s,
        }
        self._sender = sender
        self._clock = clock or (lambda: datetime.now(UTC))

    async def send_mail(self, to: Person, subject: str, body: str, message_id: str, reply_to: str = "") -> None:
        text = self._encode_message(to, subject, body, message_id, reply_to)
        smtp = aiosmtplib.SMTP(**self._options)
        try:
            with _raise_as_not_sent():
                await smtp.connect()
                await smtp.mail(_extract_address(self._sender))
                await smtp.rcpt(to.email)
            if self._assert_may_send is not None:
                await self._assert_may_send()
            await self._send_data(smtp, text)
        finally:
            smtp.close()

    async def probe_server(self) -> None:
        """Connects, greets and logs in; sends nothing. Raises `ToolError` as `send_mail` does."""
        smtp = aiosmtplib.SMTP(**self._options)
        try:
            with _raise_as_not_sent():
                await smtp.connect()
        finally:
            smtp.close()

    def _encode_message(self, to: Person, subject: str, body: str, message_id: str, reply_to: str) -> bytes:
        """Raises `ToolError` for a name or an address that no header can carry, e.g. one that is not ASCII."""
        try:
            return self._build_message(to, subject, body, message_id, reply_to).as_bytes(policy=SMTP_POLICY)
        except ValueError as wrong:
            message = f"the directory's name or address of {to.id} cannot be written ({type(wrong).__name__})"
            raise ToolError("no_address", message, name=to.name) from None

    def _build_message(self, to: Person, subject: str, body: str, message_id: str, reply_to: str) -> EmailMessage:
        message = EmailMessage(policy=SMTP_POLICY)
        message["From"], message["To"] = self._sender, formataddr((to.name.replace("=?", "= ?"), to.email))
        if reply_to:
            message["Reply-To"] = reply_to
        message["Subject"], message["Message-ID"] = subject, message_id
        message["Date"], message["Auto-Submitted"] = format_datetime(self._clock()), "auto-generated"
        message.set_content(body, cte="base64" if not body.isascii() else None)
        return message

    async def _send_data(self, smtp: aiosmtplib.SMTP, text: bytes) -> None:
        try:
            await smtp.data(text)
        except aiosmtplib.SMTPResponseException as refused:
            raise _build_mail_refused_error(refused) from None
        except (aiosmtplib.SMTPException, OSError) as broken:
            raise EffectUnknownError(
                f"the mail server went away while taking the mail: {type(broken).__name__}"
            ) from None


@contextmanager
def _raise_as_not_sent() -> Iterator[None]:
    """Wraps everything before the text: if it fails, nothing was sent."""
    try:
        yield
    except aiosmtplib.SMTPResponseException as refused:
        raise _build_mail_refused_error(refused) from None
    except (aiosmtplib.SMTPException, OSError, ValueError) as broken:
        kind = type(broken).__name__
        raise ToolError("mail_down", f"the mail server cannot be reached ({kind}); nothing was sent") from None


def _build_mail_refused_error(error: aiosmtplib.SMTPResponseException) -> ToolError:
    return ToolError(
        "mail_refused", f"the mail server refused the mail ({error.code}); nothing was sent", reply=error.code
    )


def _extract_address(sender: str) -> str:
    """The bare address of `Name <address>`."""
    return sender.rpartition("<")[2].rstrip(">").strip()
