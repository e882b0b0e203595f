"""One press from start to end, with the process ended between any two actions; and cards whose subject, people or
platform are gone."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.approvals.outbox import relay_events
from bot.chat.messages import Click, FormSubmission
from bot.core.errors import ChatRefusedError, StoreUnavailableError
from bot.core.i18n import translate
from bot.core.records import ApprovalState, EffectState
from bot.core.work_items import ButtonPressed, ExpireCard
from bot.ops.dead_letters import retry_dead_letter
from bot.queue.lanes import LaneItem
from bot.queue.writes import apply_writes
from bot.storage.approvals import derive_task_card_id
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.memory_bot import Bot
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.memory_platform import DM, Edges, Killed
from tests.harness.presses import LEAVE, everywhere, opened, started
from tests.stories.script import DONE, calls, mail, open_cards
from tests.tools.office import SICK, TAXI, ZHANG
from tools.catalog import TOOLS
from tools.effect_parts import PartState
from tools.spec import EffectUnknownError, Person, Proposal, ToolError, ToolOutcome
from tools.tasks.todo import propose_decision
from tools.tool import ToolContext
from tools.workflow.engine.port import CommandResult

ASK = calls(("decide_task", {"task_id": "L-0001-1"}))
GONE = ChatRefusedError("channel_not_found")
SEVERAL = mail(to=["李四", "王五"])


async def test_killed_anywhere_in_a_press_there_is_one_request_one_card_and_one_answer(redis: Redis) -> None:
    async for bot in everywhere(redis, lambda: opened(Bot(redis, [LEAVE, DONE, DONE])), more_than=10):
        await bot.press(bot.chat.cards()[0], "confirm")
        assert [one.id for one in await bot.engine.list_own_requests("U1")] == ["L-0001"]
        assert len(bot.chat.cards("DU2")) == 1 and not bot.chat.cards()
        ended = [":final" in said.key for said in bot.chat.posts if said.place.channel == DM.channel]
        assert ended[-1] and sum(ended) == 1


async def test_killed_anywhere_in_mailing_several_each_gets_one_and_the_card_names_who_has_not(redis: Redis) -> None:
    """Repeated by hand, nobody gets a second mail except the person whose mail the card called uncertain."""
    doubted = set[str]()

    async for bot in everywhere(redis, lambda: opened(Bot(redis, [SEVERAL, DONE, DONE, DONE]))):
        await bot.press(bot.chat.cards()[0], "send")
        approval, sent = await bot.load_approval(), [one.to for one in bot.mailer.mails]
        assert len(set(sent)) == len(sent)
        if approval.effect is EffectState.DONE:
            assert sent == ["U2", "U3"]
            continue
        assert approval.effect is EffectState.UNKNOWN
        done = [one for one, state in approval.parts.items() if state is PartState.DONE]
        begun = [one for one, state in approval.parts.items() if state is PartState.BEGUN]
        assert set(done) <= set(sent) <= {*done, *begun} and len(begun) <= 1
        doubted.update(begun)
        [card] = bot.chat.cards()
        assert begun or not approval.parts, "with no mail in doubt the rest is sent without a question"
        assert all(part in card.lead for part in (say_part("done", done), say_part("begun", begun)))
        bot.end_at(Edges())
        await bot.press(card, "redo")
        again = [one.to for one in bot.mailer.mails][len(sent) :]
        assert again == [one for one in ("U2", "U3") if one not in done]
    assert doubted == {"U2", "U3"}


@dataclass
class Twice(Edges):
    """Edges that also end the continuing process, that many edges after the first."""

    behind: int = 0

    def __call__(self) -> None:
        self.passed += 1
        if self.passed in (self.at, self.at + self.behind):
            raise Killed


async def test_killed_again_while_the_rest_of_several_mails_goes_out_nobody_gets_two(redis: Redis) -> None:
    for behind in (1, 3):
        at = 0
        while True:
            at += 1
            await redis.flushall()
            bot = await opened(Bot(redis, [SEVERAL, DONE, DONE, DONE]))
            edges = Twice(at=at, behind=behind)
            bot.end_at(edges)
            await bot.press(bot.chat.cards()[0], "send")
            approval, sent = await bot.load_approval(), [one.to for one in bot.mailer.mails]
            assert len(set(sent)) == len(sent), (at, behind, sent)
            done = [one for one, state in approval.parts.items() if state is PartState.DONE]
            assert set(done) <= set(sent)
            assert approval.effect is EffectState.UNKNOWN or sent == ["U2", "U3"]
            if edges.passed < at + behind:
                break


async def test_a_mail_in_doubt_is_unknown_while_nobody_can_be_looked_up(redis: Redis, monkeypatch: Any) -> None:
    bot = await opened(Bot(redis, [mail(), DONE]))

    async def die_behind_the_mail(*_: object) -> None:
        bot.directory.is_unreachable = True
        raise Killed

    monkeypatch.setattr(MemoryMailer, "send_mail", die_behind_the_mail)
    await bot.press(bot.chat.cards()[0], "send")
    assert (await bot.load_approval()).effect is EffectState.UNKNOWN


async def test_a_mail_that_one_of_two_was_refused_is_tried_again_for_that_one(redis: Redis, monkeypatch: Any) -> None:
    bot = await opened(Bot(redis, [SEVERAL, DONE, DONE, DONE]))
    send = MemoryMailer.send_mail

    async def refuse_wang(mailer: MemoryMailer, to: Person, *mail: str) -> None:
        if to.id == "U3":
            raise ToolError("mail_refused", "no such mailbox", reply=550)
        await send(mailer, to, *mail)

    with monkeypatch.context() as refused:
        refused.setattr(MemoryMailer, "send_mail", refuse_wang)
        await bot.press(bot.chat.cards()[0], "send")
    approval = await bot.load_approval()
    assert approval.effect is EffectState.FAILED
    assert approval.parts == {"U2": PartState.DONE, "U3": PartState.REFUSED}
    await bot.press(bot.chat.cards()[0], "retry")
    assert (await bot.load_approval()).effect is EffectState.DONE
    assert [one.to for one in bot.mailer.mails] == ["U2", "U3"]


def say_part(state: str, people: list[str]) -> str:
    names = "、".join({"U2": "李四", "U3": "王五"}[one] for one in people)
    return translate(f"parts.{state}", "zh", names=names) if people else ""


async def test_killed_anywhere_in_asking_again_there_is_one_card_with_buttons(redis: Redis) -> None:
    async def prepare() -> Bot:
        bot = await opened(Bot(redis, [mail(), DONE]))
        await bot.handle_work((await bot.load_approval()).id, "x", ExpireCard(version=1))
        return bot

    async for bot in everywhere(redis, prepare):
        await bot.press(bot.chat.cards()[0], "again")
        [card] = bot.chat.cards()
        assert {one.choice for one in card.buttons} == {"send", "edit", "cancel"}
        approval = await bot.load_approval()
        assert (approval.state, approval.version) == (ApprovalState.OPEN, 2)


async def test_do_it_again_pressed_twice_in_a_hurry_does_it_again_once(redis: Redis) -> None:
    """The mail server breaks off each time: it may have accepted the mail each time."""
    bot = Bot(redis, [mail(), DONE])
    bot.mailer.failing = EffectUnknownError("away")
    await opened(bot)
    await bot.press(bot.chat.cards()[0], "send")
    unknown = bot.chat.cards()[0]
    for hurried in ("a", "b"):
        await bot.put_press(unknown, "redo", id=hurried)
    await bot.work()
    assert (await bot.list_journal_kinds()).count("effect.started") == 2, "the first time, and once more"
    assert "旧卡片上的按钮" in bot.chat.ephemerals[-1][1]
    bot.mailer.failing = None
    await bot.press(bot.chat.cards()[0], "redo")
    assert len(bot.mailer.mails) == 1, "the button that is shown now works"


async def test_killed_anywhere_in_taking_a_card_back_it_is_taken_back_and_everybody_hears(redis: Redis) -> None:
    async def prepare() -> Bot:
        bot = await opened(Bot(redis, [mail()]))
        bot.model.script[:] = [cancels] * 3
        return bot

    async def cancels(messages: Messages) -> ModelReply:
        cards = open_cards(messages, "send_email")
        done = messages[-1]["role"] == "tool" or not cards
        return DONE if done else calls(("cancel_card", {"card": cards[0]}))

    async for bot in everywhere(redis, prepare):
        await bot.send("算了", id="Ev2")
        assert (await bot.load_approval()).state is ApprovalState.CANCELLED and not bot.chat.cards()
        assert await bot.list_paused_runs() == () and not bot.mailer.mails


async def test_a_press_that_was_carried_out_is_not_carried_out_again_as_another_item(redis: Redis) -> None:
    bot = await opened(Bot(redis, [mail(), DONE]))
    button = next(one for one in bot.chat.cards()[0].buttons if one.choice == "send")
    click = Click(id="p", approval=button.approval, version=button.version, choice="send", person="U1", place=DM)
    for item in ("first", "second"):
        await bot.handle_work(click.approval, item, ButtonPressed(click=click))
    assert len(bot.mailer.mails) == 1
    assert (await bot.load_approval()).effect is EffectState.DONE
    assert "item.dead" not in await bot.list_journal_kinds(), "and that is no failure"


# Permanent failures


async def test_a_decision_that_can_never_be_carried_out_is_said_to_be_unknown_and_nobody_waits(redis: Redis) -> None:
    async def broken(use: ToolContext, args: object) -> ToolOutcome:
        raise RuntimeError("a mistake of ours")

    tools = tuple(replace(tool, run=broken) if tool.name == "start_process" else tool for tool in TOOLS)
    bot = await opened(Bot(redis, [LEAVE, DONE], tools=tools))
    await bot.press(bot.chat.cards()[0], "confirm")
    assert (await bot.load_approval()).effect is EffectState.UNKNOWN
    assert {one.choice for one in bot.chat.cards()[0].buttons} == {"happened", "redo"}
    assert [key for key in list(bot.chat.keys()) if key.endswith(":final")], "the run went on and answered"
    assert "item.dead" in await bot.list_journal_kinds()
    assert sum("您点击的按钮我试了几次" in text for text in bot.chat.texts()) == 1


async def test_a_card_that_cannot_be_brought_is_told_to_who_asked(redis: Redis) -> None:
    bot = await started(redis)

    async def undelivered(messages: Messages) -> ModelReply:
        assert "undelivered" in str(messages[-1]["content"])
        return ModelReply(text="李四收不到卡片。")

    bot.model.script += [ASK, undelivered]
    bot.now_offset = timedelta(hours=73)
    await bot.handle_work(derive_task_card_id(bot.keys, "L-0001-1"), "expire", ExpireCard(version=1))
    bot.chat.fails["DU2"] = [GONE] * 20
    await bot.send("催一下 L-0001", id="Ev2")
    assert bot.chat.texts()[-1] == "李四收不到卡片。"
    assert await bot.list_paused_runs() == ()


async def test_a_task_whose_card_cannot_be_brought_is_told_to_its_requester(redis: Redis) -> None:
    bot = await opened(Bot(redis, [LEAVE, DONE]))
    bot.chat.fails["DU2"] = [GONE] * 20
    await bot.press(bot.chat.cards()[0], "confirm")
    assert any("L-0001-1 的卡片没能送到" in text for text in bot.chat.texts())


async def test_an_answer_that_cannot_be_said_where_it_was_asked_is_said_in_the_dm(redis: Redis) -> None:
    bot = Bot(redis, [ModelReply(text="张三您好。")])
    place = DM.model_copy(update={"channel": "C1", "direct": False})
    bot.chat.fails["C1"] = [GONE] * 20
    await bot.send("你好", place=place)
    assert bot.chat.texts("DU1") == ["张三您好。"], "the answer itself: the model had given one"
    assert len(bot.model.requests) == 1, "and was not asked again for each try"


async def test_an_event_that_cannot_be_read_holds_no_other_up(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = Bot(redis)

    async def odd(use: ToolContext, task: str) -> Proposal:
        if task == "L-0001-1":
            raise KeyError("odd")
        return await propose_decision(use, task)

    monkeypatch.setattr("bot.approvals.openings.propose_decision", odd)
    await bot.engine.start_request("leave", SICK, ZHANG.id, "a", bot.now())
    await bot.engine.start_request("expense", TAXI, ZHANG.id, "b", bot.now())
    await relay_events(bot.handlers.cards)
    monkeypatch.undo()
    await bot.work()
    assert len(bot.chat.cards("DU2")) == 2, "the other at once, the odd one when it could be read"


async def test_a_press_into_a_full_lane_is_not_taken_silently(redis: Redis) -> None:
    bot = Bot(redis)
    bot.lanes.cap = 0
    with pytest.raises(StoreUnavailableError):
        await bot.ingress.accept_click(Click(id="x", approval="A00x", version=1, choice="send", person="U1", place=DM))
    form = FormSubmission(id="V1", person="U1", process="leave", values=dict(SICK))
    with pytest.raises(StoreUnavailableError):
        await bot.ingress.submit_form(form)


async def test_whoever_pressed_and_left_while_it_was_carried_out_leaves_no_card_at_work(redis: Redis) -> None:
    bot = await opened(Bot(redis, [mail(), DONE]))
    bot.end_at(Edges(at=5))
    await bot.put_press(bot.chat.cards()[0], "send")
    for n in range(2):
        for lease in await bot.lanes.claim("p", n, 1):
            await bot.work_on(lease)
    assert (await bot.load_approval()).state is ApprovalState.DECIDED
    bot.end_at(Edges())
    bot.directory.change("U1", active=False)
    await bot.work()
    assert (await bot.load_approval()).effect is not EffectState.STARTED
    assert "正在处理" not in str([one.post.card for one in bot.chat.posts])


# Cards of others


async def test_asked_for_by_its_author_the_card_of_a_task_is_not_brought_again_and_again(redis: Redis) -> None:
    bot = await started(redis, ASK, ASK, ASK)
    timers = bot.keys.build_key(bot.keys.get_partition("L-0001-1"), "t")
    await redis.delete(timers)
    for n in range(3):
        await bot.send("快点", id=f"Ev9{n}", place=DM.model_copy(update={"thread": f"9.{n}"}))
    assert len([one for one in bot.chat.posts if one.place.channel == "DU2"]) == 1
    assert not await redis.exists(timers), "and no reminder is set anew"
    await bot.press(bot.chat.cards("DU2")[0], "approve", person="U2")
    assert len(await bot.list_paused_runs()) == 0, "who asked hears how it ended"


@pytest.mark.parametrize("error", [EffectUnknownError("no answer"), ToolError("busy", "later")])
async def test_done_again_it_is_the_same_effect_with_the_same_key(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A keeper of the key can tell that the effect was done already."""
    bot = await opened(Bot(redis, [LEAVE, DONE]))
    engine, keys = bot.tool_services.engine, list[str]()
    start = engine.start_request

    async def start_without_answer(*given: Any, **more: Any) -> CommandResult:
        keys.append(given[3])
        moved = await start(*given, **more)
        if len(keys) == 1:
            raise error
        return moved

    monkeypatch.setattr(engine, "start_request", start_without_answer)
    await bot.press(bot.chat.cards()[0], "confirm")
    again = next(one.choice for one in bot.chat.cards()[0].buttons if one.choice in ("redo", "retry"))
    await bot.press(bot.chat.cards()[0], again)
    assert len(keys) == 2 and keys[0] == keys[1]
    assert [one.id for one in await engine.list_own_requests("U1")] == ["L-0001"]


# Presses that were given up and are put back


@pytest.mark.parametrize("is_unknown", [False, True])
async def test_a_press_that_is_put_back_is_judged_again(redis: Redis, is_unknown: bool) -> None:
    """What had decided nothing decides now; what may have happened is not repeated, and its person is told."""
    bot = await opened(Bot(redis, [mail(), DONE]))
    bot.mailer.failing = EffectUnknownError("away") if is_unknown else None
    await bot.put_press(bot.chat.cards()[0], "send", id="click")
    lane, letters = (await bot.load_approval()).id, DeadLetterStore(redis, bot.keys)
    [lease] = await bot.lanes.claim("me", bot.keys.get_partition(lane), 1)
    if is_unknown:
        await lease.release()
        await bot.work()
        assert (await bot.load_approval()).effect is EffectState.UNKNOWN
        bot.mailer.failing = None
        await bot.handle_work(lane, "another item", lease.item.body)
        assert bot.mailer.mails == [] and bot.chat.ephemerals == [], "control: with its own id nobody would be told"
    else:
        await lease.commit()
    buried = letters.build_bury_writes(LaneItem(lane, "click", lease.item.body, 6, 1), "ValueError: no")
    await apply_writes(redis, bot.keys, bot.keys.get_partition(lane), buried)
    [letter] = await letters.list_dead_letters()
    assert await retry_dead_letter(letters, letter, "root")
    await bot.work()
    effect = (await bot.load_approval()).effect
    if is_unknown:
        [(person, text)] = bot.chat.ephemerals
        assert (effect, bot.mailer.mails, person) == (EffectState.UNKNOWN, [], "U1") and text
    else:
        assert (effect, len(bot.mailer.mails)) == (EffectState.DONE, 1)
