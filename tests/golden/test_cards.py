"""Cards: what each asks for, for each of its readers, with the dialogs behind its buttons; and how they end."""

import re
from datetime import timedelta
from typing import Any, cast

from bot.approvals.render import render_card, render_dialog, render_moved_card
from bot.chat.messages import Click, MessageRef, Place
from bot.core.records import Approval, ApprovalState, EffectState, compute_seal
from tests.golden.golden_files import compare_sections
from tests.golden.rendering import describe_dialog, describe_post
from tools.catalog import TOOLS
from tools.effect_parts import PartState
from tools.mcp.tool_adapter import McpTool, build_mcp_tool
from tools.people.names import get_names_by_language
from tools.spec import Gate, Person, Proposal, TextRef
from tools.workflow.engine.state import Decision, Delegation

from tests.tools.office import LI, LIN, LONG, NOW, SHORT, SICK, TAXI, WANG, ZHANG, ZHAO, Office, decide, office  # isort: skip

LANGUAGES = {"zh": "zh-CN", "en": "en-US"}
MADE_MS = int(NOW.timestamp() * 1000)
OPEN_MS = int(timedelta(hours=72).total_seconds() * 1000)
ANNUAL = {**SICK, "leave_type": "annual", "reason": "去看父母\nsee *my* parents"}
PRESS = Click(
    id="c", approval="A", version=1, choice="", person=LI.id, place=Place(team="T1", channel="DU2", direct=True),
    card=MessageRef(channel="DU2", ts="1.0"),
)  # fmt: skip
GATES = {tool.name: tool.gate for tool in TOOLS if tool.gate is not Gate.NONE}

Sections = dict[str, list[str]]


def make_approval(tool: str, plan: Proposal, caller: Person | None, **changes: Any) -> Approval:
    approval = Approval(
        id="A", version=1, tool=tool, gate=GATES.get(tool, Gate.CONFIRM), proposal=plan, seal=compute_seal(tool, plan),
        caller=caller.id if caller else "", place=None, created_ms=MADE_MS, expires_ms=MADE_MS + OPEN_MS,
    )  # fmt: skip
    return approval.model_copy(update=changes)


async def describe_approval(desk: Office, approval: Approval, reader: Person) -> list[str]:
    """The card as this reader has it, and the dialogs behind its buttons."""
    ids = {*approval.proposal.deciders, approval.decided_by, approval.proposal.requester or "", approval.caller} - {""}
    names = {one: await get_names_by_language(desk.people, one) for one in ids}
    post = render_card(approval, reader, names)
    lines, shown = [*describe_post(post)], {one.choice for one in post.card.buttons}
    for choice in approval.proposal.choices:
        if choice.name in shown and choice.fields:
            lines += ["", *describe_dialog(render_dialog(approval, choice, reader, PRESS))]
    return lines


async def describe_readers(desk: Office, title: str, approval: Approval, *readers: Person) -> Sections:
    """A section for each reader in zh and in en; the seal in the first of them."""
    found: Sections = {}
    for reader in readers:
        for language, locale in LANGUAGES.items():
            theirs = reader.model_copy(update={"locale": locale, "timezone": "Asia/Shanghai"})
            lines = await describe_approval(desk, approval, theirs)
            found[f"{title}, {reader.names[0]} reads it in {language}"] = lines
    [first, *_] = found.values()
    first.append(f"seal     {approval.seal}")
    return found


async def propose(desk: Office, title: str, person: Person, tool: str, /, **args: Any) -> Sections:
    """The card of a call that somebody confirms."""
    assert GATES[tool] is Gate.CONFIRM
    approval = make_approval(tool, await desk.plan(person, tool, **args), person)
    return await describe_readers(desk, title, approval, person)


async def describe_task(desk: Office, title: str, task: str, *readers: Person) -> Sections:
    return await describe_readers(desk, title, make_approval("decide_task", await desk.card(task), None), *readers)


async def start_in_order(desk: Office, *forms: tuple[str, dict[str, str]]) -> None:
    """Requests of Zhang San."""
    for n, (process, form) in enumerate(forms):
        await desk.engine.start_request(process, form, ZHANG.id, f"s{n}", desk.now)


async def test_a_request_that_its_author_confirms() -> None:
    desk = office()
    found = await propose(desk, "leave", ZHANG, "start_process", process="leave", form=ANNUAL)
    found |= await propose(desk, "a leave that passes by rule", ZHANG, "start_process", process="leave", form=SHORT)
    found |= await propose(desk, "expense", ZHANG, "start_process", process="expense", form=TAXI)
    await start_in_order(desk, ("expense", TAXI))
    found |= await propose(desk, "the same expense again", ZHANG, "start_process", process="expense", form=TAXI)
    compare_sections("cards/start_process.txt", found)


async def test_a_task_that_its_approver_decides() -> None:
    desk = office()
    large = {**TAXI, "amount": "1500", "category": "travel"}
    later = {**LONG, "start_date": "2026-11-30", "end_date": "2026-12-04"}
    await start_in_order(desk, ("leave", ANNUAL), ("leave", later), ("expense", large))
    found = await describe_task(desk, "leave", "L-0001-1", LI, ZHANG, LIN)
    await decide(desk.engine, "L-0002-1", LI.id, Decision.APPROVE, "早日康复")
    found |= await describe_task(desk, "leave, second level", "L-0002-2", WANG)
    await decide(desk.engine, "E-0001-1", LI.id, Decision.APPROVE)
    found |= await describe_task(desk, "expense, finance", "E-0001-2", ZHAO)
    compare_sections("cards/decide_task.txt", found)


async def test_a_task_that_is_passed_on() -> None:
    desk, task = office(), {"task_id": "E-0001-1", "opinion": "请看"}
    await start_in_order(desk, ("expense", TAXI))
    found = await propose(desk, "transfer_task", LI, "transfer_task", **{**task, "opinion": "出差"}, person="U5")
    found |= await propose(desk, "add_sign", LI, "add_sign", **task, people=["U5", "U3"], where="before")
    found |= await propose(desk, "urge_task", ZHANG, "urge_task", task_id="E-0001")
    compare_sections("cards/tasks.txt", found)


async def test_what_becomes_of_a_request() -> None:
    desk, first = office(), {"request_id": "E-0001"}
    await start_in_order(desk, ("expense", TAXI), ("expense", {**TAXI, "amount": "90"}))
    await decide(desk.engine, "E-0002-1", LI.id, Decision.REJECT, "缺发票")
    again = {"request_id": "E-0002", "form": {"amount": "95.5"}}
    found = await propose(desk, "resubmit_request", ZHANG, "resubmit_request", **again)
    found |= await describe_task(desk, "a revision that the engine brings", "E-0002-2", ZHANG)
    found |= await propose(desk, "withdraw_request", ZHANG, "withdraw_request", **first, because="不去了")
    found |= await propose(desk, "comment_request", LI, "comment_request", **first, text="请补发票")
    found |= await propose(desk, "cc_request", ZHANG, "cc_request", **first, people=["U5"])
    compare_sections("cards/requests.txt", found)


async def test_an_absence() -> None:
    desk = office()
    away = {"first_day": "2026-11-23", "last_day": "2026-11-27"}
    found = await propose(desk, "set_absence", LI, "set_absence", deputy="U5", **away)
    stand_in = Delegation(id="D1", person=LI.id, deputy=LIN.id, start=NOW, end=NOW + timedelta(days=7))
    await desk.engine.add_delegation(stand_in, NOW)
    found |= await propose(desk, "end_absence", LI, "end_absence", absence_id="D1")
    compare_sections("cards/absences.txt", found)


async def test_an_email() -> None:
    desk = office()
    twin = LI.model_copy(update={"id": "U9", "email": "lisi2@example.com", "is_in_directory": False})
    desk.people.known.append(twin)
    text, several = "李四你好：\n请看 *进度*。 <@U3>", "several, one of them a namesake"
    found = await propose(desk, "one", ZHANG, "send_email", to="U3", subject="项目进度", body=text)
    found |= await propose(desk, several, ZHANG, "send_email", to="U2, U3", subject="聚餐", body="周五")
    compare_sections("cards/send_email.txt", found)


async def test_a_call_of_a_servers_tool() -> None:
    listed = McpTool(
        server="crm", name="write", description="Writes.", schema={"type": "object", "properties": {}},
        is_read_only=False, gate=Gate.CONFIRM, mark="mark",
    )  # fmt: skip
    tool, desk = build_mcp_tool(listed, cast(Any, None), cast(Any, None)), office()
    assert tool.prepare is not None
    found: Sections = {}
    for title, args in {
        "short": {"title": "WLAN", "tags": ["a", 1, None], "to": {"room": "郁金香"}},
        "too long for a card": {"title": "WLAN", "text": "x" * 9_000},
    }.items():
        plan = await tool.prepare(desk.use(ZHANG), tool.args.model_validate(args))
        shown = await describe_readers(desk, title, make_approval(tool.name, plan, ZHANG), ZHANG)
        for one, lines in shown.items():
            found[one] = [re.sub("x{99,}", lambda x: f"<x, {len(x[0])} times>", line) for line in lines]
    compare_sections("cards/server_tool.txt", found)


def list_ends() -> dict[str, dict[str, Any]]:
    """Every way in which a card ends or stands, as what is stored then."""
    decided = {"state": ApprovalState.DECIDED, "decided_by": LI.id, "decided_ms": MADE_MS, "choice": "approve"}
    done, failed = {**decided, "effect": EffectState.DONE}, {**decided, "effect": EffectState.FAILED}
    cancelled = {**decided, "state": ApprovalState.CANCELLED}
    return {
        "just pressed": decided,
        "being done": {**decided, "effect": EffectState.STARTED},
        "rejected, with a remark": {**done, "choice": "reject", "form": {"opinion": "缺\n发票"}},
        "decided by a deputy": {**done, "decided_by": LIN.id, "removed_characters": 2},
        "failed": {**failed, "failure": TextRef(key="error.busy")},
        "failed for good": {**failed, "failure": TextRef(key="error.request_changed")},
        "unknown": {**decided, "effect": EffectState.UNKNOWN},
        "expired": {"state": ApprovalState.EXPIRED, "decided_ms": MADE_MS + OPEN_MS},
        "cancelled": {**cancelled, "choice": "cancel"},
        "stopped": {**cancelled, "choice": "stopped"},
        "ended elsewhere": {
            **decided, "state": ApprovalState.CLOSED, "decided_by": ZHANG.id, "choice": "withdrawn",
        },
    }  # fmt: skip


async def test_how_a_card_ends() -> None:
    desk, found = office(), Sections()
    await start_in_order(desk, ("expense", TAXI))
    card = make_approval("decide_task", await desk.card("E-0001-1"), None)
    for title, changes in list_ends().items():
        readers = (LI, ZHANG) if title in ("expired", "unknown") else (LI,)
        found |= await describe_readers(desk, title, card.model_copy(update=changes), *readers)
    for language, locale in LANGUAGES.items():
        reader = LI.model_copy(update={"locale": locale})
        title = f"replaced by a newer copy, Li Si reads it in {language}"
        found[title] = [*describe_post(render_moved_card(card, reader))]
    mail = await desk.plan(ZHANG, "send_email", to="U2, U3, U5", subject="聚餐", body="周五")
    parts = {"U2": PartState.DONE, "U3": PartState.BEGUN, "U5": PartState.REFUSED}
    sent = make_approval(
        "send_email", mail, ZHANG, state=ApprovalState.DECIDED, decided_by=ZHANG.id, decided_ms=MADE_MS, choice="send",
        effect=EffectState.UNKNOWN, parts=parts,
    )  # fmt: skip
    found |= await describe_readers(desk, "a mail of which some parts are known", sent, ZHANG)
    unsealed = {title: [one for one in lines if not one.startswith("seal")] for title, lines in found.items()}
    compare_sections("cards/states.txt", unsealed)


async def test_the_control_every_gated_tool_has_a_card() -> None:
    shown = {
        "start_process", "decide_task", "transfer_task", "add_sign", "urge_task", "comment_request", "cc_request",
        "resubmit_request", "withdraw_request", "set_absence", "end_absence", "send_email",
    }  # fmt: skip
    assert set(GATES) == shown, "a new tool with a gate needs its card here"
