from __future__ import annotations

import asyncio
import base64
import email
import email.policy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from bot.core.i18n import render_value
from tests.tools.office import LI, PEOPLE, SICK, WANG, ZHANG, ZHAO, Office, office, refused, title
from tools.effect_parts import EffectParts, PartState
from tools.mail.send_email import MAX_BODY, MAX_RECIPIENTS, MAX_SUBJECT, SendEmailArgs, build_message_id, run_send_email
from tools.mail.smtp import SmtpMailer
from tools.spec import EffectUnknownError, Identities, Person, Proposal, ReceiptLine, TextRef, ToolError, ToolOutcome

FIRST = "本邮件由 Countersign 代张三（zhangsan@example.com）发送，直接回复即可回给本人。"
MAIL = {"to": "李四", "subject": "请假申请 L-0012", "body": "李四你好，\n请看一下。"}


async def test_preview_then_send() -> None:
    there = office()
    plan = await there.plan(ZHANG, "send_email", **MAIL)
    assert plan.args == {
        "to": LI.id,
        "subject": MAIL["subject"],
        "body": MAIL["body"],
        "first_line": FIRST,
        "reply_to": "张三 <zhangsan@example.com>",
    }
    assert plan.body == f"{FIRST}\n\n{MAIL['body']}"
    assert ("reply_to", "张三 <zhangsan@example.com>") in [(fact.label, fact.value) for fact in plan.fields]
    assert [c.name for c in plan.choices] == ["send", "edit", "cancel"]
    [to] = [fact.value for fact in plan.fields if fact.label == "to"]
    assert isinstance(to, Identities)
    assert [(one.id, one.name, one.email) for one in to.people] == [(LI.id, "李四", "lisi@example.com")]
    assert there.mailer.mails == []
    outcome = await there.press(ZHANG, "send_email", plan, "send", key="effect 1")
    (mail,) = there.mailer.mails
    assert (mail.to, mail.subject, mail.body) == (LI.id, MAIL["subject"], plan.body)
    assert mail.reply_to == "张三 <zhangsan@example.com>"
    assert outcome.data == {"mailed": "李四", "subject": MAIL["subject"], "message_id": build_message_id("effect 1")}


async def test_an_edited_mail_is_checked_and_shown_again() -> None:
    there = office()
    plan = await there.plan(ZHANG, "send_email", **MAIL)
    edit = next(c for c in plan.choices if c.name == "edit")
    assert (edit.executes, edit.edits) == (False, True)
    again = await there.plan(ZHANG, "send_email", **{**plan.args, "body": "改过的"})
    assert again.body == f"{FIRST}\n\n改过的"
    assert await there.plan(ZHANG, "send_email", **again.args) == again
    assert (await refused(there.plan(ZHANG, "send_email", **{**plan.args, "body": "[Your name]"}))).code


async def test_to_the_assignee_of_a_task() -> None:
    there = office()
    await there.start(SICK)
    rest = {"subject": "提醒", "body": "麻烦看一下"}
    assert (await there.plan(ZHANG, "send_email", task_id="L-0001-1", **rest)).args["to"] == LI.id
    assert (await refused(there.plan(WANG, "send_email", task_id="L-0001-1", **rest))).code == "no_task"
    assert (await refused(there.plan(ZHANG, "send_email", task_id="L-0001-9", **rest))).code == "no_task"
    assert (await there.plan(LI, "send_email", task_id="L-0001-1", **rest)).args["to"] == LI.id, "who is asked knows"
    for known in ([ZHANG, LI.model_copy(update={"active": False})], [ZHANG]):
        there.people.known = known
        assert (await refused(there.plan(ZHANG, "send_email", task_id="L-0001-1", **rest))).code == "no_task"
    there.people.known = list(PEOPLE)
    await there.decide(LI, "L-0001-1", "approve")
    assert (await refused(there.plan(ZHANG, "send_email", task_id="L-0001-1", **rest))).code == "task_closed"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"to": ""}, "no_recipient"),
        ({"to": "nobody"}, "unknown_person"),
        ({"to": "someone@elsewhere.example"}, "unknown_person"),
        ({"to": "Li"}, "ambiguous_person"),
        ({"to": ZHAO.id}, "no_address"),
        ({"body": "请用户提供邮件内容"}, "template_mail"),
        ({"body": ""}, "empty_mail"),
        ({"subject": "a\nBcc: b@example.com"}, "bad_subject"),
        ({"subject": "=?utf-8?q?=E2=80=8B?= hello"}, "bad_subject"),
    ],
)
async def test_no_card_for_what_cannot_be_sent(change: dict[str, str], code: str) -> None:
    there = office()
    error = await refused(there.plan(ZHANG, "send_email", **{**MAIL, **change}))
    assert error.code == code
    assert there.mailer.mails == []


async def test_the_first_line_is_in_the_language_of_who_reads_it() -> None:
    there = office()
    plan = await there.plan(ZHANG, "send_email", to=WANG.id, subject="Hello", body="Please look.")
    language = {"zh": "本邮件由", "en": "Countersign sends this on behalf of Zhang San (zhangsan@example.com)"}
    assert plan.body.startswith(language[WANG.language])
    assert (await there.plan(ZHANG, "send_email", to=ZHANG.id, subject="a", body="Please look.")).body.startswith(FIRST)


async def test_who_has_no_address_is_named_without_one() -> None:
    there = office()
    plan = await there.plan(ZHAO, "send_email", **MAIL)
    assert plan.args["reply_to"] == "" and "reply_to" not in [fact.label for fact in plan.fields]
    assert plan.body.startswith(f"本邮件由 Countersign 代{ZHAO.name}发送，请勿直接回复。\n\n")


async def test_a_model_says_neither_who_sends_nor_where_answers_go() -> None:
    there = office()
    plan = await there.plan(ZHANG, "send_email", **MAIL, first_line="From the director", reply_to="Li <x@evil.example>")
    assert plan.args["first_line"] == FIRST and plan.args["reply_to"] == "张三 <zhangsan@example.com>"


async def test_a_card_from_before_is_sent_as_it_was_shown() -> None:
    there = office()
    plan = await there.plan(ZHANG, "send_email", **MAIL)
    old = plan.model_copy(update={"args": {"to": LI.id, "subject": MAIL["subject"], "body": MAIL["body"]}})
    await there.press(ZHANG, "send_email", old, "send")
    (mail,) = there.mailer.mails
    assert (mail.body, mail.reply_to) == (MAIL["body"], "")


EVIL = [
    "张三\nBcc: all@example.com", "张三\r\n\r\nAnother text", 'San, Zhang <boss@example.com>', '"Boss" <b@example.com>',
    "=?utf-8?q?Boss?=", "张\u200b三\u2028Bcc: x@example.com", "a" * 300, "; @ , . ( ) [ ] :",
]  # fmt: skip


@pytest.mark.parametrize("name", EVIL)
async def test_no_name_writes_a_header_or_a_line(name: str) -> None:
    there = office()
    author = ZHANG.model_copy(update={"name": name})
    there.people.known = [author, *there.people.known[1:]]
    plan = await there.plan(author, "send_email", **MAIL)
    async with server({}) as (url, received):
        there.mailer = mailer(url)  # type: ignore[assignment]
        await there.press(author, "send_email", plan, "send")
    (raw,) = received
    message = email.message_from_bytes(raw, _class=EmailMessage, policy=email.policy.default)
    ours = {"From", "To", "Reply-To", "Subject", "Message-ID", "Date", "Auto-Submitted", "MIME-Version"}
    assert set(message.keys()) == {*ours, "Content-Type", "Content-Transfer-Encoding"} and len(message.keys()) == 10
    [address] = message["Reply-To"].addresses
    assert address.addr_spec == ZHANG.email, "answers go to who asked for it, whatever they call themselves"
    assert "Boss" not in address.display_name or "Boss" in name.replace("=?", "= ?")
    assert message.get_content().splitlines() == plan.body.splitlines(), "what is sent is what was shown"
    assert len(plan.body.splitlines()) == 4 and MAIL["body"] in plan.body


SEVERAL = {**MAIL, "to": ["李四", WANG.id]}


async def test_several_people_get_a_mail_each_and_stand_on_one_card() -> None:
    there = office()
    plan = await there.plan(ZHANG, "send_email", **SEVERAL)
    assert plan.args["to"] == [LI.id, WANG.id]
    [to] = [fact.value for fact in plan.fields if fact.label == "to"]
    assert isinstance(to, Identities) and [one.email for one in to.people] == [LI.email, WANG.email]
    assert title(plan) == "给李四、王五发这封邮件？"
    english = "Countersign sends this on behalf of Zhang San (zhangsan@example.com); a reply goes to them."
    assert plan.body.splitlines()[:2] == [FIRST, english], "its readers speak two languages"
    outcome = await there.press(ZHANG, "send_email", plan, "send", key="one")
    assert [(mail.to, mail.body) for mail in there.mailer.mails] == [(LI.id, plan.body), (WANG.id, plan.body)]
    assert len({mail.message_id for mail in there.mailer.mails}) == 2
    assert outcome.data["mailed"] == ["李四", "王五"]


@pytest.mark.parametrize("to", ["李四、王五", "李四, 王五", ["李四", "王五", "李四"], ["李四；王五"]])
async def test_several_names_in_any_form_each_once(to: object) -> None:
    there = office()
    assert (await there.plan(ZHANG, "send_email", **{**MAIL, "to": to})).args["to"] == [LI.id, WANG.id]


async def test_one_whom_nobody_knows_and_too_many_have_no_card() -> None:
    there = office()
    unknown = await refused(there.plan(ZHANG, "send_email", **{**MAIL, "to": ["李四", "nobody"]}))
    assert (unknown.code, unknown.params["name"]) == ("unknown_person", "nobody")
    assert (await refused(there.plan(ZHANG, "send_email", **{**MAIL, "to": ["李四", ZHAO.id]}))).code == "no_address"
    crowd = [LI.model_copy(update={"id": f"U90{n}", "name": f"客户{n}号"}) for n in range(MAX_RECIPIENTS + 1)]
    there.people.known += crowd
    names = "、".join(one.id for one in crowd)
    assert (await refused(there.plan(ZHANG, "send_email", **{**MAIL, "to": names}))).code == "too_many"


async def test_as_many_as_are_allowed_stand_on_one_card_which_counts_them() -> None:
    there = office()
    crowd = [LI.model_copy(update={"id": f"U90{n}", "name": f"客户{n}号"}) for n in range(MAX_RECIPIENTS + 1)]
    there.people.known += crowd
    ids = [one.id for one in crowd]
    plan = await there.plan(ZHANG, "send_email", **{**MAIL, "to": ids[1:]})
    assert plan.args["to"] == ids[1:]
    [notice] = [one.value for one in plan.fields if one.label == "notice"]
    assert notice == TextRef(key="fact.mails", params={"n": MAX_RECIPIENTS})
    error = await refused(there.plan(ZHANG, "send_email", **{**MAIL, "to": ids}))
    assert (error.code, error.field) == ("too_many", "to")
    assert error.params == {"label": {"zh": "收件人", "en": "Recipients"}, "most": MAX_RECIPIENTS}
    alone = await there.plan(ZHANG, "send_email", **MAIL)
    assert [one.label for one in alone.fields] == ["to", "subject", "reply_to"]


async def test_a_card_is_whole_and_its_mail_has_a_receipt() -> None:
    there = office()
    plan = await there.plan(ZHANG, "send_email", **MAIL)
    assert (plan.deciders, plan.requester, plan.subject) == ((ZHANG.id,), ZHANG.id, LI.id)
    assert [(one.name, one.style, one.executes, one.edits) for one in plan.choices[:2]] == [
        ("send", "primary", True, False),
        ("edit", plan.choices[2].style, False, True),
    ]
    assert [(one.name, one.label, one.kind, one.value, one.max_length) for one in plan.choices[1].fields] == [
        ("subject", "subject", plan.choices[1].fields[0].kind, MAIL["subject"], MAX_SUBJECT),
        ("body", "body", "long", MAIL["body"], MAX_BODY),
    ]
    assert plan.choices[1].fields[0].kind != "long"
    outcome = await there.press(ZHANG, "send_email", plan, "send", key="one")
    assert outcome.summary == TextRef(key="result.mailed", params={"name": both("李四")})
    told = TextRef(key="effect.mailed", params={"name": both("李四")})
    assert outcome.receipt_line == ReceiptLine(text=told, subject=LI.id)
    several = await there.plan(ZHANG, "send_email", **SEVERAL)
    there.mailer.mails.clear()
    sent = await there.press(ZHANG, "send_email", several, "send", key="two")
    ids = [build_message_id(f"two:{one.id}") for one in (LI, WANG)]
    assert [(one.message_id, one.reply_to) for one in there.mailer.mails] == [
        (id, "张三 <zhangsan@example.com>") for id in ids
    ]
    assert (sent.data["message_id"], sent.data["subject"]) == (ids[-1], MAIL["subject"])


@pytest.mark.parametrize(
    ("to", "code", "name"),
    [
        ("李四、nobody", "unknown_person", "nobody"),
        ("nobody、李四", "unknown_person", "nobody"),
        ("nobody、", "unknown_person", "nobody、"),
        ("、nobody", "unknown_person", "、nobody"),
        ("李四、Li", "ambiguous_person", "Li"),
    ],
)
async def test_of_several_names_the_one_that_is_wrong_is_told(to: str, code: str, name: str) -> None:
    error = await refused(office().plan(ZHANG, "send_email", **{**MAIL, "to": to}))
    assert (error.code, error.params["name"], error.field) == (code, name, "to")


@pytest.mark.parametrize("change", [{"to": " ", "task_id": " "}, {"to": []}, {"to": [" "]}])
async def test_for_nobody_there_is_no_mail(change: dict[str, object]) -> None:
    error = await refused(office().plan(ZHANG, "send_email", **{**MAIL, **change}))
    assert (error.code, error.field, error.ask) == ("no_recipient", "to", True)


async def test_a_name_with_a_sign_in_it_is_found_first() -> None:
    there = office()
    there.people.known += [LI.model_copy(update={"id": "U77", "name": "王五、李四"})]
    assert (await there.plan(ZHANG, "send_email", **{**MAIL, "to": "王五、李四"})).args["to"] == "U77"
    there.people.known += [LI.model_copy(update={"id": "U78", "name": "王五、李四"})]
    error = await refused(there.plan(ZHANG, "send_email", **{**MAIL, "to": "王五、李四"}))
    assert (error.code, error.params["name"]) == ("ambiguous_person", "王五、李四"), "and it is not taken apart"


async def test_the_language_of_who_asks_comes_first() -> None:
    there, english = office(), ZHANG.model_copy(update={"locale": WANG.locale})
    lines = (await there.plan(english, "send_email", **SEVERAL)).body.splitlines()
    assert lines[0].startswith("Countersign sends this") and lines[1] == FIRST


async def test_an_outage_in_the_middle_ends_it_there_and_says_who_has_it() -> None:
    there = office()
    there.people.known += [LI.model_copy(update={"id": "U78", "name": "钱七"})]
    there.mailer = moody = Moody({WANG.id: ToolError("mail_down", "away")}, [])  # type: ignore[assignment]
    plan, parts = await there.plan(ZHANG, "send_email", **{**MAIL, "to": [LI.id, WANG.id, "U78"]}), EffectParts()
    error = await refused(send_with(there, plan, parts))
    assert error.code == "mailed_partly" and "away" in error.text
    assert error.params["names"] == both("李四") and error.params["missing"]["zh"] == "王五、钱七"
    assert moody.mails == [LI.id]
    assert parts.states == {LI.id: PartState.DONE, WANG.id: PartState.REFUSED, "U78": PartState.OPEN}


@dataclass
class Moody:
    """A mail server that refuses some, or loses its connection in the middle."""

    refuses: dict[str, Exception]
    mails: list[str]

    async def send_mail(self, to: Person, subject: str, body: str, message_id: str, reply_to: str = "") -> None:
        if to.id in self.refuses:
            raise self.refuses[to.id]
        self.mails.append(to.id)


async def test_whom_the_server_refuses_keeps_it_from_nobody_else_and_the_rest_is_sent_once() -> None:
    there = office()
    there.mailer = moody = Moody({LI.id: ToolError("mail_refused", "no such box", reply=550)}, [])  # type: ignore[assignment]
    plan, parts = await there.plan(ZHANG, "send_email", **SEVERAL), EffectParts()
    error = await refused(send_with(there, plan, parts))
    assert (error.code, error.params["names"], error.params["missing"]) == (
        "mailed_partly",
        *map(both, ["王五", "李四"]),
    )
    assert error.maybe is not None and render_value(error.maybe.text, "zh") == "给王五发了邮件"
    assert moody.mails == [WANG.id] and parts.states == {LI.id: PartState.REFUSED, WANG.id: PartState.DONE}
    moody.refuses.clear()
    outcome = await send_with(there, plan, parts)
    assert moody.mails == [WANG.id, LI.id], "who has it gets it no second time"
    assert outcome.data["mailed"] == ["李四", "王五"]


async def test_nobody_has_it_when_the_server_is_away() -> None:
    there = office()
    there.mailer = moody = Moody({LI.id: ToolError("mail_down", "away")}, [])  # type: ignore[assignment]
    error = await refused(send_with(there, await there.plan(ZHANG, "send_email", **SEVERAL), EffectParts()))
    assert error.code == "mail_down" and moody.mails == [], "the others are not tried"


async def test_a_doubt_ends_it_there() -> None:
    there = office()
    there.mailer = moody = Moody({WANG.id: EffectUnknownError("?")}, [])  # type: ignore[assignment]
    parts = EffectParts()
    with pytest.raises(EffectUnknownError):
        await send_with(there, await there.plan(ZHANG, "send_email", **SEVERAL), parts)
    assert moody.mails == [LI.id] and parts.states == {LI.id: PartState.DONE, WANG.id: PartState.BEGUN}


async def send_with(there: Office, plan: Proposal, parts: EffectParts) -> ToolOutcome:
    return await run_send_email(replace(there.use(ZHANG), parts=parts), SendEmailArgs.model_validate(plan.args))


def both(name: str) -> dict[str, str]:
    return {"zh": name, "en": {"李四": "Li Si", "王五": "Wang Wu"}[name]}


async def test_errors_of_the_mailer_pass() -> None:
    there: Office = office()
    plan = await there.plan(ZHANG, "send_email", **MAIL)
    there.mailer.failing = EffectUnknownError("?")
    with pytest.raises(EffectUnknownError):
        await there.press(ZHANG, "send_email", plan, "send")


# --- over a real socket -------------------------------------------------------------------------------------------


@asynccontextmanager
async def server(
    answers: dict[str, str | None], heard: list[str] | None = None
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """An SMTP server that says what it is told to: command → answer, or None to hang up. `heard`: its commands."""
    received: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(command: str, usual: str) -> bool:
            answer = answers.get(command, usual)
            if answer is not None:
                writer.write(f"{answer}\r\n".encode())
            return answer is not None

        going = say("greeting", "220 hello")
        while going and (line := await reader.readline()):
            command = line.split()[0].decode().upper() if line.split() else ""
            if heard is not None:
                heard.append(line.decode().strip())
            going = say(command, "354 go on" if command == "DATA" else "250 fine")
            if command == "DATA" and "DATA" not in answers:
                received.append((await reader.readuntil(b"\r\n.\r\n")).removesuffix(b".\r\n"))
                going = say("text", "250 taken")

    async with listening(talk) as url:
        yield url, received


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[str]:
    """The URL of a server on this machine; leaves nothing open."""
    talks: list[asyncio.Task[None]] = []

    async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.append(task)
        with suppress(OSError):
            await talk(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    running = await asyncio.start_server(whole, "127.0.0.1", 0)
    yield f"smtp://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    running.close()
    await asyncio.gather(*talks)


def mailer(url: str, timeout_s: float = 5.0) -> SmtpMailer:
    clock: Callable[[], datetime] = lambda: datetime(2026, 11, 20, tzinfo=UTC)  # noqa: E731
    return SmtpMailer(url, "Countersign <bot@example.com>", clock=clock, timeout_s=timeout_s)


async def test_what_arrives_is_what_was_sent() -> None:
    body = "李四你好：\n.\n..两个点\n" + "长" * 500 + " 😀"
    async with server({}) as (url, received):
        await mailer(url).send_mail(LI, "请假申请：" + "很长" * 40, body, "<abc@countersign>")
    (raw,) = received
    message = email.message_from_bytes(raw, _class=EmailMessage, policy=email.policy.default)
    assert message["Subject"] == "请假申请：" + "很长" * 40
    assert message["To"] == "李四 <lisi@example.com>"
    assert message["From"] == "Countersign <bot@example.com>"
    assert message["Message-ID"] == "<abc@countersign>"
    assert message.get_content().splitlines() == body.splitlines()
    assert message.get_payload(decode=True).count(b"\n") == message.get_payload(decode=True).count(b"\r\n"), "RFC 2046"
    assert max(map(len, raw.split(b"\r\n"))) <= 998


async def test_plain_english_with_dots_arrives_too() -> None:
    async with server({}) as (url, received):
        await mailer(url).send_mail(LI, "Hello", "first\n.\nlast", "<abc@countersign>")
    assert b"first\r\n..\r\nlast" in received[0]


@pytest.mark.parametrize("body", ["Meet me at the café.\n", "请看。\n", "x" * 2_000 + "é\n"])
async def test_what_a_server_takes_is_ascii_in_short_lines(body: str) -> None:
    """Not every server takes eight bits."""
    async with server({}) as (url, received):
        await mailer(url).send_mail(LI, "周报", body, "<abc@countersign>")
    (raw,) = received
    assert raw.isascii() and max(map(len, raw.split(b"\r\n"))) <= 998
    message = email.message_from_bytes(raw, _class=EmailMessage, policy=email.policy.default)
    assert message.get_content().replace("\r\n", "\n") == body


class TakenOverError(Exception):
    """Another process has the lane by now."""


async def lose_lane() -> None:
    raise TakenOverError


async def test_who_may_not_send_any_more_is_stopped_after_the_server_has_taken_the_recipient() -> None:
    """A process that stood still between the recipient and the text: somebody else has sent it meanwhile, perhaps."""
    async with server({}) as (url, received):
        sender = SmtpMailer(url, "bot@example.com", assert_may_send=lose_lane)
        with pytest.raises(TakenOverError):
            await sender.send_mail(LI, "s", "b", "<x@y>")
        await mailer(url).send_mail(LI, "s", "from the other process", "<x@y>")
    assert len(received) == 1 and b"from the other process" in received[0]


async def test_who_may_sends() -> None:
    """Negative control: asked, and sent."""
    asked = list[str]()

    async def keep_lane() -> None:
        asked.append("asked")

    async with server({}) as (url, received):
        await SmtpMailer(url, "bot@example.com", assert_may_send=keep_lane).send_mail(LI, "s", "b", "<x@y>")
    assert len(received) == 1 and asked == ["asked"]


@pytest.mark.parametrize("sender", ["Countersign <bot@example.com>", "bot@example.com"])
async def test_the_envelope_says_from_whom_to_whom_and_the_headers_that_a_program_wrote(sender: str) -> None:
    heard: list[str] = []
    async with server({}, heard) as (url, received):
        before = datetime.now(UTC).replace(microsecond=0)
        await SmtpMailer(url, sender).send_mail(LI, "s", "b", "<x@y>", "张三 <zhangsan@example.com>")
        await mailer(url).send_mail(LI, "s", "b", "<x@y>")
    first, second = (email.message_from_bytes(raw, policy=email.policy.default) for raw in received)
    assert [line.split(" ", 1) for line in heard if line.startswith(("MAIL", "RCPT"))] == 2 * [
        ["MAIL", "FROM:<bot@example.com>"],
        ["RCPT", "TO:<lisi@example.com>"],
    ]
    assert (first["From"], first["Reply-To"]) == (sender, "张三 <zhangsan@example.com>")
    assert "Reply-To" not in second
    assert before <= first["Date"].datetime <= datetime.now(UTC)
    assert second["Date"].datetime == datetime(2026, 11, 20, tzinfo=UTC)
    assert first["Auto-Submitted"] == second["Auto-Submitted"] == "auto-generated"


async def test_who_is_named_in_the_url_logs_in() -> None:
    heard: list[str] = []
    async with server({"EHLO": "250-hello\r\n250 AUTH PLAIN", "AUTH": "235 welcome"}, heard) as (url, _):
        await mailer(url.replace("//", "//m%65:se%40cret@")).send_mail(LI, "s", "b", "<x@y>")
        login = "AUTH PLAIN " + base64.b64encode(b"\0me\0se@cret").decode()
        assert heard.index(login) < heard.index("MAIL FROM:<bot@example.com>")
        heard.clear()
        await mailer(url).send_mail(LI, "s", "b", "<x@y>")
        assert not any(line.startswith("AUTH") for line in heard)


async def test_smtps_says_nothing_in_the_clear() -> None:
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        heard.extend(await reader.read(1))

    async with listening(listen) as url:
        assert (await refused(mailer(url.replace("smtp:", "smtps:")).probe_server())).code == "mail_down"
    assert heard == b"\x16", "a TLS handshake"


@pytest.mark.parametrize(
    ("answers", "code"),
    [({}, ""), ({"greeting": "554 go away"}, "mail_refused"), ({"greeting": None}, "mail_down")],
)
async def test_a_look_at_the_server_sends_nothing_and_says_what_is_wrong(
    answers: dict[str, str | None], code: str
) -> None:
    heard: list[str] = []
    async with server(answers, heard) as (url, received):
        if code:
            assert (await refused(mailer(url).probe_server())).code == code
        else:
            await mailer(url).probe_server()
            assert heard
    assert not received and not any(line.startswith("MAIL") for line in heard)


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"greeting": "554 go away"}, "mail_refused"),
        ({"greeting": None}, "mail_down"),
        ({"MAIL": "550 no"}, "mail_refused"),
        ({"MAIL": None}, "mail_down"),
        ({"RCPT": "550 nobody here"}, "mail_refused"),
        ({"RCPT": None}, "mail_down"),
        ({"DATA": "451 later"}, "mail_refused"),
        ({"text": "552 too big"}, "mail_refused"),
    ],
)
async def test_surely_not_sent(answers: dict[str, str | None], code: str) -> None:
    async with server(answers) as (url, _):
        assert (await refused(mailer(url).send_mail(LI, "s", "b", "<x@y>"))).code == code


async def test_nobody_knows_when_the_server_goes_away_after_the_text() -> None:
    async with server({"text": None}) as (url, received):
        with pytest.raises(EffectUnknownError):
            await mailer(url).send_mail(LI, "s", "b", "<x@y>")
    assert len(received) == 1, "it may well have been taken"


async def test_a_silent_server_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(silent) as url:
        assert (await refused(mailer(url, timeout_s=0.1).send_mail(LI, "s", "b", "<x@y>"))).code == "mail_down"


async def test_no_server_at_all() -> None:
    assert (await refused(mailer("smtp://127.0.0.1:1").send_mail(LI, "s", "b", "<x@y>"))).code == "mail_down"


@pytest.mark.parametrize("url", ["http://host", "smtp://", "host:25", ""])
def test_odd_urls(url: str) -> None:
    with pytest.raises(ValueError, match="smtp://host:port"):
        SmtpMailer(url, "bot@example.com")


@pytest.mark.parametrize("odd", [{"email": "lisi@例子.公司"}, {"name": "李四\nBcc: all@example.com"}])
async def test_who_no_header_can_name_is_surely_not_written_to(odd: dict[str, str]) -> None:
    async with server({}) as (url, received):
        send = mailer(url).send_mail(LI.model_copy(update=odd), "s", "text", "<x@y>")
        assert (await refused(send)).code == "no_address"
    assert not received


@pytest.mark.parametrize(
    ("url", "start_tls"),
    [
        ("smtp://me:secret@mail.example.com", True),
        ("smtp://mail.example.com", None),
        ("smtp://me:secret@127.0.0.1", None),
        ("smtp://me:secret@localhost", None),
        ("smtps://me:secret@mail.example.com", False),
    ],
)
def test_encryption_is_demanded_where_a_password_travels_and_else_taken_where_offered(
    url: str, start_tls: bool | None
) -> None:
    """`None`: where it is offered. An `smtps` connection is encrypted from the beginning."""
    assert SmtpMailer(url, "bot@example.com")._options["start_tls"] is start_tls


async def test_a_password_is_never_sent_in_the_clear() -> None:
    """Without STARTTLS a foreign host gets no login; the check is the client's own setting."""
    there = SmtpMailer("smtp://me:secret@mail.example.com", "bot@example.com")
    assert there._options["start_tls"] is True
    assert SmtpMailer("smtp://me:secret@127.0.0.1:25", "bot@example.com")._options["start_tls"] is None
    assert SmtpMailer("smtps://me:se%40cret@mail.example.com", "b@example.com")._options["password"] == "se@cret"
