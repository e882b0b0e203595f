"""How a run is shown: one reply a step, merged when the platform is crowded, one live message, or nothing."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.agent.tool_executor import RunStep
from bot.chat.messages import Message, Place, RateSlot
from bot.conversation.endings import render_receipt
from bot.conversation.progress import Display, ProgressReporter, render_step_line
from bot.core.clock import Clock
from bot.core.records import Run, RunResult, RunStatus
from bot.core.run_state import CallRecord, CallStatus
from bot.storage.preferences import Preferences
from tests.harness.memory_platform import DM, MemoryChannel, MemoryDirectory, build_platform
from tools.spec import ReceiptLine, TextRef

PLACE = DM.model_copy(update={"thread": "1.0"})


class CrowdedChannel(MemoryChannel):
    """A channel that takes one post a second."""

    def find_rate_slot(self, place: Place) -> RateSlot:  # type: ignore[override]
        return RateSlot("D1", 1_000, 1)


def run() -> Run:
    message = Message(id="Ev1", place=PLACE, person="U1", text="hi", at="1.0")
    return Run(id="R00abc", message=message, language="en", created_ms=0)


def step(tool: str = "list_people", reason: str = "to know who may approve", **args: str) -> RunStep:
    call = CallRecord(uid="u", tool=tool, args=args, reason=reason, status=CallStatus.SUCCEEDED, model_id="m")
    return RunStep(call=call, note=TextRef(key="steps.waiting"))


async def shown(display: Display, crowds: list[bool]) -> tuple[CrowdedChannel, Run]:
    chat, one = CrowdedChannel(), run()
    steps = ProgressReporter(platform=build_platform(chat, MemoryDirectory()), display=display)
    for crowded in crowds:
        steps.add_steps(one, [step()])
        await steps.show_progress(one, again=False, wait_ms=None if crowded else 0)
    await steps.flush_lines(one, again=False)
    return chat, one


async def test_a_reply_a_step_and_while_it_is_crowded_they_are_merged_and_none_is_lost() -> None:
    chat, _ = await shown("replies", [False] * 3)
    assert [text[:2] for text in chat.texts()] == ["1.", "2.", "3."]
    assert len({one.key for one in chat.posts}) == 3
    chat, one = await shown("replies", [False, True, True])
    assert len(chat.posts) == 2 and "2." in chat.texts()[1] and "3." in chat.texts()[1]
    assert one.posted_lines == len(one.step_lines) == 3
    chat, one = await shown("quiet", [False] * 3)
    assert chat.posts == [] and len(one.step_lines) == 3, "kept for `countersign show`"


async def lived(*moments_ms: int) -> tuple[CrowdedChannel, Run, ProgressReporter]:
    """A run that ends a step at each of these moments."""
    chat, one, now_ms = CrowdedChannel(), run(), 0
    clock = Clock(read_now=lambda: datetime.fromtimestamp(now_ms / 1000, UTC))
    reporter = ProgressReporter(platform=build_platform(chat, MemoryDirectory()), clock=clock)
    for moment_ms in moments_ms:
        now_ms = moment_ms
        reporter.add_steps(one, [step()])
        await reporter.show_progress(one, again=False, wait_ms=None)
    return chat, one, reporter


async def test_a_short_run_shows_its_steps_once_when_it_is_over() -> None:
    chat, one, reporter = await lived(100, 900, 2_000)
    assert chat.posts == []
    one.result, one.state.active_ms = RunResult(text="done"), 2_300
    await reporter.flush_lines(one, again=False)
    [text] = chat.texts()
    assert text.startswith("Worked for 2 s\n1.") and text.count("\n_") == 3 and chat.updates == []


async def test_a_long_run_rewrites_one_message_every_three_seconds_at_most() -> None:
    chat, one, reporter = await lived(*range(1_000, 31_000, 500))
    assert len(chat.posts) == 1 and 8 <= len(chat.updates) <= 9
    one.result = RunResult(text="no", stop_reason="steps")
    await reporter.flush_lines(one, again=False)
    [text] = chat.texts()
    assert text.startswith("Stopped\n") and text.count("\n_") == 60, "nothing is left spinning"
    before = len(chat.updates)
    await reporter.flush_lines(one, again=False)
    assert len(chat.updates) == before, "what stands there already is not written again"


@pytest.mark.parametrize(
    ("status", "title"), [(RunStatus.PAUSED, "Waiting for a decision"), (RunStatus.CANCELLED, "Cancelled")]
)
async def test_the_title_says_how_the_run_stands(status: RunStatus, title: str) -> None:
    chat, one, reporter = await lived(4_000)
    one.status = status
    await reporter.flush_lines(one, again=False)
    assert chat.texts()[0].startswith(title) and len(chat.updates) == 1


@pytest.mark.parametrize("chosen", ["quiet", "replies"])
async def test_a_message_that_stands_there_is_kept_up_to_date_whatever_its_person_chooses_meanwhile(
    chosen: str,
) -> None:
    chat, one, reporter = await lived(4_000)
    one.status = RunStatus.PAUSED
    await reporter.flush_lines(one, again=False)
    reporter = replace(reporter, get_preferences=lambda person: Preferences(steps=chosen))
    one.status, one.result = RunStatus.DONE, RunResult(text="done")
    assert reporter.build_refresh_request(one, "item"), "also if it cannot be updated now"
    reporter.add_steps(one, [step()])
    await reporter.flush_lines(one, again=False)
    [text] = chat.texts()
    assert text.startswith("Worked for 1 s\n1.") and "\n2." in text


async def test_a_short_run_that_waits_for_its_card_shows_nothing_beside_it() -> None:
    chat, one, reporter = await lived(100)
    one.status = RunStatus.PAUSED
    await reporter.flush_lines(one, again=False)
    assert chat.posts == chat.updates == []


def test_a_line_has_number_action_subject_result_and_reason_but_no_json() -> None:
    for language in ("zh", "en"):
        text = render_step_line(4, step(name="Li Si"), language)
        assert text.startswith("4. ") and "Li Si" in text and text.endswith("_to know who may approve_")
        assert "{" not in text and "list_people" not in text
        text = render_step_line(1, step("fly_to_the_moon", "x" * 500), language)
        assert "fly_to_the_moon" in text and len(text) < 300


def test_the_receipt_contradicts_a_model_that_claims_more_and_says_who_decided() -> None:
    one = run()
    assert "nothing was changed" in render_receipt(one)
    one.receipt_lines.append(ReceiptLine(text=TextRef(key="effect.unknown")))
    assert "unknown" in render_receipt(one)
    params = {"request": "L-0001", "names": ""}
    one.receipt_lines = [ReceiptLine(text=TextRef(key="effect.approved", params=params))]  # of the version before
    assert render_receipt(one) == "On record: approved request L-0001"
    one.receipt_lines = [ReceiptLine(text=TextRef(key="effect.approved", params={**params, "by": "李四"}))]
    assert render_receipt(one) == "On record: 李四 approved request L-0001"
