"""The loopback mailbox, driven by the SMTP client the bot uses."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import aiosmtplib
import pytest

from bot.core.errors import LocalStartError
from bot.dev.mailbox import KEPT, Fault, Mail, Mailbox


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Mailbox]:
    mailbox = Mailbox(tmp_path, clock=lambda: datetime(2026, 11, 20, 12, 0, tzinfo=UTC))
    yield mailbox
    await mailbox.close()


def letter(subject: str = "请假提醒", body: str = "您好，\n请看一下 L-0001 🙏\n") -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "countersign@example.com", "lisi@example.com", subject
    mail["Message-ID"] = "<effect-1@countersign>"
    mail.set_content(body)
    return mail


async def send(port: int, mail: EmailMessage) -> None:
    await aiosmtplib.send(mail, hostname="127.0.0.1", port=port, start_tls=False, use_tls=False, timeout=5)


async def test_a_mail_is_kept_decoded_and_announced_and_a_taken_port_is_refused(box: Mailbox) -> None:
    heard: list[Mail] = []
    box.on_change = heard.append
    port = await box.start()
    await send(port, letter())
    [mail] = box.mails
    assert [mail] == heard
    assert mail == {
        "id": 1, "at": "2026-11-20T12:00:00+00:00", "from": "countersign@example.com", "to": ["lisi@example.com"],
        "subject": "请假提醒", "body": "您好，\n请看一下 L-0001 🙏", "reply_to": "",
        "message_id": "<effect-1@countersign>",
    }  # fmt: skip
    with pytest.raises(LocalStartError, match=str(port)):
        await Mailbox().start(port)


async def test_mails_survive_a_restart_and_a_line_cut_short_and_the_newest_are_kept(
    box: Mailbox, tmp_path: Path
) -> None:
    port = await box.start()
    await send(port, letter("one"))
    await send(port, letter("two"))
    await box.close()
    with (tmp_path / "mails.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": 3, "subj')
    again = Mailbox(tmp_path)
    port = await again.start()
    await send(port, letter("three"))
    await again.close()
    assert [(mail["id"], mail["subject"]) for mail in Mailbox(tmp_path).mails] == [(1, "one"), (2, "two"), (3, "three")]
    for number in range(KEPT):
        again.store_mail("a@example.com", ["b@example.com"], f"Subject: {number}\n\nx".encode())
    assert [again.mails[0]["subject"], again.mails[-1]["subject"]] == ["0", str(KEPT - 1)]
    assert [mail["id"] for mail in Mailbox(tmp_path).mails] == [mail["id"] for mail in again.mails]


GONE = aiosmtplib.SMTPServerDisconnected
FAULTS: dict[Fault, tuple[type[Exception] | tuple[type[Exception], ...], int]] = {
    "refuse_rcpt": (aiosmtplib.SMTPRecipientsRefused, 0),
    "refuse_data": (aiosmtplib.SMTPDataError, 0),
    "drop_before_data": (GONE, 0),
    "drop_after_data": (GONE, 1),
    "down": ((aiosmtplib.SMTPConnectError, GONE), 0),
}
"""What the sender gets, and how many mails are kept."""


async def test_a_fault_happens_as_often_as_it_was_asked_for(box: Mailbox, subtests: pytest.Subtests) -> None:
    port = await box.start()
    with pytest.raises(ValueError, match="refuse_rcpt"):
        box.fail_next_mail("explode")  # type: ignore[arg-type]
    for fault, (error, kept) in FAULTS.items():
        with subtests.test(fault):
            before = len(box.mails)
            box.fail_next_mail(fault, times=2)
            for _ in range(2):
                with pytest.raises(error):
                    await send(port, letter())
            assert len(box.mails) == before + 2 * kept
            await send(port, letter())
            assert len(box.mails) == before + 2 * kept + 1


@pytest.mark.parametrize(
    ("content", "subject", "body"),
    [
        (b"Subject: =?utf-8?b?5L2g5aW9?=\n\nplain", "你好", "plain"),
        (b"Content-Type: text/plain; charset=nonsense\n\n\xe4\xbd\xa0", "", "你"),
        (b"Content-Type: text/plain; charset=utf-8\n\n\xff\xfe", "", "\ufffd\ufffd"),
        (b"", "", ""),
        (b"Content-Type: image/png\n\nxx", "", ""),
    ],
)
async def test_odd_mails_are_read_as_far_as_they_can_be(box: Mailbox, content: bytes, subject: str, body: str) -> None:
    box.store_mail("a@example.com", ["b@example.com"], content)
    assert (box.mails[0]["subject"], box.mails[0]["body"]) == (subject, body)
