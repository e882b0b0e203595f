"""One click through, ended between any two things that it does; and cards whose matter, people or platform are gone."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.app.ingress import LaneIngress
from bot.approvals.outbox import OutboxRelay
from bot.chat.messages import Card, Click, FormSubmission
from bot.core.errors import ChatError, StoreUnavailableError
from bot.core.i18n import translate
from bot.core.records import ApprovalState, EffectState
from bot.core.run_state import CallStatus
from bot.core.work_items import ButtonPressed, ExpireCard
from bot.queue.lanes import EnqueueResult, Lanes
from bot.queue.overflow import LaneOverflows
from bot.queue.scripts import ScriptRunner
from bot.queue.store_watch import StoreWatch
from bot.queue.worker import Worker
from bot.queue.writes import apply_writes
from bot.storage.approvals import derive_task_card_id
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.homes import build_home_parts
from tests.harness.lab import DM, Edges, Killed, Lab
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.presses import LEAVE, edged, everywhere, opened, started
from tests.stories.script import DONE, calls, mail, open_cards
from tests.tools.office import SICK, TAXI, ZHANG, withdraw
from tools.catalog import TOOLS
from tools.effect_parts import PartState
from tools.spec import EffectUnknownError, Person, Proposal, ToolError, ToolOutcome
from tools.tasks.todo import propose_decision
from tools.tool import ToolContext
from tools.workflow.engine.port import CommandResult

ASK = calls(("decide_task", {"task_id": "L-0001-1"}))
GONE = ChatError("channel_not_found")


def whole(body: str) -> str:
    """What Li Si gets of a mail that Zhang San sends."""
    return f"本邮件由 Countersign 代张三（zhangsan@example.com）发送，直接回复即可回给本人。\n\n{body}"


async def expired(lab: Lab) -> str:
    """Nobody has answered the card of the first task; its id."""
    card = derive_task_card_id(lab.keys, "L-0001-1")
    lab.ahead = timedelta(hours=73)
    await lab.lanes.enqueue(card, "expire", ExpireCard(version=1).model_dump_json())
    await lab.work()
    return card


async def test_killed_anywhere_in_a_press_there_is_one_request_one_card_and_one_answer(redis: Redis) -> None:
    async def act(lab: Lab) -> None:
        await lab.presses(lab.wall.cards()[0], "confirm")
        await lab.work()
        assert [one.id for one in await lab.engine.list_own_requests("U1")] == ["L-0001"]
        assert len(lab.wall.cards("DU2")) == 1 and not lab.wall.cards()
        ended = [":final" in said.key for said in lab.wall.said if said.place.channel == DM.channel]
        assert ended[-1] and sum(ended) == 1

    assert await everywhere(redis, lambda: opened(Lab(redis, [LEAVE, DONE, DONE])), act) > 10


async def test_killed_anywhere_in_sending_a_mail_it_is_sent_once_or_said_to_be_unknown(redis: Redis) -> None:
    async def act(lab: Lab) -> None:
        await lab.presses(lab.wall.cards()[0], "send")
        await lab.work()
        approval = await lab.approval()
        assert approval.effect in (EffectState.DONE, EffectState.UNKNOWN)
        assert len(lab.mailer.mails) == 1 or (approval.effect is EffectState.UNKNOWN and not lab.mailer.mails)
        run = await lab.runs.load_run(lab.wall.keys()[-1].partition(":")[0])
        assert run is not None and run.state.calls[0].status in (CallStatus.SUCCEEDED, CallStatus.UNKNOWN)

    await everywhere(redis, lambda: opened(Lab(redis, [mail(), DONE, DONE])), act)


async def test_killed_anywhere_in_mailing_several_each_gets_one_and_the_card_names_who_has_not(redis: Redis) -> None:
    """Done again by hand, nobody gets a second mail but the one of whom the card said that nobody can know."""
    doubted = set[str]()

    async def act(lab: Lab) -> None:
        await lab.presses(lab.wall.cards()[0], "send")
        await lab.work()
        approval, sent = await lab.approval(), [one.to for one in lab.mailer.mails]
        assert len(set(sent)) == len(sent)
        if approval.effect is EffectState.DONE:
            assert sent == ["U2", "U3"]
            return
        assert approval.effect is EffectState.UNKNOWN
        done = [one for one, state in approval.parts.items() if state is PartState.DONE]
        begun = [one for one, state in approval.parts.items() if state is PartState.BEGUN]
        assert set(done) <= set(sent) <= {*done, *begun} and len(begun) <= 1
        doubted.update(begun)
        [card] = lab.wall.cards()
        assert begun or not approval.parts, "with no mail in doubt the rest is sent without a question"
        assert all(part in card.lead for part in (say_part("done", done), say_part("begun", begun)))
        edged(lab, Edges())
        await lab.presses(card, "redo")
        await lab.work()
        again = [one.to for one in lab.mailer.mails][len(sent) :]
        assert again == [one for one in ("U2", "U3") if one not in done]

    several = calls(("send_email", {"to": ["李四", "王五"], "subject": "项目进度", "body": "请看一下。"}))
    await everywhere(redis, lambda: opened(Lab(redis, [several, DONE, DONE, DONE])), act)
    assert doubted == {"U2", "U3"}


@dataclass
class Twice(Edges):
    """The process that goes on ends as well, so many edges after the first."""

    behind: int = 0

    def __call__(self) -> None:
        self.passed += 1
        if self.passed in (self.at, self.at + self.behind):
            raise Killed


async def test_killed_again_while_the_rest_of_several_mails_goes_out_nobody_gets_two(redis: Redis) -> None:
    several = calls(("send_email", {"to": ["李四", "王五"], "subject": "项目进度", "body": "请看一下。"}))
    for behind in (1, 3):
        at = 0
        while True:
            at += 1
            await redis.flushall()
            lab = await opened(Lab(redis, [several, DONE, DONE, DONE]))
            edges = Twice(at=at, behind=behind)
            edged(lab, edges)
            await lab.presses(lab.wall.cards()[0], "send")
            await lab.work()
            approval, sent = await lab.approval(), [one.to for one in lab.mailer.mails]
            assert len(set(sent)) == len(sent), (at, behind, sent)
            done = [one for one, state in approval.parts.items() if state is PartState.DONE]
            assert set(done) <= set(sent)
            assert approval.effect is EffectState.UNKNOWN or sent == ["U2", "U3"]
            if edges.passed < at + behind:
                break


async def test_a_mail_that_one_of_two_was_refused_is_tried_again_for_that_one_only(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = calls(("send_email", {"to": ["李四", "王五"], "subject": "项目进度", "body": "请看一下。"}))
    lab = await opened(Lab(redis, [several, DONE, DONE, DONE]))
    send = MemoryMailer.send_mail

    async def refuse_wang(mailer: MemoryMailer, to: Person, *mail: str) -> None:
        if to.id == "U3":
            raise ToolError("mail_refused", "no such mailbox", reply=550)
        await send(mailer, to, *mail)

    with monkeypatch.context() as refused:
        refused.setattr(MemoryMailer, "send_mail", refuse_wang)
        await lab.presses(lab.wall.cards()[0], "send")
        await lab.work()
    approval = await lab.approval()
    assert approval.effect is EffectState.FAILED
    assert approval.parts == {"U2": PartState.DONE, "U3": PartState.REFUSED}
    await lab.presses(lab.wall.cards()[0], "retry")
    await lab.work()
    assert (await lab.approval()).effect is EffectState.DONE
    assert [one.to for one in lab.mailer.mails] == ["U2", "U3"]


def say_part(state: str, people: list[str]) -> str:
    names = "、".join({"U2": "李四", "U3": "王五"}[one] for one in people)
    return translate(f"parts.{state}", "zh", names=names) if people else ""


async def test_killed_anywhere_in_asking_again_there_is_one_card_with_buttons(redis: Redis) -> None:
    async def prepare() -> Lab:
        lab = await opened(Lab(redis, [mail(), DONE]))
        await lab.lanes.enqueue((await lab.approval()).id, "x", json.dumps({"kind": "expire_card", "version": 1}))
        await lab.work()
        return lab

    async def act(lab: Lab) -> None:
        await lab.presses(lab.wall.cards()[0], "again")
        await lab.work()
        [card] = lab.wall.cards()
        assert {one.choice for one in card.buttons} == {"send", "edit", "cancel"}
        approval = await lab.approval()
        assert (approval.state, approval.version) == (ApprovalState.OPEN, 2)

    await everywhere(redis, prepare, act)


async def test_do_it_again_pressed_twice_in_a_hurry_does_it_again_once(redis: Redis) -> None:
    """The mail server breaks off each time: it may have taken the mail each time."""
    lab = Lab(redis, [mail(), DONE])
    lab.mailer.failing = EffectUnknownError("away")
    await opened(lab)
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    unknown = lab.wall.cards()[0]
    for hurried in ("a", "b"):
        await lab.presses(unknown, "redo", id=hurried)
    await lab.work()
    assert (await lab.kinds()).count("effect.started") == 2, "the first time, and once more"
    assert "旧的按钮" in lab.wall.whispers[-1][1]
    lab.mailer.failing = None
    await lab.presses(lab.wall.cards()[0], "redo")
    await lab.work()
    assert len(lab.mailer.mails) == 1, "the button that is shown now works"


async def test_an_edited_long_mail_is_shown_anew_and_in_full(redis: Redis) -> None:
    lab = await opened(Lab(redis, [mail(body="旧" * 3_000), DONE]))
    body = "新" * 5_000
    await lab.presses(lab.wall.cards()[0], "edit", form={"subject": "新的安排", "body": body})
    await lab.work()
    [card] = lab.wall.cards()
    assert card.body == whole(body) and len(lab.wall.said) == 3, "step, old card without buttons, new card"
    await lab.presses(card, "send")
    await lab.work()
    assert [one.body for one in lab.mailer.mails] == [whole(body)]


async def test_asking_for_what_has_just_been_decided_is_answered_and_shows_no_card(redis: Redis) -> None:
    """The task is decided between the moment it is asked for and the moment its card would come."""
    lab = await started(redis)

    async def decided_meanwhile(messages: Messages) -> ModelReply:
        await lab.presses(lab.wall.cards("DU2")[0], "approve", "U2")
        return ASK

    lab.model.script += [decided_meanwhile, DONE]
    await lab.says("批准 L-0001", id="Ev2")
    await lab.work()
    assert not lab.wall.cards("DU2"), "nothing to press for what is decided"
    assert lab.wall.texts()[-1] == "好的。" and "同意" in lab.wall.said[-1].post.receipt
    assert await lab.waiting() == ()


async def test_an_expired_card_whose_request_is_withdrawn_cannot_be_asked_for_again(redis: Redis) -> None:
    lab = await started(redis)
    await lab.lanes.enqueue(
        lab.wall.cards("DU2")[0].buttons[0].approval, "x", json.dumps({"kind": "expire_card", "version": 1})
    )
    await lab.work()
    assert lab.wall.cards("DU2")[0].buttons[0].choice == "again"
    await withdraw(lab.engine, "L-0001", "U1")
    await lab.work()
    assert not lab.wall.cards("DU2") and not lab.wall.cards("DU1")


async def test_asking_once_more_does_not_set_the_reminder_anew(redis: Redis) -> None:
    lab = await started(redis, ASK)
    timers = lab.keys.build_key(lab.keys.get_partition("L-0001-1"), "t")
    await redis.delete(timers)
    await lab.says("催一下 L-0001", id="Ev2")
    await lab.work()
    assert not await redis.exists(timers)


async def test_taking_a_card_back_loses_against_a_press_that_was_first_and_says_so(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = await opened(Lab(redis, [mail(), DONE]))
    [card] = lab.wall.cards()
    put = lab.lanes.enqueue

    async def pressed_meanwhile(lane: str, id: str, body: str) -> EnqueueResult:
        await lab.presses(card, "send")
        return await put(lane, id, body)

    async def too_late(messages: Messages) -> ModelReply:
        monkeypatch.setattr(lab.lanes, "enqueue", pressed_meanwhile)
        return calls(("cancel_card", {"card": card.buttons[0].approval}))

    lab.model.script[:] = [too_late, DONE, DONE]
    monkeypatch.setattr(lab, "presses", decides(lab))
    await lab.says("算了", id="Ev2")
    await lab.work()
    assert any("no_card" in str(m["content"]) for asked in lab.model.requests for m in asked), (
        "not said to be taken back"
    )
    assert len(lab.mailer.mails) == 1


def decides(lab: Lab) -> Callable[..., Awaitable[None]]:
    """A press that has got as far as the decision and no further: the rest comes when its item is handled."""

    async def decided(card: Card, choice: str) -> None:
        click = Click(id="p", approval=card.buttons[0].approval, version=1, choice=choice, person="U1", place=DM)
        decide = lab.approvals.build_decide_write(click, ends=ApprovalState.DECIDED, now_ms=0)
        assert await apply_writes(lab.redis, lab.keys, lab.keys.get_partition(click.approval), [decide]) == "ok"
        await Lanes(lab.redis, lab.keys).enqueue(click.approval, "p", ButtonPressed(click=click).model_dump_json())

    return decided


async def test_killed_anywhere_in_taking_a_card_back_it_is_taken_back_and_everybody_hears(redis: Redis) -> None:
    async def act(lab: Lab) -> None:
        await lab.says("算了", id="Ev2")
        await lab.work()
        assert (await lab.approval()).state is ApprovalState.CANCELLED and not lab.wall.cards()
        assert await lab.waiting() == () and not lab.mailer.mails

    async def prepare() -> Lab:
        lab = await opened(Lab(redis, [mail()]))
        lab.model.script[:] = [cancels] * 3
        return lab

    async def cancels(messages: Messages) -> ModelReply:
        cards = open_cards(messages, "send_email")
        done = messages[-1]["role"] == "tool" or not cards
        return DONE if done else calls(("cancel_card", {"card": cards[0]}))

    await everywhere(redis, prepare, act)


async def test_a_press_that_was_carried_out_is_not_carried_out_again_though_nobody_knows_it_as_a_duplicate(
    redis: Redis,
) -> None:
    lab = await opened(Lab(redis, [mail(), DONE]))
    button = next(one for one in lab.wall.cards()[0].buttons if one.choice == "send")
    click = Click(id="p", approval=button.approval, version=button.version, choice="send", person="U1", place=DM)
    for item in ("first", "second"):
        await lab.lanes.enqueue(click.approval, item, ButtonPressed(click=click).model_dump_json())
        await lab.work()
    assert len(lab.mailer.mails) == 1
    assert (await lab.approval()).effect is EffectState.DONE
    assert "item.dead" not in await lab.kinds(), "and that is no failure"


# What fails every time


async def test_a_decision_that_can_never_be_carried_out_is_said_to_be_unknown_and_nobody_waits(redis: Redis) -> None:
    async def broken(use: ToolContext, args: object) -> ToolOutcome:
        raise RuntimeError("a mistake of ours")

    tools = tuple(replace(tool, run=broken) if tool.name == "start_process" else tool for tool in TOOLS)
    lab = await opened(Lab(redis, [LEAVE, DONE], tools=tools))
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    assert (await lab.approval()).effect is EffectState.UNKNOWN
    assert {one.choice for one in lab.wall.cards()[0].buttons} == {"happened", "redo"}
    assert lab.wall.keys()[-1].endswith(":final"), "the run went on and answered"
    assert "item.dead" in await lab.kinds() and lab.wall.whispers


async def test_a_card_that_cannot_be_brought_is_told_to_who_asked(redis: Redis) -> None:
    lab = await started(redis)

    async def undelivered(messages: Messages) -> ModelReply:
        assert "undelivered" in str(messages[-1]["content"])
        return ModelReply(text="李四收不到卡片。")

    lab.model.script += [ASK, undelivered]
    await expired(lab)
    lab.wall.fails["DU2"] = [GONE] * 20
    await lab.says("催一下 L-0001", id="Ev2")
    await lab.work()
    assert lab.wall.texts()[-1] == "李四收不到卡片。"
    assert await lab.waiting() == ()


async def test_a_task_whose_card_cannot_be_brought_is_told_to_its_requester(redis: Redis) -> None:
    lab = await opened(Lab(redis, [LEAVE, DONE]))
    lab.wall.fails["DU2"] = [GONE] * 20
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    assert any("L-0001-1 的卡片送不到" in text for text in lab.wall.texts())


async def test_a_task_of_somebody_who_has_left_is_told_to_its_requester(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = await opened(Lab(redis, [LEAVE, DONE]))
    with monkeypatch.context() as quiet:
        quiet.setattr(OutboxRelay, "relay_events", nothing)
        await lab.presses(lab.wall.cards()[0], "confirm")
        await lab.work()
    lab.staff.leaves("U2")
    await lab.work()
    assert any("L-0001-1 的卡片送不到" in text for text in lab.wall.texts())


async def nothing(self: object) -> None:
    """Keeps the engine's news waiting."""


async def test_expiry_that_cannot_be_shown_is_expiry_nonetheless(redis: Redis) -> None:
    lab = await started(redis)
    approval = lab.wall.cards("DU2")[0].buttons[0].approval
    lab.wall.fails["DU1"] = [GONE] * 5
    await lab.lanes.enqueue(approval, "x", json.dumps({"kind": "expire_card", "version": 1}))
    await lab.work()
    found = await lab.approvals.load_approval(approval)
    assert found is not None and found.state is ApprovalState.EXPIRED
    assert lab.wall.cards("DU2")[0].buttons[0].choice == "again"


async def test_an_answer_that_cannot_be_said_where_it_was_asked_is_said_in_the_dm(redis: Redis) -> None:
    lab = Lab(redis, [ModelReply(text="张三您好。")])
    place = DM.model_copy(update={"channel": "C1", "direct": False})
    lab.wall.fails["C1"] = [GONE] * 20
    await lab.says("你好", place=place)
    await lab.work()
    assert lab.wall.texts("DU1") == ["张三您好。"], "the answer itself: the model had given one"
    assert len(lab.model.requests) == 1, "and was not asked again for each try"


async def test_what_changed_is_said_although_the_answer_never_came(redis: Redis) -> None:
    async def broken(messages: Messages) -> ModelReply:
        raise RuntimeError("a mistake of ours")

    lab = await opened(Lab(redis, [mail(), *([broken] * 9)]))
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    assert len(lab.mailer.mails) == 1
    assert "试了几次" in lab.wall.texts()[-1] and "李四" in lab.wall.said[-1].post.receipt
    assert await lab.waiting() == ()


async def test_an_event_that_cannot_be_read_holds_no_other_up(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(redis)

    async def odd(use: ToolContext, task: str) -> Proposal:
        if task == "L-0001-1":
            raise KeyError("odd")
        return await propose_decision(use, task)

    monkeypatch.setattr("bot.approvals.fresh_cards.propose_decision", odd)
    await lab.engine.start_request("leave", SICK, ZHANG.id, "a", lab.now())
    await lab.engine.start_request("expense", TAXI, ZHANG.id, "b", lab.now())
    await lab.outbox.relay_events()
    monkeypatch.undo()
    await lab.work()
    assert len(lab.wall.cards("DU2")) == 2, "the other at once, the odd one when it could be read"


async def test_a_press_into_a_full_lane_is_not_taken_silently(redis: Redis) -> None:
    lab = Lab(redis)
    full = Lanes(redis, lab.keys, cap=0)
    worker = Worker(full, lab.dispatch, bury=DeadLetterStore(lab.redis, lab.keys).build_bury_writes)
    intake = LaneIngress(
        worker=worker,
        lanes=full,
        dialogs=lab.dialogs,
        approval_sets=lab.sets,
        home_builder=build_home_parts(lab)[0],
        home_actions=build_home_parts(lab)[1],
        request_forms=lab.dispatch.handlers.request_forms,
        welcomer=lab.dispatch.handlers.welcomer,
        history=lab.history,
        runs=lab.runs,
        delivery=lab.telling,
        directory=lab.staff,
        overflows=LaneOverflows(redis, lab.keys),
        journal=lab.journal,
        watch=StoreWatch(scripts=ScriptRunner.from_redis(redis, lab.keys), keys=lab.keys),
    )
    with pytest.raises(StoreUnavailableError):
        await intake.accept_click(Click(id="x", approval="A00x", version=1, choice="send", person="U1", place=DM))
    form = FormSubmission(id="V1", person="U1", process="leave", values=dict(SICK))
    with pytest.raises(StoreUnavailableError):
        await intake.submit_form(form)


async def test_whoever_pressed_and_left_while_it_was_carried_out_leaves_no_card_at_work(redis: Redis) -> None:
    lab = await opened(Lab(redis, [mail(), DONE]))
    edged(lab, Edges(at=5))
    await lab.presses(lab.wall.cards()[0], "send")
    for n in range(2):
        for lease in await lab.lanes.claim("p", n, 1):
            await lab._one(lease)
    assert (await lab.approval()).state is ApprovalState.DECIDED
    edged(lab, Edges())
    lab.staff.leaves("U1")
    await lab.work()
    assert (await lab.approval()).effect is not EffectState.STARTED
    assert "正在处理" not in str([one.post.card for one in lab.wall.said])


# Cards of others


async def test_asked_for_by_its_author_the_card_of_a_task_is_not_brought_again_and_again(redis: Redis) -> None:
    lab = await started(redis, ASK, ASK, ASK)
    for n in range(3):
        await lab.says("快点", id=f"Ev9{n}", place=DM.model_copy(update={"thread": f"9.{n}"}))
        await lab.work()
    assert len([one for one in lab.wall.said if one.place.channel == "DU2"]) == 1
    await lab.presses(lab.wall.cards("DU2")[0], "approve", person="U2")
    await lab.work()
    assert len(await lab.waiting()) == 0, "who asked hears how it ended"


async def test_who_decides_is_shown_the_card_again_where_they_ask(redis: Redis) -> None:
    lab = await started(redis, ASK, DONE)
    await lab.says("L-0001-1", person="U2", id="Ev9", place=DM.model_copy(update={"channel": "DU2", "thread": "9.0"}))
    await lab.work()
    assert len(lab.wall.cards("DU2")) == 1 and len([one for one in lab.wall.said if one.post.card]) == 3


async def test_nobody_takes_back_what_somebody_else_is_to_approve(redis: Redis) -> None:
    lab = await started(redis, ASK, DONE)
    card = await expired(lab)
    await lab.says("再发一次", id="Ev9")  # a fresh card, which Zhang San has asked for
    await lab.work()
    renewed = await lab.approvals.load_approval(card)
    assert renewed is not None and (renewed.state, renewed.caller) == (ApprovalState.OPEN, "U1")
    assert lab.desk.cards is not None and not await lab.desk.cards.cancel_card(card, "U1")
    assert lab.wall.cards("DU2")


@pytest.mark.parametrize("error", [EffectUnknownError("no answer"), ToolError("busy", "later")])
async def test_done_again_it_is_the_same_effect_with_the_same_key(redis: Redis, error: Exception) -> None:
    """Whoever keeps the key can tell that it was done already."""
    lab = await opened(Lab(redis, [LEAVE, DONE]))
    engine, keys = lab.desk.engine, list[str]()

    class Late:
        """Carries out what it does not answer."""

        async def start_request(
            self, process: str, form: dict[str, str], author: str, key: str, *rest: Any, **more: Any
        ) -> CommandResult:
            keys.append(key)
            moved = await engine.start_request(process, form, author, key, *rest, **more)
            if len(keys) == 1:
                raise error
            return moved

        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

    object.__setattr__(lab.desk, "engine", Late())
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    again = next(one.choice for one in lab.wall.cards()[0].buttons if one.choice in ("redo", "retry"))
    await lab.presses(lab.wall.cards()[0], again)
    await lab.work()
    assert len(keys) == 2 and keys[0] == keys[1]
    assert [one.id for one in await engine.list_own_requests("U1")] == ["L-0001"]
