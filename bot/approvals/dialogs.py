"""The dialog of a button: its questions, and the check of the answers. Nothing is decided here."""

from __future__ import annotations

from pydantic import ValidationError

from bot.agent.tool_executor import clean_form, propose_call
from bot.approvals import render
from bot.approvals.authorization import authorize_press
from bot.approvals.cards import Cards
from bot.approvals.delivery import list_represented
from bot.approvals.opinion_drafts import read_form_answers
from bot.approvals.state import edit_args, merge_args
from bot.chat.messages import Click, Dialog
from bot.core.errors import UnreadableRecordError
from bot.core.i18n import render_value
from bot.core.records import Approval
from bot.core.run_state import validate_args
from tools.cards.builders import gather_form_answers
from tools.cards.fields import FIELD_PREFIX
from tools.requests.form_pages import list_form_problems
from tools.spec import CardChoice, ToolError
from tools.tool import ToolContext


async def opens_dialog(cards: Cards, click: Click) -> bool:
    """Whether the pressed button has a dialog. A card that cannot be read has none: the press then says so."""
    try:
        approval = await cards.stores.approvals.load_approval(click.approval)
    except (UnreadableRecordError, ValidationError):
        return False
    return approval is not None and _find_dialog_choice(cards, approval, click) is not None


async def build_dialog(cards: Cards, click: Click) -> Dialog | None:
    """Build the dialog that a press opens. Returns None if the button opens none or the person may not press (the click
    then says why)."""
    approval = await cards.stores.approvals.load_approval(click.approval)
    choice = _find_dialog_choice(cards, approval, click) if approval else None
    if approval is None or choice is None:
        return None
    person = await cards.platform.directory.find_person(click.person)
    if person is None or not await _is_authorized(cards, approval, click):
        return None
    return render.render_dialog(approval, choice, person, click)


def _find_dialog_choice(cards: Cards, approval: Approval, click: Click) -> CardChoice | None:
    choice = render.find_choice(approval.proposal, click.choice)
    if choice is None or not choice.fields or (choice.edits and approval.tool not in cards.tools):
        return None
    return choice


async def check_dialog(cards: Cards, click: Click) -> dict[str, str]:
    """Return the problems of a submitted dialog (field → sentence). The platform waits for this answer, so for a person
    who is not known yet nothing is checked here. Their click is checked when it is handled, and answered in words."""
    approval = await cards.stores.approvals.load_approval(click.approval)
    known = cards.platform.directory.find_known_person(click.person)
    person = await cards.platform.directory.find_caller(click.person) if known else None
    choice = render.find_choice(approval.proposal, click.choice) if approval else None
    if approval is None or person is None or choice is None or approval.tool not in cards.tools:
        return {}  # the click itself is answered with words
    if not await _is_authorized(cards, approval, click):
        return {}  # the click answers a refused press: no lookups here
    if not choice.inputs:
        return {}  # this dialog asks for nothing
    click = click.with_form(read_form_answers(approval.proposal, choice, click))
    tool = cards.tools[approval.tool]
    context = ToolContext(cards.tool_services, person, cards.stores.clock.today(person.person.zone))
    try:
        if choice.edits and tool.prepare is not None:
            await propose_call(tool, context, edit_args(approval, click))
        elif tool.check is not None and tool.stored_args is not None:
            merged = merge_args(approval, choice, clean_form(click.form or {}))
            await tool.check(context, validate_args(tool.stored_args, merged))
    except ToolError as error:
        notes = [(one.field, one.note) for one in error.errors]
        # The tool reports only the first problem of a form. Of a request that is not started yet, all are listed.
        args = gather_form_answers(edit_args(approval, click))
        processes = {one.key: one for one in await cards.tool_services.engine.list_processes()}
        process, form = processes.get(args.get("process", "")), args.get("form")
        if process is not None and isinstance(form, dict):
            problems = await list_form_problems(context, process, clean_form(form))
            notes += [(FIELD_PREFIX + name, note) for name, note in problems]
        names, by_field = [field.name for field in choice.inputs], dict[str, list[str]]()
        for field, note in notes:  # a problem of no field goes to the first field
            sentence = render_value(note, person.person.language)
            by_field.setdefault(field if field in names else names[0], []).append(sentence)
        return {field: " ".join(dict.fromkeys(sentences)) for field, sentences in by_field.items()}
    return {}


async def _is_authorized(cards: Cards, approval: Approval, click: Click) -> bool:
    standing = await list_represented(cards, approval, click.person)
    now_ms = cards.stores.clock.now_ms()
    return not authorize_press(approval, click.person, click.choice, click.version, now_ms, standing, click.seal)
