"""Features that Slack shows for apps declared as agents: the status of a session, with its *Stop*, and suggested
prompts. Nothing relies on them. Where Slack refuses them, the bot works without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import Place, SessionStatus, SuggestedPrompt
from bot.core.errors import ChatError, ChatUnavailableError, PlaceClosedError
from bot.platforms.shared import LatestCalls, LocalRateLimiter, OptionalFeature, Thread
from bot.platforms.slack.text import truncate_text
from bot.platforms.slack.web_api import Method, call_slack

PROMPTS, PROMPT_TITLE, SESSION_TITLE = 4, 75, 200
"""Most suggested prompts, and UTF-16 units of a prompt's title and of a session's title."""
CALL_MS, CALL_BURST = 1_200, 10
"""Rate of `agents.sessions.setStatus` and `assistant.threads.setSuggestedPrompts`, which are tier 3: 50 per minute and
workspace."""
WAIT_S = 5.0
"""How long the end of a run waits for its session at most (s)."""
PLACE_ERRORS = frozenset(
    {"channel_not_found", "invalid_thread_ts", "message_not_found", "thread_not_found", "user_not_in_channel"}
)
"""Errors that say nothing about the app, so that the feature stays in use."""


class AgentView:
    """Sends sessions and prompts to Slack. Calls of a session follow each other, so that none overtakes another.
    Outdated statuses are not sent."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._sessions, self._prompts = OptionalFeature("sessions"), OptionalFeature("suggested prompts")
        self._skipped = set[tuple[str, str]]()
        """(channel, thread) of sessions at work of which Slack was not told."""
        self._session_calls = LatestCalls(self.send_status)
        self._calls = LocalRateLimiter(CALL_MS, CALL_BURST)

    def set_session_status(self, place: Place, status: SessionStatus, *, person: str = "", title: str = "") -> None:
        """Set the status of the session in this thread, soon. `person` and `title` count when the session begins. While
        Slack takes few more calls, no new session is shown as at work, so that nothing has to be taken back later."""
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
        told = {name: text for name, text in beginning.items() if text}
        self._session_calls.send_soon(key, {"status": status.value, **told})

    async def wait_for_session(self, place: Place) -> None:
        """Wait until the wanted status of this thread is sent, for `WAIT_S` at most."""
        await self._session_calls.wait(place, WAIT_S)

    async def send_status(self, thread: Thread, wanted: Mapping[str, str]) -> None:
        if self._sessions.is_available:
            session = {"channel_id": thread[0], "thread_ts": thread[1], **wanted}
            await self._call_feature(self._sessions, self._client.agents_sessions_setStatus, session)

    async def suggest_prompts(self, place: Place, prompts: Sequence[SuggestedPrompt]) -> None:
        """Show prompts in a DM. The call has no `thread_ts`, because with it the call does nothing for an agent."""
        if not self._prompts.is_available or not prompts or not self._calls.count_free_slots():
            return
        rows = [{"title": truncate_text(one.title, PROMPT_TITLE), "message": one.message} for one in prompts[:PROMPTS]]
        method = self._client.assistant_threads_setSuggestedPrompts
        await self._call_feature(self._prompts, method, {"channel_id": place.channel, "prompts": rows})

    async def _call_feature(self, feature: OptionalFeature, method: Method, arguments: Mapping[str, Any]) -> None:
        """Call a method of Slack. Raises nothing."""
        try:
            await self._calls.wait_for_slot()
            await call_slack(method, arguments, on_rate_limit=self._calls.apply_penalty)
        except (ChatUnavailableError, PlaceClosedError):
            return
        except ChatError as refused:
            if refused.code not in PLACE_ERRORS:
                feature.record_refusal(refused.code)
