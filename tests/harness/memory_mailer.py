"""A mailer in memory."""

from dataclasses import dataclass, field

from tools.spec import Person


@dataclass(frozen=True, slots=True)
class OutgoingMail:
    to: str
    """Person id."""
    subject: str
    body: str
    message_id: str
    reply_to: str = ""


@dataclass
class MemoryMailer:
    """A `Mailer` in memory: keeps mails in a list; raises `failing` instead if set."""

    mails: list[OutgoingMail] = field(default_factory=list)
    failing: Exception | None = None

    async def send_mail(self, to: Person, subject: str, body: str, message_id: str, reply_to: str = "") -> None:
        if self.failing is not None:
            raise self.failing
        self.mails.append(OutgoingMail(to.id, subject, body, message_id, reply_to))
