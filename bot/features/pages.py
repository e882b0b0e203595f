"""The pages of a platform that a feature may fill: Home, and forms. Without its feature, Home is empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bot.chat.messages import (
    FormAnswer,
    FormDialog,
    FormSubmission,
    HomeAnswer,
    HomeDialog,
    HomePress,
    HomeSubmission,
    HomeView,
)
from bot.queue.writes import EnqueueItem


class Home:
    """The content and the actions of the platform's Home page. The feature that fills it overrides all methods."""

    async def build_home(self, person: str, *, is_opened: bool) -> HomeView | None:
        """Return the page; None for people who are not served. `is_opened`: its person has just opened it."""
        return None

    async def handle_press(self, press: HomePress) -> HomeDialog | None:
        """Return the dialog that a button opens; None if the page has changed instead."""
        return None

    async def check_submission(self, submission: HomeSubmission) -> tuple[HomeAnswer, Sequence[EnqueueItem]]:
        """Return the answer to a submitted dialog, and the items that it leads to. The platform waits."""
        return HomeAnswer(), ()


class Forms(Protocol):
    """Requests without a model: a process's form as a dialog."""

    async def build_form(self, form: FormSubmission) -> FormDialog | str:
        """Return the first page of the form, or the sentence that says why there is none."""

    async def check_form(self, form: FormSubmission) -> FormAnswer:
        """Return the problems of a submitted form, or its next page. The platform waits."""

    def derive_card_id(self, person: str, dialog: str) -> str:
        """Return the id of the card that a dialog becomes."""
