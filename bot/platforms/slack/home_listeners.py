"""Home on Slack: opened, pressed, submitted, and published again when something on it has changed."""

from __future__ import annotations

import logging
import re
from functools import partial
from typing import Any

from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import Channel, ChatDirectory, HomeView, Ingress, Place
from bot.core.errors import ChatError, StoreUnavailableError
from bot.core.i18n import translate
from bot.platforms.shared import find_language, get_known_language, tell_person, welcome_person
from bot.platforms.slack import home
from bot.platforms.slack.dialogs import assign_problems
from bot.platforms.slack.listeners import AckFunction, acknowledge_malformed, is_button_press, watch_acknowledgement
from bot.platforms.slack.payload_shape import is_short_text
from bot.platforms.slack.web_api import call_slack
from bot.platforms.slack.web_client import BotIdentity

_log = logging.getLogger(__name__)
_BUTTONS = re.compile(f"^{home.ACTION}")


async def publish_home(
    client: AsyncWebClient, channel: Channel, directory: ChatDirectory, person: str, page: HomeView
) -> None:
    """Publish a person's Home page. Raises `ChatError`, `StoreUnavailableError`."""
    dm = await channel.open_dm(person)
    view = home.render_home_view(page, await find_language(directory, person), dm.channel)
    await call_slack(client.views_publish, {"user_id": person, "view": view})


class HomeListeners:
    def __init__(
        self, client: AsyncWebClient, me: BotIdentity, intake: Ingress, channel: Channel, directory: ChatDirectory
    ) -> None:
        self._client, self._me, self._intake = client, me, intake
        self._channel, self._directory = channel, directory

    def register_listeners(self, app: AsyncApp) -> None:
        app.event("app_home_opened")(self.handle_opened)
        app.action(_BUTTONS)(self.handle_press)
        app.view(home.CALLBACK)(self.handle_submission)

    async def handle_opened(self, event: dict[str, Any]) -> None:
        """Build the Home tab again whenever a person opens it, or welcome a person who opens their DM with the bot."""
        person, channel = event.get("user"), event.get("channel")
        if event.get("tab") == "home" and is_short_text(person):
            await self._publish(person, is_opened=True)
        if event.get("tab") == "messages" and is_short_text(person) and is_short_text(channel):
            place = Place(team=self._me.team, channel=channel, direct=True)
            await welcome_person(self._intake, self._channel, person, place)

    async def _publish(self, person: str, *, is_opened: bool = False) -> None:
        try:
            if page := await self._intake.build_home(person, is_opened=is_opened):
                await publish_home(self._client, self._channel, self._directory, person, page)
        except (StoreUnavailableError, ChatError) as failed:
            _log.warning("Home tab not shown: %s", failed)

    async def handle_press(self, ack: AckFunction, body: dict[str, Any]) -> None:
        """Acknowledge a press at once, because nothing is decided by it, and show what it opens. Slack takes a dialog
        for three seconds."""
        if not is_button_press(body):
            await acknowledge_malformed(ack, "a press")
            return
        await ack()
        press = home.parse_home_press(body)
        try:
            dialog = await self._intake.handle_home_press(press)
            if dialog is None:
                await self._publish(press.person)
                return
            dm, language = await self._channel.open_dm(press.person), await find_language(self._directory, press.person)
            shown, pressed = home.render_home_dialog(dialog, language, dm.channel), body.get("view") or {}
            if pressed.get("type") == "modal":  # in place of the dialog that has the button
                await call_slack(self._client.views_update, {"view_id": pressed["id"], "view": shown})
            else:
                await call_slack(self._client.views_open, {"trigger_id": body["trigger_id"], "view": shown}, tries=1)
        except (StoreUnavailableError, ChatError) as failed:
            _log.warning("a press on Home failed: %s", failed)
            await self._tell(press.person, "slack.press_again")

    async def handle_submission(self, ack: AckFunction, body: dict[str, Any]) -> None:
        """Handle a submission: refuse it with its problems under the fields, show what has to be confirmed, or make it
        durable and close it."""
        submission = home.parse_home_submission(body, self._me.team)
        if submission is None:
            await acknowledge_malformed(ack, "a dialog of Home")
            return
        tell = partial(self._tell, submission.person)
        async with watch_acknowledgement(tell) as is_late:
            answer = await self._intake.submit_home_dialog(submission)
        if is_late() and not answer.problems and answer.dialog is None:
            await tell("slack.taken_late")
        if answer.problems:
            await ack(response_action="errors", errors=assign_problems(answer.problems, body["view"]))
        elif answer.dialog is not None:
            language = get_known_language(self._directory, submission.person)
            view = home.render_home_dialog(answer.dialog, language, submission.place.channel)
            await ack(response_action="update" if submission.seal else "push", view=view)
        else:
            await ack(response_action="clear")

    async def _tell(self, person: str, key: str) -> None:
        await tell_person(self._channel, person, translate(key, await find_language(self._directory, person)))
