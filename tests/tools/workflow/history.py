"""A history of requests in which everything has happened that a record can tell of."""

from datetime import timedelta

from tests.harness.memory_store import Store
from tests.tools.company import LONG, NOW, SHORT, SICK, TAXI
from tests.tools.office import decide, office, withdraw
from tools.workflow.engine.commands import CcCommand, CommentCommand, TransferCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.state import Decision, Delegation
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes

YES, NO = Decision.APPROVE, Decision.REJECT
LEAVE = load_shipped_processes()[0]


def other(process: Process) -> Process:
    """A version in which nobody needs a second level."""
    return compile_process(process.bpmn.replace(b"days &gt; 3}", b"days &gt; 30}"), process.toml)


def on(form: dict[str, str], first: str, last: str = "") -> dict[str, str]:
    """The same leave on other days of December 2026: one person's leaves do not overlap."""
    return {**form, "start_date": f"2026-12-{first}", "end_date": f"2026-12-{last or first}"}


async def lived(store: Store) -> EmbeddedEngine:
    """Six requests: two levels, a rule, a rejection and what followed, operations and a deputy, another version, and
    timers."""
    engine = office(store).engine
    await engine.start_request("leave", LONG, "U1", "a", NOW)
    await decide(engine, "L-0001-1", "U2", YES)
    await decide(engine, "L-0001-2", "U3", YES, "好好休息")
    await engine.start_request("leave", on(SHORT, "16"), "U1", "b", NOW)
    await engine.start_request("leave", on(SICK, "03", "04"), "U1", "c", NOW)
    await decide(engine, "L-0003-1", "U2", NO, "太忙")
    await decide(engine, "L-0003-2", "U1", Decision.RESUBMIT, form={"end_date": "2026-12-07"})
    await withdraw(engine, "L-0003", "U1", "算了")
    await engine.start_request("expense", {**TAXI, "amount": "5000"}, "U1", "d", NOW)
    await engine.execute_command(CommentCommand(request="E-0001", actor="U1", text="请尽快"), "e", NOW)
    await engine.execute_command(CcCommand(request="E-0001", actor="U1", people=("U5",)), "f", NOW)
    await engine.execute_command(TransferCommand(task="E-0001-1", actor="U2", person="U3", opinion="请看"), "g", NOW)
    away = Delegation(id="d1", person="U3", deputy="U5", start=NOW - timedelta(days=1), end=NOW + timedelta(days=1))
    await engine.add_delegation(away, NOW)
    await decide(engine, "E-0001-2", "U5", YES)
    await decide(engine, "E-0001-3", "U4", YES)
    await engine.start_request("leave", on(LONG, "07", "11"), "U1", "h", NOW)
    await engine.deploy_process(other(LEAVE))
    await engine.migrate_request("L-0004", other(LEAVE), "system:admin:root", "i", NOW)
    await decide(engine, "L-0004-1", "U2", YES)
    await engine.start_request("leave", on(SICK, "14", "15"), "U1", "j", NOW)
    for days in (4, 6):  # a word to 李四, then on to 王五
        await engine.run_due_jobs(NOW + timedelta(days=days))
    return engine
