"""Card fields of forms, their files and requests, dialog fields, and people's names. Code writes all of them, never a
model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tools.languages import LANGUAGES, choose_words, format_day_words, list_day_words
from tools.people.identities import identify_people
from tools.people.names import format_people_names, format_stand_in, get_names_by_language, join_in_both_languages
from tools.platform_ids import FILE_ID
from tools.ports import Directory, TextRenderer
from tools.spec import AttachedFile, CardChoice, CardField, DialogField, Identities, Proposal, TextRef
from tools.workflow.bpmn.graph import ServiceTopic
from tools.workflow.engine.assignment import ROLE_PREFIX
from tools.workflow.engine.paths import trace_happy_path
from tools.workflow.engine.state import APPROVAL_DECISIONS, COPY_PREFIX, NEIGHBOURS, FilledForm, Request, format_decimal
from tools.workflow.process.definition import (
    FormPreview,
    Process,
    find_passing_rule,
    format_request_line,
    format_values,
)
from tools.workflow.process.earlier_requests import COUNT_PREFIX, get_balance_label, list_remaining_days
from tools.workflow.process.forms import DAYS, PERSONS, FieldKind, Form, FormField

CONFIRM = CardChoice(name="confirm", style="primary")
CANCEL = CardChoice(name="cancel", executes=False)
MAX_CHANGE = 120
"""Most characters of an old or new value repeated in a line about a change."""
MAX_OPINIONS = 12
"""Most opinions shown; the latest are kept."""
FIELD_PREFIX = "field_"
"""Prefix of form fields in a dialog, so that they never collide with other arguments."""
INPUTS: Mapping[FieldKind, str] = {FieldKind.TEXT: "long", FieldKind.HALF: "choice", FieldKind.MONEY: "number"}
"""Kind of a form field → kind of a dialog input, where it has another name."""


async def build_form_card_fields(directory: Directory, process: Process, filled: FilledForm) -> tuple[CardField, ...]:
    """The fields of a form's card: every field with a value, the working days, the remaining balance, the further
    approvers, the recipients of copies, the rule that passes the request, and everything unusual."""
    form = process.form
    companion_fields = {name for f in form.fields for name in (f.half, f.currency)}
    fields = [
        CardField(
            label=f.label.by_language,
            value=await _build_field_value(directory, process, f, filled),
            tells_others=f.name in process.deciding_names,
        )
        for f in form.fields
        if filled.values.get(f.name) and f.name not in companion_fields
    ]
    fields += build_reading_fields(form, filled)
    fields += _build_length_fields(form, filled)
    # The people who get a copy at the end, except those whom the form shows.
    path, names = trace_happy_path(process.definition, filled), {ServiceTopic.CC: "", ServiceTopic.RULE: COPY_PREFIX}
    copying = [f"{names[node.topic]}{node.id}" for node in path if node.topic in names]
    shown = {p for f in form.fields if f.kind is FieldKind.PEOPLE for p in filled.resolve_people(f.name)}
    told = dict.fromkeys(p for name in copying for p in filled.people.get(name, ()) if p not in shown)
    fields += [
        CardField(label=label, value=await identify_people(directory, people), tells_others=True)
        for label, people in (*list_approval_levels(process, filled), ("cc", tuple(told)))
        if people
    ]
    if rule := find_passing_rule(process, filled):
        fields.append(CardField(label="rule", value=form.get_rule_text(rule)))
    for name, people in (filled.exceptions or {}).items():  # people who decide although the rules name somebody else
        field = form.find_field(name)
        params: dict[str, Any] = {"label": field.label.by_language if field else name}
        note = TextRef(key="fact.exception" if people else "fact.chosen", params=params)
        fields.append(CardField(label="notice", value=note))
        if people:
            fields.append(CardField(label="by_rules", value=await identify_people(directory, people)))
    return (*fields, *_build_exceeded_fields(form, filled))


def build_change_fields(
    before: Iterable[CardField], after: Iterable[CardField], render_text: TextRenderer, *, is_same: bool
) -> tuple[CardField, ...]:
    """Fields for the changes between two versions of a card, each with the old and the new value. Without any change,
    one field says so. `is_same` tells whether the forms are equal, or differ but read the same."""

    def write_value(value: object) -> dict[str, str]:
        return {language: render_text(value, language) for language in LANGUAGES}

    # A person has filled in or chosen the fields whose labels come from the form. All others but the length follow from
    # these.
    old, new = (
        {str(one.label): one for one in fields if not isinstance(one.label, str) or one.label == "days"}
        for fields in (before, after)
    )
    changed, empty = list[TextRef](), TextRef(key="fact.empty")
    for name, field in (old | new).items():
        was, now = (write_value(one[name].value if name in one else empty) for one in (old, new))
        if was != now:
            is_long = max(map(len, (*was.values(), *now.values()))) > MAX_CHANGE
            label = write_value(TextRef(key="label.days") if field.label == "days" else field.label)
            params: dict[str, Any] = {"label": label} if is_long else {"label": label, "old": was, "new": now}
            changed.append(TextRef(key="fact.changed_text" if is_long else "fact.changed", params=params))
    rest = TextRef(key="fact.unchanged" if is_same else "fact.reads_the_same")
    return tuple(CardField(label="changed", value=one) for one in changed or [rest])


async def build_preview_fields(directory: Directory, process: Process, preview: FormPreview) -> tuple[CardField, ...]:
    """Fields of a preview, for a form that is still being filled in: its length, the remaining balance, the approvers,
    the rule that would let it pass, and the totals of several requests together."""
    form = process.form
    fields = list(_build_length_fields(form, preview.filled))
    fields += [
        CardField(label=label, value=await identify_people(directory, people)) for label, people in preview.deciders
    ]
    if preview.rule:
        fields.append(CardField(label="rule", value=form.get_rule_text(preview.rule)))
    return (*fields, *_build_exceeded_fields(form, preview.filled))


def _build_exceeded_fields(form: Form, filled: FilledForm) -> Iterator[CardField]:
    """Notices about the totals of several requests together."""
    for bound in form.bounds:
        if bound.name not in filled.exceeded:
            continue
        options = list[dict[str, str]]()
        for name in bound.per:
            chosen, value = form.find_field(name), filled.values.get(name, "")
            option = chosen.find_option(value) if chosen else None
            options.append(option.by_language if option else {"zh": value, "en": value})
        field = form.find_field(bound.field)
        currency = filled.values.get(field.currency, "") if field and field.currency else ""
        params: dict[str, Any] = {
            "process": form.name.by_language,
            "n": format_decimal(filled.numbers[f"{COUNT_PREFIX}{bound.name}"]),
            "days": bound.days,
            "sum": f"{filled.numbers[bound.name]:f} {currency}".strip(),
            "per": join_in_both_languages(options),
        }
        note = TextRef(key="fact.bound_per" if options else "fact.bound", params=params)
        yield CardField(label="notice", value=note)


def _build_length_fields(form: Form, filled: FilledForm) -> Iterator[CardField]:
    if filled.days:
        key = "fact.days_estimated" if filled.estimated else "fact.days"
        yield CardField(label="days", value=TextRef(key=key, params={"days": filled.days, "n": filled.days}))
    if neighbours := filled.numbers.get(NEIGHBOURS):
        together = {"n": format_decimal(neighbours), "days": format_decimal(filled.numbers[DAYS])}
        yield CardField(label="notice", value=TextRef(key="fact.neighbours", params={**together}))
    for year, left, allowance in list_remaining_days(form, filled):
        params = {"label": get_balance_label(form), "year": year, "left": left, "allowance": allowance}
        yield CardField(label="balance", value=TextRef(key="fact.balance", params=params))


def list_approval_levels(
    process: Process, filled: FilledForm
) -> Iterator[tuple[str | dict[str, str], tuple[str, ...]]]:
    """The (label, person ids) pairs of all approvers whom the process chose on this form's path."""
    for level in process.form.levels:
        yield level.label.by_language, filled.people.get(level.name, ())
    for node in trace_happy_path(process.definition, filled):
        for name in node.who:
            if name.startswith(ROLE_PREFIX):
                yield {"zh": node.name, "en": node.name}, filled.people.get(name, ())


@dataclass(frozen=True, slots=True)
class MailDraft:
    """An email that a process proposes."""

    to: tuple[str, ...]
    """Person ids. The author's email tool sends the email to all of them, or to nobody."""
    subject: str
    body: str


async def build_mail_draft(
    directory: Directory, process: Process, filled: FilledForm, node: str, language: str
) -> MailDraft:
    """The email of a `mail` service task, in the sender's language."""
    row = next(row for row in process.form.mails if row.node == node)
    values = format_values(process, filled, language)
    for field in process.form.fields:
        if field.kind in PERSONS:
            values[field.name] = choose_words(
                await format_people_names(directory, filled.resolve_people(field.name)), language
            )
    subject, body = (choose_words(words.by_language, language).format_map(values) for words in (row.subject, row.body))
    return MailDraft(filled.people.get(node, ()), " ".join(subject.split()), body)


async def build_request_card_fields(directory: Directory, process: Process, request: Request) -> tuple[CardField, ...]:
    """The fields of a request's card, besides its first line: requester, form, opinions, people with a copy."""
    requester = await identify_people(directory, [request.initiator])
    opinions = list[CardField]()
    for opinion in request.opinions[-MAX_OPINIONS:]:
        by = await get_names_by_language(directory, opinion.by)
        if opinion.on_behalf:
            by = format_stand_in(by, await get_names_by_language(directory, opinion.on_behalf))
        said = "said" if opinion.text else "silent"
        params: dict[str, Any] = {"name": by, "text": opinion.text}
        note = TextRef(key=f"fact.{said}_{opinion.decision}", params=params)
        people = (opinion.by, *([opinion.on_behalf] if opinion.on_behalf else []))
        # a remark goes with a transfer, an add sign or a comment
        label = "opinion" if opinion.decision in APPROVAL_DECISIONS else "remark"
        opinions.append(CardField(label=label, value=await identify_people(directory, people, note)))
    copied = [CardField(label="copied", value=await identify_people(directory, request.cc))] if request.cc else []
    return (
        CardField(label="requester", value=requester, tells_others=True),
        *await build_form_card_fields(directory, process, request.filled),
        *opinions,
        *copied,
    )


async def build_stand_in_field(directory: Directory, person: str, stand_ins: Sequence[str]) -> CardField:
    """A field that names the deputies who can decide while a person is away."""
    params = {
        "name": await get_names_by_language(directory, person),
        "names": await format_people_names(directory, stand_ins),
    }
    note = TextRef(key="fact.stand_in", params=params)
    return CardField(label="stand_in", value=await identify_people(directory, stand_ins, note))


def build_status_field(request: Request) -> CardField:
    return CardField(label="status", value=TextRef(key=f"status.{request.display_status}"))


def build_scope(process: Process, filled: FilledForm) -> dict[str, str]:
    """A form in one line by language, for the first line of its card."""
    return {language: format_request_line(process, filled, language) for language in ("zh", "en")}


def describe_new_request(proposal: Proposal) -> TextRef | None:
    """The request on a card, which has no number yet, with the approver, who stands first of the people on its form."""
    for field in () if proposal.subject or not proposal.scope else proposal.fields:
        if isinstance(field.value, Identities) and isinstance(field.label, dict):
            label = {**field.label, "en": field.label["en"].lower()}
            names = [{one: person.get_name(one) for one in ("zh", "en")} for person in field.value.people]
            params = {"scope": proposal.scope, "label": label, "names": join_in_both_languages(names)}
            return TextRef(key="steps.ready", params={**params})
    return None


def build_dialog_fields(
    process: Process, values: Mapping[str, str], files: Sequence[AttachedFile] = ()
) -> tuple[DialogField, ...]:
    """The whole form as a dialog, filled in with the present values. `files` are the files on the form. The choices of
    a file input are the present files, which can be left out; if its value has an address, it is a line of text."""
    names, fields = {file.id: describe_file(file) for file in files}, list[DialogField]()
    for field in process.form.fields:
        value, kind = values.get(field.name, ""), INPUTS.get(field.kind, field.kind.value)
        choices, max_length = tuple((o.value, o.by_language) for o in field.options), field.max_length
        if field.kind is FieldKind.ATTACHMENT:
            kept, max_length = [part for part in value.split(",") if part], 3000
            kind = "file" if all(map(FILE_ID.fullmatch, kept)) else "text"
            choices = tuple((id, names[id]) for id in kept if id in names and kind == "file")
        fields.append(
            DialogField(
                name=FIELD_PREFIX + field.name,
                label=field.label.by_language,
                kind=kind,
                value=value,
                required=field.required and field.name not in process.deciding_names,
                choices=choices,
                max_length=max_length,
            )
        )
    return tuple(fields)


async def _build_field_value(
    directory: Directory, process: Process, field: FormField, filled: FilledForm
) -> str | dict[str, str] | TextRef | Identities:
    values = filled.values
    value = values[field.name]
    if field.kind is FieldKind.ATTACHMENT:
        return describe_references(value, filled.files)
    option = field.find_option(value)
    half = process.form.find_field(field.half) if field.half else None
    if field.kind in PERSONS:
        return await identify_people(directory, value.split(","))
    if half and (chosen := half.find_option(values.get(half.name, ""))):
        return TextRef(key="fact.day", params={"day": list_day_words(value), "half": chosen.by_language})
    if field.kind is FieldKind.DATE:
        return list_day_words(value)
    if field.currency:
        return f"{value} {values.get(field.currency, '')}".strip()
    return option.by_language if option else value


MEDIA: Mapping[str, str] = {
    "application/pdf": "PDF",
    "application/ofd": "OFD",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "DOCX",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "XLSX",
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WebP",
    "image/heic": "HEIC",
    "image/tiff": "TIFF",
}
"""Media type → short name of the file type."""


def describe_file(file: AttachedFile) -> dict[str, str]:
    """A file's name, type by content, and size, by language."""
    about = [MEDIA[file.media]] if file.media in MEDIA else []
    if size := file.size:
        about.append(f"{max(1, round(size / 1000))} KB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB")
    if not about:
        return {"zh": file.name, "en": file.name}
    return {"zh": f"{file.name}（{'，'.join(about)}）", "en": f"{file.name} ({', '.join(about)})"}


def describe_files(files: Iterable[AttachedFile]) -> dict[str, str]:
    return join_in_both_languages(map(describe_file, files))


def describe_references(value: str, files: Sequence[AttachedFile]) -> str | dict[str, str]:
    """The value of an attachment field for people: files by name, addresses unchanged."""
    by_id = {file.id: file for file in files}
    parts = value.split(",")
    if not any(part in by_id for part in parts):
        return value
    return describe_files(by_id.get(part, AttachedFile(id=part, name=part)) for part in parts)


def build_reading_fields(form: Form, filled: FilledForm) -> Iterator[CardField]:
    """Fields with the values that a model has read from a picture, and whether the form says something else. The people
    who confirm and decide check them by eye."""
    amounts = [f for f in form.fields if f.kind is FieldKind.MONEY and filled.numbers.get(f.name)]
    for file in filled.files:
        if not file.reading:
            continue
        amount = " ".join(filter(None, (file.reading.get("amount"), file.reading.get("currency"))))
        merchant, day = file.reading.get("merchant"), file.reading.get("date", "")
        read = {
            language: " · ".join(filter(None, (amount, merchant, format_day_words(day, language))))
            for language in LANGUAGES
        }
        if not any(read.values()):
            continue
        differs, found = False, file.reading.get("amount")
        # Compared only if the form has one file and one amount: several receipts may add up to one amount.
        if found and len(amounts) == len(filled.files) == 1:
            [field] = amounts
            said = filled.values.get(field.name, "")
            currency = filled.values.get(field.currency, "") if field.currency else ""
            other_currency = bool(currency and file.reading.get("currency")) and file.reading["currency"] != currency
            is_same = filled.numbers[field.name] == Decimal(said) == Decimal(found)
            differs = not is_same or other_currency
        key = "fact.read_otherwise" if differs else "fact.read_from_picture"
        yield CardField(label="read_from_picture", value=TextRef(key=key, params={"file": file.name, "read": read}))
