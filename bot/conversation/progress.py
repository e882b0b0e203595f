"""Shows people the steps of a run while it works.

Displays: `plan` (one message that is rewritten while the run works, and ends as *Worked for 4 s*), `replies` (one reply
for each step, merged while the platform's rate limit is near), `quiet` (nothing before the answer). In a DM the steps
are in the thread under the message, and the answer is beside the message."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

from bot.agent.limits import StopReason
from bot.agent.tool_executor import CALL_MISTAKES, RunStep
from bot.chat.messages import Message, Post, RateSlot, SessionStatus, StepLine, StepList, StepState
from bot.chat.platform import Platform
from bot.core import logs
from bot.core.clock import Clock
from bot.core.disclosure import Disclosure, can_show_in, decide_channel_disclosure
from bot.core.errors import ChatBusyError, ChatError, ChatRefusedError, PlaceClosedError
from bot.core.i18n import load_sentences, render_value, translate
from bot.core.records import Run, RunStatus
from bot.core.redaction import redact_text
from bot.core.run_state import CallStatus
from bot.core.work_items import RefreshProgress, build_show_lane
from bot.queue.lanes import Lease
from bot.queue.writes import EnqueueItem, Write
from bot.storage.preferences import DEFAULTS, Preferences
from tools.platform_ids import PERSON_ID

log = logs.get_logger(__name__)

Display = Literal["plan", "replies", "quiet"]

LIVE_MS = 3_000
"""Shortest time between two rewrites of the one message (ms): `chat.update` allows 50 a minute in a workspace. Shorter
work is shown once, at its end."""
ERROR_REASONS = frozenset({StopReason.FAILURES, StopReason.MALFORMED, StopReason.REFUSED, StopReason.FILTERED})
"""Stops because of an error. At all others a limit was reached, or somebody said stop."""
_STEP_STATES = {CallStatus.SUCCEEDED: StepState.DONE, CallStatus.AWAITING: StepState.WAITING}
_NUMBER = re.compile(r"^\d+\. ")
SUBJECT_MAX = 80
REASON_MAX = 160
SESSION_TITLE_MAX = 80
"""Most characters of a message that name its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReporter:
    platform: Platform
    clock: Clock = field(default_factory=Clock)
    display: Display = "plan"
    """The company's display."""
    get_preferences: Callable[[str], Preferences] = lambda person: DEFAULTS
    """Returns what a person has chosen."""
    is_catching_up: Callable[[str], Awaitable[bool]] | None = None
    """Tells whether an item of its own is updating the messages of a run. Nobody else updates them then. None: no item
    does."""

    def get_display(self, run: Run) -> str:
        """Return how the run is shown. A run that has its one message keeps that message up to date."""
        return "plan" if run.progress_message else self.get_preferences(run.message.person).steps or self.display

    def add_steps(self, run: Run, steps: Sequence[RunStep]) -> None:
        """Add step lines to the run, as private as the conversation. Nothing is shown yet. A call that the model merely
        got wrong is no step for people."""
        for step in steps:
            run.candidates = step.people
            if step.error in CALL_MISTAKES:
                continue
            audience = Disclosure.HERE if run.message.place.direct else decide_channel_disclosure(step.privacy)
            tries = sum((one.tool, one.args) == (step.call.tool, step.call.args) for one in run.state.calls)
            line = render_step_line(len(run.step_lines) + 1, step, run.language, audience, tries=tries)
            run.step_lines.append(line)
            run.step_uids.append(step.call.uid)

    def settle_step(self, run: Run, uid: str, status: CallStatus) -> None:
        """Write the end of a step's card into its line. Nothing is shown yet. In a channel the line does not tell the
        outcome."""
        place = run.step_uids.index(uid) if uid in run.step_uids else -1
        if not 0 <= place < len(run.step_lines):
            return
        ending = translate(f"steps.ended_{status.value}" if run.message.place.direct else "steps.ended", run.language)
        for waiting in (translate(f"steps.{key}", run.language) for key in ("waiting", "brought")):
            run.step_lines[place] = run.step_lines[place].replace(f" {waiting}", f" {ending}", 1)

    async def show_failure(self, run: Run) -> None:
        """Show a run that was given up as an error, if the platform can be reached."""
        if run.progress_message is not None:
            with suppress(ChatError):
                await self._update_progress_message(run, translate("steps.failed", run.language), again=True)

    def find_rate_slot(self, run: Run) -> RateSlot | None:
        """Return the rate limit for showing the next step."""
        return self.platform.chat.find_rate_slot(run.message.place) if self.get_display(run) == "replies" else None

    def show_working(self, run: Run) -> None:
        """Show that the run is at work. Every post of the run removes this sign."""
        self.platform.chat.show_status(run.message.thread_place, translate("steps.working", run.language))

    def begin_session(self, run: Run) -> None:
        """Show the run's session as active, where people can stop it."""
        message = run.message
        self.platform.chat.set_session_status(
            message.thread_place,
            SessionStatus.PROCESSING,
            person=message.person,
            title=redact_text(message.text, addresses=False)[:SESSION_TITLE_MAX],
        )

    async def settle_session(self, run: Run, *, is_waiting: bool = False) -> None:
        """Show that the run's session has ended or, if something waits for a button, rests. Called before the end is
        stored: a process that is killed in between leaves no session that seems to work."""
        status = SessionStatus.SUSPENDED if is_waiting else SessionStatus.ACTIVE
        self.platform.chat.set_session_status(run.message.thread_place, status)
        await self.platform.chat.wait_for_session(run.message.thread_place)

    @contextmanager
    def remove_status_after(self, message: Message) -> Iterator[None]:
        """Remove the sign of work at the end. In a thread every post removes it; in a DM the answer is outside the
        thread."""
        try:
            yield
        finally:
            if not message.place.thread:
                self.platform.chat.show_status(message.thread_place, "")

    async def show_progress(self, run: Run, *, again: bool, wait_ms: int | None) -> None:
        """Show the steps that the display and the rate limit allow now. `wait_ms` None: the rate has no free slot, so
        the lines wait for the next ones."""
        if self.get_display(run) == "plan":
            if self.clock.now_ms() >= (run.progress_ms or run.created_ms) + LIVE_MS:
                await self.flush_lines(run, again=again)
        elif wait_ms is not None or self.find_rate_slot(run) is None:
            await self.flush_lines(run, again=again, wait_ms=wait_ms)

    async def flush_lines(self, run: Run, *, again: bool, wait_ms: int | None = None) -> None:
        """Show the lines that are held back: as one reply, or in the one message, which also shows the state of the
        run."""
        display, title = self.get_display(run), _render_progress_title(run)
        if display == "quiet" or not run.step_lines:
            return
        is_card_alone = run.status is RunStatus.PAUSED and len(run.step_lines) == 1
        if display == "plan" and is_card_alone and run.progress_message is None:
            return  # the card says what the run waits for
        if run.posted_lines == len(run.step_lines) and (display == "replies" or run.progress_title == title):
            return
        if not await can_show_in(self.platform, run.message.place):
            run.posted_lines = len(run.step_lines)
            return
        with suppress(PlaceClosedError):  # the answer will say so
            if display == "plan":
                if run.progress_message and self.is_catching_up and await self.is_catching_up(run.id):
                    return
                try:
                    await self._update_progress_message(run, title, again=again)
                except ChatBusyError:  # the next lines or an item of its own show these too: the run does not wait
                    return
            else:
                text, key = "\n".join(run.step_lines[run.posted_lines :]), f"{run.id}:line:{run.posted_lines}"
                await self.platform.chat.post_message(
                    run.message.thread_place, Post(text), key=key, again=again, wait_ms=wait_ms
                )
        run.posted_lines = len(run.step_lines)

    def build_refresh_request(self, run: Run, item: str) -> Sequence[Write]:
        """Request an update of the run's message that could not be updated, by an item of its own."""
        late = run.posted_lines != len(run.step_lines) or run.progress_title != _render_progress_title(run)
        if run.progress_message is None or not late:
            return []
        work = RefreshProgress(run=run.id)
        return [EnqueueItem(build_show_lane(run.id), f"progress:{item}", work.model_dump_json())]

    async def refresh_progress(self, lease: Lease, run: Run | None) -> Sequence[Write]:
        """Show the current state of the run, unless a later item does the same. Raises ChatBusyError or
        ChatUnavailableError while the platform accepts no update."""
        if run is None or run.progress_message is None or await lease.list_waiting_bodies():
            return []
        try:
            await self._update_progress_message(run, _render_progress_title(run), again=True)
        except ChatRefusedError as error:
            log.warning("steps.not_rewritten", run=run.id, error=error.code)
        return []

    async def _update_progress_message(self, run: Run, title: str, *, again: bool) -> None:
        steps = list[StepLine]()
        states = {call.uid: _STEP_STATES.get(call.status, StepState.FAILED) for call in run.state.calls}
        for line, uid in zip_longest(run.step_lines, run.step_uids[: len(run.step_lines)], fillvalue=""):
            first, _, reason = line.partition("\n")
            words = _NUMBER.sub("", first).replace("**", "")  # the platform has numbers and formatting of its own
            steps.append(StepLine(words, reason.strip("_"), states.get(uid, StepState.DONE)))
        post = Post("\n".join([title, *run.step_lines]), steps=StepList(title, tuple(steps)))
        if run.progress_message is None:
            run.progress_message = await self.platform.chat.post_message(
                run.message.thread_place, post, key=f"{run.id}:progress", again=again
            )
        else:
            await self.platform.chat.update_message(run.progress_message, post)
        run.progress_title, run.progress_ms = title, self.clock.now_ms()


def _render_progress_title(run: Run) -> str:
    """Render the state of a run: at work, waiting, stopped, or its duration."""
    if run.status is RunStatus.PAUSED:
        return translate("steps.paused", run.language)
    if run.status is RunStatus.CANCELLED:
        return translate("steps.cancelled", run.language)
    if run.result is None and run.status is not RunStatus.STOPPED:
        return translate("steps.running", run.language)
    if run.result is None or run.result.stop_reason:
        is_error = run.result is not None and run.result.stop_reason in ERROR_REASONS
        return translate("steps.failed" if is_error else "steps.stopped", run.language)
    return translate("steps.worked", run.language, seconds=max(1, round(run.state.active_ms / 1000)))


def render_step_line(
    number: int, step: RunStep, language: str, audience: Disclosure = Disclosure.HERE, *, tries: int = 1
) -> str:
    """Render one step in words: number, action, subject, result, and the reason that the model stated. Only the action
    is shown where free text may not be. `tries`: number of times that the same call was made so far."""
    result = render_value(step.note, language)
    if audience is Disclosure.DM_WITH_POINTER:
        waits = f" {result}" if step.title is not None else ""
        action = describe_action(step.call.tool, language)
        return translate("steps.line_private", language, number=number, action=action) + waits
    if step.title is not None:
        title = render_value(step.ready if step.ready and audience is Disclosure.HERE else step.title, language)
        line = translate("steps.line_waiting", language, number=number, title=title, result=result)
    else:
        action = describe_action(step.call.tool, language)
        if tries > 1:
            action = translate("steps.again", language, action=action, n=tries)
        names = ("name", "person", "request", "request_id", "task", "task_id", "to")
        values = [step.call.args.get(name) for name in names]
        subjects = [" ".join(one.split()) for one in values if isinstance(one, str)]
        subject = next((one for one in subjects if one not in result and not PERSON_ID.fullmatch(one)), "")
        key = "steps.line_about" if subject else "steps.line"
        line = translate(key, language, number=number, action=action, subject=subject[:SUBJECT_MAX], result=result)
    reason = " ".join(step.call.reason.split())[:REASON_MAX] if audience is Disclosure.HERE else ""
    return f"{line}\n_{reason}_" if reason else line


def describe_action(tool: str, language: str) -> str:
    """Describe the action of a call. For a server's tool: the server, and its name for the tool."""
    if f"tool.{tool}" in load_sentences():
        return translate(f"tool.{tool}", language)
    server, between, name = tool.partition("__")
    return translate("steps.server", language, server=server, tool=name[:64]) if between else tool[:40]
