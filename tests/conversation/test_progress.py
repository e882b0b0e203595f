"""How a run is shown: one reply a step, merged when the platform is crowded, one live message, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from bot.agent.events import RunStep
from bot.chat.messages import Message, MessageRef, Place, Post, RateSlot
from bot.conversation.progress import Display, ProgressReporter, render_receipt, render_step_line
from bot.conversation.reply import MessageDelivery
from bot.core.clock import Clock
from bot.core.records import Run, RunResult, RunStatus
from bot.core.run_state import CallRecord, CallStatus
from tests.harness.lab import Staff, Walls
from tests.tools.office import PEOPLE
from tools.spec import ReceiptLine, TextRef

PLACE = Place(team="T", channel="D1", thread="1.0", direct=True)


@dataclass
class Wall:
    """A channel in memory."""

    posts: list[tuple[str, str]] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        self.posts.append((key, post.text))
        return MessageRef(channel=place.channel, ts=f"{len(self.posts)}.0")

    async def update_message(self, ref: MessageRef, post: Post) -> None:
        self.edits.append(post.text)

    def find_rate_slot(self, place: Place) -> RateSlot:
        return RateSlot("D1", 1_000, 1)

    async def post_ephemeral(self, place: Place, person: str, text: str) -> None: ...

    async def open_dm(self, person: str) -> Place:
        return PLACE

    def show_status(self, place: Place, text: str) -> None: ...

    async def upload_picture(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None: ...


def run() -> Run:
    message = Message(id="Ev1", place=PLACE, person="U1", text="hi", at="1.0")
    return Run(id="R00abc", message=message, language="en", created_ms=0)


def step(tool: str = "list_people", reason: str = "to know who may approve", **args: str) -> RunStep:
    call = CallRecord(uid="u", tool=tool, args=args, reason=reason, status=CallStatus.SUCCEEDED, model_id="m")
    return RunStep(call=call, note=TextRef(key="steps.waiting"))


async def shown(display: Display, crowds: list[bool]) -> tuple[Wall, Run]:
    wall, one = Wall(), run()
    delivery = MessageDelivery(chat=wall, reader_classifier=Walls(), directory=Staff(list(PEOPLE)))
    steps = ProgressReporter(chat=wall, delivery=delivery, display=display)
    for crowded in crowds:
        steps.add_steps(one, [step()])
        await steps.show_progress(one, again=False, wait_ms=None if crowded else 0)
    await steps.flush_lines(one, again=False)
    return wall, one


async def test_a_reply_a_step() -> None:
    wall, _ = await shown("replies", [False] * 3)
    assert [text[:2] for _, text in wall.posts] == ["1.", "2.", "3."]
    assert len({key for key, _ in wall.posts}) == 3


async def test_steps_are_merged_while_it_is_crowded_and_none_is_lost() -> None:
    wall, one = await shown("replies", [False, True, True])
    assert len(wall.posts) == 2 and "2." in wall.posts[1][1] and "3." in wall.posts[1][1]
    assert one.posted_lines == len(one.step_lines) == 3


class Watch:
    """A clock that a test sets (ms)."""

    ms = 0

    def __call__(self) -> datetime:
        return datetime.fromtimestamp(self.ms / 1000, UTC)


async def lived(wall: Wall, one: Run, moments_ms: list[int]) -> ProgressReporter:
    """A run that ends a step at each of these moments."""
    watch = Watch()
    delivery = MessageDelivery(chat=wall, reader_classifier=Walls(), directory=Staff(list(PEOPLE)))
    reporter = ProgressReporter(chat=wall, delivery=delivery, clock=Clock(read_now=watch))
    for watch.ms in moments_ms:
        reporter.add_steps(one, [step()])
        await reporter.show_progress(one, again=False, wait_ms=None)
    return reporter


async def test_a_short_run_shows_its_steps_once_when_it_is_over() -> None:
    wall, one = Wall(), run()
    reporter = await lived(wall, one, [100, 900, 2_000])
    assert wall.posts == []
    one.result, one.state.active_ms = RunResult(text="done"), 2_300
    await reporter.flush_lines(one, again=False)
    [(_, text)] = wall.posts
    assert text.startswith("Worked for 2 s\n1.") and text.count("\n_") == 3 and wall.edits == []


async def test_a_long_run_rewrites_one_message_every_three_seconds_at_most() -> None:
    wall, one = Wall(), run()
    reporter = await lived(wall, one, list(range(1_000, 31_000, 500)))
    assert len(wall.posts) == 1 and 8 <= len(wall.edits) <= 9
    one.result = RunResult(text="no", stop_reason="steps")
    await reporter.flush_lines(one, again=False)
    assert wall.edits[-1].startswith("Stopped\n") and wall.edits[-1].count("\n_") == 60, "nothing is left spinning"
    before = len(wall.edits)
    await reporter.flush_lines(one, again=False)
    assert len(wall.edits) == before, "what stands there already is not written again"


@pytest.mark.parametrize(
    ("status", "title"), [(RunStatus.PAUSED, "Waiting for a decision"), (RunStatus.CANCELLED, "Cancelled")]
)
async def test_the_title_says_how_the_run_stands(status: RunStatus, title: str) -> None:
    wall, one = Wall(), run()
    reporter = await lived(wall, one, [4_000])
    one.status = status
    await reporter.flush_lines(one, again=False)
    assert wall.edits[0].startswith(title)


async def test_a_short_run_that_waits_for_its_card_shows_nothing_beside_it() -> None:
    wall, one = Wall(), run()
    reporter = await lived(wall, one, [100])
    one.status = RunStatus.PAUSED
    await reporter.flush_lines(one, again=False)
    assert wall.posts == wall.edits == []


async def test_quiet() -> None:
    wall, one = await shown("quiet", [False] * 3)
    assert wall.posts == [] and len(one.step_lines) == 3, "kept for `countersign show`"


@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_line_has_number_action_subject_result_and_reason_but_no_json(language: str) -> None:
    text = render_step_line(4, step(name="Li Si"), language)
    assert text.startswith("4. ") and "Li Si" in text and text.endswith("_to know who may approve_")
    assert "{" not in text and "list_people" not in text


def test_an_unknown_tool_is_named_and_a_long_reason_is_cut() -> None:
    text = render_step_line(1, step("fly_to_the_moon", "x" * 500), "en")
    assert "fly_to_the_moon" in text and len(text) < 300


def test_the_receipt_contradicts_a_model_that_claims_more() -> None:
    one = run()
    assert "nothing was changed" in render_receipt(one)
    one.receipt_lines.append(ReceiptLine(text=TextRef(key="effect.unknown")))
    assert "unknown" in render_receipt(one)


def test_a_receipt_says_who_decided_and_one_of_the_version_before_is_told_without() -> None:
    """That version kept the same note without `by`, and passes ours over: its sentence has no place for it."""
    one, params = run(), {"request": "L-0001", "names": ""}
    one.receipt_lines = [ReceiptLine(text=TextRef(key="effect.approved", params=params))]
    assert render_receipt(one) == "On record: approved request L-0001"
    one.receipt_lines = [ReceiptLine(text=TextRef(key="effect.approved", params={**params, "by": "李四"}))]
    assert render_receipt(one) == "On record: 李四 approved request L-0001"
