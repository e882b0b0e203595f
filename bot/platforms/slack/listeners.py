"""Turns verified Slack payloads into `Message` and `Click` for the `Ingress`.

Bolt acknowledges an event before its listener runs. A middleware therefore takes messages: an exception there leaves
the event unacknowledged, and Slack sends it again. Slack never sends interactions again. An interaction is acknowledged
once it is durable, and if that fails, the person is told."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias

from slack_bolt.async_app import AsyncApp
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import Acceptance, Channel, Click, FormProblem, HomeDialog, Ingress, Message, MessageRef, Place
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import ChatError, StoreUnavailableError
from bot.core.i18n import load_sentences, translate
from bot.people.directory import PlatformDirectory
from bot.platforms.shared import NOT_ACCEPTED, FollowUps, find_language, find_value, get_known_language, tell_person
from bot.platforms.slack import dialogs, home
from bot.platforms.slack.blocks import PAIR
from bot.platforms.slack.files import parse_sent_files
from bot.platforms.slack.payload_shape import is_short_text
from bot.platforms.slack.quotes import list_forwarded_files, read_quotes
from bot.platforms.slack.text import count_utf16_units, parse_message_text
from bot.platforms.slack.ticks import read_pressed_seal, read_pressed_value, read_ticks
from bot.platforms.slack.web_api import call_slack
from bot.platforms.slack.web_client import BotIdentity

_log = logging.getLogger(__name__)

Body: TypeAlias = Mapping[str, Any]
COMMAND = "/countersign"
ACK_S = 3.0
"""How long Slack waits for an acknowledgement of a press, a dialog or a command (s). After that, Slack shows an error,
whatever comes later."""
RAW_MAX = 60_000
"""Characters of a message, as Slack sends it, that are read: five for each of the 12,000 that a message may have (an
`&` arrives as `&amp;`). Slack itself takes at most 40,000 from people."""
_ANYTHING, _BUTTONS = re.compile(".*", re.DOTALL), re.compile(r"^cs:(?!form:|home:)")
CLOCK_MARGIN_S = 60.0
"""Margin by which a press is dated earlier than our clock (s). Slack gives no time of a press, and a press has to be
older than what is written after it."""
SUBTYPES = (None, "file_share", "me_message", "thread_broadcast")
"""Message events that somebody wrote just now, including files, `/me`, and a reply that is *also sent to the channel*.
Every other subtype is an edit, a notice or a robot."""


class AckFunction(Protocol):
    def __call__(
        self,
        text: str = ...,
        *,
        response_action: str = ...,
        errors: dict[str, str] = ...,
        view: dict[str, Any] = ...,
    ) -> Awaitable[Any]: ...


class SlackListeners:
    note_activity: Callable[[Place, str], None] = staticmethod(lambda place, at: None)
    """Takes where and when a message or a press was accepted."""

    def __init__(
        self, client: AsyncWebClient, me: BotIdentity, intake: Ingress, channel: Channel, directory: PlatformDirectory
    ) -> None:
        self._client, self._me, self._intake = client, me, intake
        self._channel, self._directory = channel, directory
        self._follow_ups = FollowUps(intake.is_engaged)

    def register_listeners(self, app: AsyncApp) -> None:
        """Register the listeners for messages and presses. Forms and Home have listeners of their own. Bolt takes the
        first that fits."""
        app.middleware(self.handle_event)
        for event in ("user_change", "team_join"):
            app.event(event)(self.handle_changed_person)
        for event in ("app_uninstalled", "tokens_revoked"):
            app.event(event)(log_removal)
        app.action(dialogs.MORE)(self.handle_more)
        app.action(_BUTTONS)(self.handle_action)
        app.view(dialogs.CALLBACK)(self.handle_view_submission)
        app.command(COMMAND)(self.handle_command)

    # Messages

    async def handle_event(self, body: dict[str, Any], next: Callable[[], Awaitable[Any]]) -> BoltResponse | None:
        """Make a message durable before anything acknowledges it (Bolt middleware). A payload for another workspace
        with the same app is acknowledged and dropped."""
        if foreign := find_foreign_team(body, self._me.team):
            _log.error("a payload for workspace %.60a is dropped: this installation serves %s", foreign, self._me.team)
            return BoltResponse(status=200)
        event = body.get("event") if body.get("type") == "event_callback" else None
        event = event if isinstance(event, Mapping) else {}
        await self._accept_session_stop(body, event)
        await self._accept_change(body, event)
        message = self._parse_message(body, event)
        if message and (message.place.direct or f"<@{self._me.user}" in (event.get("text") or "")):
            await self._submit_message(message, event)
        elif message and message.place.thread != message.at:
            await self._follow_ups.accept(message.place, partial(self._submit_message, message, event))
        await next()
        return None

    def _parse_message(self, body: Body, event: Body) -> Message | None:
        """Return a person's message, with the text as Slack sent it. Return None for everything else that looks like
        one, and for payloads without the shape of Slack's events."""
        if event.get("type") not in ("message", "app_mention") or event.get("subtype") not in SUBTYPES:
            return None
        person, ts, channel = event.get("user"), event.get("ts"), event.get("channel")
        if event.get("bot_id") or event.get("bot_profile") or person in (self._me.user, "USLACKBOT"):
            return None
        if not (person and ts and channel):
            return None
        thread, kind, raw = event.get("thread_ts") or "", event.get("channel_type") or "", event.get("text") or ""
        id_ = body.get("event_id") or f"{channel}:{ts}"
        if not (all(map(is_short_text, (person, ts, channel, thread, kind, id_))) and isinstance(raw, str)):
            _log.warning("an event of an odd shape is dropped: %.60s", event.get("type"))
            return None
        return Message(
            id=id_,
            place=self._build_place(channel, thread, kind, ts=ts, shared=bool(body.get("is_ext_shared_channel"))),
            person=person,
            text=raw,
            at=ts,
            files=(*parse_sent_files(event.get("files")), *list_forwarded_files(event)),
            has_unlisted_files=event["type"] == "app_mention" and "files" not in event,
        )

    def _read_text(self, message: Message, event: Body) -> Message:
        """Parse the text of a message to the bot, with its quotes, unless it is too long."""
        if len(message.text) > RAW_MAX:
            return message.model_copy(update={"text": "", "unread": len(message.text)})
        quotes = read_quotes(event, self._me.user, get_known_language(self._directory, message.person))
        words = filter(None, (parse_message_text(message.text, self._me.user), quotes))
        return message.model_copy(update={"text": "\n\n".join(words)})

    async def _submit_message(self, message: Message, event: Body) -> None:
        """Make a message durable. The two events of one mention share its place and time."""
        message = self._read_text(message, event)
        await self._intake.accept_message(message, aliases=(f"{message.place.channel}:{message.at}",))
        self.note_activity(message.place, message.at)
        if known := self._directory.find_known_person(message.person):  # new people see it once they are looked up
            self._channel.show_status(message.thread_place, translate("steps.working", known.language))

    async def _accept_change(self, body: Body, event: Body) -> None:
        """Accept that a message was changed or deleted by its writer, whom the verified payload names. Slack also sends
        a change when it unfurls a link, and when a bot rewrites its own post."""
        before, now = event.get("previous_message"), event.get("message")
        if event.get("subtype") not in ("message_changed", "message_deleted") or not isinstance(before, Mapping):
            return
        is_deleted = not isinstance(now, Mapping) or now.get("subtype") == "tombstone"
        shown = before if is_deleted or not isinstance(now, Mapping) else now
        if not is_deleted and (shown.get("text"), shown.get("user")) == (before.get("text"), before.get("user")):
            return
        where = {"type": "message", "channel": event.get("channel"), "channel_type": event.get("channel_type")}
        message = self._parse_message(body, {**shown, **where})
        if message and (message.place.direct or await self._intake.is_engaged(message.place)):
            await self._intake.accept_change(self._read_text(message, shown), is_deleted=is_deleted)

    async def _accept_session_stop(self, body: Body, event: Body) -> None:
        """Accept a press of Slack's own *Stop* button. The verified payload names the presser, who may stop the same as
        with the word."""
        if event.get("type") != "agent_session_stopped":
            return
        person, channel, thread, at = (event.get(name) for name in ("user", "channel", "thread_ts", "event_ts"))
        id_ = str(body.get("event_id") or f"stop:{channel}:{at}")
        if not (is_short_text(person) and is_short_text(channel) and is_short_text(thread) and is_short_text(at)):
            _log.warning("an event of an odd shape is dropped: agent_session_stopped")
            return
        await self._intake.stop_session(self._build_place(channel, thread), person, id_, at)

    def _build_place(
        self, channel: str, thread: str | None, kind: str | None = None, *, ts: str | None = None, shared: bool = False
    ) -> Place:
        """The answer to a message outside of threads (`ts`) goes beside it in a DM, under it elsewhere."""
        direct = kind == "im" or channel.startswith("D")
        thread = thread or (None if direct else ts)
        return Place(team=self._me.team, channel=channel, thread=thread, direct=direct, shared=shared)

    async def handle_command(self, ack: AckFunction, body: dict[str, Any]) -> None:
        """Handle the slash command. The answer goes to the DM, wherever the command was typed."""
        person, trigger, raw = body.get("user_id"), body.get("trigger_id"), body.get("text") or ""
        if not (is_short_text(person) and is_short_text(trigger) and isinstance(raw, str)):
            await acknowledge_malformed(ack, "a slash command")
            return
        said: Message | None = None
        typed_in = self._build_place(str(body.get("channel_id")), None)
        tell = partial(self._post_ephemeral_notice, typed_in, person)
        async with watch_acknowledgement(tell) as is_late:
            try:
                place = await self._channel.open_dm(person)
                at = f"{time.time():.6f}"
                typed = Message(id=trigger, place=place, person=person, text=raw, at=at, command=True)
                said = self._read_text(typed, {})
                await self._intake.accept_message(said)
            except (StoreUnavailableError, ChatError) as failed:
                _log.warning("slash command not taken: %s", failed)
                withdrawn = said and await self._intake.withdraw(said, failed)
                notice = NOT_ACCEPTED[withdrawn or Acceptance.NOT_TAKEN]
                await (tell(notice) if is_late() else ack(await self._translate_for_person(notice, person)))
                return
        if is_late():
            await tell("slack.taken_late")
        here = body.get("channel_id") == place.channel
        await (ack() if here else ack(await self._translate_for_person("slack.answer_in_dm", person)))

    # Presses and dialogs

    async def handle_action(self, ack: AckFunction, body: dict[str, Any]) -> None:
        """Handle a press on a button of ours. The press is durable before the acknowledgement, which waits for nothing
        but the store. A press that opens a dialog has nothing to lose, so it is acknowledged first. Slack then takes
        the dialog for three seconds."""
        if not is_button_press(body):
            await acknowledge_malformed(ack, "a press")
            return
        click: Click | None = None
        tell = partial(self._notify_presser, body)
        try:
            async with watch_acknowledgement(tell) as is_late:
                click = await self.parse_click(body)
                opens_dialog = click is not None and await self._intake.opens_dialog(click)
                if click and not opens_dialog:
                    await self._intake.accept_click(click)
                    self.note_activity(click.place, f"{time.time() - CLOCK_MARGIN_S:.6f}")
        except (StoreUnavailableError, ChatError) as failed:
            await self._notify_press_not_accepted(body, click, failed)
            raise
        await ack()
        if click and opens_dialog:
            await self._open_dialog(body, click)
        elif click and is_late():
            await tell("slack.taken_late")
        if click and not opens_dialog and _is_in_dialog(body):  # no button stays that has done its work
            language, choice = await find_language(self._directory, click.person), f"choice.{click.choice}"
            known = translate(choice, language) if choice in load_sentences() else click.choice
            text, close = translate("home.pressed", language, choice=known), translate("card.close", language)
            title = str(find_value(body, "view", "title", "text") or "")
            view = home.render_home_dialog(HomeDialog(title=title, cancel=close, notice=text), language)
            try:
                await call_slack(self._client.views_update, {"view_id": body["view"]["id"], "view": view})
            except ChatError as failed:
                _log.warning("dialog not closed: %s", failed)

    async def _open_dialog(self, body: Body, click: Click) -> None:
        """Open the dialog of a press within the trigger's three seconds, over another dialog if that has the button. If
        it is too late, the person is told. A press that may not open one is accepted as a click, whose answer says
        why."""
        show = self._client.views_push if _is_in_dialog(body) else self._client.views_open
        try:
            dialog = await self._intake.build_dialog(click)
            if dialog is None:
                await self._intake.accept_click(click)
                return
            view = dialogs.render_modal(dialog)
            try:
                await call_slack(show, {"trigger_id": body["trigger_id"], "view": view}, tries=1)
            except ChatError as failed:
                _log.warning("dialog not opened: %s", failed)
                await self._post_ephemeral_notice(click.place, click.person, "slack.press_again")
        except (StoreUnavailableError, ChatError) as failed:
            await self._notify_press_not_accepted(body, click, failed)

    async def parse_click(self, body: Body) -> Click | None:
        """Parse the click in a `block_actions` payload. Return None if it is malformed."""
        action = body["actions"][0]
        choice, approval = str(action["action_id"]).removeprefix("cs:"), read_pressed_value(action)
        if action.get("type") == PAIR:
            rest, _, approval = approval.partition(":")
            choice = f"{choice}_{rest}"
        approval, dot, version = approval.rpartition(".")
        if not dot or not (version.isascii() and version.isdecimal()):
            _log.warning("a press without an approval: %s", action.get("action_id"))
            return None
        person, picked = body["user"]["id"], action.get("selected_user")
        box, message = body.get("container") or {}, body.get("message") or {}
        channel, ts = box.get("channel_id"), box.get("message_ts")
        shown = [button for block in message.get("blocks") or () for button in block.get("elements") or ()]
        # A message that was updated meanwhile needs no update.
        pressed = (action["action_id"], action.get("value"))
        is_shown = any((one.get("action_id"), one.get("value")) == pressed for one in shown)
        return Click(
            id=body["trigger_id"],
            approval=approval,
            version=int(version),
            choice=choice,
            person=person,
            place=await self._find_press_place(body, person),
            form={"person": picked} if is_short_text(picked) else read_ticks(body, approval, int(version)),
            card=MessageRef(channel=str(channel), ts=str(ts)) if is_shown and channel and ts else None,
            seal=read_pressed_seal(action),
        )

    async def _find_press_place(self, body: Body, person: str) -> Place:
        """Return the place of the pressed card. A card of the Home tab belongs to the DM, which the page names."""
        box, message = body.get("container") or {}, body.get("message") or {}
        channel = box.get("channel_id") or (body.get("channel") or {}).get("id")
        if not channel:
            named = home.parse_home_dm((body.get("view") or {}).get("private_metadata"))
            return self._build_place(named, None, "im") if named else await self._channel.open_dm(person)
        thread = message.get("thread_ts") or box.get("thread_ts")
        return self._build_place(str(channel), thread, ts=box.get("message_ts") or message.get("ts"))

    async def handle_more(self, ack: AckFunction, body: dict[str, Any]) -> None:
        """Open the next page of a dialog, with the input of this one."""
        click = dialogs.parse_submission(body) if is_button_press(body) else None
        if click is None:
            await acknowledge_malformed(ack, "a press")
            return
        await ack()
        try:
            dialog, page = await self._intake.build_dialog(click), dialogs.parse_dialog_page(body["view"]) + 1
            view = dialogs.render_modal(dialog, page, click.form) if dialog else None
            if view is None or count_utf16_units(view["private_metadata"]) > dialogs.METADATA:
                await self._post_ephemeral_notice(
                    click.place, click.person, "form.too_much" if view else "slack.press_again"
                )
            else:
                await call_slack(self._client.views_push, {"trigger_id": body["trigger_id"], "view": view}, tries=1)
        except (StoreUnavailableError, ChatError) as failed:
            _log.warning("page not opened: %s", failed)
            await self._post_ephemeral_notice(click.place, click.person, "slack.press_again")

    async def handle_view_submission(self, ack: AckFunction, body: dict[str, Any]) -> None:
        """Handle a dialog of ours: refuse it with its problems under the fields, or make it durable and close it."""
        click = dialogs.parse_submission(body)
        if click is None:
            await acknowledge_malformed(ack, "a dialog")
            return
        tell = partial(self._post_ephemeral_notice, click.place, click.person)
        async with watch_acknowledgement(tell) as is_late:
            problems = await self._intake.check_dialog(click)
            if problems:
                told = [FormProblem(field, "", text) for field, text in problems.items()]
                await ack(response_action="errors", errors=dialogs.assign_problems(told, body["view"]))
                return
            await self._intake.accept_click(click)
        if is_late():
            await tell("slack.taken_late")
        await (ack(response_action="clear") if body["view"].get("previous_view_id") else ack())

    # People

    async def handle_changed_person(self, event: dict[str, Any]) -> None:
        """Look up a person whose record has changed. The event's own data about them is not relied on."""
        user = event.get("user")
        person = user.get("id") if isinstance(user, Mapping) else user
        if is_short_text(person):
            self._directory.note_changed_person(person)

    # Notices to people

    async def _notify_press_not_accepted(self, body: Body, click: Click | None, failed: Exception) -> None:
        """Tell the presser what became of a press whose acceptance failed, or of which only the answer was lost."""
        _log.warning("press not taken: %s", failed)
        withdrawn = await self._intake.withdraw(click, failed) if click else Acceptance.NOT_TAKEN
        await self._notify_presser(body, NOT_ACCEPTED[withdrawn])

    async def _notify_presser(self, body: Body, key: str) -> None:
        person = body["user"]["id"]
        try:
            place = await self._find_press_place(body, person)
        except ChatError:
            return
        await self._post_ephemeral_notice(place, person, key)

    async def _post_ephemeral_notice(self, place: Place, person: str, key: str) -> None:
        await tell_person(self._channel, person, await self._translate_for_person(key, person), place)

    async def _translate_for_person(self, key: str, person: str) -> str:
        return translate(key, await find_language(self._directory, person))


@asynccontextmanager
async def watch_acknowledgement(tell: Callable[[str], Awaitable[None]]) -> AsyncIterator[Callable[[], bool]]:
    """Watch work that must be durable before Slack is answered. When Slack shows an error, the person is told that the
    outcome is not known yet. Yields a function that returns whether that time has passed. No acknowledgement arrives
    then, and the caller has to tell the person what was accepted."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def tell_unknown() -> None:
        await asyncio.sleep(ACK_S)
        await tell(NOT_ACCEPTED[Acceptance.UNKNOWN])

    waiting = asyncio.create_task(tell_unknown())
    try:
        yield lambda: loop.time() - began > ACK_S
    finally:
        await cancel_and_wait([waiting])


def _is_in_dialog(body: Body) -> bool:
    """Return whether a press is inside a dialog of ours."""
    view = body.get("view")
    return isinstance(view, Mapping) and view.get("type") == "modal" and is_short_text(view.get("id"))


def find_foreign_team(body: Body, own: str) -> str:
    """Return the workspace for which Slack sends an event, a command or a submitted dialog, if it is not ours. A press
    names the presser's workspace, also in a channel shared with others. The presser's identity is checked elsewhere."""
    view = body.get("view") or {}
    installed = body.get("authorizations") or [body]
    if view.get("app_installed_team_id"):
        named = [view["app_installed_team_id"]]
    elif any(one.get("is_enterprise_install") in (True, "true") for one in installed):
        named = []
    else:
        named = [one["team_id"] for one in installed if one.get("team_id")]
    return "" if not named or own in named else str(named[0])


def is_button_press(body: Body) -> bool:
    """Return whether the payload is the press of one button by a person."""
    actions, user = body.get("actions"), body.get("user")
    action = actions[0] if isinstance(actions, list) and actions else None
    if not (isinstance(action, Mapping) and isinstance(user, Mapping)):
        return False
    value = action.get("value") or ""
    return all(map(is_short_text, (user.get("id"), body.get("trigger_id"), action.get("action_id"), value)))


async def acknowledge_malformed(ack: AckFunction, what: str) -> None:
    """Acknowledge a malformed payload, because Slack would only send it again."""
    _log.warning("%s of an odd shape is dropped", what)
    await ack()


def register_sinks(app: AsyncApp) -> None:
    """Register the last listeners, which answer everything else that Slack may send."""
    for kind in (app.event, app.action, app.view, app.view_closed, app.command, app.shortcut, app.options):
        kind(_ANYTHING)(acknowledge_unhandled)


async def log_removal(event: dict[str, Any]) -> None:
    """Log that somebody has removed the app or its token. Slack takes nothing from the app any more."""
    _log.error("Slack says %.60s: the app has to be installed again, and its new token set", event.get("type"))


async def acknowledge_unhandled(ack: AckFunction) -> None:
    """Acknowledge a payload that is not ours, so that Slack neither repeats it nor shows an error."""
    await ack()
