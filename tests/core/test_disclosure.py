"""Who can read it: every tool × every place × every reader, with a model that repeats all it has ever seen.

Secrets are planted in every free text and every field of requests; whatever reaches a channel is searched for them: the
texts, the blocks as Slack gets them, keys (which are metadata there), titles, words and names of pictures, and what is
whispered to others. A tool that nobody has classified, or that has no scene here, fails.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply, RawToolCall
from bot.agent.tool_search import FIND, build_find_tool
from bot.chat.messages import ChannelReaders, MessageRef, Place, Post, SentFile
from bot.core import disclosure
from bot.core.disclosure import Disclosure, decide_disclosure
from bot.core.history_entries import EntryKind
from bot.core.i18n import translate
from bot.core.run_state import RunState
from bot.core.work_items import ResumeRun
from bot.platforms.slack.blocks import render_post
from tests.harness.memory_bot import HANDBOOK, TODAY, Bot
from tests.harness.memory_platform import MemoryChannel
from tests.harness.presses import everywhere
from tests.harness.tools import build_tool
from tests.stories.script import calls, open_cards
from tools.catalog import TOOLS
from tools.spec import FrozenModel, Person, Privacy, TextRef, ToolOutcome
from tools.tool import Tool, ToolContext
from tools.workflow.engine.commands import CommentCommand
from tools.workflow.engine.state import Decision, Delegation

from tests.tools.office import PEOPLE, decide  # isort: skip

AUTHOR, APPROVER, COLLEAGUE, ADMIN, GUEST = "U1", "U2", "U5", "U8", "U6"
READERS = (AUTHOR, APPROVER, COLLEAGUE, ADMIN, GUEST)
PLACES = {
    "dm": None,
    "own thread": Place(team="T1", channel="C1", thread="7.0"),
    "channel": Place(team="T1", channel="C1", thread="8.0"),
    "with a guest": Place(team="T1", channel="CGUEST", thread="9.0"),
    "slack connect": Place(team="T1", channel="C2", thread="9.5", shared=True),
}
OUTSIDE = ("with a guest", "slack connect")

TEXTS = tuple(f"GEHEIM{n}" for n in range(1, 9))
"""In what people wrote: reasons, a receipt, opinions, comments, what a server knows."""
TYPED = ("WORTE1", "WORTE2")
"""In what the calls themselves bring: the words that a person has just asked for something in."""
SICK_FIELDS = ("2027-03-08", "2027-03-10", "Sick leave", "病假", "胃镜")
OWN_FIELDS = ("2027-04-12", "2027-04-14", "7391.55")
"""Of requests of no private kind: their author may see them in a channel of the company."""
POINTERS = frozenset(
    translate(f"pointer.{one}", language) for one in ("sent", "card", "brought") for language in ("zh", "en")
)

SICK = {"leave_type": "sick", "start_date": "2027-03-08", "end_date": "2027-03-10", "approver": "U2"}
LATER = {"start_date": "2027-03-15", "end_date": "2027-03-16"}
ANNUAL = {"leave_type": "annual", "start_date": "2027-04-12", "end_date": "2027-04-14", "approver": "U2"}
DINNER = {"amount": "7391.55", "currency": "CNY", "category": "meals", "approver": "U2"}

SCENES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "list_processes": [{}],
    "list_people": [{"name": "李四"}, {"department": "Finance"}, {"manager": "李四"}],
    "start_process": [
        {"process": "leave", "form": {**SICK, **LATER, "reason": TYPED[0]}},
        {"process": "leave", "form": {**SICK, **LATER, "reason": TYPED[0], "approver": "U3"}},
        {"process": "expense", "form": {**DINNER, "amount": "12.5", "reason": TYPED[0], "receipt": f"F{TYPED[1]}"}},
        {"process": "leave", "form": {"leave_type": "sick", "reason": TYPED[0]}},
    ],
    "my_requests": [{}, {"told": True}],
    "request_status": [
        {"request_id": "L-0001"},
        {"request_id": "L-0002"},
        {"request_id": "E-0001"},
        *[{"request_id": one, "details": True} for one in ("L-0001", "E-0001")],
    ],
    "show_process": [{"name": "leave"}, {"name": "L-0001"}, {"name": "E-0001"}],
    "query_todo_tasks": [{}, {"person": "U2"}],
    "decide_task": [{"task_id": "E-0001-1", "opinion": TYPED[0]}, {"task_id": "L-0001-1"}],
    "transfer_task": [{"task_id": "E-0002-1", "person": "U5", "opinion": TYPED[0]}],
    "add_sign": [{"task_id": "E-0003-1", "people": ["U5"], "where": "before", "opinion": TYPED[0]}],
    "urge_task": [{"task_id": "L-0001"}, {"task_id": "E-0004"}],
    "comment_request": [{"request_id": "E-0004", "text": TYPED[0]}, {"request_id": "L-0001", "text": TYPED[0]}],
    "cc_request": [{"request_id": "E-0004", "people": ["U5"]}],
    "resubmit_request": [{"request_id": "L-0002", "form": {"reason": TYPED[0]}}],
    "withdraw_request": [{"request_id": "E-0005", "because": TYPED[0]}, {"request_id": "L-0001"}],
    "set_absence": [{"first_day": "2027-05-03", "last_day": "2027-05-07", "deputy": "U4"}],
    "end_absence": [{"absence_id": "D1"}],
    "list_absences": [{}],
    "send_email": [{"to": "李四", "subject": TYPED[0], "body": f"{TYPED[0]} {TYPED[1]}"}],
    "cancel_card": [{"card": "A00nothing"}],
    "decide_several": [{}, {"amount_below": "200"}],
    "offer_steps": [{"steps": [{"form": "leave", "values": {"reason": TYPED[0]}}, {"say": "my tasks"}]}],
    "search_handbook": [{"query": "hotel limit in Shanghai"}],
    "read_handbook": [{"section": "expense.en.md#Hotel limits"}],
    "calculate": [{"expression": "1+1"}],
    "working_days": [{"start": "2026-11-23", "end": "2026-11-27"}],
    "add_working_days": [{"day": "2026-11-23", "count": 3}],
    "next_holidays": [{"count": 2}],
    "leave_balance": [{}, {"year": 2027}],
    "think": [{"thought": "hm"}],
    FIND: [{"query": "rooms"}],
    "crm__lookup": [{"customer": "x"}],
    "crm__nobody_said": [{"customer": "x"}],
}
"""Tool → what it is called with. Two are of a server: one whose file says nothing, and one nobody has classified."""
CANNOT = {
    AUTHOR: {"transfer_task", "add_sign", "cancel_card", FIND},
    APPROVER: {"urge_task", "resubmit_request", "withdraw_request", "end_absence", "cancel_card", FIND},
}
"""What these two are refused, whatever they ask; the others are refused more."""


class Customer(FrozenModel):
    customer: str


def foreign(name: str, privacy: Privacy | None) -> Tool:
    """A tool of a server. `privacy`: what the administrator says of it; None if that is nothing."""

    async def run(use: ToolContext, args: Customer) -> ToolOutcome:
        return ToolOutcome(data={"found": TEXTS[7]}, summary=TextRef(key="result.server", params={"server": TEXTS[7]}))

    told = {"privacy": privacy} if privacy else {}
    return build_tool(name, Customer, run, purpose="Looks up a customer.", server="crm", **told)


def test_every_tool_has_its_scene() -> None:
    assert {tool.name for tool in TOOLS} <= set(SCENES), "add what it is called with to SCENES"
    assert build_find_tool(lambda query: ()).privacy is Privacy.PUBLIC


MARKUP = re.compile(r"[{}\[\]<>\"'_]")
"""What looks like a call is no answer, and reaches nobody."""


@dataclass
class Blabber:
    """A model that calls one tool and then repeats everything that it has been sent."""

    tool: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    saw: str = ""
    again: bool = False
    """It has yet to make a harmless call whose reason repeats what it has seen."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        told: Messages = json.loads(f"[{','.join(messages)}]")
        self.saw = "\n".join(f"{one['role']}: {one.get('content')}{one.get('tool_calls', '')}" for one in told[1:])
        if self.tool:
            wanted = RawToolCall("call_0", self.tool, json.dumps({"reason": "to know", **self.args}))
            self.tool, self.again = "", True
            return ModelReply(calls=(wanted,), finish="tool_calls")
        if self.again:
            self.again = False
            known = " ".join(one for one in (*TEXTS, *TYPED, *SICK_FIELDS, *OWN_FIELDS) if one in self.saw)
            args = {"reason": known or "to count", "expression": "1+1"}
            return ModelReply(calls=(RawToolCall("call_1", "calculate", json.dumps(args)),), finish="tool_calls")
        return ModelReply(text=f"I know: {MARKUP.sub(' ', self.saw)}")


@dataclass
class Loud(MemoryChannel):
    """Keeps every state of every message, and not only the last."""

    ever: list[tuple[str, str]] = field(default_factory=list)
    """(channel, what people or programs there could read)."""

    async def post_message(self, place: Place, post: Post, *, key: str, **more: Any) -> MessageRef:
        self.ever.append((place.channel, f"{key} {readable(post)}"))
        return await super().post_message(place, post, key=key, **more)

    async def update_message(self, ref: MessageRef, post: Post) -> None:
        self.ever.append((ref.channel, readable(post)))
        await super().update_message(ref, post)

    async def post_ephemeral(self, place: Place, person: str, text: str) -> None:
        self.ever.append((f"whispered to {person}", text))
        await super().post_ephemeral(place, person, text)

    async def upload_picture(self, place: Place, picture: bytes, **more: Any) -> None:
        self.ever.append((place.channel, f"{more}"))
        await super().upload_picture(place, picture, **more)


def readable(post: Post) -> str:
    """Everything of a post, as we hold it and as Slack gets it."""
    return repr(post) + "".join(part.text + json.dumps(part.blocks, ensure_ascii=False) for part in render_post(post))


class Walk:
    """One installation full of secrets, and one reader who asks for everything in one place."""

    def __init__(self, redis: Redis) -> None:
        servers = [foreign("crm__lookup", Privacy.PRIVATE), foreign("crm__nobody_said", None)]
        more: dict[str, Any] = {"tools_most": 60, "think_tool": "on", "history_tokens": 2_000, "channel": Loud}
        self.model = Blabber()
        self.bot = Bot(redis, handbook=HANDBOOK, mcp_tools={one.name: one for one in servers}, **more)
        self.chat = cast(Loud, self.bot.chat)
        self.bot.use_model(self.model)
        boss = Person(id=ADMIN, name="管理员", roles=frozenset({"admin"}), locale="zh-CN")
        self.bot.directory.known = [*PEOPLE, boss]
        self.bot.readers.known["CGUEST"] = ChannelReaders.OUTSIDE
        self.numbers = self.begun = self.shown = 0

    async def furnish(self) -> None:
        """Requests of the author with a secret in each of their fields."""
        engine, now = self.bot.engine, self.bot.today()
        await self.bot.files.announce_files("U1", [SentFile(id=f"F{TEXTS[1]}", name="scan.png")])
        form = {**SICK, "reason": f"胃镜 {TEXTS[0]}", "attachment": f"F{TEXTS[1]}"}
        await engine.start_request("leave", form, "U1", "a", now)
        await engine.start_request("leave", {**ANNUAL, "reason": TEXTS[1]}, "U1", "b", now)
        for n in range(5):
            form = {**DINNER, "reason": TEXTS[n % 3], "receipt": f"F{TEXTS[1]}"}
            await engine.start_request("expense", form, "U1", f"e{n}", now)
        await decide(engine, "L-0002-1", "U2", Decision.REJECT, TEXTS[2])
        await engine.execute_command(CommentCommand(request="E-0005", actor="U2", text=TEXTS[3]), "c", now)
        away = Delegation(id="D1", person="U1", deputy="U4", start=TODAY, end=TODAY + timedelta(days=2))
        await engine.add_delegation(away, now)
        await self.bot.work()
        self.chat.ever.clear()

    def place_of(self, name: str, reader: str) -> Place:
        return PLACES[name] or Place(team="T1", channel=f"D{reader}", direct=True)

    async def ask(self, place: Place, reader: str, tool: str = "", args: Mapping[str, Any] | None = None) -> None:
        self.numbers += 1
        self.model.tool, self.model.args, self.model.saw, self.model.again = tool, args or {}, "", False
        self.begun, self.shown = len(self.chat.ever), len(self.chat.posts)
        await self.bot.send("please", reader, f"Ev{self.numbers}", place)

    async def press_everything(self, reader: str) -> None:
        """Whatever this reader was brought since the last question, wherever it stands."""
        for one in self.chat.posts[self.shown :]:
            buttons = one.post.card.buttons if one.post.card else ()
            yes = [button for button in buttons if button.choice in ("confirm", "send", "approve")]
            if yes and one.place.channel in (f"D{reader}", *(p.channel for p in PLACES.values() if p)):
                self.numbers += 1
                await self.bot.put_button_press(yes[0], reader, f"press{self.numbers}", place=one.place)
        await self.bot.work()

    def leaks(self, name: str, reader: str) -> list[str]:
        """Secrets that anybody but the reader could have read since the last question, with what they stood in."""
        now, own = self.chat.ever[self.begun :], reader == AUTHOR and name not in OUTSIDE
        carded = any("cs:" in text.replace("cs:feedback", "") for _, text in now)
        secrets = [*TEXTS, *SICK_FIELDS, *(() if own else OWN_FIELDS), *(TYPED if carded else ())]
        others = [(channel, text) for channel, text in now if not channel.startswith(("DU", f"whispered to {reader}"))]
        return [f"{one} in {channel}: {text[:300]}" for one in secrets for channel, text in others if one in text]

    async def worked(self) -> set[str]:
        """Tools that gave a result or brought a card."""
        steps = [one async for one in self.bot.journal.stream_records(kinds=["step"])]
        return {one.more["tool"] for one in steps if one.more["status"] in ("succeeded", "awaiting")}

    def in_dm(self, reader: str) -> str:
        return "\n".join(text for channel, text in self.chat.ever if channel == f"D{reader}")

    def in_place(self, name: str) -> list[str]:
        place = PLACES[name]
        return [text for channel, text in self.chat.ever if place is not None and channel == place.channel]


def fresh(place: Place, number: int) -> Place:
    """Another thread of the same channel: what was asked before is not part of it."""
    return place if place.direct else place.model_copy(update={"thread": f"{number}.0"})


@pytest.fixture
async def walk(redis: Redis) -> AsyncIterator[Walk]:
    one = Walk(redis)
    await one.furnish()
    yield one


FIRST = (("own thread", AUTHOR), ("channel", APPROVER), ("with a guest", COLLEAGUE), ("slack connect", ADMIN))
"""What is walked at every change; a guest, who is not served, takes no time."""
WALKS = [
    pytest.param(name, reader, marks=() if (name, reader) in (*FIRST, ("channel", GUEST)) else pytest.mark.slow)
    for name in PLACES
    for reader in READERS
]


@pytest.mark.parametrize(("name", "reader"), WALKS)
async def test_nothing_private_reaches_a_channel_and_its_person_has_it(walk: Walk, name: str, reader: str) -> None:
    place = walk.place_of(name, reader)
    for tool, scenes in SCENES.items():
        for args in scenes:
            await walk.ask(fresh(place, walk.numbers), reader, tool, args)
            seen = [secret for secret in (*TEXTS, *SICK_FIELDS[:2], *OWN_FIELDS) if secret in walk.model.saw]
            told = walk.in_dm(reader) + "".join(walk.in_place(name))
            assert not [one for one in seen if one not in told], f"{tool}: its person has not got it"
            await walk.press_everything(reader)
            assert walk.leaks(name, reader) == [], tool
    lacking = set(SCENES) - await walk.worked() - CANNOT.get(reader, set(SCENES))
    assert not lacking, "the walk shows nothing of what was refused"
    if reader == GUEST:
        assert walk.in_place(name) == [], "who is not served is not answered in a channel"
    elif name in OUTSIDE:
        said = [one.post for one in walk.chat.posts if one.place.channel == place.channel]
        assert said and {post.text for post in said} <= POINTERS, "nothing but pointers"
        assert not any(post.receipt or post.card or post.buttons for post in said)


@pytest.mark.parametrize("name", [one for one in PLACES if one != "dm"])
async def test_who_asks_on_in_the_thread_finds_nothing_there(walk: Walk, name: str) -> None:
    place = walk.place_of(name, APPROVER)
    await walk.ask(place, APPROVER, "query_todo_tasks", {})
    assert "7391.55" in walk.model.saw, "control: it was seen"
    await walk.ask(place, COLLEAGUE)
    assert not [one for one in (*TEXTS, *SICK_FIELDS, *OWN_FIELDS) if one in walk.model.saw]
    await walk.ask(walk.place_of("dm", APPROVER), APPROVER)
    assert "7391.55" in walk.model.saw, "the DM remembers it: they can ask on there"


async def test_negative_control_with_the_decision_switched_off_the_walk_finds_leaks(
    walk: Walk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disclosure, "decide_disclosure", lambda privacy, surroundings: Disclosure.HERE)
    for tool in ("query_todo_tasks", "request_status", "send_email", "comment_request", "crm__nobody_said"):
        place = fresh(walk.place_of("channel", APPROVER), walk.numbers)
        await walk.ask(place, APPROVER, tool, SCENES[tool][0])
        assert walk.leaks("channel", APPROVER), tool


def test_the_one_decision() -> None:
    here, dm = Disclosure.HERE, Disclosure.DM_WITH_POINTER
    readers = (ChannelReaders.DIRECT, ChannelReaders.OUTSIDE)
    inside = [one for one in ChannelReaders if one not in readers]
    by_privacy = {Privacy.PRIVATE: dm, Privacy.OWN_TEXT: Disclosure.HERE_WITHOUT_FREE_TEXT}
    for privacy in Privacy:
        assert [decide_disclosure(privacy, one) for one in readers] == [here, dm]
        assert {decide_disclosure(privacy, one) for one in inside} == {by_privacy.get(privacy, here)}


async def looks(messages: Messages) -> ModelReply:
    return ModelReply(text="GEHEIM1") if messages[-1]["role"] == "tool" else calls(("query_todo_tasks", {}))


async def test_killed_anywhere_the_answer_is_in_the_dm_once_and_the_pointer_once(redis: Redis) -> None:
    """And the DM remembers it once, however often its work was done again."""
    place = Place(team="T1", channel="C1", thread="8.0")

    async for bot in everywhere(redis, lambda: Bot(redis, [looks] * 8), more_than=8):
        await bot.send("我的待办", person="U2", place=place)
        assert [one for one in bot.chat.texts("DU2") if "GEHEIM" in one] == ["GEHEIM1"]
        assert [one for one in bot.chat.keys("C1") if one.endswith(":pointer")] and len(bot.chat.keys("C1")) <= 3
        assert not [one for one in bot.chat.texts("C1") if "GEHEIM" in one]
        told = (await bot.history.load_history(Place(team="T1", channel="DU2", direct=True).conversation)).entries
        assert [one.kind for one in told] == [EntryKind.SAID, EntryKind.CALLS, EntryKind.SAID]
        assert "GEHEIM1" in told[-1].content
        here = (await bot.history.load_history(place.conversation)).entries
        assert len(here) == 2 and "GEHEIM" not in here[1].content


async def test_a_card_that_waits_in_the_dm_is_an_open_one_of_that_dm_and_of_nobody_else(redis: Redis) -> None:
    place, dm = Place(team="T1", channel="C1", thread="8.0"), Place(team="T1", channel="DU1", direct=True)
    bot = Bot(redis, [calls(("send_email", {"to": "李四", "subject": "x", "body": "GEHEIM1"}))])
    await bot.send("给李四发邮件", person="U1", place=place)
    [waiting] = (await bot.runs.load_conversation(dm.conversation, bot.history)).waiting
    assert (waiting.tool, waiting.person) == ("send_email", "U1")
    for person, where, listed in (("U1", dm, True), ("U1", place, True), ("U5", place, False)):
        bot.model.requests.clear()
        await bot.send("hm", person=person, id=f"Ev{person}{where.channel}", place=where)
        assert (waiting.approval in open_cards(bot.model.requests[0])) is listed
        is_said = "GEHEIM1" in str(bot.model.requests[0])
        assert is_said is (listed and where.direct), "what it says, the DM alone knows"
    await bot.press(bot.chat.cards("DU1")[0], "cancel")
    assert not (await bot.runs.load_conversation(dm.conversation, bot.history)).waiting


def test_records_of_the_version_before_count_as_private() -> None:
    """Those without `privacy`."""
    assert RunState.model_validate({"messages": []}).privacy is Privacy.PRIVATE
    resume = {"kind": "resume_run", "run": "R", "uid": "u", "status": "succeeded", "observation": {}}
    assert ResumeRun.model_validate(resume).privacy is Privacy.PRIVATE


# Names


CHINESE_NAMES = [one.name for one in PEOPLE]
LATIN_NAMES = [one.names[0] for one in PEOPLE]
ALSO = re.compile(r"\balso\W+[\u4e00-\u9fff]+")
"""The other names of somebody, by which they may be searched for."""


async def walk_as_reader(redis: Redis, reader: str, locale: str, typed: str) -> tuple[set[str], set[str]]:
    """Play every tool for one reader in their direct messages, who calls 李四 as they typed. Returns what the model was
    told and what they read."""
    walk = Walk(redis)
    walk.bot.directory.known = [one.model_copy(update={"locale": locale}) for one in walk.bot.directory.known]
    await walk.furnish()
    told, place = set[str](), walk.place_of("dm", reader)
    for tool, scenes in SCENES.items():
        for args in scenes:
            await walk.ask(place, reader, tool, json.loads(json.dumps(args, ensure_ascii=False).replace("李四", typed)))
            told |= {ALSO.sub("", line) for line in walk.model.saw.splitlines()}
            await walk.press_everything(reader)
    return told, {text for channel, text in walk.chat.ever if channel == f"D{reader}" and "I know: " not in text}


@pytest.mark.parametrize("reader", [AUTHOR, APPROVER])
async def test_an_english_reader_and_their_model_meet_latin_names_only(redis: Redis, reader: str) -> None:
    told, read = await walk_as_reader(redis, reader, "en-US", "Li Si")
    assert [one for one in told for name in CHINESE_NAMES if name in one] == []
    assert [one for one in read for name in CHINESE_NAMES if name in one] == []
    assert any("Li Si" in one for one in told) and any("Li Si" in one for one in read), "control: people are named"


async def test_a_chinese_reader_and_their_model_meet_chinese_names(redis: Redis) -> None:
    told, read = await walk_as_reader(redis, AUTHOR, "zh-CN", "李四")
    assert any("李四" in one for one in told) and any("李四" in one for one in read)
    assert [one for one in read for name in LATIN_NAMES if name in one] == []
