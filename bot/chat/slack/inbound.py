"""Verified Slack payloads → `Message` and `Click`, handed to the `Intake`.

Bolt acknowledges an event before its listener runs, so messages are taken in a middleware: what it raises
leaves the event unacknowledged, and Slack sends it again. Interactions are never sent again: they are
acknowledged once they are durable, and when they cannot be, the person is told.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias
from weakref import WeakValueDictionary

from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.slack import dialogs, home
from bot.chat.slack.calls import call
from bot.chat.slack.text import readable
from bot.errors import ChatFailed, StoreDown
from bot.events import Channel, Click, Dialog, Directory, Intake, Message, Place, Ref
from bot.texts import say

_log = logging.getLogger(__name__)

Body: TypeAlias = Mapping[str, Any]
AGAIN_S, LOOK_S = 0.75, 0.25
"""For how long, and how often, it is looked whether a thread is ours: far less than the three seconds in which Slack
wants to hear."""
SUBTYPES = (None, "file_share")
"""Message events that somebody wrote just now; every other subtype is an edit, a notice or a robot."""


class Ack(Protocol):
    def __call__(
        self, text: str = ..., *, response_action: str = ..., errors: dict[str, str] = ...
    ) -> Awaitable[Any]: ...


@dataclass(frozen=True, slots=True)
class Me:
    """Who the bot is in this workspace (auth.test)."""

    team: str
    user: str
    bot: str


class Inbound:
    def __init__(
        self,
        client: AsyncWebClient,
        me: Me,
        intake: Intake,
        channel: Channel,
        directory: Directory,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._me, self._intake = client, me, intake
        self._channel, self._directory, self._clock = channel, directory, clock
        self._threads = WeakValueDictionary[str, asyncio.Lock]()

    def register(self, app: AsyncApp, command: str) -> None:
        """Everything Slack may send is answered; the sinks come last, Bolt takes the first that fits."""
        app.middleware(self.events)
        app.event("app_home_opened")(self.opened)
        app.action(re.compile(r"^cs:"))(self.pressed)
        app.view(dialogs.CALLBACK)(self.submitted)
        app.command(command)(self.command)
        anything = re.compile(".*", re.DOTALL)
        for kind in (app.event, app.action, app.view, app.view_closed, app.command, app.shortcut, app.options):
            kind(anything)(sink)

    # Messages

    async def events(self, body: dict[str, Any], next: Callable[[], Awaitable[Any]]) -> None:
        """Bolt middleware: a message is durable before anything acknowledges it."""
        message = self.message(body)
        if message and self._is_to_us(message, body["event"]):
            await self._take(message, aliases=_aliases(message))
        elif message and body["event"].get("thread_ts"):
            await self._follow_up(message)
        await next()

    def message(self, body: Body) -> Message | None:
        """The message somebody wrote, or None for everything else that looks like one."""
        event = body.get("event") or {}
        if body.get("type") != "event_callback" or event.get("type") not in ("message", "app_mention"):
            return None
        person, ts = event.get("user"), event.get("ts")
        if not (person and ts and event.get("channel")) or event.get("subtype") not in SUBTYPES:
            return None
        if event.get("bot_id") or event.get("bot_profile") or person in (self._me.user, "USLACKBOT"):
            return None
        channel = str(event["channel"])
        return Message(
            id=str(body.get("event_id") or f"{channel}:{ts}"),
            place=self._place(channel, event.get("thread_ts") or ts, event.get("channel_type")),
            person=person,
            text=readable(event.get("text") or "", self._me.user),
            at=ts,
        )

    def _is_to_us(self, message: Message, event: Body) -> bool:
        """In a DM everything is; in a channel what mentions the bot."""
        return message.place.direct or f"<@{self._me.user}" in (event.get("text") or "")

    async def _follow_up(self, message: Message) -> None:
        """In a thread that the bot takes part in no mention is needed. Events overtake each other: what is said right
        after a mention may be here before the mention is durable, so it is looked again for a moment. Within a thread
        one comes after the other."""
        loop, name = asyncio.get_running_loop(), message.place.conversation
        until, turn = loop.time() + AGAIN_S, self._threads.setdefault(name, asyncio.Lock())
        async with turn:
            while not await self._intake.engaged(message.place):
                if loop.time() > until:
                    return
                await asyncio.sleep(LOOK_S)
            await self._take(message, aliases=_aliases(message))

    async def _take(self, message: Message, aliases: tuple[str, ...] = ()) -> None:
        """*Stop* acts at once; then it is handed in like any message, so that it gets an answer."""
        if self._intake.is_stop(message.text):
            await self._intake.stop(message.place, message.person, message.at)
        await self._intake.message(message, aliases=aliases)

    def _place(self, channel: str, thread: str | None, kind: str | None = None) -> Place:
        direct = kind == "im" or channel.startswith("D")
        return Place(team=self._me.team, channel=channel, thread=thread, direct=direct)

    async def command(self, ack: Ack, body: dict[str, Any]) -> None:
        """The slash command: answered in the DM, wherever it was typed."""
        person = body["user_id"]
        try:
            place = await self._channel.direct(person)
            text = readable(body.get("text") or "", self._me.user)
            at = f"{self._clock():.6f}"
            await self._take(Message(id=body["trigger_id"], place=place, person=person, text=text, at=at, command=True))
        except (StoreDown, ChatFailed) as failed:
            _log.warning("slash command not taken: %s", failed)
            await ack(await self._say("slack.not_taken", person))
            return
        here = body.get("channel_id") == place.channel
        await (ack() if here else ack(await self._say("slack.answer_in_dm", person)))

    # Presses and dialogs

    async def pressed(self, ack: Ack, body: dict[str, Any]) -> None:
        """A button of ours: durable, or its dialog found, before the acknowledgement."""
        try:
            click = await self.click(body)
            dialog = await self._intake.dialog(click) if click else None
            if click and not dialog:
                await self._intake.click(click)
        except (StoreDown, ChatFailed) as failed:
            await self._not_taken(body, failed)
            raise
        await ack()
        if click and dialog:
            await self._open(body["trigger_id"], dialog, click)

    async def click(self, body: Body) -> Click | None:
        """The click behind a `block_actions` payload; None when it is not well formed."""
        action = body["actions"][0]
        approval, dot, version = str(action.get("value") or "").rpartition(".")
        if not dot or not version.isdecimal():
            _log.warning("a press without an approval: %s", action.get("action_id"))
            return None
        person = body["user"]["id"]
        return Click(
            id=body["trigger_id"],
            approval=approval,
            version=int(version),
            choice=action["action_id"].removeprefix("cs:"),
            person=person,
            place=await self._pressed_at(body, person),
            card=_card(body, action),
        )

    async def _pressed_at(self, body: Body, person: str) -> Place:
        """Where the pressed card stands; a card of the Home tab belongs to the DM."""
        box, message = body.get("container") or {}, body.get("message") or {}
        channel = box.get("channel_id") or (body.get("channel") or {}).get("id")
        if not channel:
            return await self._channel.direct(person)
        thread = message.get("thread_ts") or box.get("thread_ts") or box.get("message_ts") or message.get("ts")
        return self._place(str(channel), thread)

    async def _open(self, trigger: str, dialog: Dialog, click: Click) -> None:
        """Open a dialog within the trigger's three seconds; too late is said, not swallowed."""
        try:
            await call(self._client.views_open, {"trigger_id": trigger, "view": dialogs.view(dialog)}, tries=1)
        except ChatFailed as failed:
            _log.warning("dialog not opened: %s", failed)
            await self._whisper(click.place, click.person, "slack.press_again")

    async def submitted(self, ack: Ack, body: dict[str, Any]) -> None:
        """A dialog of ours: refused with its problems under the fields, or durable and then closed."""
        click = dialogs.submitted(body)
        if click is None:
            _log.warning("a dialog without an approval")
            await ack()
            return
        problems = await self._intake.problems(click)
        if problems:
            await ack(response_action="errors", errors=dialogs.errors(problems, click.form or {}))
            return
        await self._intake.click(click)
        await ack()

    # Home

    async def opened(self, event: dict[str, Any]) -> None:
        """The Home tab, made anew whenever somebody opens it."""
        person = event["user"]
        if event.get("tab") != "home":
            return
        try:
            if page := await self._intake.home(person):
                view = home.view(page, await self._language(person))
                await call(self._client.views_publish, {"user_id": person, "view": view})
        except (StoreDown, ChatFailed) as failed:
            _log.warning("Home tab not shown: %s", failed)

    # Saying things of our own

    async def _not_taken(self, body: Body, failed: Exception) -> None:
        _log.warning("press not taken: %s", failed)
        person = body["user"]["id"]
        try:
            place = await self._pressed_at(body, person)
        except ChatFailed:
            return
        await self._whisper(place, person, "slack.not_taken")

    async def _whisper(self, place: Place, person: str, key: str) -> None:
        try:
            await self._channel.whisper(place, person, await self._say(key, person))
        except (StoreDown, ChatFailed) as failed:
            _log.warning("could not tell %s: %s", person, failed)

    async def _say(self, key: str, person: str) -> str:
        return say(key, await self._language(person))

    async def _language(self, person: str) -> str:
        try:
            found = await self._directory.get(person)
        except ChatFailed:
            found = None
        return found.language if found else "en"


def _aliases(message: Message) -> tuple[str, ...]:
    """What the two events of one mention have in common."""
    return (f"{message.place.channel}:{message.at}",)


def _card(body: Body, action: Body) -> Ref | None:
    """The message that was pressed, if it has that very button: a view has no message, and a message that has been
    rewritten meanwhile needs nothing."""
    box, message = body.get("container") or {}, body.get("message") or {}
    shown = [button for block in message.get("blocks") or () for button in block.get("elements") or ()]
    here = [one for one in shown if (one.get("action_id"), one.get("value")) == (action["action_id"], action["value"])]
    channel, ts = box.get("channel_id"), box.get("message_ts")
    return Ref(channel=str(channel), ts=str(ts)) if here and channel and ts else None


async def sink(ack: Ack) -> None:
    """Nothing of ours: acknowledged, so that Slack neither repeats it nor shows an error."""
    await ack()
