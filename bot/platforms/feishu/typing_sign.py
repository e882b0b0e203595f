"""The sign of life on Feishu: a reaction *typing* on the person's message while the bot is at work.

Nothing relies on it. Where Feishu refuses it, the bot works without."""

from __future__ import annotations

from bot.chat.messages import Place, SessionStatus
from bot.core.errors import ChatError, ChatUnavailableError, PlaceClosedError, StoreUnavailableError
from bot.platforms.feishu.client import GONE_CODES, FeishuClient
from bot.platforms.feishu.sent_cards import SentCards
from bot.platforms.shared import LatestCalls, OptionalFeature, Thread, remember

EMOJI = "Typing"
WAIT_S = 5.0
"""How long the end of a run waits for the reaction at most (s)."""
MAX_THREADS = 1_000
"""Number of threads whose latest message is known."""


class TypingSigns:
    """The part of `bot.chat.messages.Channel` that adds and removes reactions. Any process can end the sign that
    another one has shown."""

    def __init__(self, client: FeishuClient, sent: SentCards) -> None:
        self._client, self._sent = client, sent
        self._latest: dict[Thread, str] = {}
        self._sessions = set[Thread]()
        """Threads with a session at work in this process."""
        self._states, self._reactions = LatestCalls(self._send_sign), OptionalFeature("reactions")

    def note_message(self, place: Place, message_id: str) -> None:
        """Note the latest message of a person in a thread. In a DM, each message is a thread of its own."""
        if place.thread:
            remember(self._latest, (place.channel, place.thread), message_id, MAX_THREADS)

    def set_session_status(self, place: Place, status: SessionStatus, *, person: str = "", title: str = "") -> None:
        """See `Channel.set_session_status`. A session at work shows the sign until it says that it is not."""
        thread, is_at_work = (place.channel, place.thread or ""), status is SessionStatus.PROCESSING
        (self._sessions.add if is_at_work else self._sessions.discard)(thread)
        self._show_sign(place, is_at_work)

    def show_status(self, place: Place, text: str) -> None:
        """See `Channel.show_status`."""
        self._show_sign(place, bool(text))

    def note_post(self, place: Place) -> None:
        """Note a post in a thread. It ends the sign, unless a session goes on."""
        if not place.direct and (place.channel, place.thread) not in self._sessions:
            self._show_sign(place, False)

    def _show_sign(self, place: Place, is_at_work: bool) -> None:
        if place.thread:
            self._states.send_soon((place.channel, place.thread), is_at_work)

    async def wait_for_session(self, place: Place) -> None:
        await self._states.wait(place, WAIT_S)

    async def _send_sign(self, thread: Thread, is_at_work: bool) -> None:
        try:
            if is_at_work:
                await self._add_sign(thread)
            elif sign := await self._sent.end_sign(":".join(thread)):
                await self._client.call("DELETE", f"im/v1/messages/{sign}")
        except (ChatUnavailableError, PlaceClosedError, StoreUnavailableError):
            return
        except ChatError as failed:
            if failed.code not in GONE_CODES:
                self._reactions.record_refusal(failed.code)

    async def _add_sign(self, thread: Thread) -> None:
        name, message = ":".join(thread), self._latest.get(thread, thread[1])
        if not self._reactions.is_available or not await self._sent.claim_sign(name):
            return
        body = {"reaction_type": {"emoji_type": EMOJI}}
        try:
            answer = await self._client.call("POST", f"im/v1/messages/{message}/reactions", body=body, tries=1)
        except ChatError:
            await self._sent.drop_sign(name)
            raise
        sign = f"{message}/reactions/{answer.get('reaction_id')}"
        if not await self._sent.save_sign(name, sign):  # ended meanwhile
            await self._client.call("DELETE", f"im/v1/messages/{sign}")

    async def close_signs(self) -> None:
        await self._states.close()
