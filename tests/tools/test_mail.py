import asyncio
import base64
import email
import email.policy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import pytest

from bot.core.i18n import render_value, translate
from tests.harness.corpus import corpus
from tests.tools.office import LI, PEOPLE, SICK, WANG, ZHANG, ZHAO, Office, office, refused, title
from tools.effect_parts import EffectParts, PartState
from tools.languages import LANGUAGES
from tools.mail.completeness import SHORT, is_template, require_complete_draft
from tools.mail.send_email import MAX_RECIPIENTS, SendEmailArgs, build_message_id, run_send_email
from tools.mail.smtp import SmtpMailer
from tools.spec import EffectUnknownError, Identities, Person, Proposal, ReceiptLine, TextRef, ToolError, ToolOutcome

FIRST = "本邮件由 Countersign 代张三（zhangsan@example.com）发送，直接回复即可回给本人。"
MAIL = {"to": "李四", "subject": "请假申请 L-0012", "body": "李四你好，\n请看一下。"}
SEVERAL = {**MAIL, "to": ["李四", WANG.id]}


def both(name: str) -> dict[str, str]:
    return {"zh": name, "en": {"李四": "Li Si", "王五": "Wang Wu"}[name]}


async def test_a_mail_is_shown_whole_and_then_sent_with_a_receipt() -> None:
    there = office()
    plan = await there.plan(ZHANG, "send_email", **MAIL)
    answers_to = "张三 <zhangsan@example.com>"
    assert plan.args == {**MAIL, "to": LI.id, "first_line": FIRST, "reply_to": answers_to}
    assert plan.body == f"{FIRST}\n\n{MAIL['body']}"
    to, _, reply_to = (fact.value for fact in plan.fields)
    assert isinstance(to, Identities) and reply_to == answers_to
    assert [(one.id, one.name, one.email) for one in to.people] == [(LI.id, "李四", "lisi@example.com")]
    assert (plan.deciders, plan.requester, plan.subject) == ((ZHANG.id,), ZHANG.id, LI.id)
    assert there.mailer.mails == []
    outcome = await there.press(ZHANG, "send_email", plan, "send", key="effect 1")
    (mail,) = there.mailer.mails
    assert (mail.to, mail.subject, mail.body, mail.reply_to) == (LI.id, MAIL["subject"], plan.body, answers_to)
    assert outcome.data == {"mailed": "李四", "subject": MAIL["subject"], "message_id": build_message_id("effect 1")}
    assert outcome.summary == TextRef(key="result.mailed", params={"name": both("李四")})
    told = TextRef(key="effect.mailed", params={"name": both("李四")})
    assert outcome.receipt_line == ReceiptLine(text=told, subject=LI.id)


async def test_an_edited_mail_is_checked_and_shown_again_and_who_sends_it_is_nobodys_to_say() -> None:
    there = office()
    plan = await there.plan(ZHANG, "send_email", **MAIL)
    again = await there.plan(ZHANG, "send_email", **{**plan.args, "body": "改过的"})
    assert again.body == f"{FIRST}\n\n改过的"
    assert await there.plan(ZHANG, "send_email", **again.args) == again
    assert (await refused(there.plan(ZHANG, "send_email", **{**plan.args, "body": "[Your name]"}))).code
    forged = {"first_line": "From the director", "reply_to": "Li <x@evil.example>"}
    assert await there.plan(ZHANG, "send_email", **MAIL, **forged) == plan
    old = plan.model_copy(update={"args": {"to": LI.id, "subject": MAIL["subject"], "body": MAIL["body"]}})
    await there.press(ZHANG, "send_email", old, "send")
    (mail,) = there.mailer.mails
    assert (mail.body, mail.reply_to) == (MAIL["body"], "")


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


@corpus(
    ("change", "code", "field", "name"),
    ({"to": ""}, "no_recipient", "to", None),
    ({"to": " ", "task_id": " "}, "no_recipient", "to", None),
    ({"to": []}, "no_recipient", "to", None),
    ({"to": [" "]}, "no_recipient", "to", None),
    ({"to": "nobody"}, "unknown_person", "to", "nobody"),
    ({"to": "someone@elsewhere.example"}, "unknown_person", "to", "someone@elsewhere.example"),
    ({"to": "Li"}, "ambiguous_person", "to", "Li"),
    ({"to": ZHAO.id}, "no_address", "", {"zh": "赵六", "en": "Zhao Liu"}),
    ({"to": ["李四", ZHAO.id]}, "no_address", "", {"zh": "赵六", "en": "Zhao Liu"}),
    ({"to": ["李四", "nobody"]}, "unknown_person", "to", "nobody"),
    ({"to": "李四、nobody"}, "unknown_person", "to", "nobody"),
    ({"to": "nobody、李四"}, "unknown_person", "to", "nobody"),
    ({"to": "nobody、"}, "unknown_person", "to", "nobody、"),
    ({"to": "、nobody"}, "unknown_person", "to", "、nobody"),
    ({"to": "李四、Li"}, "ambiguous_person", "to", "Li"),
    ({"body": "请用户提供邮件内容"}, "template_mail", "body", None),
    ({"body": ""}, "empty_mail", "body", None),
    ({"subject": "a\nBcc: b@example.com"}, "bad_subject", "subject", None),
    ({"subject": "=?utf-8?q?=E2=80=8B?= hello"}, "bad_subject", "subject", None),
)
async def test_no_card_for_what_cannot_be_sent_and_what_is_wrong_is_named(
    change: dict[str, object], code: str, field: str, name: str | dict[str, str] | None
) -> None:
    there = office()
    error = await refused(there.plan(ZHANG, "send_email", **{**MAIL, **change}))
    assert (error.code, error.field, error.params.get("name")) == (code, field, name)
    assert (error.ask or code != "no_recipient") and there.mailer.mails == []


async def test_the_first_line_is_in_the_language_of_who_reads_it_and_names_who_can_be_answered() -> None:
    there = office()
    english = "Countersign sends this on behalf of Zhang San (zhangsan@example.com); a reply goes to them."
    for reader, line in ((WANG, english), (ZHANG, FIRST)):
        plan = await there.plan(ZHANG, "send_email", to=reader.id, subject="Hello", body="Please look.")
        assert plan.body.splitlines()[0] == line
    asks_in_english = ZHANG.model_copy(update={"locale": WANG.locale})
    for author, lines in ((ZHANG, [FIRST, english]), (asks_in_english, [english, FIRST])):
        plan = await there.plan(author, "send_email", **SEVERAL)
        assert plan.body.splitlines()[:2] == lines, "its readers speak two languages; who asks comes first"
    plan = await there.plan(ZHAO, "send_email", **MAIL)
    assert plan.args["reply_to"] == "" and "reply_to" not in [fact.label for fact in plan.fields]
    assert plan.body.startswith(f"本邮件由 Countersign 代{ZHAO.name}发送，请勿直接回复。\n\n")


EVIL = [
    "张三\nBcc: all@example.com", "张三\r\n\r\nAnother text", 'San, Zhang <boss@example.com>', '"Boss" <b@example.com>',
    "=?utf-8?q?Boss?=", "张\u200b三\u2028Bcc: x@example.com", "a" * 300, "; @ , . ( ) [ ] :",
]  # fmt: skip


@corpus("name", *EVIL)
async def test_no_name_writes_a_header_or_a_line(name: str) -> None:
    there = office()
    author = ZHANG.model_copy(update={"name": name})
    there.people.known = [author, *there.people.known[1:]]
    plan = await there.plan(author, "send_email", **MAIL)
    async with server() as post:
        there.mailer = mailer(post.url)  # type: ignore[assignment]
        await there.press(author, "send_email", plan, "send")
    [raw] = post.received
    message = parsed(raw)
    ours = {"From", "To", "Reply-To", "Subject", "Message-ID", "Date", "Auto-Submitted", "MIME-Version"}
    assert set(message.keys()) == {*ours, "Content-Type", "Content-Transfer-Encoding"} and len(message.keys()) == 10
    [address] = message["Reply-To"].addresses
    assert address.addr_spec == ZHANG.email, "answers go to who asked for it, whatever they call themselves"
    assert "Boss" not in address.display_name or "Boss" in name.replace("=?", "= ?")
    assert message.get_content().splitlines() == plan.body.splitlines(), "what is sent is what was shown"
    assert len(plan.body.splitlines()) == 4 and MAIL["body"] in plan.body


async def test_several_people_get_a_mail_each_and_stand_on_one_card() -> None:
    there = office()
    plan = await there.plan(ZHANG, "send_email", **SEVERAL)
    assert plan.args["to"] == [LI.id, WANG.id] and title(plan) == "给李四、王五发这封邮件？"
    [to] = [fact.value for fact in plan.fields if fact.label == "to"]
    assert isinstance(to, Identities) and [one.email for one in to.people] == [LI.email, WANG.email]
    outcome = await there.press(ZHANG, "send_email", plan, "send", key="two")
    ids = [build_message_id(f"two:{one.id}") for one in (LI, WANG)]
    assert [(mail.to, mail.body, mail.message_id, mail.reply_to) for mail in there.mailer.mails] == [
        (one.id, plan.body, id, "张三 <zhangsan@example.com>") for one, id in zip((LI, WANG), ids, strict=True)
    ]
    assert outcome.data == {"mailed": ["李四", "王五"], "subject": MAIL["subject"], "message_id": ids[-1]}
    for several in ("李四、王五", "李四, 王五", ["李四", "王五", "李四"], ["李四；王五"]):
        again = await there.plan(ZHANG, "send_email", **{**MAIL, "to": several})
        assert again.args["to"] == [LI.id, WANG.id], "in any form, each once"
    there.people.known += [LI.model_copy(update={"id": "U77", "name": "王五、李四"})]
    one = await there.plan(ZHANG, "send_email", **{**MAIL, "to": "王五、李四"})
    assert one.args["to"] == "U77", "a name with a sign in it is found first"
    there.people.known += [LI.model_copy(update={"id": "U78", "name": "王五、李四"})]
    error = await refused(there.plan(ZHANG, "send_email", **{**MAIL, "to": "王五、李四"}))
    assert (error.code, error.params["name"]) == ("ambiguous_person", "王五、李四"), "and it is not taken apart"


async def test_as_many_as_are_allowed_stand_on_one_card_which_counts_them() -> None:
    there = office()
    ids = [f"U90{n}" for n in range(MAX_RECIPIENTS + 1)]
    there.people.known += [LI.model_copy(update={"id": id, "name": f"客户{id}号"}) for id in ids]
    plan = await there.plan(ZHANG, "send_email", **{**MAIL, "to": ids[1:]})
    assert plan.args["to"] == ids[1:]
    [notice] = [one.value for one in plan.fields if one.label == "notice"]
    assert notice == TextRef(key="fact.mails", params={"n": MAX_RECIPIENTS})
    for too_many in (ids, "、".join(ids)):
        error = await refused(there.plan(ZHANG, "send_email", **{**MAIL, "to": too_many}))
        assert (error.code, error.field) == ("too_many", "to")
        assert error.params == {"label": {"zh": "收件人", "en": "Recipients"}, "most": MAX_RECIPIENTS}


async def test_an_outage_or_a_doubt_ends_it_there_and_says_who_has_it() -> None:
    there, plan = await plan_three()
    away, doubt = ToolError("mail_down", "away"), EffectUnknownError("?")
    there.mailer = moody = Moody({WANG.id: away}, [])  # type: ignore[assignment]
    error = await refused(send_with(there, plan, parts := EffectParts()))
    assert error.code == "mailed_partly" and "王五，连不上邮件服务器" in error.text
    assert error.params["names"] == both("李四")
    assert [error.params["missing"]["zh"].count(one) for one in ("王五，连不上", "钱七，连不上")] == [1, 1]
    assert moody.mails == [LI.id]
    assert parts.states == {LI.id: PartState.DONE, WANG.id: PartState.REFUSED, "U78": PartState.OPEN}
    there.mailer = moody = Moody({WANG.id: doubt}, [])  # type: ignore[assignment]
    with pytest.raises(EffectUnknownError):
        await send_with(there, plan, parts := EffectParts())
    assert moody.mails == [LI.id]
    assert parts.states == {LI.id: PartState.DONE, WANG.id: PartState.BEGUN, "U78": PartState.OPEN}
    there.mailer = moody = Moody({LI.id: away}, [])  # type: ignore[assignment]
    assert (await refused(send_with(there, plan, EffectParts()))).code == "mail_down"
    assert moody.mails == [], "nobody has it when the server is away: the others are not tried"
    there.mailer = moody = Moody({LI.id: doubt}, [])  # type: ignore[assignment]
    with pytest.raises(EffectUnknownError):
        await send_with(there, await there.plan(ZHANG, "send_email", **MAIL), EffectParts())


async def plan_three() -> tuple[Office, Proposal]:
    there = office()
    there.people.known += [LI.model_copy(update={"id": "U78", "name": "钱七"})]
    return there, await there.plan(ZHANG, "send_email", **{**MAIL, "to": [LI.id, WANG.id, "U78"]})


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
    assert (error.code, error.params["names"]) == ("mailed_partly", both("王五"))
    refusal = "The mail server refused the mail (550); nothing was sent"
    assert error.params["missing"]["en"] == f"Li Si: {refusal}. Please check the address, or ask an administrator"
    assert error.maybe is not None and render_value(error.maybe.text, "zh") == "给王五发了邮件"
    assert moody.mails == [WANG.id] and parts.states == {LI.id: PartState.REFUSED, WANG.id: PartState.DONE}
    moody.refuses.clear()
    outcome = await send_with(there, plan, parts)
    assert moody.mails == [WANG.id, LI.id], "who has it gets it no second time"
    assert outcome.data["mailed"] == ["李四", "王五"]


async def test_of_several_each_who_has_it_not_has_a_reason_and_whether_it_may_go_later_is_kept() -> None:
    there, plan = await plan_three()
    never = ToolError("mail_refused", "no such box", reply=550)
    later = ToolError("mail_later", "grey", is_temporary=True, reply=450)
    there.mailer = moody = Moody({LI.id: never, "U78": later}, [])  # type: ignore[assignment]
    error = await refused(send_with(there, plan, EffectParts()))
    assert (error.code, error.is_temporary, moody.mails) == ("mailed_partly", True, [WANG.id])
    assert [render_value(error.note, "zh").count(one) for one in ("李四，", "550", "钱七，", "450")] == [1, 1, 1, 1]
    moody.refuses[WANG.id] = never
    error = await refused(send_with(there, plan, EffectParts()))
    assert (error.code, error.maybe) == ("mailed_to_nobody", None) and "Wang Wu: " in render_value(error.note, "en")
    moody.refuses["U78"] = never
    error = await refused(send_with(there, plan, EffectParts()))
    assert error.code == "mail_refused" and not error.is_temporary, "one reason for all is said once"


async def send_with(there: Office, plan: Proposal, parts: EffectParts) -> ToolOutcome:
    use = replace(there.use(ZHANG), parts=parts, outside=there.outside)
    return await run_send_email(use, SendEmailArgs.model_validate(plan.args))


# --- over a real socket -------------------------------------------------------------------------------------------


@dataclass
class Server:
    """An SMTP server that says what it is told to: command → answer, or None to hang up."""

    answers: dict[str, str | None]
    url: str = ""
    heard: list[str] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(command: str, usual: str) -> bool:
            answer = self.answers.get(command, usual)
            if answer is not None:
                writer.write(f"{answer}\r\n".encode())
            return answer is not None

        going = say("greeting", "220 hello")
        while going and (line := await reader.readline()):
            command = line.split()[0].decode().upper() if line.split() else ""
            self.heard.append(line.decode().strip())
            going = say(command, "354 go on" if command == "DATA" else "250 fine")
            if command == "DATA" and "DATA" not in self.answers:
                self.received.append((await reader.readuntil(b"\r\n.\r\n")).removesuffix(b".\r\n"))
                going = say("text", "250 taken")

    async def send(self, to: Person = LI, subject: str = "s", body: str = "b", reply_to: str = "") -> None:
        await mailer(self.url).send_mail(to, subject, body, "<x@y>", reply_to)

    def list_commands(self, *verbs: str) -> list[str]:
        return [line for line in self.heard if line.startswith(verbs)]


@asynccontextmanager
async def server(**answers: str | None) -> AsyncIterator[Server]:
    there = Server(answers)
    async with listening(there.talk) as there.url:
        yield there


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


def parsed(raw: bytes) -> EmailMessage:
    return email.message_from_bytes(raw, _class=EmailMessage, policy=email.policy.default)


async def test_what_arrives_is_what_was_sent() -> None:
    subject, body = "请假申请：" + "很长" * 40, "李四你好：\n.\n..两个点\n" + "长" * 500 + " 😀"
    texts = (body, "Meet me at the café.\n", "请看。\n", "x" * 2_000 + "é\n")
    async with server() as there:
        await there.send(body="first\n.\nlast")
        for text in texts:
            await there.send(LI, subject, text)
    english, *received = there.received
    assert b"first\r\n..\r\nlast" in english
    for raw, text in zip(received, texts, strict=True):
        assert raw.isascii() and max(map(len, raw.split(b"\r\n"))) <= 998, "not every server takes eight bits"
        message = parsed(raw)
        assert message.get_content().replace("\r\n", "\n").rstrip("\n") == text.rstrip("\n")
        assert (message["Subject"], message["To"], message["Message-ID"]) == (
            subject, "李四 <lisi@example.com>", "<x@y>",
        )  # fmt: skip
        lines = message.get_payload(decode=True)
        assert lines.count(b"\n") == lines.count(b"\r\n"), "RFC 2046"


class TakenOverError(Exception):
    """Another process has the lane by now."""


async def test_who_may_not_send_any_more_is_stopped_after_the_server_has_taken_the_recipient() -> None:
    """A process that stood still between the recipient and the text: somebody else has sent it meanwhile, perhaps."""
    asked = list[str]()

    async def lose_lane() -> None:
        raise TakenOverError

    async def keep_lane() -> None:
        asked.append("asked")

    async with server() as there:
        sender = SmtpMailer(there.url, "bot@example.com", assert_may_send=lose_lane)
        with pytest.raises(TakenOverError):
            await sender.send_mail(LI, "s", "b", "<x@y>")
        sender = SmtpMailer(there.url, "bot@example.com", assert_may_send=keep_lane)
        await sender.send_mail(LI, "s", "from the other process", "<x@y>")
    [raw] = there.received
    assert b"from the other process" in raw and asked == ["asked"]


@pytest.mark.parametrize("sender", ["Countersign <bot@example.com>", "bot@example.com"])
async def test_the_envelope_says_from_whom_to_whom_and_the_headers_that_a_program_wrote(sender: str) -> None:
    async with server() as there:
        before = datetime.now(UTC).replace(microsecond=0)
        await SmtpMailer(there.url, sender).send_mail(LI, "s", "b", "<x@y>", "张三 <zhangsan@example.com>")
        await there.send()
    first, second = map(parsed, there.received)
    assert there.list_commands("MAIL", "RCPT") == 2 * ["MAIL FROM:<bot@example.com>", "RCPT TO:<lisi@example.com>"]
    assert (first["From"], first["Reply-To"]) == (sender, "张三 <zhangsan@example.com>")
    assert "Reply-To" not in second
    assert before <= first["Date"].datetime <= datetime.now(UTC)
    assert second["Date"].datetime == datetime(2026, 11, 20, tzinfo=UTC)
    assert first["Auto-Submitted"] == second["Auto-Submitted"] == "auto-generated"


async def test_who_is_named_in_the_url_logs_in() -> None:
    async with server(EHLO="250-hello\r\n250 AUTH PLAIN", AUTH="235 welcome") as there:
        await mailer(there.url.replace("//", "//m%65:se%40cret@")).send_mail(LI, "s", "b", "<x@y>")
        login = "AUTH PLAIN " + base64.b64encode(b"\0me\0se@cret").decode()
        assert there.heard.index(login) < there.heard.index("MAIL FROM:<bot@example.com>")
        await there.send()
        assert there.list_commands("AUTH") == [login]


async def test_smtps_says_nothing_in_the_clear() -> None:
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        heard.extend(await reader.read(1))

    async with listening(listen) as url:
        assert (await refused(mailer(url.replace("smtp:", "smtps:")).probe_server())).code == "mail_down"
    assert heard == b"\x16", "a TLS handshake"


@corpus(
    ("answers", "code"),
    ({"greeting": "554 go away"}, "mail_refused"), ({"greeting": "421 too busy"}, "mail_later"),
    ({"greeting": None}, "mail_down"), ({"MAIL": "550 no"}, "mail_refused"), ({"MAIL": None}, "mail_down"),
    ({"RCPT": "550 nobody here"}, "mail_refused"), ({"RCPT": None}, "mail_down"),
    ({"RCPT": "450 4.2.0 greylisted"}, "mail_later"), ({"MAIL": "451 later"}, "mail_later"),
    ({"DATA": "451 later"}, "mail_later"), ({"text": "452 no room now"}, "mail_later"),
    ({"text": "421 going down"}, "mail_later"), ({"text": "552 too big"}, "mail_refused"), ({}, ""),
)  # fmt: skip
async def test_surely_not_sent_and_what_a_look_at_the_server_finds(answers: dict[str, str | None], code: str) -> None:
    async with server(**answers) as there:
        if "greeting" in answers:
            assert (await refused(mailer(there.url).probe_server())).code == code
        else:
            await mailer(there.url).probe_server()
            assert there.heard
        assert not there.received and not there.list_commands("MAIL"), "a look sends nothing"
        if code:
            error = await refused(there.send())
            assert (error.code, error.is_temporary) == (code, code == "mail_later")


async def test_a_silent_server_is_given_up_and_so_is_one_that_is_not_there() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(silent) as url:
        for nowhere in (url, "smtp://127.0.0.1:1"):
            assert (await refused(mailer(nowhere, timeout_s=0.1).send_mail(LI, "s", "b", "<x@y>"))).code == "mail_down"


@corpus(
    ("url", "start_tls"),
    ("smtp://me:secret@mail.example.com", True),
    ("smtp://mail.example.com", None),
    ("smtp://me:secret@127.0.0.1", None),
    ("smtp://me:secret@localhost", None),
    ("smtps://me:secret@mail.example.com", False),
)
def test_encryption_is_demanded_where_a_password_travels_and_else_taken_where_offered(url: str, start_tls: Any) -> None:
    """`None`: where it is offered. An `smtps` connection is encrypted from the beginning."""
    assert SmtpMailer(url, "bot@example.com")._options["start_tls"] is start_tls
    for odd in ("http://host", "smtp://", "host:25", ""):
        with pytest.raises(ValueError, match="smtp://host:port"):
            SmtpMailer(odd, "bot@example.com")
    with pytest.raises(ValueError, match="MAIL_FROM"):
        SmtpMailer(url, "Countersign <bot@>")


ELSEWHERE = "250-hello\r\n250-SMTPUTF8\r\n250 8BITMIME"


@pytest.mark.parametrize("answers", [{"EHLO": ELSEWHERE}, {}])
async def test_a_domain_in_another_script_goes_in_its_ascii_form_whatever_the_server_offers(
    answers: dict[str, str | None],
) -> None:
    async with server(**answers) as there:
        await there.send(LI.model_copy(update={"email": "lisi@Straße.例子.公司"}))
    ascii_form = "lisi@xn--strae-oqa.xn--fsqu00a.xn--55qx5d"
    assert f"RCPT TO:<{ascii_form}>" in there.heard and "MAIL FROM:<bot@example.com>" in there.heard
    [raw] = there.received
    assert raw.isascii() and parsed(raw)["To"] == f"李四 <{ascii_form}>"


async def test_a_name_in_another_script_needs_a_server_that_offers_it() -> None:
    person = LI.model_copy(update={"email": "李四@例子.公司"})
    async with server(EHLO=ELSEWHERE) as there:
        await there.send(person, "周报", "请看。")
    assert "RCPT TO:<李四@xn--fsqu00a.xn--55qx5d>" in there.heard
    assert "MAIL FROM:<bot@example.com> SMTPUTF8 BODY=8BITMIME" in there.heard
    assert "李四@xn--fsqu00a.xn--55qx5d" in there.received[0].decode()
    async with server() as there:
        error = await refused(there.send(person))
    assert error.code == "foreign_address" and "李四@例子.公司" in render_value(error.note, "zh")
    assert not there.received and not there.list_commands("RCPT")


async def test_who_no_header_can_name_is_not_written_to() -> None:
    async with server() as there:
        wrong_addresses = ("lisi@-.公司", "lisi@a..b", "lisi", "李四@", "李四\n@例子.公司")
        for odd in ({"name": "李四\nBcc: all@example.com"}, *({"email": one} for one in wrong_addresses)):
            assert (await refused(there.send(LI.model_copy(update=odd)))).code == "no_address"
    assert not there.received


@pytest.mark.parametrize("answer", [None, "taken, thank you", "251 taken", "250 " + "x" * 9_000])
async def test_nobody_knows_what_a_server_did_that_goes_or_says_something_odd_after_the_text(
    answer: str | None,
) -> None:
    async with server(text=answer) as there:
        with pytest.raises(EffectUnknownError):
            await there.send()
    assert len(there.received) == 1, "it may well have been taken"


# Drafts that are no finished mail


@corpus(
    "text",
    "请用户提供邮件内容", "请用户提供", "请提供邮件内容", "等待用户补充邮件正文", "需要您提供邮件的主题和内容",
    "邮件内容待定", "待补充", "TBD", "[TBD]", "TODO", "N/A", "……无……", "Dear [Your name], thanks",
    "Dear [Name],\nplease see below.", "Hi {{name}}, how are you?", "Hello ${name}", "Hello <recipient>",
    "Lorem ipsum dolor sit amet", "【请填写内容】", "[姓名] 你好", "你好，此处填写正文", "（待补充）",
    "Ask the user for the content", "The user should provide the text.", "Please provide the email content",
    "email body here", "Content to be provided", "Kind regards, XXXX",
)  # fmt: skip
def test_templates_are_refused(text: str) -> None:
    assert is_template(text)


@corpus(
    "text",
    "李四你好，请假申请 L-0012 还在等你审批，麻烦看一下。", "【请假通知】张三 11 月 23 日请假",
    "Please provide the content of the quarterly report by Friday.", "请提供一下上个月的报表",
    "The body of the car (see picture) is red.", "Could you tell me your name for the badge?",
    "我们在等用户确认方案，预计下周一有结果，之后我会把最新的排期和负责人名单发给大家。" * 3,
    "Time: 10:00 [room 3]", "a < b and c > d", "No text was lost.", "内容已经更新，请查收",
)  # fmt: skip
def test_real_texts_are_not(text: str) -> None:
    assert not is_template(text)


def incomplete(subject: str, body: str, most_subject: int, most_body: int) -> ToolError:
    with pytest.raises(ToolError) as error:
        require_complete_draft(subject, body, most_subject, most_body)
    return error.value


@corpus(
    ("subject", "body", "code", "field"),
    ("", "hello", "empty_mail", "subject"),
    ("hello", " \n ", "empty_mail", "body"),
    ("hello", "...", "empty_mail", "body"),
    ("TBD", "hello", "template_mail", "subject"),
    ("hello", "{{body}}", "template_mail", "body"),
    ("x" * 201, "hello", "bad_subject", "subject"),
    ("hello\r\nBcc: all@example.com", "hello", "bad_subject", "subject"),
    *((f"a{sign}Bcc: b@example.com", "hello", "bad_subject", "subject") for sign in "\n\r\x0b\x85\u2028\u2029\x00"),
    ("hello", "x" * 10_001, "too_long", "body"),
    ("hello", "-- \nCountersign  sends this on\u3000behalf of 王五 (wangwu@example.com).", "posing_mail", "body"),
    ("hello", "你好\n　【本邮件由Ｃountersign 代 王五 发送】", "posing_mail", "body"),
)
def test_what_is_wrong_with_a_mail_is_named(subject: str, body: str, code: str, field: str) -> None:
    error = incomplete(subject, body, 200, 10_000)
    assert (error.code, error.field) == (code, field)


@corpus(("key", "language"), *((f"mail.{one}", two) for one in ("first_line", "first_line_alone") for two in LANGUAGES))
def test_no_body_repeats_the_first_line_under_another_name_except_in_a_quotation(key: str, language: str) -> None:
    line = translate(key, language, name="王五", address="wangwu@example.com")
    assert "first line" in incomplete("hello", f"hello\n\n{line}", 200, 10_000).text
    said = f"hello\n> {line}\nthat is what Countersign sends"
    assert require_complete_draft("hello", said, 200, 10_000) == ("hello", said)


def test_a_text_is_tidied_and_lengths_are_bounded_after_trimming() -> None:
    assert require_complete_draft(" Hi ", "a\r\nb\rc\x00 \n", 200, 10_000) == ("Hi", "a\nb\nc")
    assert require_complete_draft("x" * 200, "y" * 10_000, 200, 10_000) == ("x" * 200, "y" * 10_000)
    assert require_complete_draft(" abcd ", "\r\n12\r\n3\r4\n", 4, 6) == ("abcd", "12\n3\n4")
    error = incomplete("abcde", "hello", 4, 6)
    assert (error.code, error.params) == ("bad_subject", {"limit": 4})
    error = incomplete("abcd", "1234567", 4, 6)
    label = {"zh": "正文", "en": "The text"}
    assert (error.code, error.field, error.params) == ("too_long", "body", {"label": label, "limit": 6})


def test_what_a_model_writes_when_it_has_nothing_to_write_counts_in_short_texts_only() -> None:
    asking = "请用户提供邮件内容"
    assert is_template(asking) and is_template(asking + "。" * (SHORT - len(asking)))
    assert not is_template(asking + "。" * (SHORT - len(asking) + 1))
    assert is_template("很长的正文。" * SHORT + "[Your name]"), "a placeholder counts anywhere"
    assert is_template("[TBD]…") and not is_template("TBD and more")
