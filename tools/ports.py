"""What tools need of the outside, as small as it can be: people, words, a mailer, the open cards, advice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tools.spec import Person, TextRef


class Directory(Protocol):
    """Who works here."""

    async def find_person(self, person: str) -> Person | None: ...

    async def list_people(self) -> tuple[Person, ...]: ...

    async def refresh_people(self, people: Iterable[str]) -> None:
        """What `find_person` and `list_people` say of these persons is at most 30 s old from here on: for whatever is
        decided by authority. Raises what the platform raises if it cannot be asked; nobody decides on what was true
        before."""


class Mailer(Protocol):
    async def send_mail(self, to: Person, subject: str, body: str, message_id: str, reply_to: str = "") -> None:
        """`reply_to`: `Name <address>` of who answers go to, or empty. Raises `ToolError` when it was surely not sent,
        `EffectUnknownError` when nobody can know."""


class CardService(Protocol):
    """The open cards, as tools see them."""

    async def cancel_card(self, card: str, person: str) -> bool:
        """Take a card back for the person who asked for it; False if it is not theirs or not open."""


class TextRenderer(Protocol):
    def __call__(self, note: TextRef, language: str, /) -> str:
        """A note as it is read in a language (`zh`, `en`)."""
