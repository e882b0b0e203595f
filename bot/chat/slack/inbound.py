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
from bot.chat.slack.shapes import is_short
from bot.chat.slack.text import readable
from bot.errors import ChatFailed, StoreDown
from bot.events import Channel, Click, Dialog, Directory, Intake, Message, Place, Ref
from bot.texts import say

_log = logging.getLogger(__name__)

Body: TypeAlias = Mapping[str, Any]
AGAIN_S, LOOK_S = 0.75, 0.25
"""For how long, and how often, it is looked whether a thread is ours: far less than the three seconds in which Slack
wants to hear."""
RAW_MAX = 60_000
"""Characters of a message, as Slack sends it, that are read: five for each of the 12,000 that a message may have (an
`&` arrives as `&amp;`). Slack itself takes at most 40,000 from people."""
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


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody wrote, as the platform sent it: not read yet."""

    id: str
    place: Place
    person: str
    raw: str
    at: str
    follows: bool = False
    """It stands in a thread that somebody began before."""


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
        said = self._hear(body)
        if said and (said.place.direct or f"<@{self._me.user}" in said.raw):
            await self._take(self._read(said), aliases=_aliases(said))
        elif said and said.follows:
            await self._follow_up(said)
        await next()

    def _hear(self, body: Body) -> Said | None:
        """What somebody wrote, not read yet; None for everything else that looks like it, and for what has not the
        shape of Slack's events."""
        event = body.get("event")
        if body.get("type") != "event_callback" or not isinstance(event, Mapping):
            return None
        if event.get("type") not in ("message", "app_mention") or event.get("subtype") not in SUBTYPES:
            return None
        person, ts, channel = event.get("user"), event.get("ts"), event.get("channel")
        if event.get("bot_id") or event.get("bot_profile") or person in (self._me.user, "USLACKBOT"):
            return None
        if not (person and ts and channel):
            return None
        thread, kind, raw = event.get("thread_ts") or "", event.get("channel_type") or "", event.get("text") or ""
        id_ = body.get("event_id") or f"{channel}:{ts}"
        if not (all(map(is_short, (person, ts, channel, thread, kind, id_))) and isinstance(raw, str)):
            _log.warning("an event of an odd shape is dropped: %.60s", event.get("type"))
            return None
        shared = bool(body.get("is_ext_shared_channel"))
        place = self._place(channel, thread or ts, kind, shared=shared)
        return Said(id=id_, place=place, person=person, raw=raw, at=ts, follows=bool(thread))

    def _read(self, said: Said, *, command: bool = False) -> Message:
        """Only what is for the bot is read, and only so much of it."""
        unread = len(said.raw) if len(said.raw) > RAW_MAX else 0
        text = "" if unread else readable(said.raw, self._me.user)
        return Message(
            id=said.id, place=said.place, person=said.person, text=text, at=said.at, command=command, unread=unread
        )

    async def _follow_up(self, message: Said) -> None:
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
            await self._take(self._read(message), aliases=_aliases(message))

    async def _take(self, message: Message, aliases: tuple[str, ...] = ()) -> None:
        """*Stop* acts at once; then it is handed in like any message, so that it gets an answer."""
        if self._intake.is_stop(message.text):
            await self._intake.stop(message.place, message.person, message.at)
        await self._intake.message(message, aliases=aliases)

    def _place(self, channel: str, thread: str | None, kind: str | None = None, *, shared: bool = False) -> Place:
        direct = kind == "im" or channel.startswith("D")
        return Place(team=self._me.team, channel=channel, thread=thread, direct=direct, shared=shared)

    async def command(self, ack: Ack, body: dict[str, Any]) -> None:
        """The slash command: answered in the DM, wherever it was typed."""
        person, trigger, raw = body.get("user_id"), body.get("trigger_id"), body.get("text") or ""
        if not (is_short(person) and is_short(trigger) and isinstance(raw, str)):
            await _drop(ack, "a slash command")
            return
        try:
            place = await self._channel.direct(person)
            said = Said(trigger, place, person, raw, f"{self._clock():.6f}")
            await self._take(self._read(said, command=True))
        except (StoreDown, ChatFailed) as failed:
            _log.warning("slash command not taken: %s", failed)
            await ack(await self._say("slack.not_taken", person))
            return
        here = body.get("channel_id") == place.channel
        await (ack() if here else ack(await self._say("slack.answer_in_dm", person)))

    # Presses and dialogs

    async def pressed(self, ack: Ack, body: dict[str, Any]) -> None:
        """A button of ours: durable, or its dialog found, before the acknowledgement."""
        if not is_press(body):
            await _drop(ack, "a press")
            return
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
        if not dot or not (version.isascii() and version.isdecimal()):
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
            await _drop(ack, "a dialog")
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
        person = event.get("user")
        if event.get("tab") != "home" or not is_short(person):
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


def _aliases(message: Said) -> tuple[str, ...]:
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


def is_press(body: Body) -> bool:
    """A press of one button, by somebody."""
    actions, user = body.get("actions"), body.get("user")
    action = actions[0] if isinstance(actions, list) and actions else None
    if not (isinstance(action, Mapping) and isinstance(user, Mapping)):
        return False
    value = action.get("value") or ""
    return all(map(is_short, (user.get("id"), body.get("trigger_id"), action.get("action_id"), value)))


async def _drop(ack: Ack, what: str) -> None:
    """Acknowledged, since Slack would only send it again."""
    _log.warning("%s of an odd shape is dropped", what)
    await ack()


async def sink(ack: Ack) -> None:
    """Nothing of ours: acknowledged, so that Slack neither repeats it nor shows an error."""
    await ack()
