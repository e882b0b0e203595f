"""Scenes that bring about every kind of message: who does what, and what people are told, in the order in which it is
said. Everything is in memory except Redis, one item after another, with a clock that stands still."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.chat.messages import Button, Click, Message, MessageRef, Place, Post
from bot.core.errors import ModelUnavailableError
from bot.core.work_items import (
    APPROVE_SET,
    REJECT_SET,
    TICKED,
    BacklogCleared,
    ButtonPressed,
    ExpireCard,
    MessageReceived,
    OpenSet,
    RemindDeciders,
    build_set_id,
)
from bot.features.sets.morning_lists import OpenMorningList
from bot.features.welcome import WelcomePerson
from tests.golden.golden_files import hide_changing
from tests.golden.rendering import describe_post, format_line, format_value
from tests.harness.memory_bot import HANDBOOK, Bot
from tests.harness.memory_platform import MemoryChannel
from tests.harness.scripted_model import Scripted
from tests.harness.talks import notes
from tests.stories.script import DONE, calls, expense, mail
from tools.spec import EffectUnknownError, Person, ToolError
from tools.workflow.engine.store import RedisStore

from tests.tools.office import LI, LIN, PEOPLE, SICK, TAXI, WANG, ZHANG, ZHAO  # isort: skip

LOCALES = {"zh": "zh-CN", "en": "en-US"}
BOSS = Person(id="U8", name="管理员", names=("Admin",), roles=frozenset({"admin"}))
CHANNEL = Place(team="T1", channel="C1", thread="7.0")
OUTSIDE = Place(team="T1", channel="C2", thread="9.0", shared=True)
LEAVE = calls(("start_process", {"process": "leave", "form": {**SICK, "leave_type": "annual", "reason": "去看父母"}}))
LARGE = expense(amount="1500", reason="去上海开会")


@dataclass
class Transcript(MemoryChannel):
    """A channel that keeps what is said in the order in which it is said. Of steps that are rewritten while a run is at
    work, it keeps none: how often that happens is a matter of speed."""

    acts: list[tuple[str, list[list[str]]]] = field(default_factory=list)
    """What somebody does, and everything that is said then."""
    shown: list[Post] = field(default_factory=list)

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        self._add_post(f"{place.channel}: {hide_changing(key)}", post)
        return await super().post_message(place, post, key=key, again=again, wait_ms=wait_ms)

    async def update_message(self, ref: MessageRef, post: Post) -> None:
        if self.posts[int(ref.ts)].post != post:
            self._add_post(f"{ref.channel}: {hide_changing(self.posts[int(ref.ts)].key)}, rewritten", post)
        await super().update_message(ref, post)

    async def post_ephemeral(self, place: Place, person: str, text: str) -> None:
        self._add(f"{place.channel}: only to {person}", format_line("", text))
        await super().post_ephemeral(place, person, text)

    async def upload_picture(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None:
        self._add(f"{place.channel}: {hide_changing(key)}", format_line("picture", f"{name}: {title}\n{alt}"))
        await super().upload_picture(place, picture, name=name, title=title, alt=alt, key=key, again=again)

    def begin_act(self, what: str) -> None:
        self.acts.append((f"> {what}", []))

    def _add_post(self, heading: str, post: Post) -> None:
        self.shown.append(post)
        if post.steps is None:
            self._add(heading, [*describe_post(post, brief=True)])

    def _add(self, heading: str, lines: list[str]) -> None:
        self.acts[-1][1].append([heading, *lines])

    @property
    def lines(self) -> list[str]:
        """What happens in several lanes at once has no order: it is sorted."""
        return [line for act, said in self.acts for block in [["", act], *sorted(said)] for line in block][1:]


@dataclass
class Stage:
    """One installation in which a scene is played, all people reading one language."""

    bot: Bot
    numbers: int = 0

    @property
    def transcript(self) -> Transcript:
        return cast(Transcript, self.bot.chat)

    def _note(self, what: str) -> None:
        self.numbers += 1
        self.transcript.begin_act(what)

    async def put(self, lane: str, item: str, what: str = "") -> None:
        """An item in a lane, and everything that comes of it."""
        if what:
            self._note(what)
        self.numbers += 1
        await self.bot.lanes.enqueue(lane, f"i{self.numbers}", item)
        await self.bot.work()

    async def say(
        self, person: Person, text: str, *replies: Scripted, place: Place | None = None, unread: int = 0
    ) -> None:
        """Somebody writes; the model answers so."""
        self.bot.model.script[:] = replies
        place = place or Place(team="T1", channel=f"D{person.id}", direct=True, thread=f"{self.numbers}.0")
        at = f"1.{self.numbers}"
        message = Message(id=f"Ev{self.numbers}", place=place, person=person.id, text=text, at=at, unread=unread)
        what = f"{person.id}{'' if place.direct else f' in {place.channel}'}: {text}"
        await self.put(place.conversation, MessageReceived(message=message).model_dump_json(), what)

    async def press(self, person: Person, choice: str, *, form: Mapping[str, str] | None = None) -> None:
        """A press on the newest card with this button in somebody's DM."""
        there = f"D{person.id}"
        shown = [one for one in self.bot.chat.posts if one.place.channel == there and _find(one.post, choice)]
        button = _find(shown[-1].post, choice)
        assert button is not None
        at = MessageRef(channel=there, ts=str(self.bot.chat.posts.index(shown[-1])))
        self._note(f"{person.id} presses {choice}{f' with {dict(form)}' if form else ''}")
        click = Click(
            id=f"c{self.numbers}", approval=button.approval, version=button.version, choice=choice,
            person=person.id, place=shown[-1].place, form=None if form is None else dict(form), card=at,
            seal=button.seal,
        )  # fmt: skip
        await self.put(click.approval, ButtonPressed(click=click).model_dump_json())

    async def press_unshown(self, person: Person, approval: str, choice: str, version: int = 1) -> None:
        """A press on a button that is not shown, or not any more."""
        place = Place(team="T1", channel=f"D{person.id}", direct=True)
        about = {"approval": approval, "version": version, "choice": choice, "person": person.id, "place": place}
        pressed = ButtonPressed(click=Click(id=f"c{self.numbers}", **about))
        await self.put(approval, pressed.model_dump_json(), f"{person.id} presses {choice}, on an old screen")

    def find_card(self, person: Person) -> str:
        """The newest card that this person can press."""
        return self.bot.chat.cards(f"D{person.id}")[-1].buttons[0].approval


def _find(post: Post, choice: str) -> Button | None:
    buttons = (*post.buttons, *(post.card.buttons if post.card else ()))
    return next((one for one in buttons if one.choice == choice), None)


def open_stage(redis: Redis, language: str) -> Stage:
    bot = Bot(
        redis, suggestions=[], handbook=HANDBOOK, channel=Transcript, store=RedisStore(redis), history_tokens=2_000,
        summaries=[notes("住宿上限 600 元")] * 9,
    )  # fmt: skip
    theirs = {"locale": LOCALES.get(language, language), "timezone": "Asia/Shanghai"}
    bot.directory.known = [one.model_copy(update=theirs) for one in (*PEOPLE, BOSS)]
    return Stage(bot)


async def start(stage: Stage, script: ModelReply = LEAVE) -> None:
    """A request of Zhang San's that waits for Li Si."""
    await stage.say(ZHANG, "please", script, DONE)
    await stage.press(ZHANG, "confirm")


async def play_a_leave(stage: Stage) -> None:
    await start(stage)
    await stage.press(LI, "reject", form={"opinion": "月底很忙"})
    await stage.press(ZHANG, "resubmit", form={"field_reason": "妈妈生日"})
    await stage.press(LI, "approve_with", form={"opinion": "玩得开心"})
    await stage.say(ZHANG, "withdraw", calls(("withdraw_request", {"request_id": "L-0001", "because": "不去了"})), DONE)
    await stage.press(ZHANG, "confirm")


async def play_an_expense(stage: Stage) -> None:
    await start(stage, LARGE)
    await stage.press(LI, "approve")
    await stage.press(ZHAO, "reject", form={"opinion": "发票上是 1300"})
    await stage.press(ZHANG, "resubmit", form={"field_amount": "900"})
    await stage.press(LI, "return", form={"to": "revise", "opinion": "再看看"})
    await stage.press(ZHANG, "withdraw")


async def play_tasks(stage: Stage) -> None:
    await start(stage)
    for tool, person, args in (
        ("urge_task", ZHANG, {"task_id": "L-0001"}),
        ("comment_request", LI, {"request_id": "L-0001", "text": "请补充 *说明*"}),
        ("cc_request", ZHANG, {"request_id": "L-0001", "people": ["U5"]}),
        ("add_sign", LI, {"task_id": "L-0001-1", "people": ["U5"], "where": "before", "opinion": "请看"}),
    ):
        await stage.say(person, tool, calls((tool, args)), DONE)
        await stage.press(person, "confirm")
    await stage.press(LIN, "approve")
    await stage.press(LI, "transfer", form={"person": "U3", "opinion": "出差"})
    await stage.say(ZHANG, "how is it?", calls(("request_status", {"request_id": "L-0001", "details": True})), DONE)
    await stage.say(ZHANG, "picture", calls(("show_process", {"name": "L-0001"})), DONE)
    await stage.press(WANG, "approve")


async def play_an_absence(stage: Stage) -> None:
    away = {"first_day": "2026-11-20", "last_day": "2026-11-27", "deputy": "U5"}
    await stage.say(LI, "away", calls(("set_absence", away)), DONE)
    await stage.press(LI, "confirm")
    await start(stage)
    await stage.press(LIN, "approve")
    [absence] = await stage.bot.engine.list_delegations("U2", stage.bot.today())
    back = calls(("end_absence", {"absence_id": absence.id}), first=1)
    await stage.say(LI, "back", calls(("list_absences", {})), back, DONE)
    await stage.press(LI, "confirm")
    await start(stage, expense())
    draft = calls(("decide_task", {"task_id": "E-0001-1", "decision": "reject", "opinion": "缺发票"}))
    await stage.say(LI, "no, for lack of an invoice", draft, DONE)
    await stage.press(LI, "reject", form={"opinion": "缺发票"})


async def play_mails(stage: Stage) -> None:
    await stage.say(ZHANG, "mail", mail(), DONE)
    await stage.press(ZHANG, "edit", form={"subject": "进度", "body": "请看 L-0001"})
    await stage.press(ZHANG, "send")
    stage.bot.mailer.failing = ToolError("busy", "later")
    await stage.say(ZHANG, "mail", mail(subject="一"), DONE)
    await stage.press(ZHANG, "send")
    stage.bot.mailer.failing = EffectUnknownError("the connection broke")
    await stage.press(ZHANG, "retry")
    await stage.press(ZHANG, "redo")
    await stage.press(ZHANG, "happened")
    stage.bot.mailer.failing = None
    await stage.say(ZHANG, "mail", mail(to="李四, U3", subject="聚餐"), DONE)
    await stage.press(ZHANG, "send")


async def play_ends(stage: Stage) -> None:
    """Cards that are cancelled, taken back, pass by rule, expire, or end elsewhere."""
    await stage.say(ZHANG, "cancelled", LEAVE, DONE)
    await stage.press(ZHANG, "cancel")
    await stage.say(ZHANG, "taken back", LEAVE, DONE)
    card = stage.find_card(ZHANG)
    await stage.say(ZHANG, "never mind", calls(("cancel_card", {"card": card})), DONE)
    short = {**SICK, "leave_type": "personal", "end_date": SICK["start_date"]}
    await stage.say(ZHANG, "by rule", calls(("start_process", {"process": "leave", "form": short})), DONE)
    await stage.press(ZHANG, "confirm")
    await start(stage, expense())
    card = stage.find_card(LI)
    stage.bot.now_offset = timedelta(hours=77)
    await stage.put(card, RemindDeciders(version=1).model_dump_json(), "half of the time has passed")
    stage.bot.now_offset = timedelta(hours=121)
    await stage.put(card, ExpireCard(version=1).model_dump_json(), "all of it has passed")
    await stage.press(LI, "again")
    await stage.say(ZHANG, "withdraw", calls(("withdraw_request", {"request_id": "E-0001"})), DONE)
    await stage.press(ZHANG, "confirm")


async def play_refusals(stage: Stage) -> None:
    await start(stage)
    card = stage.find_card(LI)
    await stage.press_unshown(ZHANG, card, "approve")
    await stage.press_unshown(LIN, card, "approve")
    await stage.press_unshown(LI, card, "approve", version=9)
    await stage.press_unshown(LI, card, "nonsense")
    await stage.press(LI, "approve")
    await stage.press_unshown(LI, card, "reject")
    await stage.press_unshown(LI, "A00nothing", "approve")
    await stage.say(ZHANG, "mail", mail(), DONE)
    card = stage.find_card(ZHANG)
    stage.bot.now_offset = timedelta(hours=121)
    await stage.press_unshown(ZHANG, card, "send")


async def play_commands(stage: Stage) -> None:
    for words in (
        "help", "待办", "已办", "requests", "history", "settings", "stop", "晨报", "不要晨报", "清除", "历史", "", " ",
    ):  # fmt: skip
        await stage.say(ZHANG, words)
    await stage.say(BOSS, "设置")
    await stage.say(ZHANG, "", unread=90_000)
    await stage.say(PEOPLE[-1], "hello")
    await start(stage)
    for person, words in ((LI, "tasks"), (ZHANG, "申请"), (ZHANG, "history")):
        await stage.say(person, words)
    await stage.press(LI, "approve")
    await stage.say(LI, "done")
    there = Place(team="T1", channel="DU5", direct=True)
    await stage.put("welcome:U5", WelcomePerson(person="U5", place=there).model_dump_json(), "U5 opens the DM")


async def play_stops(stage: Stage) -> None:
    """The model says nothing, invents something, goes round in a ring, cannot be reached, is stopped."""
    await stage.say(ZHANG, "nothing", *[ModelReply(text="")] * 4)
    await stage.say(ZHANG, "invented", *[ModelReply(text="已为您提交申请 L-0042，金额 800 元，由王五审批。")] * 4)
    await stage.say(ZHANG, "in a ring", *[calls(("list_people", {"name": "Li"}))] * 12)
    [*_, again] = stage.bot.chat.buttons("DU1")
    stage.bot.model.script[:] = [DONE]
    await stage.press(ZHANG, again.choice)
    await stage.press_unshown(ZHANG, again.approval, again.choice)
    await stage.say(ZHANG, "refused", *[ModelReply(text="", finish="content_filter")] * 4)
    await stage.say(ZHANG, "away", ModelUnavailableError("down"), DONE)
    await stage.say(ZHANG, "who is meant?", calls(("send_email", {"to": "李", "subject": "一", "body": "二"})), DONE)
    await stage.say(ZHANG, "mail", mail(subject="停"), DONE)
    await stage.say(ZHANG, "stop")
    await stage.say(ZHANG, "breaks", *[RuntimeError("cannot digest xoxb-1-secret")] * 20)
    done = BacklogCleared(place=Place(team="T1", channel="DU1", direct=True), person="U1")
    await stage.put("full", done.model_dump_json(), "everything that waited is answered")


async def play_a_channel(stage: Stage) -> None:
    await stage.say(ZHANG, "leave", LEAVE, DONE, place=CHANNEL)
    await stage.press(ZHANG, "confirm")
    handbook = calls(("search_handbook", {"query": "hotel limit in Shanghai"}))
    await stage.say(ZHANG, "hotels?", handbook, ModelReply(text="上海每晚 600 元。 Shanghai: 600 CNY."), place=CHANNEL)
    await stage.say(LI, "my tasks", calls(("query_todo_tasks", {})), ModelReply(text="L-0001"), place=CHANNEL)
    await stage.say(LI, "my tasks", calls(("query_todo_tasks", {})), ModelReply(text="L-0001"), place=OUTSIDE)
    await stage.press(LI, "approve")


async def play_a_set(stage: Stage) -> None:
    for n, amount in enumerate(("11", "12", "13")):
        await stage.bot.engine.start_request("expense", {**TAXI, "amount": amount}, "U1", f"s{n}", stage.bot.today())
    await stage.put("none", OpenSet(person=ZHANG.id).model_dump_json(), "three claims of U1 come to U2")
    lane = build_set_id(LI.id, "x")
    await stage.put(lane, OpenSet(person=LI.id).model_dump_json(), "U2 asks for all of them at once")
    for choice, form in ((REJECT_SET, {TICKED: "1", "opinion": "缺发票"}), (APPROVE_SET, {TICKED: "0,2"})):
        await stage.press(LI, choice, form=form)
    await stage.say(ZHAO, "all", calls(("decide_several", {})), DONE)


async def play_a_morning(stage: Stage) -> None:
    await stage.bot.engine.start_request("expense", TAXI, "U1", "s", stage.bot.today())
    await stage.put("none", OpenSet(person=ZHANG.id).model_dump_json(), "a claim of U1 comes to U2")
    day = stage.bot.today().date().isoformat()
    for person in (LI, ZHANG, LIN):
        morning = OpenMorningList(person=person.id, day=day)
        await stage.put(build_set_id(person.id, day), morning.model_dump_json(), f"the morning of {person.id}")


async def play_advice(stage: Stage) -> None:
    advice = ModelReply('{"recommendation": "approve", "reasons": ["金额不大", "事由清楚"]}')
    stage.bot.suggestion_model.script[:] = [advice]
    await start(stage, expense())
    card = stage.bot.chat.cards("DU2")[-1]
    stage.transcript.begin_act("the last fact on the card of U2")
    stage.transcript.acts[-1][1].append([f"{name}: {format_value(value)}" for name, value in card.facts[-1:]])
    [*_, answer] = [one for one in stage.bot.chat.posts if one.post.pairs]
    for button in answer.post.pairs[0]:
        await stage.press_unshown(ZHANG, button.approval, button.choice)


async def play_a_long_talk(stage: Stage) -> None:
    for n in range(8):
        await stage.say(ZHANG, f"住宿上限是 600 元吗？{'请先不要办理任何事情。' * 20} {n}", DONE)
    stage.transcript.acts.clear()
    await stage.say(ZHANG, "history")


SCENES: Mapping[str, Sequence[Callable[[Stage], Awaitable[None]]]] = {
    "leave": [play_a_leave],
    "expense": [play_an_expense],
    "tasks": [play_tasks],
    "absence": [play_an_absence],
    "mail": [play_mails],
    "ends": [play_ends],
    "refusals": [play_refusals],
    "commands": [play_commands, play_a_long_talk],
    "stops": [play_stops],
    "channel": [play_a_channel],
    "sets": [play_a_set, play_a_morning],
    "advice": [play_advice],
}
"""Name of a golden file → its scenes, each in an installation of its own."""
