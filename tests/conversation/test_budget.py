"""A day's budget: looked at before every reply, said politely when it is used up, and never in the way of a button."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from redis.asyncio import Redis

from bot.agent.limits import DailyBudget
from bot.agent.model import ModelReply
from bot.chat.messages import Place
from bot.conversation.progress import _describe_settled_call
from bot.core.i18n import LANGUAGES, load_sentences
from bot.core.records import CallStatus, Run
from bot.core.run_state import CallRecord, RunState, Usage
from bot.queue.writes import apply_writes
from tests.harness.budget import ELSEWHERE, PRICES, took
from tests.harness.lab import DM, Edges, Lab, every_edge
from tests.harness.talks import notes, talked
from tests.stories.script import DONE, calls, mail
from tests.tools.office import SICK
from tools.workflow.engine.state import Status

USED_UP = "模型用量已经用完"
LOOKS = [took(calls(("list_people", {"name": f"name {n}"})), 50) for n in range(9)]
"""60 tokens each."""
TOKENS = DailyBudget(tokens=100)
PLAIN = took(DONE, 90)
"""A whole run that takes 100 tokens."""


def answers(lab: Lab, channel: str = DM.channel) -> list[str]:
    return [one.post.text for one in lab.wall.said if one.key.endswith(":final") and one.place.channel == channel]


async def says(lab: Lab, text: str = "你好", person: str = "U1", id: str = "Ev1", place: Place = DM) -> None:
    await lab.says(text, person=person, id=id, place=place)
    await lab.work()


async def test_a_run_goes_over_by_less_than_one_reply(redis: Redis) -> None:
    lab = Lab(redis, LOOKS, budget=TOKENS)
    await says(lab)
    [told] = answers(lab)
    assert len(lab.model.requests) == 2 and USED_UP in told, "60 + 60 ≥ 100"
    assert [one.more["why"] async for one in lab.journal.stream_records(kinds=["run.stopped"])] == ["budget"]


async def test_negative_control_without_a_budget_it_goes_on(redis: Redis) -> None:
    lab = Lab(redis, LOOKS)
    await says(lab)
    assert len(lab.model.requests) == 10 and USED_UP not in answers(lab)[0]


async def test_it_says_since_when_what_became_of_it_and_what_still_works(redis: Redis) -> None:
    lab = Lab(redis, [PLAIN], budget=TOKENS)
    await says(lab)
    await says(lab, "再问一句", id="Ev2")
    told = answers(lab)[1]
    for words in (USED_UP, "2026-11-21 00:00", "没有办完", "命令", "按钮", "管理员", "再试一次"):
        assert words in told, words
    assert len(lab.model.requests) == 1, "the second message reaches no model"
    assert [one.post for one in lab.wall.said][-1].receipt.endswith("没有做任何改动")
    await says(lab, "帮助", id="Ev3")
    assert "Countersign" in lab.wall.texts()[-1]


async def test_in_the_time_of_whoever_reads_it(redis: Redis) -> None:
    lab = Lab(redis, [PLAIN], budget=TOKENS)
    lab.staff.known = [
        one.model_copy(update={"timezone": "Europe/Berlin", "locale": "en-GB"}) if one.id == "U1" else one
        for one in lab.staff.known
    ]
    await says(lab)
    await says(lab, id="Ev2")
    assert "2026-11-20 17:00 (your time)" in answers(lab)[1] and "Try Again" in answers(lab)[1]


async def test_the_next_day_try_again_works(redis: Redis) -> None:
    lab = Lab(redis, [PLAIN, took(DONE, 1)], budget=TOKENS)
    await says(lab)
    await says(lab, id="Ev2")
    [button] = lab.wall.stops()
    await lab.tries_again(button, id="at once")
    await lab.work()
    assert len(answers(lab)) == 3 and USED_UP in answers(lab)[2], "not before"
    lab.ahead = timedelta(hours=14)  # midnight in Shanghai
    await lab.tries_again(lab.wall.stops()[-1], id="next day")
    await lab.work()
    assert answers(lab)[3] == "好的。"


async def test_everybody_has_one_of_their_own_and_one_for_all_conversations(redis: Redis) -> None:
    lab = Lab(redis, [PLAIN, PLAIN], budget=TOKENS)
    await says(lab)
    await says(lab, person="U2", id="Ev2", place=ELSEWHERE)
    assert answers(lab, "C7") == ["好的。"], "somebody else's is untouched"
    await says(lab, person="U1", id="Ev3", place=ELSEWHERE)
    assert USED_UP in answers(lab, "C7")[1], "it was used up in another conversation, kept in another partition"


async def test_money_is_a_budget_too(redis: Redis) -> None:
    lab = Lab(redis, [took(DONE, 1000, 0, 10)] * 3, prices=PRICES, budget=DailyBudget(money=Decimal("0.00054")))
    for n in range(3):
        await says(lab, id=f"Ev{n}")
    assert [USED_UP in one for one in answers(lab)] == [False, False, True], "0.00027 USD each"


async def test_nothing_at_all_asks_no_model(redis: Redis) -> None:
    lab = Lab(redis, [DONE], budget=DailyBudget(tokens=0))
    await says(lab)
    assert USED_UP in answers(lab)[0] and lab.model.requests == []


# Buttons


async def test_what_was_proposed_before_is_carried_out_and_told_by_code(redis: Redis) -> None:
    lab = Lab(redis, [took(mail(), 200), DONE], budget=TOKENS)
    await says(lab, "给李四发邮件")
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    assert len(lab.mailer.mails) == 1 and len(lab.model.requests) == 1
    last = lab.wall.said[-1].post
    assert USED_UP in last.text and "已经办好" in last.text and "没有办完" not in last.text
    assert "给李四发了邮件" in last.receipt


async def test_and_it_is_told_what_was_not(redis: Redis) -> None:
    lab = Lab(redis, [took(mail(), 200), DONE], budget=TOKENS)
    await says(lab, "给李四发邮件")
    await lab.presses(lab.wall.cards()[0], "cancel")
    await lab.work()
    assert not lab.mailer.mails and "没有执行" in lab.wall.said[-1].post.text


async def test_approving_needs_no_budget(redis: Redis) -> None:
    lab = Lab(redis, [], budget=DailyBudget(tokens=0))
    await lab.engine.start_request("leave", SICK, "U1", "start", lab.today())
    await lab.work()
    await lab.presses(lab.wall.cards("DU2")[0], "approve", person="U2")
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.APPROVED and lab.model.requests == []


async def test_killed_anywhere_the_effect_happens_once_and_is_told_once(redis: Redis) -> None:
    async def play(edges: Edges) -> None:
        await redis.flushall()
        lab = Lab(redis, [took(mail(), 200), took(mail(), 200), DONE], budget=TOKENS)
        await says(lab, "给李四发邮件")
        lab.edges = lab.wall.edge = lab.lanes.edge = edges
        await lab.presses(lab.wall.cards()[0], "send")
        await lab.work()
        assert len(lab.mailer.mails) <= 1 and len(answers(lab)) == 1 and USED_UP in answers(lab)[0]
        assert len(lab.model.requests) == 1

    assert await every_edge(play) > 5


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("status", [one for one in CallStatus if one is not CallStatus.AWAITING])
def test_every_outcome_has_words(status: CallStatus, language: str) -> None:
    message = {"id": "E", "place": DM, "person": "U1", "text": "x", "at": "1"}
    run = Run(id="R1", message=message, language=language, created_ms=0, state=RunState(steps=2))  # type: ignore[arg-type]
    run.state.calls = [CallRecord("R1:1:0", "t", {}, "r", CallStatus.SUCCEEDED, "m", approval="A0")]
    assert _describe_settled_call(run) == "", "what was settled before other steps is in the receipt"
    run.state.calls += [
        CallRecord("R1:2:0", "t", {}, "r", status, "m", approval="A1"),
        CallRecord("R1:2:1", "t", {}, "r", CallStatus.SUCCEEDED, "m"),
    ]
    assert _describe_settled_call(run) == load_sentences()[f"share.{status.value}"][language]


# How far over


async def test_runs_at_the_same_time_do_not_know_of_each_other(redis: Redis) -> None:
    """What the budget says it does not promise: another conversation's run is seen when the next one begins."""
    lab = Lab(redis, [], budget=TOKENS)

    async def meanwhile(_: object) -> ModelReply:
        spent = [Usage("a", 500, 0, 0, None)]
        partition = lab.keys.get_partition(ELSEWHERE.conversation)
        await apply_writes(
            redis, lab.keys, partition, lab.spending.build_usage_writes(ELSEWHERE.conversation, "U1", spent)
        )
        return LOOKS[0]

    lab.model.script += [meanwhile, took(DONE, 1)]
    await says(lab)
    assert answers(lab) == ["好的。"]
    await says(lab, id="Ev2")
    assert USED_UP in answers(lab)[1]


async def test_an_answer_that_is_there_is_not_lost_for_a_second_thought(redis: Redis) -> None:
    doubtful = took(ModelReply(text="L-0042 已通过，金额 9000 元。"), 200)
    lab = Lab(redis, [doubtful, DONE], budget=TOKENS)
    await says(lab)
    assert "L-0042" in answers(lab)[0] and "未经核实" in answers(lab)[0] and len(lab.model.requests) == 1


# Summaries


NOTES = [notes("想了解请假规定和报销规定")] * 9


async def fold_once(redis: Redis, budget: DailyBudget) -> tuple[Lab, list[str]]:
    """A conversation that has grown long with all that its person may use; and the kinds of the journal."""
    lab = Lab(redis, [took(DONE, 10)] * 12, history_tokens=1_500)
    await talked(lab, 5)
    lab = Lab(redis, [took(DONE, 10)] * 12, notes=NOTES, history_tokens=1_500, budget=budget)
    await talked(lab, 5, start=5)
    return lab, await lab.kinds()


async def test_a_used_up_budget_stops_summaries_of_that_persons_threads(redis: Redis) -> None:
    lab, kinds = await fold_once(redis, DailyBudget(tokens=60))
    assert lab.notes.requests == [] and "history.folded" not in kinds
    why = [one.more["why"] async for one in lab.journal.stream_records(kinds=["history.not_folded"])]
    assert why and set(why) == {"budget"}
    memory = await lab.history.load_history(DM.conversation)
    assert memory.summary is None and memory.tokens <= lab.history.max_tokens, "the history is capped all the same"


async def test_the_next_day_they_are_made_again(redis: Redis) -> None:
    _, kinds = await fold_once(redis, DailyBudget(tokens=60))
    assert "history.folded" not in kinds
    tomorrow = Lab(redis, [took(DONE, 10)] * 3, notes=NOTES, history_tokens=1_500, budget=DailyBudget(tokens=60))
    tomorrow.ahead = timedelta(days=1)
    await talked(tomorrow, 1, start=20)
    assert tomorrow.notes.requests and "history.folded" in await tomorrow.kinds()


async def test_negative_control_with_some_budget_left_they_are_made(redis: Redis) -> None:
    lab, kinds = await fold_once(redis, DailyBudget(tokens=10_000_000))
    assert lab.notes.requests and "history.folded" in kinds
