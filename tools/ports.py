"""Ports of the tools to the outside, kept small: people, texts, a mailer, the open cards, attached files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tools.spec import AttachedFile, Person


class Directory(Protocol):
    """The people of the company."""

    async def find_person(self, person: str) -> Person | None: ...

    async def list_people(self) -> tuple[Person, ...]: ...

    async def refresh_people(self, people: Iterable[str]) -> None:
        """Make sure that `find_person` and `list_people` use data at most 30 s old for these persons, as every decision
        by authority needs. Raises the platform's error if it cannot be asked; nobody decides on old data."""


class Mailer(Protocol):
    async def send_mail(self, to: Person, subject: str, body: str, message_id: str, reply_to: str = "") -> None:
        """Send an email. `reply_to` is `Name <address>` for answers, or empty. Raises `ToolError` if it was certainly
        not sent, `EffectUnknownError` if the result is unknown."""


class CardService(Protocol):
    """The part of the open cards that tools use."""

    async def cancel_card(self, card: str, person: str) -> bool:
        """Cancel a card for its requester. Return whether it was theirs and open."""

    async def open_set(self, person: str, tasks: Sequence[str]) -> None:
        """Put these tasks before a person in one message. A repeated call shows the message again."""


class AttachedFiles(Protocol):
    """The files that people have sent."""

    async def find_files(self, person: str, ids: Sequence[str]) -> Mapping[str, AttachedFile]:
        """Id → file, for those of the files that this person has sent; nobody can name somebody else's."""


class TextRenderer(Protocol):
    def __call__(self, value: object, language: str, /) -> str:
        """The text of a note, or of any other value on a card, in a language (`zh`, `en`)."""
