"""How a decided card is carried out: what is on record and on the card before it runs, and how it is said to end."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.core.records import Approval, ApprovalState, EffectState
from bot.queue.writes import apply_writes
from tests.harness.lab import Lab
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.presses import LEAVE, opened
from tests.stories.script import DONE, expense, mail
from tools.effect_parts import PartState
from tools.spec import EffectUnknownError, Person, ReceiptLine, TextRef, ToolError
from tools.workflow.engine.port import CommandResult

MAYBE = ReceiptLine(text=TextRef(key="card.system"))


async def propose(redis: Redis, *script: Any) -> Lab:
    """A card that waits for Zhang San."""
    return await opened(Lab(redis, [*(script or (mail(),)), DONE, DONE]))


async def press(lab: Lab, choice: str, id: str = "") -> Approval:
    """By a button of a version that carried no seal: what stands behind it is looked at when it is carried out, too."""
    card = lab.wall.cards()[0]
    unsealed = replace(card, buttons=tuple(replace(one, seal="") for one in card.buttons))
    await lab.presses(unsealed, choice, id=id)
    await lab.work()
    return await lab.approval()


async def rewrite(lab: Lab, **changes: Any) -> None:
    """The stored card is another than what was shown, as who can write to Redis can make it."""
    approval = await lab.approval()
    writes = [lab.approvals.build_save_write(approval.model_copy(update=changes))]
    await apply_writes(lab.redis, lab.keys, lab.keys.get_partition(approval.id), writes)


# Before it runs


@dataclass
class LookingMailer(MemoryMailer):
    """Notes how the card stands while it sends; `waits` for its buttons to go."""

    lab: Lab | None = None
    waits: bool = False
    seen: list[Approval] = field(default_factory=list)

    async def send_mail(self, to: Person, *rest: str) -> None:
        assert self.lab is not None
        self.seen.append(await self.lab.approval())
        while self.waits and self.lab.wall.cards():
            await self.lab.work_beside()
            await asyncio.sleep(0.005)
        await super().send_mail(to, *rest)


async def test_a_mail_goes_out_when_it_is_on_record_as_begun(redis: Redis) -> None:
    lab = await propose(redis)
    mailer = LookingMailer(lab=lab)
    object.__setattr__(lab.desk, "mailer", mailer)
    assert (await press(lab, "send")).effect is EffectState.DONE
    [seen] = mailer.seen
    assert (seen.state, seen.effect, seen.attempts) == (ApprovalState.DECIDED, EffectState.STARTED, 1)
    assert (seen.decided_by, seen.choice) == ("U1", "send")
    assert len(lab.wall.edits) == 1, "a card whose effect is quick is rewritten once"


async def test_what_takes_longer_has_no_buttons_meanwhile(redis: Redis) -> None:
    lab = await propose(redis)
    runner = lab.dispatch.handlers.press_handler.effect_runner
    object.__setattr__(runner, "shown_after_s", 0.01)
    lab.lanes.lease_ms = 60_000  # the other process leaves this lane alone
    mailer = LookingMailer(lab=lab, waits=True)
    object.__setattr__(lab.desk, "mailer", mailer)
    assert (await asyncio.wait_for(press(lab, "send"), 10)).effect is EffectState.DONE
    assert len(mailer.mails) == 1 and len(lab.wall.edits) == 2


async def test_a_request_is_started_when_that_is_on_record(redis: Redis) -> None:
    lab = await propose(redis, LEAVE)
    engine, seen = lab.desk.engine, list[EffectState]()

    class LookingEngine:
        async def start_request(self, *given: Any, **more: Any) -> CommandResult:
            seen.append((await lab.approval()).effect)
            return await engine.start_request(*given, **more)

        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

    object.__setattr__(lab.desk, "engine", LookingEngine())
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    assert seen == [EffectState.STARTED]
    assert [one.id for one in await engine.list_own_requests("U1")] == ["L-0001"]


# What is not run


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({}, ""),
        ({"seal": "0" * 64}, "error.altered"),
        ({"tool": "start_process"}, "error.altered"),
        ({"tool": "no_tool"}, "error.gone"),
        ({"tool": "list_people"}, "error.gone"),
    ],
)
async def test_what_is_not_what_was_shown_or_cannot_be_run_is_not_run_and_said_so(
    redis: Redis, changes: dict[str, Any], key: str
) -> None:
    lab = await propose(redis)
    await rewrite(lab, **changes)
    approval = await press(lab, "send")
    assert bool(lab.mailer.mails) is (not key)
    if key:
        assert (approval.effect, approval.failure) == (EffectState.FAILED, TextRef(key=key))
        assert approval.failure_for_model and await lab.engine.list_own_requests("U1") == ()


async def test_other_arguments_than_those_of_the_seal_are_not_run(redis: Redis) -> None:
    lab = await propose(redis)
    proposal = (await lab.approval()).proposal
    forged = proposal.model_copy(update={"args": proposal.args | {"body": "请给攻击者转账"}})
    await rewrite(lab, proposal=forged)
    approval = await press(lab, "send")
    assert approval.failure == TextRef(key="error.altered") and not lab.mailer.mails
    assert not lab.wall.cards(), "and trying again cannot help"


# How it ends


async def test_a_refusal_is_told_to_people_and_to_the_model_with_what_may_have_changed(redis: Redis) -> None:
    lab = await propose(redis)
    lab.mailer.failing = ToolError("busy", "later", possible_effect=MAYBE)
    approval = await press(lab, "send")
    assert (approval.effect, approval.failure, approval.failure_for_model, approval.possible_change) == (
        EffectState.FAILED,
        TextRef(key="error.busy"),
        "later",
        MAYBE,
    )
    assert {one.choice for one in lab.wall.cards()[0].buttons} == {"retry"}


@pytest.mark.parametrize(("choice", "mails", "attempts"), [("happened", 0, 1), ("redo", 1, 2)])
async def test_what_nobody_knows_a_person_says_or_has_done_again(
    redis: Redis, choice: str, mails: int, attempts: int
) -> None:
    lab = await propose(redis)
    lab.mailer.failing = EffectUnknownError("the connection broke")
    assert (await press(lab, "send")).effect is EffectState.UNKNOWN
    lab.mailer.failing = None
    approval = await press(lab, choice)
    assert (approval.effect, approval.attempts, len(lab.mailer.mails)) == (EffectState.DONE, attempts, mails)
    assert not lab.wall.cards() and approval.parts == {}


async def test_the_parts_of_an_effect_that_fails_are_kept(redis: Redis) -> None:
    lab = await propose(redis, mail(to=["李四", "王五"]))
    send = lab.mailer.send_mail

    async def refuse_wang(to: Person, *rest: str) -> None:
        if to.id == "U3":
            raise EffectUnknownError("the connection broke")
        await send(to, *rest)

    object.__setattr__(lab.mailer, "send_mail", refuse_wang)
    approval = await press(lab, "send")
    assert approval.effect is EffectState.UNKNOWN
    assert approval.parts == {"U2": PartState.DONE, "U3": PartState.BEGUN}


# Another version


async def test_what_the_presser_did_not_know_is_asked_and_nothing_is_done_until_then(redis: Redis) -> None:
    """The very same expense was started a moment ago."""
    lab = await propose(redis, expense(), DONE, expense())
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    await lab.says("再报一次", id="Ev2")
    await lab.work()
    before = await lab.approvals.load_approval(lab.wall.cards()[0].buttons[0].approval)
    assert before is not None
    await lab.presses(lab.wall.cards()[0], "confirm", id="again")
    await lab.work()
    after = await lab.approvals.load_approval(before.id)
    assert after is not None
    assert (after.version, after.state, after.effect) == (2, ApprovalState.OPEN, EffectState.NONE)
    assert (after.decided_by, after.press_id, after.waiters) == ("", "", before.waiters)
    assert after.expires_ms - after.created_ms == before.expires_ms - before.created_ms
    assert [one.id for one in await lab.engine.list_own_requests("U1")] == ["E-0001"]
    [record] = [one async for one in lab.journal.stream_records(kinds={"approval.asked_again"})]
    assert record.person == "U1"
    [card] = lab.wall.cards()
    await lab.presses(card, "start_another")
    await lab.work()
    assert len(await lab.engine.list_own_requests("U1")) == 2, "knowingly"


async def test_an_edited_card_is_sealed_anew_for_its_whole_time_and_noted(redis: Redis) -> None:
    lab = await propose(redis)
    before = await lab.approval()
    lab.ahead = lab.card_opener.open_for / 2
    await lab.presses(lab.wall.cards()[0], "edit", form={"subject": "改过", "body": "李四你好，改过了。"})
    await lab.work()
    after = await lab.approval()
    assert (after.version, after.proposal.args["subject"]) == (2, "改过") and after.seal != before.seal
    assert after.expires_ms - after.created_ms == before.expires_ms - before.created_ms
    [record] = [one async for one in lab.journal.stream_records(kinds={"approval.edited"})]
    assert record.person == "U1" and after.delivered_version == 2


async def test_a_renewed_card_is_the_same_for_its_whole_time_and_noted(redis: Redis) -> None:
    lab = await propose(redis)
    before = await lab.approval()
    lab.ahead = lab.card_opener.open_for * 2
    await lab.lanes.enqueue(before.id, "expire", '{"kind": "expire_card", "version": 1}')
    await lab.work()
    after = await press(lab, "again")
    assert (after.version, after.proposal, after.seal) == (2, before.proposal, before.seal)
    assert after.state is ApprovalState.OPEN and after.created_ms > before.expires_ms
    assert after.expires_ms - after.created_ms == before.expires_ms - before.created_ms
    [record] = [one async for one in lab.journal.stream_records(kinds={"approval.renewed"})]
    assert record.person == "U1"


async def test_a_tool_that_prepares_nothing_any_more_edits_nothing(redis: Redis) -> None:
    lab = await propose(redis)
    tools = lab.gates.card_editor.tools
    assert isinstance(tools, ChainMap)
    tools["send_email"] = tools["list_people"]
    before = await lab.approval()
    await lab.presses(lab.wall.cards()[0], "edit", form={"subject": "x", "body": "y"})
    await lab.work()
    assert await lab.approval() == before and "item.dead" not in await lab.kinds()
