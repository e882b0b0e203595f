"""Answers presses on Feishu's cards, and opens forms.

Feishu has no dialogs of its own: a form is a card in the presser's chat with the bot. A press of a form is answered
with the form's next state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from bot.chat.messages import (
    Acceptance,
    ChatDirectory,
    Click,
    Dialog,
    FormDialog,
    FormProblem,
    FormSubmission,
    HomeDialog,
    HomePress,
    HomeSubmission,
    HomeView,
    Ingress,
    MessageRef,
    Place,
    Post,
)
from bot.chat.platform import IngressGate
from bot.core import logs
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import ChatError, StoreRefusedError, StoreUnavailableError
from bot.core.i18n import translate
from bot.platforms.feishu import values
from bot.platforms.feishu.cards import Element
from bot.platforms.feishu.channel import FeishuChannel
from bot.platforms.feishu.client import FeishuBot
from bot.platforms.feishu.directory import list_people_to_pick
from bot.platforms.feishu.forms import PageState, parse_form_value, render_closed_form, render_dialog, render_form
from bot.platforms.feishu.home import render_home_dialog
from bot.platforms.feishu.message_content import is_person_id, is_short_text
from bot.platforms.feishu.sent_cards import SentCards
from bot.platforms.shared import NOT_ACCEPTED, find_value, get_known_language, tell_person

log = logs.get_logger(__name__)

Page: TypeAlias = Dialog | FormDialog | HomeDialog
ANSWER_S, RESULT_S = 2.4, 0.2
"""How long a press may take before it is answered without its outcome, and how long an accepted press waits for its new
card (s). Feishu shows an error after 3 s. A later card is shown by an update of its own."""


@dataclass(frozen=True, slots=True)
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

    text: str = ""
    """The presser's notice. Without one, only the card changes."""
    is_error: bool = False
    card: Element | None = None
    """The pressed card as it is now."""
    form: Element | None = None
    """The next state of the pressed form."""

    def build_answer(self) -> dict[str, Any]:
        """Build the answer of a callback: a toast, and the pressed card as it is now."""
        kind, shown = "error" if self.is_error else "info", self.form or self.card
        toast = {"toast": {"type": kind, "content": self.text}} if self.text else {}
        return toast | ({"card": {"type": "raw", "data": shown}} if shown else {})


@dataclass(slots=True)
class PressListeners:
    me: FeishuBot
    intake: Ingress
    channel: FeishuChannel
    sent: SentCards
    directory: ChatDirectory
    publish_home: Callable[[str, HomeView], Awaitable[None]]
    gate: IngressGate
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Work that continues after Feishu was answered."""

    async def handle_press(self, id: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """Handle a press, and return its answer in time. `id` is the event's."""
        person, tenant = (find_value(event, "operator", name) for name in ("open_id", "tenant_key"))
        if not is_person_id(person):
            log.warning("a press without a presser is dropped")
            return {}
        if tenant != self.me.tenant:
            log.warning("a press by somebody of another company is refused", person=person)
            return self._refuse(person, "refused.stranger").build_answer()
        context = event.get("context")
        box = context if isinstance(context, Mapping) else event
        chat, message = box.get("open_chat_id"), box.get("open_message_id")
        action, value = event.get("action"), values.parse_value(find_value(event, "action", "value"))
        if not (value and isinstance(action, Mapping) and is_short_text(chat) and is_short_text(message)):
            log.warning("a press of an odd shape is dropped", person=person)
            return {}
        press = Press(id, person, MessageRef(channel=chat, ts=message), value, action)
        work = asyncio.create_task(self.take_press(press))
        try:
            await asyncio.wait({work}, timeout=ANSWER_S)
        except asyncio.CancelledError:
            await cancel_and_wait([work])
            raise
        if work.done():
            return work.result().build_answer()
        self.go_on(self._tell_late(press, work))
        return self._refuse(press.person, NOT_ACCEPTED[Acceptance.UNKNOWN]).build_answer()

    async def take_press(self, press: Press) -> Outcome:
        """Take a press of any kind. Raises nothing of its own."""
        try:
            match press.value:
                case values.PressValue() as value:
                    return await self.take_click(press, value)
                case values.OpenFormValue(offer=offer, is_menu=is_menu) as value:
                    chosen = press.action.get("option") if is_menu else value.process
                    process = chosen if is_short_text(chosen) else ""
                    has_choice = is_menu or not (process or offer)
                    form = FormSubmission(
                        id=press.message.ts, person=press.person, process=process, has_choice=has_choice, offer=offer
                    )
                    return await self._build_form(form, partial(self._show_page if is_menu else self._post_page, press))
                case values.DialogValue() as value:
                    return await self.take_dialog(press, value)
                case values.FormValue() as value:
                    return await self.take_form(press, value)
                case values.HomeDialogValue() as value:
                    return await self.take_home_dialog(press, value)
                case values.HomeValue() as value:
                    return await self.take_home_press(press, value)
                case values.CancelValue(title=title):
                    return Outcome(form=render_closed_form(title, self._say(press.person, "feishu.cancelled")))
        except StoreUnavailableError as failed:
            log.warning("press not taken", reason=str(failed))
            is_refused = isinstance(failed, StoreRefusedError)
            return self._refuse(press.person, "slack.not_taken" if is_refused else "slack.not_known")
        except ChatError as failed:
            log.warning("nothing opened by a press", reason=str(failed))
            return self._refuse(press.person, "slack.press_again")

    # Cards

    async def take_click(self, press: Press, value: values.PressValue) -> Outcome:
        """Take a press on a card. The card may have been posted anew, and the core knows the first message."""
        card = await self.sent.find_original(press.message)
        where = {"channel": press.message.channel, "thread": value.thread or None, "direct": value.direct}
        place = Place(platform="feishu", team=self.me.tenant, shared=value.shared, **where)
        form = values.read_press_form(press.action)
        shown = None if value.on_page else card
        click = value.build_click(id=press.id, person=press.person, place=place, card=shown, form=form)
        if await self.intake.opens_dialog(click) and (dialog := await self.intake.build_dialog(click)):
            return await self._post_page(press, dialog)
        outcome = await self._accept_click(press, click, card)
        return self._close_form(press, outcome.text) if value.in_dialog and not outcome.is_error else outcome

    async def _accept_click(self, press: Press, click: Click, card: MessageRef | None = None) -> Outcome:
        """Make a press durable, and wait a moment for its new card."""
        with self.channel.presses.open_press(card or press.message, click.person) as waiting:
            try:
                await self.intake.accept_click(click)
            except (StoreUnavailableError, ChatError) as failed:
                log.warning("press not taken", reason=str(failed))
                return self._refuse(press.person, NOT_ACCEPTED[await self.intake.withdraw(click, failed)])
            await self.gate.wait_for_outcome(waiting.has_result, RESULT_S)
        return Outcome(waiting.notice or self._say(press.person, "feishu.received"), card=waiting.card)

    async def take_dialog(self, press: Press, value: values.DialogValue) -> Outcome:
        typed, given = parse_form_value(press.action.get("form_value")), value.values
        place = value.place.model_copy(update={"platform": "feishu", "team": self.me.tenant})
        form = {**given, **typed, **value.kept}
        click = value.build_click(id=press.id, person=press.person, place=place, card=value.card, form=form)
        checked = {} if value.is_more else await self.intake.check_dialog(click)
        problems = [FormProblem(name, "", text) for name, text in checked.items()]
        if not (problems or value.is_more):
            outcome = await self._accept_click(press, click, value.card)
            return outcome if outcome.is_error else self._close_form(press, outcome.text)
        if (dialog := await self.intake.build_dialog(click)) is None:
            return self._refuse(press.person, "slack.press_again")
        if value.is_more:
            return await self._show_page(press, dialog, page=value.page + 1, values={**given, **typed})
        return await self._show_page(press, dialog, page=value.page, values=given, typed=typed, problems=problems)

    # Forms and Home

    async def take_form(self, press: Press, value: values.FormValue) -> Outcome:
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
        if value.is_more:
            return await self._build_form(form.turn_page(), partial(self._show_page, press))
        answer = await self.intake.submit_form(form)
        if answer.problems:
            return await self._build_form(form, partial(self._show_page, press, typed=typed, problems=answer.problems))
        if answer.next_page is not None:
            return await self._show_page(press, answer.next_page)
        return self._close_form(press)

    async def post_request_form(self, person: str, process: str, id: str) -> None:
        """Post the form of a request, which the bot's menu has asked for. `id` is the event's. Raises nothing of its
        own."""
        nowhere = MessageRef(channel="", ts="")
        outcome = await self.take_press(Press(id, person, nowhere, values.OpenFormValue(process=process), {}))
        if outcome.is_error:
            await tell_person(self.channel, person, outcome.text)

    async def show_home(self, person: str, *, is_opened: bool = False) -> None:
        """Show a person's Home. Raises `ChatError`, `StoreUnavailableError`."""
        if page := await self.intake.build_home(person, is_opened=is_opened):
            await self.publish_home(person, page)

    async def take_home_press(self, press: Press, value: values.HomeValue) -> Outcome:
        pressed = HomePress(id=press.id, person=press.person, action=value.action, value=value.value)
        if dialog := await self.intake.handle_home_press(pressed):
            return await self._post_page(press, dialog)
        await self.show_home(press.person)
        return Outcome()

    async def take_home_dialog(self, press: Press, value: values.HomeDialogValue) -> Outcome:
        submission = HomeSubmission(
            id=press.message.ts,
            person=press.person,
            action=value.action,
            value=value.value,
            place=await self.channel.open_dm(press.person),
            form={**value.form, **parse_form_value(press.action.get("form_value"))},
            seal=value.seal,
        )
        answer = await self.intake.submit_home_dialog(submission)
        if answer.problems:
            return Outcome("\n".join(one.text for one in answer.problems), is_error=True)
        return await self._show_page(press, answer.dialog) if answer.dialog else self._close_form(press)

    # Pages

    async def _build_form(self, form: FormSubmission, show: Callable[[FormDialog], Awaitable[Outcome]]) -> Outcome:
        """Build a page of a form, and show it if the person gets one."""
        dialog = await self.intake.build_form(form)
        return Outcome(dialog, is_error=True) if isinstance(dialog, str) else await show(dialog)

    async def _show_page(
        self, press: Press, dialog: Page, *, problems: Sequence[FormProblem] = (), **state: Any
    ) -> Outcome:
        """Show a page in place of the pressed card. `state`: see `PageState`."""
        if (shown := await self._render_page(press, dialog, problems=problems, **state)) is None:
            return self._refuse(press.person, "form.too_much")
        return Outcome("\n".join(one.text for one in problems), is_error=bool(problems), form=shown)

    async def _post_page(self, press: Press, dialog: Page) -> Outcome:
        """Post a page in the presser's chat with the bot. Texts to read that no card holds stand in messages above."""
        shown = await self._render_page(press, dialog)
        if shown is None and isinstance(dialog, Dialog) and all(one.field.kind == "shown" for one in dialog.inputs):
            here = await self.channel.open_dm(press.person)
            for one in dialog.inputs:
                post, key = Post(f"{one.label}\n{one.field.value}", plain=True), f"{press.id}:{one.field.name}:read"
                await self.channel.post_message(here, post, key=key, again=True)
            shown = await self._render_page(press, replace(dialog, inputs=()))
        if shown is None:
            return self._refuse(press.person, "form.too_much")
        posted = await self.channel.post_form(press.person, shown, key=press.id)
        is_here = posted.channel == press.message.channel
        return Outcome(self._say(press.person, "feishu.form_below" if is_here else "feishu.form_in_dm"))

    async def _render_page(self, press: Press, dialog: Page, **more: Any) -> Element | None:
        """Render a page, in a language that is known once the members are. Return None if no card holds it."""
        people = await list_people_to_pick(self.directory)
        state = PageState(get_known_language(self.directory, press.person), people=people, **more)
        match dialog:
            case Dialog():
                return render_dialog(dialog, state)
            case FormDialog():
                return render_form(dialog, state)
            case HomeDialog():
                return render_home_dialog(dialog, state)

    def _say(self, person: str, key: str) -> str:
        return translate(key, get_known_language(self.directory, person))

    def _refuse(self, person: str, key: str) -> Outcome:
        return Outcome(self._say(person, key), is_error=True)

    def _close_form(self, press: Press, text: str = "") -> Outcome:
        """Show a form without its buttons after it was submitted."""
        submitted = self._say(press.person, "feishu.submitted")
        return Outcome(text or submitted, form=render_closed_form(self._say(press.person, "feishu.form"), submitted))

    # Work after the answer

    async def _tell_late(self, press: Press, work: asyncio.Task[Outcome]) -> None:
        """Tell the presser the outcome of a press that was answered without it."""
        outcome = await work
        is_plain = outcome.text == self._say(press.person, "feishu.received")
        if text := self._say(press.person, "slack.taken_late") if is_plain else outcome.text:
            await tell_person(self.channel, press.person, text)
        if outcome.form is not None:
            await self.channel.patch_card(press.message.ts, outcome.form)

    def go_on(self, work: Coroutine[Any, Any, None]) -> None:
        """Go on with work that Feishu does not wait for, because nothing is lost with it."""

        async def do_work() -> None:
            try:
                await work
            except (StoreUnavailableError, ChatError) as failed:
                log.warning("not done after the answer", reason=str(failed))

        task = asyncio.get_running_loop().create_task(do_work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        await cancel_and_wait(list(self._tasks))
