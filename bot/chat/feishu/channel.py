"""`FeishuChannel`: the bot's posts on Feishu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from bot.chat.feishu.presses import PressDesk
from bot.chat.messages import MessageRef, Place, Post, RateSlot, SessionStatus, SuggestedPrompt


class SharedRateLimiter(Protocol):
    """Slots of a rate shared by all processes (`bot.queue.rate_limits.RateLimiter`)."""

    async def reserve_slot(self, key: str, spacing_ms: int, burst: int) -> int: ...

    async def apply_penalty(self, key: str, ms: int) -> None: ...


class FeishuChannel:
    """Implements `bot.chat.messages.Channel`."""

    presses: PressDesk

    def __init__(
        self, client: Any, limits: SharedRateLimiter, sent: Any, *, team: str, spacing_ms: int = 300, burst: int = 4
    ) -> None:
        """`client`: `FeishuClient`; `sent`: `bot.chat.feishu.sent_cards.SentCards`."""

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef: ...

    async def update_message(self, ref: MessageRef, post: Post) -> None: ...

    async def has_buttons_of(self, ref: MessageRef, post: Post) -> bool: ...

    async def post_ephemeral(self, place: Place, person: str, text: str) -> None: ...

    def show_status(self, place: Place, text: str) -> None: ...

    def set_session_status(self, place: Place, status: SessionStatus, *, person: str = "", title: str = "") -> None: ...

    async def wait_for_session(self, place: Place) -> None: ...

    async def suggest_prompts(self, place: Place, prompts: Sequence[SuggestedPrompt]) -> None: ...

    async def upload_picture(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None: ...

    async def upload_files(
        self, place: Place, files: Sequence[tuple[str, bytes]], *, comment: str, key: str, again: bool = False
    ) -> None: ...

    async def open_dm(self, person: str) -> Place: ...

    def find_rate_slot(self, place: Place) -> RateSlot | None: ...

    async def post_form(self, person: str, card: Any, *, key: str) -> MessageRef:
        """Post a form (`RenderedCard`) in the person's chat with the bot. `key` names the press or command that opens
        it, so that a repeated one opens no second form. Raises `ChatError`."""

    async def update_form(self, ref: MessageRef, card: Any) -> None:
        """Show another state of a form that `post_form` has posted. Raises `ChatError`."""

    async def find_original(self, ref: MessageRef) -> MessageRef:
        """Return the ref that the rest of the bot knows for the message of a press. It differs if the card was posted
        anew."""

    def note_message(self, place: Place, message_id: str) -> None:
        """Note a person's message in a place. The sign of life is a reaction on the latest one."""

    async def stop_statuses(self) -> None:
        """End the sending of reactions at the end of the process."""
