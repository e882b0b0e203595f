"""What stands between a press and its effect, each guard with the story in which only it holds."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.core.errors import LeaseLost
from bot.core.i18n import translate
from bot.core.outcomes import describe_consequence
from bot.core.records import Approval, ApprovalState, EffectState
from bot.core.work_items import ExpireCard
from tests.harness.lab import Lab
from tests.harness.memory_mailer import MemoryMailer
from tests.stories.script import DONE, calls, mail
from tests.tools.office import LI, SICK
from tools.spec import EffectUnknownError, Person, ToolError
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.state import Status

LEAVE = calls(("start_process", {"process": "leave", "form": SICK}))


async def propose(redis: Redis, *script: Any) -> Lab:
    """A card that waits for Zhang San."""
    lab = Lab(redis, [*(script or (mail(),)), DONE, DONE])
    await lab.says("帮我办一下")
    await lab.work()
    assert len(lab.wall.cards()) == 1
    return lab


def act_around_checkpoint(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, seq: str, act: Any, *, afterwards: bool = False
) -> None:
    """Another process does something just before (or just after) this checkpoint is written, once."""
    run, done = lab.lanes.run_lane_script, list[str]()

    async def run_and_act(script: str, lane: str, *args: str | int) -> Any:
        is_wanted = script == "checkpoint" and args[3] == seq and not done
        if is_wanted:
            done.append(seq)
        if is_wanted and not afterwards:
            await act(lane)
        answer = await run(script, lane, *args)
        if is_wanted and afterwards:
            await act(lane)
        return answer

    monkeypatch.setattr(lab.lanes, "run_lane_script", run_and_act)


async def list_refusals(lab: Lab) -> list[str]:
    return [record.text async for record in lab.journal.stream_records(kinds={"approval.refused"})]


# Between the look and the decision


async def test_what_is_taken_back_in_chat_between_the_look_and_the_decision_is_not_mailed(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = await propose(redis)
    taken_back = list[bool]()

    async def take_back(lane: str) -> None:
        assert lab.desk.cards is not None
        taken_back.append(await lab.desk.cards.cancel_card(lane, "U1"))

    act_around_checkpoint(lab, monkeypatch, "decide", take_back)
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    assert taken_back == [True] and not lab.mailer.mails
    approval = await lab.approval()
    assert (approval.state, approval.effect) == (ApprovalState.CANCELLED, EffectState.NONE)
    assert await list_refusals(lab) == ["already"] and len(lab.wall.whispers) == 1 and not lab.wall.cards()


async def test_what_somebody_else_decides_between_the_look_and_the_decision_is_begun_once(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may be repeated is begun by the write that decides it: refused, it begins nothing."""
    lab = await propose(redis, LEAVE)

    async def take_back(lane: str) -> None:
        assert lab.desk.cards is not None and await lab.desk.cards.cancel_card(lane, "U1")

    act_around_checkpoint(lab, monkeypatch, "decide", take_back)
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    assert await lab.engine.list_own_requests("U1") == ()
    assert (await lab.approval()).effect is EffectState.NONE and await list_refusals(lab) == ["already"]


# Between the beginning and the effect


async def test_who_has_lost_the_lane_since_it_was_begun_mails_nothing(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held up between the two, it is not to do what another process is looking after by now."""
    lab = await propose(redis)

    async def take_lane(lane: str) -> None:
        partition = lab.keys.get_partition(lane)
        await redis.zadd(lab.keys.build_key(partition, "z"), {lane: 1})
        assert await lab.lanes.claim("another process", partition, 1)

    act_around_checkpoint(lab, monkeypatch, "begin:1", take_lane, afterwards=True)
    await lab.presses(lab.wall.cards()[0], "send")
    partition = lab.keys.get_partition((await lab.approval()).id)
    [lease] = await lab.lanes.claim("this process", partition, 1)
    with pytest.raises(LeaseLost):
        await lab.dispatch.handle_item(lease)
    assert not lab.mailer.mails
    await lab.work()
    approval = await lab.approval()
    assert approval.effect is EffectState.UNKNOWN and not lab.mailer.mails, "begun by another, it may have happened"


# What is done again


class DoubtfulMailer(MemoryMailer):
    """Says of the first mail that nobody can know."""

    message_ids: list[str]

    async def send_mail(self, to: Person, subject: str, body: str, message_id: str, reply_to: str = "") -> None:
        self.message_ids = [*getattr(self, "message_ids", []), message_id]
        if len(self.message_ids) == 1:
            raise EffectUnknownError("the connection broke")
        await super().send_mail(to, subject, body, message_id, reply_to)


async def redo(lab: Lab) -> None:
    """Zhang San has it done again."""
    [card] = lab.wall.cards()
    again = next(one.choice for one in card.buttons if one.choice in ("redo", "retry"))
    await lab.presses(card, again)
    await lab.work()


async def test_a_mail_that_is_sent_again_is_another_mail(redis: Redis) -> None:
    """By the same Message-ID readers' programs would take it for the first one, and not show it."""
    lab = await propose(redis)
    mailer = DoubtfulMailer()
    object.__setattr__(lab.desk, "mailer", mailer)
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    assert (await lab.approval()).effect is EffectState.UNKNOWN
    await redo(lab)
    assert (await lab.approval()).effect is EffectState.DONE and len(mailer.mails) == 1
    assert len(set(mailer.message_ids)) == 2


async def test_a_request_that_is_started_again_has_the_key_it_had(redis: Redis) -> None:
    """By its key the engine knows that it was started already."""
    lab = await propose(redis, LEAVE)
    engine, keys = lab.desk.engine, list[str]()

    class LateEngine:
        """Starts what it does not answer for."""

        async def start_request(
            self, process: str, form: dict[str, str], author: str, key: str, *rest: Any, **more: Any
        ) -> CommandResult:
            keys.append(key)
            result = await engine.start_request(process, form, author, key, *rest, **more)
            if len(keys) == 1:
                raise ToolError("busy", "later")
            return result

        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

    object.__setattr__(lab.desk, "engine", LateEngine())
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    await redo(lab)
    assert len(keys) == 2 and len(set(keys)) == 1
    assert [one.id for one in await engine.list_own_requests("U1")] == ["L-0001"]


# Dialogs


async def test_an_edit_that_will_not_do_is_told_and_changes_nothing(redis: Redis) -> None:
    lab = await propose(redis)
    before = await lab.approval()
    await lab.presses(lab.wall.cards()[0], "edit", form={"subject": "项目进度", "body": "李四你好，[Your name]"})
    await lab.work()
    assert lab.wall.whispers == [("U1", "邮件里还有没填的内容，请补充完整")]
    assert await lab.approval() == before and len(lab.wall.cards()) == 1


async def answer_task(redis: Redis, choice: str, form: dict[str, str] | None) -> tuple[Lab, Approval]:
    """Li Si presses a button of the card of a request's first task."""
    lab = Lab(redis)
    await lab.engine.start_request("leave", SICK, "U1", "start", lab.today())
    await lab.work()
    card = (await lab.approval()).id
    await lab.presses(lab.wall.cards("DU2")[0], choice, LI.id, form=form)
    await lab.work()
    approval = await lab.approvals.load_approval(card)
    assert approval is not None
    return lab, approval


@pytest.mark.parametrize("choice", ["reject", "return", "approve_with"])
async def test_a_button_with_a_dialog_decides_nothing_without_its_answers(redis: Redis, choice: str) -> None:
    lab, approval = await answer_task(redis, choice, None)
    assert (approval.state, approval.press_id) == (ApprovalState.OPEN, "")
    assert (await lab.engine.get_request("L-0001")).status is Status.WAITING
    assert await list_refusals(lab) == ["no_form"]
    assert lab.wall.whispers == [(LI.id, translate("refused.no_form", "zh"))]


async def test_control_with_its_answers_it_decides(redis: Redis) -> None:
    lab, approval = await answer_task(redis, "reject", {"opinion": "那几天有发布"})
    assert approval.state is ApprovalState.DECIDED and await list_refusals(lab) == []
    assert (await lab.engine.get_request("L-0001")).status is Status.REVISE


async def test_a_button_without_a_dialog_takes_no_answers(redis: Redis) -> None:
    lab, approval = await answer_task(redis, "approve", {"opinion": "好"})
    assert approval.state is ApprovalState.OPEN and await list_refusals(lab) == ["no_form"]


@pytest.mark.parametrize("choice", ["again", "show"])
async def test_a_press_that_decides_nothing_takes_no_answers_either(redis: Redis, choice: str) -> None:
    """No button of the card has that name, so no dialog of it can have been shown."""
    lab = Lab(redis)
    await lab.engine.start_request("leave", SICK, "U1", "start", lab.today())
    await lab.work()
    if choice == "again":
        expire = ExpireCard(version=1)
        await lab.lanes.enqueue((await lab.approval()).id, "expire", expire.model_dump_json())
        await lab.work()

    def count_posts() -> int:
        return len(lab.wall.said) + len(lab.wall.shared)

    before, posts = await lab.approval(), count_posts()
    await lab.presses(lab.wall.cards("DU2")[0], choice, LI.id, form={"opinion": "好"})
    await lab.work()
    assert await lab.approval() == before and count_posts() == posts
    assert await list_refusals(lab) == ["no_form"]
    await lab.presses(lab.wall.cards("DU2")[0], choice, LI.id, id="control")
    await lab.work()
    assert count_posts() > posts, "control: without answers it does what it says"


async def test_what_nobody_can_see_in_an_answer_is_removed_and_counted(redis: Redis) -> None:
    _, approval = await answer_task(redis, "reject", {"opinion": "那几天\u200b有\u200b发布", "decision": "approve"})
    assert (approval.form, approval.removed_characters) == ({"opinion": "那几天有发布"}, 2)
    assert "2 个看不见的字符" in describe_consequence(approval, "zh")


# What runs nothing


@pytest.mark.parametrize("script", [LEAVE, mail()])
async def test_a_cancelled_card_begins_nothing_whether_it_could_be_repeated_or_not(redis: Redis, script: Any) -> None:
    lab = await propose(redis, script)
    await lab.presses(lab.wall.cards()[0], "cancel")
    await lab.work()
    approval = await lab.approval()
    assert (approval.state, approval.effect, approval.attempts) == (ApprovalState.CANCELLED, EffectState.NONE, 0)
    assert "effect.started" not in await lab.kinds() and await list_refusals(lab) == []


async def test_a_press_on_a_copy_that_is_known_adds_none(redis: Redis) -> None:
    lab = await propose(redis)
    [(_, known)] = before = (await lab.approval()).copies
    await lab.presses(lab.wall.cards()[0], "send", at=known)
    await lab.work()
    assert (await lab.approval()).copies == before


# A card or a tool that is not there any more


async def test_a_press_on_a_card_that_the_store_does_not_have_is_told_so(redis: Redis) -> None:
    lab = await propose(redis)
    await redis.delete(*[key async for key in redis.scan_iter("*:apr:*")])
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    assert await list_refusals(lab) == ["gone"] and not lab.mailer.mails
    assert lab.wall.whispers == [("U1", translate("refused.gone", "zh"))]


@pytest.mark.parametrize(
    ("choice", "state", "refusals"),
    [
        ("edit", ApprovalState.OPEN, ["no_tool"]),
        ("send", ApprovalState.DECIDED, []),
        ("cancel", ApprovalState.CANCELLED, []),
    ],
)
async def test_without_its_tool_a_card_is_not_edited_but_ends_as_its_person_says(
    redis: Redis, choice: str, state: ApprovalState, refusals: list[str]
) -> None:
    lab = await propose(redis)
    assert isinstance(lab.gates.tools, ChainMap)
    del lab.gates.tools["send_email"]
    await lab.presses(lab.wall.cards()[0], choice, form={"subject": "x", "body": "y"} if choice == "edit" else None)
    await lab.work()
    approval = await lab.approval()
    assert approval.state is state and await list_refusals(lab) == refusals and not lab.mailer.mails
    assert approval.effect is (EffectState.FAILED if choice == "send" else EffectState.NONE)
    assert bool(lab.wall.cards()) is (choice != "cancel")
