"""The last word of a run, and where its card is: said where they may be said."""

from __future__ import annotations

from dataclasses import dataclass

from bot.cards import show_candidates
from bot.errors import ChatFailed
from bot.events import Directory, Message, Post
from bot.records import Ask, Last, Run
from bot.show import ending, receipt
from bot.store.lanes import Item
from bot.telling import Telling, Told
from bot.texts import say
from tools.names import language_of, names_of
from tools.spec import Privacy


@dataclass(frozen=True, slots=True)
class Endings:
    telling: Telling
    directory: Directory

    async def say_last(self, run: Run, last: Last, *, again: bool, wait_ms: int | None) -> Told:
        """The last word, in the conversation if what the run has seen may be told there."""
        place, privacy, key = run.message.place, privacy_of_last(run, last), f"{run.id}:final"
        here, aside = await self.telling.may_stand(place, privacy), receipt(run, in_channel=True)
        in_channel = here and not place.direct
        asked = () if in_channel or last.stopped else run.candidates  # in a channel a mention would call them
        candidates = await show_candidates(self.directory, asked, run.language)
        post = ending(run, last, candidates, in_channel=in_channel)
        return await self.telling.tell(
            place, run.message.person, post, privacy, key=key, again=again, wait_ms=wait_ms, receipt=aside
        )

    async def give_up(self, item: Item, message: Message, run: Run | None) -> tuple[str, Told]:
        """Of what failed every time: what was said, and where. If nothing can be said where it was asked, in the DM."""
        text = say("turn.given_up", await language_of(self.directory, message.person), id=item.id)
        privacy, key = Privacy.PUBLIC, f"dead:{item.id}"
        if run is not None and run.last is not None:
            text, privacy = run.last.text, privacy_of_last(run, run.last)
        post = Post(text, receipt=receipt(run, in_channel=not message.place.direct) if run else "")
        try:
            return text, await self.telling.tell(message.place, message.person, post, privacy, key=key, again=True)
        except ChatFailed:
            direct = await self.telling.chat.direct(message.person)
            await self.telling.chat.post(direct, post, key=key, again=True)
            return text, Told(here=privacy is Privacy.PUBLIC, direct=None if message.place.direct else direct)

    async def say_whose(self, run: Run, ask: Ask, *, theirs: bool, quiet: bool, again: bool) -> None:
        """Whose an asked-for decision is, and where its card is; nothing where the card comes to this very place, or
        where a line of the steps says so. `theirs`: who asks may press it."""
        place, person, key = run.message.place, run.message.person, f"{run.id}:card:{len(run.trace.calls)}"
        if ask.place == place or (theirs and place.direct):
            return
        if place.direct:
            if quiet:
                who = (await names_of(self.directory, ask.plan.deciders))[run.language]
                text = say("turn.brought", run.language, who=who)
                await self.telling.chat.post(place, Post(text), key=f"{run.id}:brought", again=again)
        elif theirs:
            await self.telling.point(place, person, "pointer.card", key=key, again=again)
        elif quiet or not await self.telling.may_stand(place):
            await self.telling.point(place, person, "pointer.brought", key=key, again=again)


def privacy_of_last(run: Run, last: Last) -> Privacy:
    """A stop is in words of our own; an answer may be about all that the run has seen."""
    return Privacy.PUBLIC if last.stopped else run.trace.privacy
