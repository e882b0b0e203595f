"""What Slack shows for apps that are declared as agents: the status of a session, with its *Stop*, and suggested
prompts. Nobody relies on it: where Slack refuses it, the bot is a plain one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import Place, SessionStatus, SuggestedPrompt
from bot.chat.slack.rate_limits import LocalRateLimiter
from bot.chat.slack.text import truncate_text
from bot.chat.slack.web_api import Method, call_slack
from bot.core import logs
from bot.core.errors import ChatError, ChatUnavailableError, PlaceClosedError

log = logs.get_logger(__name__)

UNAVAILABLE_S = 600.0
"""How long a feature is left alone after Slack has refused it."""
PROMPTS, PROMPT_TITLE, SESSION_TITLE = 4, 75, 200
"""Most suggested prompts; UTF-16 units of a prompt's title and of a session's."""
CALL_MS, CALL_BURST = 1_200, 10
"""`agents.sessions.setStatus` and `assistant.threads.setSuggestedPrompts` are tier 3: 50 per minute and workspace."""
WAIT_S = 5.0
"""How long the end of a run waits for its session at most."""
PLACE_ERRORS = frozenset(
    {"channel_not_found", "invalid_thread_ts", "message_not_found", "thread_not_found", "user_not_in_channel"}
)
"""Errors that say nothing about the app: the feature stays."""


class OptionalFeature:
    """Something that Slack has for some installations only. After a refusal it is left alone for a while, and the log
    says so once."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._unavailable_until, self._logged_code = float("-inf"), ""

    @property
    def is_available(self) -> bool:
        return self._clock() >= self._unavailable_until

    def record_refusal(self, code: str) -> None:
        if code != self._logged_code:
            log.info("not available", feature=self._name, code=code)
        self._unavailable_until, self._logged_code = self._clock() + UNAVAILABLE_S, code


class AgentView:
    """Calls of a session follow each other, so that none overtakes another, and what is outdated is not sent."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._sessions, self._prompts = OptionalFeature("sessions"), OptionalFeature("suggested prompts")
        self._wanted: dict[tuple[str, str], dict[str, str]] = {}
        """By channel and thread; what is not sent yet."""
        self._skipped = set[tuple[str, str]]()
        """By channel and thread; at work, and Slack does not know."""
        self._sending: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._calls = LocalRateLimiter(CALL_MS, CALL_BURST)

    def set_session_status(self, place: Place, status: SessionStatus, *, person: str = "", title: str = "") -> None:
        """Sets the status of the session in this thread, soon. `person` and `title` count when it begins. While Slack
        takes no more, nothing new is said to be at work: then nothing has to be taken back either."""
        if not place.thread or not self._sessions.is_available:
            return
        key = (place.channel, place.thread)
        if status is SessionStatus.PROCESSING and self._calls.count_free_slots() <= CALL_BURST // 2:
            self._skipped.add(key)
            return
        if key in self._skipped:
            self._skipped.discard(key)
            if status is not SessionStatus.PROCESSING:
                return
        beginning = {"initiator_user_id": person, "title": truncate_text(" ".join(title.split()), SESSION_TITLE)}
        self._wanted[key] = {"status": status.value, **{name: text for name, text in beginning.items() if text}}
        if key not in self._sending:
            self._sending[key] = asyncio.get_running_loop().create_task(self._send_statuses(*key))

    async def wait_for_session(self, place: Place) -> None:
        """Waits until what was wanted for this thread is sent, if that is soon."""
        if task := self._sending.get((place.channel, place.thread or "")):
            await asyncio.wait({task}, timeout=WAIT_S)

    async def _send_statuses(self, channel: str, thread: str) -> None:
        """Leaves `_sending` in the same step in which nothing more is wanted."""
        try:
            while (wanted := self._wanted.pop((channel, thread), None)) is not None and self._sessions.is_available:
                session = {"channel_id": channel, "thread_ts": thread, **wanted}
                await self._call_feature(self._sessions, self._client.agents_sessions_setStatus, session)
        finally:
            self._sending.pop((channel, thread), None)

    async def suggest_prompts(self, place: Place, prompts: Sequence[SuggestedPrompt]) -> None:
        """Shows prompts in a DM. Without `thread_ts`: with it, the call does nothing for an agent."""
        if not self._prompts.is_available or not prompts or not self._calls.count_free_slots():
            return
        rows = [{"title": truncate_text(one.title, PROMPT_TITLE), "message": one.message} for one in prompts[:PROMPTS]]
        method = self._client.assistant_threads_setSuggestedPrompts
        await self._call_feature(self._prompts, method, {"channel_id": place.channel, "prompts": rows})

    async def _call_feature(self, feature: OptionalFeature, method: Method, arguments: Mapping[str, Any]) -> None:
        """Raises nothing."""
        try:
            await self._calls.wait_for_slot()
            await call_slack(method, arguments, on_rate_limit=self._calls.apply_penalty)
        except (ChatUnavailableError, PlaceClosedError):
            return
        except ChatError as refused:
            if refused.code not in PLACE_ERRORS:
                feature.record_refusal(refused.code)

    async def close(self) -> None:
        """At the end of the process: what is not on its way yet is not sent."""
        for task in list(self._sending.values()):
            task.cancel()
        await asyncio.gather(*self._sending.values(), return_exceptions=True)
