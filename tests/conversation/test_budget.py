"""A day's budget: looked at before every reply, said politely when it is used up, and never in the way of a button."""

from datetime import datetime, timedelta

from redis.asyncio import Redis

from bot.agent.limits import StopReason
from bot.agent.model import ModelReply
from bot.chat.messages import Message
from bot.conversation.endings import describe_stop
from bot.core.i18n import translate
from bot.core.records import CallStatus, Run
from bot.core.run_state import CallRecord, RunState, Usage
from tests.harness.answers import answers
from tests.harness.budget import ELSEWHERE, PRICES, took
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.harness.presses import everywhere, opened
from tests.harness.talks import notes, talked
from tests.stories.script import DONE, calls, mail
from tests.tools.office import SICK
from tools.languages import LANGUAGES
from tools.workflow.engine.state import Status

USED_UP = "模型额度已经用完"
LOOKS = [took(calls(("list_people", {"name": f"name {n}"})), 50) for n in range(9)]
"""60 tokens each."""
TOKENS = 100
PLAIN = took(DONE, 90)
"""A whole run that takes 100 tokens."""
RENEWAL = datetime(2026, 11, 24)


async def test_a_run_goes_over_by_less_than_one_reply_and_without_a_budget_it_goes_on(redis: Redis) -> None:
    bot = Bot(redis, LOOKS, budget_tokens_per_day=TOKENS)
    await bot.send("你好")
    [told] = answers(bot)
    assert len(bot.model.requests) == 2 and USED_UP in told, "60 + 60 ≥ 100"
    assert [one.more["why"] async for one in bot.journal.stream_records(kinds=["run.stopped"])] == ["budget"]
    await redis.flushall()
    bot = Bot(redis, LOOKS)
    await bot.send("你好")
    assert len(bot.model.requests) == 10 and USED_UP not in answers(bot)[0]


async def test_it_says_since_when_in_whose_time_what_became_of_it_and_what_still_works(redis: Redis) -> None:
    bot = Bot(redis, [PLAIN], budget_tokens_per_day=TOKENS)
    await bot.send("你好")
    await bot.send("再问一句", id="Ev2")
    told = answers(bot)[1]
    for words in (USED_UP, "2026-11-21 00:00", "没有办完", "命令", "按钮", "管理员", "再试一次"):
        assert words in told, words
    assert len(bot.model.requests) == 1, "the second message reaches no model"
    assert [one.post for one in bot.chat.posts][-1].receipt.endswith("没有做任何改动")
    await bot.send("帮助", id="Ev3")
    assert "Countersign" in bot.chat.texts()[-1]
    bot.directory.change("U1", timezone="Europe/Berlin", locale="en-GB")
    await bot.send("你好", id="Ev4")
    assert "2026-11-20 17:00 (your time)" in answers(bot)[-1] and "Try Again" in answers(bot)[-1]


async def test_the_next_day_try_again_works(redis: Redis) -> None:
    bot = Bot(redis, [PLAIN, took(DONE, 1)], budget_tokens_per_day=TOKENS)
    await bot.send("你好")
    await bot.send("你好", id="Ev2")
    [button] = bot.chat.buttons()
    await bot.press_retry(button, id="at once")
    assert len(answers(bot)) == 3 and USED_UP in answers(bot)[2], "not before"
    bot.now_offset = timedelta(hours=14)  # midnight in Shanghai
    await bot.press_retry(bot.chat.buttons()[-1], id="next day")
    assert answers(bot)[3] == "好的。"


async def test_everybody_has_one_of_their_own_and_one_for_all_conversations(redis: Redis) -> None:
    bot = Bot(redis, [PLAIN, PLAIN], budget_tokens_per_day=TOKENS)
    await bot.send("你好")
    await bot.send("你好", person="U2", id="Ev2", place=ELSEWHERE)
    assert answers(bot, "C7") == ["好的。"], "somebody else's is untouched"
    await bot.send("你好", person="U1", id="Ev3", place=ELSEWHERE)
    assert USED_UP in answers(bot, "C7")[1], "it was used up in another conversation, kept in another partition"


async def test_money_is_a_budget_too(redis: Redis) -> None:
    bot = Bot(redis, [took(DONE, 1000, 0, 10)] * 3, prices=PRICES, budget_per_day="0.00054")
    for n in range(3):
        await bot.send("你好", id=f"Ev{n}")
    assert [USED_UP in one for one in answers(bot)] == [False, False, True], "0.00027 USD each"


# Buttons


async def test_what_was_proposed_before_is_done_or_not_as_pressed_and_told_by_code(redis: Redis) -> None:
    bot = Bot(redis, [took(mail(), 200), DONE], budget_tokens_per_day=TOKENS)
    await bot.send("给李四发邮件")
    await bot.press(bot.chat.cards()[0], "send")
    assert len(bot.mailer.mails) == 1 and len(bot.model.requests) == 1
    last = bot.chat.posts[-1].post
    assert USED_UP in last.text and "已经办好" in last.text and "没有办完" not in last.text
    assert "给李四发了邮件" in last.receipt
    await redis.flushall()
    bot = Bot(redis, [took(mail(), 200), DONE], budget_tokens_per_day=TOKENS)
    await bot.send("给李四发邮件")
    await bot.press(bot.chat.cards()[0], "cancel")
    assert not bot.mailer.mails and "没有执行" in bot.chat.posts[-1].post.text


async def test_approving_needs_no_budget(redis: Redis) -> None:
    bot = Bot(redis, [took(DONE, 10)], budget_tokens_per_day=1)
    await bot.send("你好")
    await bot.start_request("leave", SICK, "U1", "start")
    await bot.press(bot.chat.cards("DU2")[0], "approve", person="U2")
    assert (await bot.engine.get_request("L-0001")).status is Status.APPROVED and len(bot.model.requests) == 1


async def test_killed_anywhere_the_effect_happens_once_and_is_told_once(redis: Redis) -> None:
    async def prepare() -> Bot:
        script = [took(mail(), 200), took(mail(), 200), DONE]
        return await opened(Bot(redis, script, budget_tokens_per_day=TOKENS), "给李四发邮件")

    async for bot in everywhere(redis, prepare, more_than=5):
        await bot.press(bot.chat.cards()[0], "send")
        assert len(bot.mailer.mails) <= 1 and len(answers(bot)) == 1 and USED_UP in answers(bot)[0]
        assert len(bot.model.requests) == 1


@corpus("language", *LANGUAGES)
@corpus("status", *(one for one in CallStatus if one is not CallStatus.AWAITING))
def test_every_outcome_has_words(status: CallStatus, language: str) -> None:
    def say(key: str) -> str:
        undone = translate("share.anew", language, undone=translate(key, language), until="2026-11-24 00:00")
        return translate("stopped.budget", language, undone=undone)

    def call(uid: str, status: CallStatus, approval: str = "") -> CallRecord:
        return CallRecord(uid, "t", {}, "r", status, "m", approval=approval)

    message = Message(id="E", place=DM, person="U1", text="x", at="1")
    run = Run(id="R1", message=message, language=language, created_ms=0, state=RunState(steps=2))
    run.state.calls = [call("R1:1:0", CallStatus.SUCCEEDED, "A0")]
    told = describe_stop(run, StopReason.BUDGET, RENEWAL)
    assert told == say("stopped.undone"), "what was settled before other steps is in the receipt"
    run.state.calls += [call("R1:2:0", status, "A1"), call("R1:2:1", CallStatus.SUCCEEDED)]
    assert describe_stop(run, StopReason.BUDGET, RENEWAL) == say(f"share.{status.value}")


# How far over


async def test_runs_at_the_same_time_do_not_know_of_each_other(redis: Redis) -> None:
    """What the budget says it does not promise: another conversation's run is seen when the next one begins."""
    bot = Bot(redis, [], budget_tokens_per_day=TOKENS)

    async def meanwhile(_: object) -> ModelReply:
        await bot.usage.record_usage("U1", [Usage("a", 500, 0, 0, None)])
        return LOOKS[0]

    bot.model.script += [meanwhile, took(DONE, 1)]
    await bot.send("你好")
    assert answers(bot) == ["好的。"]
    await bot.send("你好", id="Ev2")
    assert USED_UP in answers(bot)[1]


async def test_an_answer_that_is_there_is_not_lost_for_a_second_thought(redis: Redis) -> None:
    doubtful = took(ModelReply(text="L-0042 已通过，金额 9000 元。"), 200)
    bot = Bot(redis, [doubtful, DONE], budget_tokens_per_day=TOKENS)
    await bot.send("你好")
    assert "L-0042" in answers(bot)[0] and "未经核实" in answers(bot)[0] and len(bot.model.requests) == 1


# Summaries


NOTES = [notes("想了解请假规定和报销规定")] * 9


async def fold_once(redis: Redis, budget: int) -> tuple[Bot, list[str]]:
    """A conversation that has grown long with all that its person may use; and the kinds of the journal."""
    bot = Bot(redis, [took(DONE, 10)] * 12, history_tokens=1_500)
    await talked(bot, 5)
    bot = Bot(redis, [took(DONE, 10)] * 12, summaries=NOTES, history_tokens=1_500, budget_tokens_per_day=budget)
    await talked(bot, 5, start=5)
    return bot, await bot.list_journal_kinds()


async def test_a_used_up_budget_stops_summaries_of_that_persons_threads_until_the_next_day(redis: Redis) -> None:
    bot, kinds = await fold_once(redis, 60)
    assert bot.summary_model.requests == [] and "history.folded" not in kinds
    why = [one.more["why"] async for one in bot.journal.stream_records(kinds=["history.not_folded"])]
    assert why and set(why) == {"budget"}
    memory = await bot.history.load_history(DM.conversation)
    assert memory.summary is None and memory.tokens <= bot.history.max_tokens, "the history is capped all the same"
    tomorrow = Bot(redis, [took(DONE, 10)] * 3, summaries=NOTES, history_tokens=1_500, budget_tokens_per_day=60)
    tomorrow.now_offset = timedelta(days=1)
    await talked(tomorrow, 1, start=20)
    assert tomorrow.summary_model.requests and "history.folded" in await tomorrow.list_journal_kinds()


async def test_negative_control_with_some_budget_left_they_are_made(redis: Redis) -> None:
    bot, kinds = await fold_once(redis, 10_000_000)
    assert bot.summary_model.requests and "history.folded" in kinds
