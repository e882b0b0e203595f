"""Forms on Slack: slash commands, shortcuts and buttons that open a form, changes in it, and its submission.

Opening and changing a form has nothing to lose, so both are acknowledged first. A submission is made durable before it
is acknowledged."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import Channel, ChatDirectory, FormDialog, FormSubmission, Ingress, Place
from bot.core.errors import ChatError, StoreUnavailableError
from bot.core.i18n import translate
from bot.platforms.shared import find_value, get_known_language, tell_person
from bot.platforms.slack import dialogs, forms
from bot.platforms.slack.dialogs import MAX_FILES
from bot.platforms.slack.files import parse_sent_files
from bot.platforms.slack.listeners import (
    RAW_MAX,
    AckFunction,
    acknowledge_malformed,
    is_button_press,
    watch_acknowledgement,
)
from bot.platforms.slack.payload_shape import is_short_text
from bot.platforms.slack.text import parse_message_text
from bot.platforms.slack.web_api import Method, call_slack
from bot.platforms.slack.web_client import BotIdentity

_log = logging.getLogger(__name__)

Body: TypeAlias = Mapping[str, Any]
SHORTCUT = "cs:request"
"""Callback id of the shortcut that opens a form. With a suffix like `:expense`, it opens the form of that process."""
_ANY_COMMAND, _SHORTCUTS, _ACTIONS = re.compile(r"^/"), re.compile(r"^cs:request(:|$)"), re.compile(r"^cs:form:")


class FormListeners:
    def __init__(
        self, client: AsyncWebClient, me: BotIdentity, intake: Ingress, channel: Channel, directory: ChatDirectory
    ) -> None:
        self._client, self._me, self._intake = client, me, intake
        self._channel, self._directory = channel, directory
        self._views = WeakValueDictionary[str, asyncio.Lock]()

    def register_listeners(self, app: AsyncApp) -> None:
        """Register the listeners, after those of `SlackListeners`. Every other slash command opens the form of the
        process with the command's name."""
        app.command(_ANY_COMMAND)(self.handle_command)
        app.shortcut(_SHORTCUTS)(self.handle_shortcut)
        app.action(_ACTIONS)(self.handle_action)
        app.view(forms.CALLBACK)(self.handle_submission)

    # Opening and changing a form

    async def handle_command(self, ack: AckFunction, body: dict[str, Any]) -> None:
        """Handle a slash command such as `/leave`. The text after the command is filled into the form."""
        person, trigger, command = body.get("user_id"), body.get("trigger_id"), body.get("command")
        channel = body.get("channel_id")
        if not all(map(is_short_text, (person, trigger, command, channel))):
            await acknowledge_malformed(ack, "a slash command")
            return
        await ack()
        form = FormSubmission(
            id="", person=str(person), process=str(command)[1:], said=self._read_text(body.get("text"))
        )
        place = Place(team=self._me.team, channel=str(channel), direct=str(channel).startswith("D"))
        await self._show_form(self._client.views_open, str(trigger), form, place)

    async def handle_shortcut(self, ack: AckFunction, body: dict[str, Any]) -> None:
        """Handle a shortcut. From the menu of the composer, the form is for any process. From a message, the form is
        about that message."""
        person, message = find_value(body, "user", "id"), body.get("message") or {}
        trigger, callback = body.get("trigger_id"), body.get("callback_id")
        if not all(map(is_short_text, (person, trigger, callback))):
            await acknowledge_malformed(ack, "a shortcut")
            return
        await ack()
        process = str(callback).partition(f"{SHORTCUT}:")[2]
        said, files = self._read_text(message.get("text")), parse_sent_files(message.get("files"))
        form = FormSubmission(
            id="",
            person=str(person),
            process=process,
            said=said,
            has_choice=not process,
            files=files,
            kept=tuple(one.id for one in files[:MAX_FILES] if one.id),
        )
        await self._show_form(self._client.views_open, str(trigger), form)

    async def handle_action(self, ack: AckFunction, body: dict[str, Any]) -> None:
        """Open a form, show its next page, update what depends on the changed field, or show another process."""
        if not is_button_press(body):
            await acknowledge_malformed(ack, "a press")
            return
        await ack()
        action, person = body["actions"][0], body["user"]["id"]
        if action["action_id"].startswith(forms.OPEN):
            run, number = (action.get("value") or "").rpartition(".")[0], action["action_id"].rpartition(":")[2]
            offer = f"{run}.{number}" if run else ""
            form = FormSubmission(id="", person=person, process="", has_choice=not offer, offer=offer)
            await self._show_form(self._client.views_open, body["trigger_id"], form)
            return
        filled = forms.parse_form(body)
        if filled is None:
            _log.warning("a press in no form: %s", action["action_id"])
            return
        if action["action_id"] == forms.MORE:
            await self._show_form(self._client.views_push, body["trigger_id"], filled.turn_page())
            return
        if action["action_id"] == forms.PROCESS:
            chosen = find_value(action, "selected_option", "value")
            process = chosen if is_short_text(chosen) else ""
            filled = filled.model_copy(update={"process": process, "values": {}})
        view_id = body["view"]["id"]
        async with self._views.setdefault(view_id, asyncio.Lock()):  # changes of a view follow one another
            try:
                dialog = await self._intake.build_form(filled)
                if isinstance(dialog, FormDialog) and (view := forms.render_form(dialog)):
                    await call_slack(self._client.views_update, {"view_id": view_id, "view": view})
            except (StoreUnavailableError, ChatError) as failed:
                _log.warning("form not updated: %s", failed)

    async def _show_form(self, show: Method, trigger: str, form: FormSubmission, place: Place | None = None) -> None:
        """Show a form by this method, within the trigger's three seconds. If it is too late, the person is told.
        `place` is where the form was asked for."""
        try:
            dialog = await self._intake.build_form(form)
            view = None if isinstance(dialog, str) else forms.render_form(dialog)
            if view:
                await call_slack(show, {"trigger_id": trigger, "view": view}, tries=1)
                return
            text = dialog if isinstance(dialog, str) else self._translate(form.person, "form.too_much")
        except StoreUnavailableError as failed:
            _log.warning("form not built: %s", failed)
            text = self._translate(form.person, "slack.not_taken")
        except ChatError as failed:
            _log.warning("form not opened: %s", failed)
            text = self._translate(form.person, "form.late")
        await tell_person(self._channel, form.person, text, place)

    # Submission

    async def handle_submission(self, ack: AckFunction, body: dict[str, Any]) -> None:
        """Handle a submission: refuse it with its problems under the fields, show the next page, or make it durable and
        close it."""
        form = forms.parse_form(body)
        if form is None:
            await acknowledge_malformed(ack, "a form")
            return

        async def tell(key: str) -> None:
            await tell_person(self._channel, form.person, self._translate(form.person, key))

        async with watch_acknowledgement(tell) as is_late:
            answer = await self._intake.submit_form(form)
        if is_late() and not answer.problems and answer.next_page is None:
            await tell("slack.taken_late")
        if answer.problems:
            await ack(response_action="errors", errors=dialogs.assign_problems(answer.problems, body["view"]))
        elif answer.next_page is None:
            await ack(response_action="clear")
        elif view := forms.render_form(answer.next_page):
            await ack(response_action="push", view=view)
        else:
            text = self._translate(form.person, "form.too_much")
            await ack(response_action="errors", errors={dialogs.list_input_blocks(body["view"])[0]: text})

    # Notices to people

    def _read_text(self, raw: object) -> str:
        """Parse a person's text, bounded before it is parsed."""
        return parse_message_text(raw, self._me.user) if isinstance(raw, str) and len(raw) <= RAW_MAX else ""

    def _translate(self, person: str, key: str) -> str:
        """Translate a sentence into the language of a known person. Nobody is asked."""
        return translate(key, get_known_language(self._directory, person))
