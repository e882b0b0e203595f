"""Requests without a model: the form of a process as a dialog, and the card for a submitted form.

The card is the one that a conversation leads to: proposed by the same code, confirmed by the same button. A dialog
starts nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.agent.tool_executor import propose_call
from bot.approvals.render import render_limit
from bot.chat.messages import FormAnswer, FormDialog, FormInput, FormProblem, FormSubmission
from bot.core import logs
from bot.core.errors import ChatError
from bot.core.i18n import render_value, translate, translate_label
from bot.core.records import OpenCard
from bot.core.work_items import FormSubmitted, NotifyPerson
from bot.features.answer_presses import list_offered_steps
from bot.features.contract import Core, Feature, Work
from bot.queue.lanes import LaneItem, Lease
from bot.queue.writes import EnqueueItem, Write
from bot.storage.file_keeper import TakenFiles
from tools.absence.tool import SET_ABSENCE
from tools.languages import LANGUAGES, choose_words
from tools.mail.send_email import MAX_SUBJECT, SEND_EMAIL
from tools.people.names import find_people, get_person_language
from tools.platform_ids import FILE_ID
from tools.requests.form_pages import PAGES, FormTooLongError, build_form_page, list_form_problems, list_needed_fields
from tools.requests.processes import START_PROCESS
from tools.spec import Caller, DialogField, TextRef, ToolError
from tools.tool import Tool, ToolContext
from tools.workflow.process.definition import Process
from tools.workflow.process.form_input import list_named_files, remove_files
from tools.workflow.process.forms import DAYS, MAX_FILES, PERSONS, FieldKind

log = logs.get_logger(__name__)

TOOLS_BY_FORM: Mapping[str, tuple[Tool, tuple[DialogField, ...]]] = {
    "mail": (
        SEND_EMAIL,
        (
            DialogField(name="to", label="to", kind="people"),
            DialogField(name="subject", label="subject", max_length=MAX_SUBJECT),
            DialogField(name="body", label="body", kind="long"),
        ),
    ),
    "absence": (
        SET_ABSENCE,
        (
            DialogField(name="start_date", label="first_day", kind="date"),
            DialogField(name="end_date", label="last_day", kind="date"),
            DialogField(name="deputy", label="deputy", kind="person"),
        ),
    ),
}
"""Forms that are no process → the tool that makes the card, and its arguments as inputs."""

BETWEEN = re.compile("[,，、;；]")
JOURNAL_KINDS = ("form.refused", "form.submitted")
CHECK_S = 0.8
"""Longest wait for the answer to a submitted dialog (s). Checks that are not ready by then, because people are still
being read, are made when the form is handled, and answered in words."""


def build(core: Core) -> Feature:
    forms = RequestForms(core)
    return Feature(
        work=(Work(model=FormSubmitted, handle=forms.request_card, give_up=forms.give_up_form),), forms=forms
    )


@dataclass(frozen=True, slots=True)
class RequestForms:
    core: Core

    # Dialogs

    async def build_form(self, form: FormSubmission) -> FormDialog | str:
        """Build a page of the form, or return a sentence in the person's language about why there is none."""
        caller = await self.core.platform.directory.find_caller(form.person)
        if caller is None:
            return translate("form.stranger", await get_person_language(self.core.platform.directory, form.person))
        processes = await self.core.tool_services.engine.list_processes()
        try:
            form = await self.fill_offer(form, processes, caller) if form.offer else form
            process = _find_process(processes, form.process)
            if process is not None:
                return await self._build_page(caller, process, processes, form)
            if form.process in TOOLS_BY_FORM:
                return build_tool_form(form, caller.person.language)
            return translate("form.unknown", caller.person.language, name=form.process[:60])
        except FormTooLongError:
            return translate("form.too_long", caller.person.language)
        except ToolError as error:
            return render_value(error.note, caller.person.language)

    async def fill_offer(self, form: FormSubmission, processes: Sequence[Process], caller: Caller) -> FormSubmission:
        """Fill in the form that the model has offered. Its values are only for the person whom the answer is for;
        others get the form empty. Names that mean nobody, or several people, and fields that the form does not have are
        left out."""
        run_id, _, number = form.offer.rpartition(".")
        run = await self.core.stores.runs.load_run(run_id)
        steps = list_offered_steps(run) if run else []
        if run is None or not number.isdecimal() or int(number) >= len(steps) or not steps[int(number)].form:
            return form.model_copy(update={"has_choice": True})
        step, files = steps[int(number)], list[str]()
        values = dict(step.values) if run.message.person == form.person else {}
        kinds = {"to": FieldKind.PEOPLE, "deputy": FieldKind.PERSON}
        if process := _find_process(processes, step.form):
            kinds = {one.name: one.kind for one in process.form.fields}
            span, now = process.form.days, self._build_context(caller).now
            values, length = {name: text for name, text in values.items() if name in kinds}, values.get(DAYS)
            if span and length:  # the last day stands in its place
                given, engine = {**values, DAYS: length}, self.core.tool_services.engine
                filled = (await engine.preview_form(process, given, caller.id, now)).filled
                values |= {name: filled.values.get(name, "") for name in (span.end, span.end_half)}
        for name, text in values.items():
            if kinds.get(name) in PERSONS:
                everyone = await self.core.platform.directory.list_people()
                found = [find_people(everyone, one) for one in BETWEEN.split(text) if one.strip()]
                values[name] = ",".join(one.people[0].id for one in found if one.is_certain)
            elif kinds.get(name) is FieldKind.ATTACHMENT:
                files += [one for one in text.split(",") if FILE_ID.fullmatch(one)]
        return form.model_copy(update={"process": step.form, "values": values, "kept": tuple(files[:MAX_FILES])})

    async def check_form(self, form: FormSubmission) -> FormAnswer:
        """Check a submitted page. Returns its problems or the next page to fill in. An empty answer means that the page
        is fine, or that nobody can say yet."""
        try:
            async with asyncio.timeout(CHECK_S):
                return await self._check_page(form)
        except (TimeoutError, ChatError, FormTooLongError, ToolError) as error:  # the work itself answers in words
            log.info("form.unchecked", person=form.person, reason=type(error).__name__)
            return FormAnswer()

    async def _check_page(self, form: FormSubmission) -> FormAnswer:
        known = self.core.platform.directory.find_known_person(form.person)
        caller = await self.core.platform.directory.find_caller(form.person) if known else None
        processes = await self.core.tool_services.engine.list_processes()
        process = _find_process(processes, form.process)
        if caller is None or (process is None and form.process not in TOOLS_BY_FORM):
            return FormAnswer()  # the work itself answers in words
        context, language = self._build_context(caller), caller.person.language
        if process is None:
            return FormAnswer(problems=await list_tool_problems(context, form))
        needed = await list_needed_fields(context, process, form.values)
        is_last = needed <= form.values.keys() or form.page + 1 >= PAGES
        by_field = dict[str, list[str]]()
        for name, note in await list_form_problems(context, process, form.values):
            if is_last or name in form.values or name not in needed:
                by_field.setdefault(name, []).append(render_value(note, language))
        if not by_field and not is_last:
            return FormAnswer(next_page=await self._build_page(caller, process, processes, form.turn_page()))
        labels = {one.name: translate_label(one.label.by_language, language) for one in process.form.fields}
        told = {name: " ".join(dict.fromkeys(sentences)) for name, sentences in by_field.items()}
        return FormAnswer(problems=tuple(FormProblem(name, labels.get(name, ""), text) for name, text in told.items()))

    async def _build_page(
        self, caller: Caller, process: Process, processes: Sequence[Process], form: FormSubmission
    ) -> FormDialog:
        """Build a page. Raises `FormTooLongError`, or `ToolError` for somebody who is not in the directory."""
        language, values = caller.person.language, form.values
        text = next((one for one in process.form.fields if one.kind is FieldKind.TEXT), None)
        if text is not None and form.said.strip() and not values.get(text.name):  # the person's own words
            values = {**values, text.name: form.said.strip()[: text.max_length]}
        attachment = next((one for one in process.form.fields if one.kind is FieldKind.ATTACHMENT), None)
        if attachment is not None and form.kept and attachment.name not in values:  # nobody has left them out
            values = {**values, attachment.name: ",".join(form.kept)}
        kept = await self.core.stores.files.find_files(caller.id, form.kept)
        page = await build_form_page(
            self._build_context(caller), process, values, form.earlier, files=list(kept.values())
        )
        is_first, names = form.page == 0, {field.name for field in page.fields}
        carried = values if form.offer else form.earlier
        has_more = page.has_more and form.page + 1 < PAGES
        offered = processes if form.has_choice and is_first and len(processes) > 1 else ()
        choices = [(one.key, choose_words(one.form.title, language)) for one in offered]
        inputs, notes = list[FormInput](), list[str]()
        for field in page.fields:
            is_by_rules = field.name in process.deciding_names
            inputs.append(
                FormInput(
                    field=field,
                    label=translate_label(field.label, language),
                    options=tuple((value, choose_words(words, language)) for value, words in field.choices),
                    hint=translate("form.by_rules", language) if is_by_rules else render_limit(field, language),
                    is_watched=field.name in process.watched_fields,
                )
            )
        for fact in page.facts:
            note = render_value(fact.value, language)
            if not isinstance(fact.label, str):  # otherwise a length, a balance, a rule: the sentence says what it is
                note = translate("form.fact", language, label=translate_label(fact.label, language), value=note)
            notes.append(note)
        return FormDialog(
            title=choose_words(process.form.title, language),
            submit=translate("form.next" if page.is_followed else "form.submit", language),
            cancel=translate("card.close" if is_first else "form.back", language),
            process=process.key,
            page=form.page,
            inputs=tuple(inputs),
            values=tuple((name, text) for name, text in values.items() if name in carried and name not in names),
            notes=tuple(notes),
            warnings=tuple(dict.fromkeys(render_value(one, language) for one in page.problems)),
            more=translate("form.more", language) if has_more else "",
            choices=tuple(choices),
            kept=form.kept,
        )

    def _build_context(self, caller: Caller) -> ToolContext:
        return ToolContext(self.core.tool_services, caller, self.core.stores.clock.today(caller.person.zone))

    # The card

    def derive_card_id(self, person: str, dialog: str) -> str:
        """Derive the id of the card and of its lane from one dialog, so that a dialog submitted twice has one card."""
        about = f"form:{person}:{dialog}"
        return self.core.stores.keys.derive_id("A", self.core.stores.keys.get_partition(about), about)

    async def request_card(self, lease: Lease, form: FormSubmitted) -> Sequence[Write]:
        """Propose the submitted form as a card to confirm. If the form is no longer acceptable, the person is told."""
        caller = await self.core.platform.directory.find_caller(form.person)
        if caller is None:
            return [self._build_journal_write(lease.item, form, "not a member who can be served")]
        process = _find_process(await self.core.tool_services.engine.list_processes(), form.process)
        taken, told = TakenFiles(), list[Write]()
        if process is not None and (ids := list_named_files(process.form, form.values)):
            taken = await self.core.stores.files.keeper.take_chosen_files(lease, form.person, ids)
        if taken.refused:
            form = form.model_copy(update={"values": remove_files(form.values, taken.refused)})
        if taken.troubles:  # the card comes without them, or without their content
            notice = NotifyPerson(
                person=form.person, text=TextRef(key="file.notice", params={"files": dict(taken.troubles)})
            )
            told = [EnqueueItem(f"notice:{form.person}", f"{lease.item.id}:files", notice.model_dump_json())]
        try:
            tool, args = START_PROCESS, dict[str, Any](process=form.process, form=dict(form.values))
            if process is None and form.process in TOOLS_BY_FORM:
                tool, args = TOOLS_BY_FORM[form.process][0], dict(form.values)
            proposal = await propose_call(tool, self._build_context(caller), args)
        except ToolError as error:
            why = {language: render_value(error.note, language) for language in LANGUAGES}
            refusal = self._build_notice(lease.item, form, TextRef(key="form.refused", params={"why": why}))
            return [*told, refusal, self._build_journal_write(lease.item, form, error.code)]
        card = OpenCard(
            approval=lease.lane, tool=tool.name, gate=tool.gate, proposal=proposal, caller=caller.id, place=None
        )
        return [
            *told,
            EnqueueItem(card.approval, f"open:{form.dialog}", card.model_dump_json()),
            self._build_journal_write(lease.item, form),
        ]

    async def give_up_form(self, item: LaneItem, form: FormSubmitted) -> Sequence[Write]:
        """Tell the person that their form failed every time."""
        return [self._build_notice(item, form, TextRef(key="form.given_up", params={"id": item.id}))]

    def _build_notice(self, item: LaneItem, form: FormSubmitted, text: TextRef) -> Write:
        notice = NotifyPerson(person=form.person, text=text)
        return EnqueueItem(f"notice:{form.person}", f"{item.id}:refused", notice.model_dump_json())

    def _build_journal_write(self, item: LaneItem, form: FormSubmitted, refused: str = "") -> Write:
        kind = "form.refused" if refused else "form.submitted"
        about = {"person": form.person, "text": form.process[:60], **({"error": refused} if refused else {})}
        return self.core.stores.journal.build_record_write(item.lane, kind, **about)


async def list_tool_problems(context: ToolContext, form: FormSubmission) -> tuple[FormProblem, ...]:
    """List the first problem of a tool's form, at its own field, or else at the last one."""
    tool, fields = TOOLS_BY_FORM[form.process]
    try:
        await propose_call(tool, context, form.values)
    except ToolError as error:
        name = error.field if error.field in form.values else fields[-1].name
        return (FormProblem(name, "", render_value(error.note, context.caller.person.language)),)
    return ()


def build_tool_form(form: FormSubmission, language: str) -> FormDialog:
    fields = [one.model_copy(update={"value": form.values.get(one.name, "")}) for one in TOOLS_BY_FORM[form.process][1]]
    return FormDialog(
        title=translate(f"offer.{form.process}", language),
        submit=translate("form.submit", language),
        cancel=translate("card.close", language),
        process=form.process,
        page=0,
        inputs=tuple(FormInput(field=one, label=translate_label(one.label, language)) for one in fields),
    )


def _find_process(processes: Sequence[Process], key: str) -> Process | None:
    return next((one for one in processes if not key or one.key == key), None)
