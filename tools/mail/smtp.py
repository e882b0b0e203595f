"""Sends email over SMTP and reports whether it was sent.

`Mailer.send_mail` has three results. The email was sent. Or nothing was sent, and `ToolError` is raised, a
temporary one if the server refused for now. Or the result is unknown, because the connection broke after the text had
begun to go out, or the answer to the text was neither *taken* nor a refusal (`EffectUnknownError`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.policy import SMTPUTF8 as SMTPUTF8_POLICY
from email.utils import format_datetime, parseaddr
from typing import Any
from urllib.parse import unquote, urlsplit

import aiosmtplib
import idna

from tools.local_host import is_local_host
from tools.people.names import choose_name, list_names_by_language
from tools.spec import EffectUnknownError, Person, ToolError

TIMEOUT_S = 20.0


class SmtpMailer:
    """An SMTP client for `smtp://[user:password@]host[:port]` (STARTTLS where offered) or `smtps://…`.

    A password is always sent encrypted: with a password and a remote host, STARTTLS is required. Raises `ValueError`
    for an invalid sender or URL, without repeating the URL, because it may contain a password.

    `assert_may_send` is called after the server has accepted the recipient, right before the text is sent. Its errors
    pass through, and nothing has been sent then."""

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
        try:
            self._sender = _build_address(*parseaddr(sender))
        except (ValueError, MessageError):
            raise ValueError("MAIL_FROM should be an e-mail address") from None
        self._clock = clock or (lambda: datetime.now(UTC))

    async def send_mail(self, to: Person, subject: str, body: str, message_id: str, reply_to: str = "") -> None:
        try:
            sender, recipient = self._sender, _build_address(choose_name(to, to.language), to.email)
            message = EmailMessage(policy=SMTP_POLICY if recipient.username.isascii() else SMTPUTF8_POLICY)
            message["From"], message["To"] = sender, recipient
            if reply_to:
                message["Reply-To"] = reply_to
            message["Subject"], message["Message-ID"] = subject, message_id
            message["Date"], message["Auto-Submitted"] = format_datetime(self._clock()), "auto-generated"
            message.set_content(body, cte="base64" if not body.isascii() else None)
            text = message.as_bytes()
        except (ValueError, MessageError) as wrong:
            error = f"the directory's name or address of {to.id} cannot be written ({type(wrong).__name__})"
            raise ToolError("no_address", error, name=list_names_by_language(to)) from None
        smtp = aiosmtplib.SMTP(**self._options)
        try:
            with _raise_as_not_sent():
                await smtp.connect()
                if recipient.username.isascii():
                    await smtp.mail(sender.addr_spec)
                    await smtp.rcpt(recipient.addr_spec)
                else:
                    await self._begin_international_mail(smtp, sender.addr_spec, recipient.addr_spec, to)
            if self._assert_may_send is not None:
                await self._assert_may_send()
            try:
                await smtp.data(text)
            except (aiosmtplib.SMTPException, OSError) as broken:
                if isinstance(broken, aiosmtplib.SMTPResponseException) and 400 <= broken.code < 600:
                    raise _build_mail_refused_error(broken) from None
                kind = type(broken).__name__
                raise EffectUnknownError(f"the mail server may have taken the mail: {kind}") from None
        finally:
            smtp.close()

    async def _begin_international_mail(self, smtp: aiosmtplib.SMTP, sender: str, recipient: str, to: Person) -> None:
        """Start an email to an international address (RFC 6531). Raises `ToolError` if the server does not offer
        that."""
        await smtp.ehlo()
        if not smtp.supports_extension("smtputf8"):
            message = f"the mail server takes no address in another script, as that of {to.id}"
            raise ToolError("foreign_address", message, name=list_names_by_language(to), address=to.email)
        await smtp.mail(sender, options=["SMTPUTF8", "BODY=8BITMIME"])
        await smtp.rcpt(recipient, encoding="utf-8")

    async def probe_server(self) -> None:
        """Connect, greet and log in, without sending anything. Raises the errors of `send_mail`."""
        smtp = aiosmtplib.SMTP(**self._options)
        try:
            with _raise_as_not_sent():
                await smtp.connect()
        finally:
            smtp.close()


@contextmanager
def _raise_as_not_sent() -> Iterator[None]:
    """Wrap all steps before the text is sent: if one of them fails, nothing was sent."""
    try:
        yield
    except aiosmtplib.SMTPResponseException as refused:
        raise _build_mail_refused_error(refused) from None
    except (aiosmtplib.SMTPException, OSError, ValueError) as broken:
        kind = type(broken).__name__
        raise ToolError("mail_down", f"the mail server cannot be reached ({kind}); nothing was sent") from None


def _build_mail_refused_error(error: aiosmtplib.SMTPResponseException) -> ToolError:
    """Build the error for a refusal by the server. Codes 4xx are temporary, e.g. for a sender whom the server does not
    know yet."""
    if 400 <= error.code < 500:
        message = f"the mail server does not take the mail for now ({error.code}); nothing was sent"
        return ToolError("mail_later", message, is_temporary=True, reply=error.code)
    return ToolError(
        "mail_refused", f"the mail server refused the mail ({error.code}); nothing was sent", reply=error.code
    )


def encode_domain(address: str) -> str:
    """The address with its domain in ASCII form (IDNA 2008). Raises `ValueError` if there is none."""
    local, _, domain = address.rpartition("@")
    return f"{local}@{domain if domain.isascii() else idna.encode(domain, uts46=True).decode()}"


def _build_address(name: str, address: str) -> Address:
    """An address for a header and an envelope. Raises `ValueError` or `MessageError` if the text is no address."""
    local, _, domain = encode_domain(address).rpartition("@")
    if not (local and domain):
        raise ValueError("no address")
    name = name.replace("=?", "= ?")
    if local.isascii():
        return Address(name, addr_spec=f"{local}@{domain}")
    return Address(name, username=local, domain=domain)
