"""Answers presses on Feishu's cards, and opens forms.

Feishu has no dialogs of its own: a form is a card in the presser's chat with the bot. A press of a form is answered
with the form's next state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from bot.chat.feishu import values
from bot.chat.feishu.cards import MAX_PICKED, RenderedCard
from bot.chat.feishu.channel import FeishuChannel
from bot.chat.feishu.client import FeishuBot
from bot.chat.feishu.forms import parse_form_value, render_closed_form, render_dialog, render_form
from bot.chat.feishu.home import render_home_dialog
from bot.chat.feishu.message_content import is_person_id, is_short_text
from bot.chat.messages import (
    Acceptance,
    ChatDirectory,
    Click,
    FormProblem,
    FormSubmission,
    HomePress,
    HomeSubmission,
    HomeView,
    Ingress,
    MessageRef,
)
from bot.core import logs
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import ChatError, StoreRefusedError, StoreUnavailableError
from bot.core.i18n import translate

log = logs.get_logger(__name__)

ANSWER_S, RESULT_S = 2.4, 1.0
"""How long a press may take before it is answered without its outcome, and how long an accepted press waits for its new
card (s). Feishu shows an error after 3 s."""
NOT_ACCEPTED = {
    Acceptance.TAKEN: "slack.taken_late",
    Acceptance.NOT_TAKEN: "slack.not_taken",
    Acceptance.UNKNOWN: "slack.not_known",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Press:
    """A press by a member, from a verified payload."""

    id: str
    person: str
    message: MessageRef
    value: values.Value
    action: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a press, for its answer."""

    text: str | None = None
    """The presser's notice. Without one, only the card changes."""
    is_error: bool = False
    card: dict[str, Any] | None = None
    """The pressed card as it is now."""
    form: RenderedCard | None = None
    """The next state of the pressed form."""


class PressListeners:
    def __init__(
        self,
        me: FeishuBot,
        intake: Ingress,
        channel: FeishuChannel,
        directory: ChatDirectory,
        publish_home: Callable[[str, HomeView], Awaitable[None]],
    ) -> None:
        self._me, self._intake, self._channel, self._directory = me, intake, channel, directory
        self._publish_home = publish_home
        self._tasks: set[asyncio.Task[None]] = set()
        """Work that continues after Feishu was answered."""

    async def handle_press(self, id: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """Handle a press, and return its answer in time. `id` is the event's."""
        operator, action = event.get("operator"), event.get("action")
        if not (isinstance(operator, Mapping) and is_person_id(operator.get("open_id"))):
            log.warning("a press without a presser is dropped")
            return {}
        person = str(operator["open_id"])
        if operator.get("tenant_key") != self._me.tenant:
            log.warning("a press by somebody of another company is refused", person=person)
            return _build_answer(Outcome(self._say(person, "refused.stranger"), is_error=True))
        context = event.get("context")
        box = context if isinstance(context, Mapping) else event
        chat, message = box.get("open_chat_id"), box.get("open_message_id")
        value = values.parse_value(action.get("value")) if isinstance(action, Mapping) else None
        if not (value and isinstance(action, Mapping) and is_short_text(chat) and is_short_text(message)):
            log.warning("a press of an odd shape is dropped", person=person)
            return {}
        ref = MessageRef(channel=chat, ts=message)
        press = Press(id=id, person=person, message=ref, value=value, action=action)
        work = asyncio.create_task(self.take_press(press))
        try:
            await asyncio.wait({work}, timeout=ANSWER_S)
        except asyncio.CancelledError:
            await cancel_and_wait([work])
            raise
        if work.done():
            return _build_answer(work.result())
        self.go_on(self._tell_late(press, work))
        return _build_answer(Outcome(self._say(person, NOT_ACCEPTED[Acceptance.UNKNOWN]), is_error=True))

    async def take_press(self, press: Press) -> Outcome:
        """Take a press of any kind. Raises nothing of its own."""
        person = press.person
        try:
            match press.value:
                case values.PressValue() as value:
                    return await self.take_click(press, value)
                case values.RateValue() as value:
                    rated = values.PressValue(approval=value.run, version=1, choice=f"feedback_{value.rating}")
                    return await self._accept_click(self._build_click(press, rated, press.message), press.message)
                case values.OpenFormValue() as value if value.is_menu:
                    chosen = press.action.get("option")
                    process = chosen if is_short_text(chosen) else ""
                    shown = FormSubmission(id=press.message.ts, person=person, process=process, has_choice=True)
                    return await self._show_form(shown)
                case values.OpenFormValue() as value:
                    asked = FormSubmission(
                        id="", person=person, process="", has_choice=not value.offer, offer=value.offer
                    )
                    return await self._post_form(asked, press.id)
                case values.DialogValue() as value:
                    return await self.take_dialog(press, value)
                case values.FormValue() as value:
                    return await self.take_form(press, value)
                case values.HomeValue() as value:
                    return await self.take_home_press(press, value)
                case values.HomeDialogValue() as value:
                    return await self.take_home_dialog(press, value)
                case values.CancelValue() as value:
                    return Outcome(form=render_closed_form(value.title, self._say(person, "feishu.cancelled")))
        except StoreUnavailableError as failed:
            log.warning("press not taken", reason=str(failed))
            is_certain = isinstance(failed, StoreRefusedError)
            return Outcome(self._say(person, "slack.not_taken" if is_certain else "slack.not_known"), is_error=True)
        except ChatError as failed:
            log.warning("nothing opened by a press", reason=str(failed))
            return Outcome(self._say(person, "slack.press_again"), is_error=True)

    # Cards

    def _build_click(self, press: Press, value: values.PressValue, card: MessageRef | None) -> Click:
        return Click(
            id=press.id,
            approval=value.approval,
            version=value.version,
            choice=value.choice,
            person=press.person,
            place=value.build_place(self._me.tenant, press.message.channel),
            form=values.read_press_form(press.action),
            card=card,
            seal=value.seal,
        )

    async def take_click(self, press: Press, value: values.PressValue) -> Outcome:
        """Take a press on a card. The card may have been posted anew, and the core knows the first message."""
        card = await self._channel.find_original(press.message)
        click = self._build_click(press, value, None if value.on_page else card)
        if not await self._intake.opens_dialog(click):
            outcome = await self._accept_click(click, card)
            return self._close_form(press, outcome.text) if value.in_dialog and not outcome.is_error else outcome
        dialog = await self._intake.build_dialog(click)
        if dialog is None:
            return await self._accept_click(click, card)
        people, language = await self._list_pickable(), self._find_language(press.person)
        return await self._post_page(press.person, render_dialog(dialog, language, people=people), press.id)

    async def _accept_click(self, click: Click, card: MessageRef) -> Outcome:
        """Make a press durable, and wait a moment for its new card."""
        with self._channel.presses.open_press(card, click.person) as waiting:
            try:
                await self._intake.accept_click(click)
            except (StoreUnavailableError, ChatError) as failed:
                log.warning("press not taken", reason=str(failed))
                withdrawn = await self._intake.withdraw_click(click, failed)
                return Outcome(self._say(click.person, NOT_ACCEPTED[withdrawn]), is_error=True)
            result = await waiting.wait_for_result(RESULT_S)
        return Outcome(result.notice or self._say(click.person, "feishu.received"), card=result.card)

    async def take_dialog(self, press: Press, value: values.DialogValue) -> Outcome:
        """Take a submitted dialog, or show its next page."""
        typed, language = parse_form_value(press.action.get("form_value")), self._find_language(press.person)
        click = Click(
            id=press.id,
            approval=value.approval,
            version=value.version,
            choice=value.choice,
            person=press.person,
            place=value.place.model_copy(update={"platform": "feishu", "team": self._me.tenant}),
            form={**value.values, **typed, **value.kept},
            card=value.card,
            seal=value.seal,
        )
        is_more = isinstance(value, values.DialogMoreValue)
        problems = {} if is_more else await self._intake.check_dialog(click)
        if not (problems or is_more):
            outcome = await self._accept_click(click, value.card or press.message)
            return outcome if outcome.is_error else self._close_form(press, outcome.text)
        if (dialog := await self._intake.build_dialog(click)) is None:
            return Outcome(self._say(press.person, "slack.press_again"), is_error=True)
        people = await self._list_pickable()
        shown = (
            render_dialog(dialog, language, page=value.page + 1, values={**value.values, **typed}, people=people)
            if is_more
            else render_dialog(
                dialog, language, page=value.page, values=value.values, typed=typed, problems=problems, people=people
            )
        )
        return self._show_page(press.person, shown, list(problems.values()))

    # Forms

    async def take_form(self, press: Press, value: values.FormValue) -> Outcome:
        """Take a submitted page of a form, or show the next one."""
        typed = {**dict.fromkeys(value.files, ""), **parse_form_value(press.action.get("form_value"))}
        form = FormSubmission(
            id=press.message.ts,
            person=press.person,
            process=value.process,
            values={**value.values, **typed},
            page=value.page,
            earlier=tuple(value.values),
            has_choice=value.has_choice,
            kept=value.kept,
        )
        if isinstance(value, values.FormMoreValue):
            return await self._show_form(form.turn_page())
        answer = await self._intake.submit_form(form)
        if answer.problems:
            return await self._show_form(form, typed, answer.problems)
        if answer.next_page is not None:
            people = await self._list_pickable()
            shown = render_form(answer.next_page, self._find_language(press.person), people=people)
            return self._show_page(press.person, shown)
        return self._close_form(press)

    async def _show_form(
        self, form: FormSubmission, typed: Mapping[str, str] | None = None, problems: tuple[FormProblem, ...] = ()
    ) -> Outcome:
        """Show a page in place of the pressed card."""
        dialog = await self._intake.build_form(form)
        if isinstance(dialog, str):
            return Outcome(dialog, is_error=True)
        people, language = await self._list_pickable(), self._find_language(form.person)
        shown = render_form(dialog, language, typed=typed, problems=problems, people=people)
        return self._show_page(form.person, shown, [one.text for one in problems])

    def _show_page(self, person: str, shown: RenderedCard | None, problems: list[str] | None = None) -> Outcome:
        if shown is None:
            return Outcome(self._say(person, "form.too_much"), is_error=True)
        return Outcome("\n".join(problems or ()) or None, is_error=bool(problems), form=shown)

    def _close_form(self, press: Press, text: str | None = None) -> Outcome:
        """Show a form without its buttons after it was submitted."""
        submitted = self._say(press.person, "feishu.submitted")
        return Outcome(text or submitted, form=render_closed_form(self._say(press.person, "feishu.form"), submitted))

    async def _post_form(self, form: FormSubmission, key: str) -> Outcome:
        """Post the first page of a form. `key` names what asked for it."""
        dialog = await self._intake.build_form(form)
        if isinstance(dialog, str):
            return Outcome(dialog, is_error=True)
        people, language = await self._list_pickable(), self._find_language(form.person)
        return await self._post_page(form.person, render_form(dialog, language, people=people), key)

    async def _post_page(self, person: str, shown: RenderedCard | None, key: str) -> Outcome:
        if shown is None:
            return Outcome(self._say(person, "form.too_much"), is_error=True)
        await self._channel.post_form(person, shown, key=key)
        return Outcome(self._say(person, "feishu.form_in_dm"))

    async def post_request_form(self, person: str, process: str, key: str) -> None:
        """Post the form of a request, which the bot's menu has asked for. Raises nothing of its own."""
        form = FormSubmission(id="", person=person, process=process, has_choice=not process)
        try:
            outcome = await self._post_form(form, key)
        except (StoreUnavailableError, ChatError) as failed:
            log.warning("form not posted", reason=str(failed))
            outcome = Outcome(self._say(person, "slack.press_again"), is_error=True)
        if outcome.is_error and outcome.text:
            await self._tell(person, outcome.text)

    # Home

    async def publish_home(self, person: str, *, is_opened: bool = False) -> None:
        """Show a person's Home. Raises `ChatError`, `StoreUnavailableError`."""
        if page := await self._intake.build_home(person, is_opened=is_opened):
            await self._publish_home(person, page)

    async def take_home_press(self, press: Press, value: values.HomeValue) -> Outcome:
        pressed = HomePress(id=press.id, person=press.person, action=value.action, value=value.value)
        dialog = await self._intake.handle_home_press(pressed)
        if dialog is None:
            await self.publish_home(press.person)
            return Outcome()
        people, language = await self._list_pickable(), self._find_language(press.person)
        return await self._post_page(press.person, render_home_dialog(dialog, language, people=people), press.id)

    async def take_home_dialog(self, press: Press, value: values.HomeDialogValue) -> Outcome:
        typed = parse_form_value(press.action.get("form_value"))
        submission = HomeSubmission(
            id=press.message.ts,
            person=press.person,
            action=value.action,
            value=value.value,
            place=await self._channel.open_dm(press.person),
            form={**value.form, **typed},
            seal=value.seal,
        )
        answer = await self._intake.submit_home_dialog(submission)
        if answer.problems:
            return Outcome("\n".join(one.text for one in answer.problems), is_error=True)
        if answer.dialog is not None:
            people = await self._list_pickable()
            shown = render_home_dialog(answer.dialog, self._find_language(press.person), people=people)
            return self._show_page(press.person, shown)
        return self._close_form(press)

    async def _list_pickable(self) -> dict[str, str]:
        """Return who can be picked in a form: open id → the address that finds the person, if it is typed. In a larger
        company people are typed."""
        people = [one for one in await self._directory.list_people() if one.active]
        return {one.id: one.email or one.name for one in people} if len(people) <= MAX_PICKED else {}

    # Notices to people

    def _find_language(self, person: str) -> str:
        """Return the language of a known person. Nobody is asked, because Feishu waits."""
        known = self._directory.find_known_person(person)
        return known.language if known else "en"

    def _say(self, person: str, key: str) -> str:
        return translate(key, self._find_language(person))

    async def _tell_late(self, press: Press, work: asyncio.Task[Outcome]) -> None:
        """Tell the presser the outcome of a press that was answered without it."""
        try:
            outcome = await work
        except asyncio.CancelledError:
            await cancel_and_wait([work])
            raise
        if outcome.form is not None:
            try:
                await self._channel.update_form(press.message, outcome.form)
            except (StoreUnavailableError, ChatError) as failed:
                log.warning("form not updated", reason=str(failed))
        is_plain = outcome.text == self._say(press.person, "feishu.received")
        if text := self._say(press.person, "slack.taken_late") if is_plain else outcome.text:
            await self._tell(press.person, text)

    async def _tell(self, person: str, text: str) -> None:
        try:
            await self._channel.post_ephemeral(await self._channel.open_dm(person), person, text)
        except (StoreUnavailableError, ChatError) as failed:
            log.warning("could not tell somebody", person=person, reason=str(failed))

    # Work after the answer

    def go_on(self, work: Coroutine[Any, Any, None]) -> None:
        """Go on with work that Feishu does not wait for, because nothing is lost with it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """End the work once no more events come."""
        await cancel_and_wait(list(self._tasks))


def _build_answer(outcome: Outcome) -> dict[str, Any]:
    """Build the answer of a callback: a toast, and the pressed card as it is now."""
    kind = "error" if outcome.is_error else "info"
    toast = {"toast": {"type": kind, "content": outcome.text}} if outcome.text else {}
    shown = outcome.form.content if outcome.form else outcome.card
    return toast | ({"card": {"type": "raw", "data": shown}} if shown else {})
