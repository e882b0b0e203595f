"""Cards of runs that are stopped: killed anywhere, pressed at the same time, not there yet."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from bot.approvals.stops import CardStopper
from bot.chat.messages import Click
from bot.core.records import Approval, ApprovalState, EffectState, RunStatus
from bot.core.work_items import ButtonPressed
from bot.queue.writes import apply_writes
from bot.storage.approvals import ApprovalStore, Verdict
from tests.harness.lab import DM, Edges, Lab, every_edge
from tests.stories.script import DONE, mail


async def propose(redis: Redis, edges: Edges | None = None) -> Lab:
    """A mail of Zhang San's that waits for its sender."""
    lab = Lab(redis, [mail(), DONE, DONE])
    await lab.says("发邮件")
    await lab.work()
    assert len(lab.wall.cards()) == 1
    if edges is not None:
        lab.wall.edge = lab.lanes.edge = edges
    return lab


async def test_killed_anywhere_the_card_is_cancelled_and_never_pressed(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide_stop = ApprovalStore.decide_stop

    async def play(edges: Edges) -> None:
        async def die_around(self: ApprovalStore, approval: Approval, person: str, now_ms: int) -> Verdict:
            edges()
            verdict = await decide_stop(self, approval, person, now_ms)
            edges()
            return verdict

        monkeypatch.setattr(ApprovalStore, "decide_stop", die_around)
        await redis.flushall()
        lab = await propose(redis, edges)
        [card] = lab.wall.cards()
        await lab.says("停", id="Ev2")
        await lab.work()
        await lab.presses(card, "send")
        await lab.work()
        approval = await lab.approval()
        assert approval.state is ApprovalState.CANCELLED and approval.choice == "stopped"
        assert not lab.wall.cards() and not lab.mailer.mails
        assert [run.status for run in lab.over][-1] is RunStatus.STOPPED
        assert sum("已取消" in text for text in lab.wall.texts() if "卡片" in text) == 1, "the stop is answered once"

    assert await every_edge(play) > 6


async def test_a_card_that_is_not_there_yet_is_cancelled_before_anybody_can_press_it(redis: Redis) -> None:
    lab = Lab(redis, [mail(), DONE])
    await lab.says("发邮件")
    [lease] = [one for n in range(2) for one in await lab.lanes.claim("p", n, 1)]
    await lease.commit(*await lab.dispatch.handle_item(lease), more=False)  # the card's own lane has not begun
    assert not lab.wall.cards()
    await lab.says("停", id="Ev2")
    conversation = await lab.runs.load_conversation(DM.conversation, lab.history)
    assert len(conversation.waiting) == 1
    stopper = CardStopper(lanes=lab.lanes, approvals=lab.approvals, runs=lab.runs, clock=lab.clock)
    caller = await lab.staff.find_caller("U1")
    assert caller is not None
    assert await stopper.stop_waiting_runs(conversation.waiting, caller) == 1
    await lab.work()
    assert (await lab.approval()).state is ApprovalState.CANCELLED and not lab.wall.cards()


async def test_what_a_press_has_just_decided_is_not_stopped(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card is open when the stop looks, and decided when it decides."""
    lab = await propose(redis)
    card, decide_stop, verdicts = (await lab.approval()).id, ApprovalStore.decide_stop, list[Verdict]()

    async def be_second(self: ApprovalStore, approval: Approval, person: str, now_ms: int) -> Verdict:
        if not verdicts:
            click = Click(id="p", approval=card, version=1, choice="send", person="U1", place=DM)
            decided = self.build_decide_write(click, ends=ApprovalState.DECIDED, now_ms=now_ms)
            assert await apply_writes(redis, lab.keys, lab.keys.get_partition(card), [decided]) == "ok"
            await lab.lanes.enqueue(card, "p", ButtonPressed(click=click).model_dump_json())
        verdicts.append(await decide_stop(self, approval, person, now_ms))
        return verdicts[-1]

    monkeypatch.setattr(ApprovalStore, "decide_stop", be_second)
    await lab.says("停", id="Ev2")
    await lab.work()
    approval = await lab.approval()
    assert verdicts[0] is Verdict.ALREADY and len(lab.mailer.mails) == 1
    assert (approval.state, approval.effect, approval.press_id) == (ApprovalState.DECIDED, EffectState.DONE, "p")
    assert not any("卡片" in text for text in lab.wall.texts() if "停" in text or "正在进行" in text)
