"""Handles the buttons of Home and the dialogs that they open.

An action with consequences is proposed by its own tool, shown as a whole card, and confirmed. That card is then opened
and pressed by the same code as a card in a conversation. The presser is the person whom the verified payload names, and
may do no more here than anywhere else."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from bot.agent.tool_executor import propose_call
from bot.approvals import render
from bot.approvals.authorization import authorize_press
from bot.approvals.delivery import list_names_on_card, list_represented
from bot.approvals.refusals import name_request
from bot.chat.messages import (
    Card,
    Click,
    FormInput,
    FormProblem,
    HomeAnswer,
    HomeButton,
    HomeDialog,
    HomePress,
    HomeSubmission,
    HomeView,
)
from bot.core import logs
from bot.core.errors import ChatError
from bot.core.i18n import render_value, translate, translate_label
from bot.core.records import ApprovalState, OpenCard, compute_seal
from bot.core.work_items import ButtonPressed
from bot.features.contract import Core
from bot.features.home.open_pages import HomePlace
from bot.features.home.page import HomeBuilder
from bot.features.home.words import describe_decision
from bot.features.pages import Home
from bot.queue.writes import EnqueueItem
from bot.storage.preferences import DEFAULTS, Preferences
from tools.absence.tool import END_ABSENCE, SET_ABSENCE
from tools.characters import clean_form
from tools.languages import LANGUAGES
from tools.requests.comments import URGE_TASK
from tools.requests.processes import MAX_REASON, WITHDRAW_REQUEST
from tools.spec import Caller, DialogField, Proposal, ToolError
from tools.tool import Tool, ToolContext

log = logs.get_logger(__name__)

PROPOSALS: Mapping[str, tuple[Tool, str]] = {
    "urge": (URGE_TASK, "task"),
    "withdraw": (WITHDRAW_REQUEST, "request"),
    "end_absence": (END_ABSENCE, "absence"),
    "set_absence": (SET_ABSENCE, ""),
}
"""Action → the tool that it proposes, and the argument that the button's value stands for."""
ABSENCE_FIELDS = ("deputy", "first_day", "last_day")
REASON, REASON_LABEL = "because", "withdraw_reason"
"""The argument of `withdraw_request` that its author may fill in below the card, and its label on a card."""
CHECK_S = 0.8
"""Longest wait for the answer to a submitted dialog (s)."""
DECISIONS = 10
"""Most decisions on one page of their dialog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeActions(Home):
    core: Core
    builder: HomeBuilder

    async def build_home(self, person: str, *, is_opened: bool) -> HomeView | None:
        """The page, or None for people who are not served. `is_opened`: its person has just opened it."""
        if is_opened:
            await self.builder.pages.save_place(person, HomePlace())
        return await self.builder.build_home(person)

    # Presses

    async def handle_press(self, press: HomePress) -> HomeDialog | None:
        """The dialog that it opens; None: the page itself has changed."""
        caller = await self.core.platform.directory.find_caller(press.person)
        if caller is None:
            return None
        language = caller.person.language
        try:
            match press.action:
                case "turn" | "turn_back":
                    name, _, skip = press.value.partition(".")
                    place = await self.builder.pages.load_place(press.person) or HomePlace()
                    if name in ("tasks", "requests") and skip.isascii() and skip.isdecimal():
                        turned = place.model_copy(update={name: min(int(skip), 1_000_000)})
                        await self.builder.pages.save_place(press.person, turned)
                    return None
                case "open":
                    return await self._open_card(caller, press.value)
                case "set_absence":
                    return self._build_absence_form(caller)
                case "settings":
                    return await self._build_settings_form(caller)
                case "decisions" | "decisions_back":
                    return await self._list_decisions(caller, press.value)
                case "operations" if caller.person.is_administrator:
                    read = self.builder.operations
                    lines = [*await read.describe_operations(language), *await read.describe_details(language)]
                    return HomeDialog(
                        title=translate("home.operations", language),
                        cancel=translate("card.close", language),
                        card=Card("", lead="\n\n".join(lines)),
                    )
                case action if action in PROPOSALS:
                    return await self._propose(caller, action, press.value, {})
        except ToolError as error:  # the engine cannot be asked
            return _build_notice(translate("home.title", language), render_value(error.note, language), language)
        log.warning("home.unknown_press", action=press.action[:40], person=press.person)
        return None

    async def _open_card(self, caller: Caller, value: str) -> HomeDialog:
        """A card whole, for somebody who may press it; as it stands now, whatever version their page has shown."""
        approval = await self.core.stores.approvals.load_approval(value.rpartition(".")[0])
        language = caller.person.language
        title, may_press = translate("home.open_title", language), False
        if approval is not None and approval.state is ApprovalState.OPEN:
            standing = await list_represented(self.core.cards, approval, caller.id)
            choice, now_ms = approval.proposal.choices[0].name, self.core.stores.clock.now_ms()
            may_press = not authorize_press(approval, caller.id, choice, approval.version, now_ms, standing)
        if approval is None or not may_press:
            return _build_notice(title, translate("home.gone", language), language)
        names = await list_names_on_card(self.core.cards, approval)
        card = render.render_card(approval, caller.person, names).card
        params = approval.proposal.title.params
        if params.get("request") and params.get("process"):
            matter = translate("home.matter", language, process=params["process"], request=params["request"])
            is_short = len(matter) <= render.TITLE_MAX
            title = matter[:1].upper() + matter[1:] if is_short else str(params["request"])
        return HomeDialog(title=title, cancel=translate("card.close", language), card=card)

    async def _list_decisions(self, caller: Caller, value: str) -> HomeDialog:
        language, skip = caller.person.language, int(value) if value.isascii() and value.isdecimal() else 0
        skip = min(skip, 1_000_000)
        found = await self.core.tool_services.engine.list_recent_decisions(caller.id, DECISIONS, skip)
        lines = [
            await describe_decision(self.core.tool_services, one, caller.person, details=True) for one in found.tasks
        ]
        newer = [HomeButton(translate("home.previous", language), "decisions_back", str(max(0, skip - DECISIONS)))]
        older = [HomeButton(translate("home.next", language), "decisions", str(skip + DECISIONS))]
        return HomeDialog(
            title=translate("home.decisions", language),
            cancel=translate("card.close", language),
            card=Card("", lead="\n\n".join(lines) or translate("home.no_decisions", language)),
            buttons=(*(newer if skip else ()), *(older if skip + DECISIONS < found.total_count else ())),
        )

    # Forms

    def _build_absence_form(self, caller: Caller) -> HomeDialog:
        language, today = caller.person.language, str(self.core.stores.clock.today(caller.person.zone).date())
        title = translate("home.absence_title", language)
        if "deputies" not in self.core.tool_services.engine.abilities:
            return _build_notice(title, translate("home.no_deputies", language), language)
        fields = (
            DialogField(name="deputy", label="deputy", kind="person"),
            DialogField(name="first_day", label="first_day", kind="date", value=today),
            DialogField(name="last_day", label="last_day", kind="date"),
        )
        hints = {"deputy": "home.hint_deputy", "last_day": "home.hint_last_day"}
        return HomeDialog(
            title=title,
            submit=translate("form.submit", language),
            cancel=translate("card.close", language),
            action="set_absence",
            inputs=tuple(
                FormInput(
                    field,
                    translate_label(field.label, language),
                    hint=translate(hints[field.name], language) if field.name in hints else "",
                )
                for field in fields
            ),
        )

    async def _build_settings_form(self, caller: Caller) -> HomeDialog:
        language, chosen = caller.person.language, self.core.stores.preferences.get_preferences(caller.id)
        languages = (
            ("default", translate("home.chat_language", language)),
            *((one, translate("language.name", one)) for one in LANGUAGES),
        )
        steps = [(name, translate(f"home.steps_{name}", language)) for name in ("default", "plan", "replies", "quiet")]
        mornings: list[FormInput] = []
        if at := self.core.settings.morning_list:  # only where the company has one
            wants = await self.core.stores.preferences.wants_morning_list(caller.id)
            field = DialogField(name="morning", label="morning", kind="choice", value="on" if wants else "off")
            names = [(name, translate(f"home.morning_{name}", language, at=at)) for name in ("on", "off")]
            mornings = [FormInput(field, translate("home.morning_label", language), tuple(names))]
        return HomeDialog(
            title=translate("home.settings", language),
            submit=translate("home.save", language),
            cancel=translate("card.close", language),
            action="settings",
            inputs=(
                FormInput(
                    DialogField(name="language", label="language", kind="choice", value=chosen.language or "default"),
                    translate("home.language_label", language),
                    languages,
                    translate("home.hint_language", language),
                ),
                FormInput(
                    DialogField(name="steps", label="steps", kind="choice", value=chosen.steps or "default"),
                    translate("home.steps_label", language),
                    tuple(steps),
                ),
                *mornings,
            ),
        )

    # Proposals

    async def _propose(
        self, caller: Caller, action: str, value: str, form: Mapping[str, str], notice: str = ""
    ) -> HomeDialog:
        """Build the dialog that shows an action's whole card for confirmation, or the reason why the action is
        impossible."""
        language = caller.person.language
        try:
            proposal = await self._prepare(caller, action, value, form)
        except ToolError as error:
            return _build_refusal(action, value, error, language)
        proposal, given = _leave_out_reason(proposal), form.get(REASON, "")
        fields = render.render_card_fields(proposal.fields, language)
        title = render_value(proposal.get_title_for(caller.id), language)
        inputs: tuple[FormInput, ...] = ()
        if action == "withdraw":
            field = DialogField(
                name=REASON, label=REASON_LABEL, kind="long", value=given, required=False, max_length=MAX_REASON
            )
            label, hint = translate_label(field.label, language), render.render_limit(field, language)
            inputs = (FormInput(field, label, hint=hint),)
        return HomeDialog(
            title=translate(f"home.{action}_title", language),
            submit=translate(f"home.{action}_submit", language),
            cancel=translate("card.close", language),
            action=action,
            value=value,
            card=Card(title, facts=fields, body=proposal.body),
            notice=notice,
            inputs=inputs,
            form=tuple((name, text) for name, text in form.items() if name != REASON),
            seal=compute_shown_hash(proposal, language),
        )

    async def _prepare(self, caller: Caller, action: str, value: str, form: Mapping[str, str]) -> Proposal:
        tool, argument = PROPOSALS[action]
        about = {argument: value} if argument else {}
        context = ToolContext(self.core.tool_services, caller, self.core.stores.clock.today(caller.person.zone))
        return await propose_call(tool, context, {**form, **about})

    # Submitted dialogs

    async def check_submission(self, submission: HomeSubmission) -> tuple[HomeAnswer, Sequence[EnqueueItem]]:
        """Return the dialog's problems or the next dialog, and the items that it leads to. The platform waits."""
        try:
            async with asyncio.timeout(CHECK_S):
                caller = await self.core.platform.directory.find_caller(submission.person)
                if caller is None or submission.action not in ("settings", *PROPOSALS):
                    return HomeAnswer(), ()
                if submission.action == "settings":
                    return await self._save_settings(caller, submission), ()
                return await self._confirm(caller, submission)
        except (TimeoutError, ChatError) as error:  # nothing was done, and the dialog keeps its content
            log.info("home.unchecked", person=submission.person, reason=type(error).__name__)
            known = self.core.platform.directory.find_known_person(submission.person)
            language = known.language if known else "en"
            text = translate("home.late", language)
            if not submission.seal:
                return HomeAnswer(problems=(FormProblem("", "", text),)), ()
            title = translate(f"home.{submission.action}_title", language)
            return HomeAnswer(dialog=_build_notice(title, text, language)), ()

    async def _save_settings(self, caller: Caller, submission: HomeSubmission) -> HomeAnswer:
        values = {name: "" if text == "default" else text for name, text in submission.form.items()}
        language = values.get("language", DEFAULTS.language)
        if language not in ("", *LANGUAGES):
            return HomeAnswer()
        try:
            chosen = Preferences.model_validate({"language": language, "steps": values.get("steps", DEFAULTS.steps)})
        except ValidationError:
            return HomeAnswer()
        await self.core.stores.preferences.save_preferences(caller.id, chosen)
        if values.get("morning") in ("on", "off"):
            await self.core.stores.preferences.save_morning_wish(caller.id, wants_list=values["morning"] == "on")
        await self.builder.pages.mark_person(caller.id)
        return HomeAnswer()

    async def _confirm(self, caller: Caller, submission: HomeSubmission) -> tuple[HomeAnswer, Sequence[EnqueueItem]]:
        """Shows a filled form as the whole card, or all its problems. Confirms a card that was shown, with the reason
        that was typed below it: the card and its press behind it in the same lane. If anything that was shown has
        changed meanwhile, it is shown again instead."""
        language, action = caller.person.language, submission.action
        names = {"set_absence": ABSENCE_FIELDS, "withdraw": (REASON,)}.get(action, ())
        form = clean_form({name: submission.form.get(name, "") for name in names})
        try:
            proposal = await self._prepare(caller, action, submission.value, form)
        except ToolError as error:
            if not submission.seal:
                return HomeAnswer(problems=tuple(_build_problem(one, form, language) for one in error.errors)), ()
            if error.field == REASON:
                return HomeAnswer(problems=(_build_problem(error, form, language),)), ()
            return HomeAnswer(dialog=_build_refusal(action, submission.value, error, language)), ()
        if compute_shown_hash(_leave_out_reason(proposal), language) != submission.seal:
            notice = translate("home.changed", language) if submission.seal else ""  # without one, nothing was shown
            return HomeAnswer(dialog=await self._propose(caller, action, submission.value, form, notice)), ()
        tool, about = PROPOSALS[action][0], f"home:{caller.id}:{submission.id}"
        lane = self.core.stores.keys.derive_id("A", self.core.stores.keys.get_partition(about), about)
        card = OpenCard(approval=lane, tool=tool.name, gate=tool.gate, proposal=proposal, caller=caller.id, place=None)
        place, id = submission.place, f"press:{about}"
        click = Click(id=id, approval=lane, version=1, choice="confirm", person=caller.id, place=place)
        return HomeAnswer(), [
            EnqueueItem(lane, f"open:{about}", card.model_dump_json()),
            EnqueueItem(lane, click.id, ButtonPressed(click=click).model_dump_json()),
        ]


def compute_shown_hash(proposal: Proposal, language: str) -> str:
    """Compute a hash of everything that a person has seen of a proposal, and of its effect."""
    shown = f"{language} {compute_seal('', proposal)} {proposal.model_dump_json()}"
    return hashlib.sha256(shown.encode()).hexdigest()[:32]


def _leave_out_reason(proposal: Proposal) -> Proposal:
    """Return the part of the card above the reason, which is shown and must be the same when it is confirmed."""
    args = {name: value for name, value in proposal.args.items() if name != REASON}
    fields = tuple(field for field in proposal.fields if field.label != REASON_LABEL)
    return proposal.model_copy(update={"args": args, "fields": fields})


def _build_problem(error: ToolError, form: Mapping[str, str], language: str) -> FormProblem:
    field = error.field if error.field in form else next(iter(form), "")
    return FormProblem(field, "", render_value(error.note, language))


def _build_refusal(action: str, value: str, error: ToolError, language: str) -> HomeDialog:
    request = value if PROPOSALS[action][1] in ("task", "request") else ""
    text = name_request(render_value(error.note, language), request, language)
    return _build_notice(translate(f"home.{action}_title", language), text, language)


def _build_notice(title: str, text: str, language: str) -> HomeDialog:
    """Build a dialog that says why nothing is done."""
    return HomeDialog(title=title, cancel=translate("card.close", language), notice=text)
