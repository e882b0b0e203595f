"""What the invariants are played with: the shipped processes, and drawn ones."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.tools.office import LONG, PEOPLE, SHORT, SICK, TAXI, filled
from tests.tools.workflow.flows import AMOUNTS, AUTHOR, CROWD, flows
from tools.workflow.bpmn.graph import ProcessDefinition
from tools.workflow.engine.state import FilledForm
from tools.workflow.process.definition import load_shipped_processes

LEAVE, EXPENSE = load_shipped_processes()
STRANGERS = ("S1", "S2")


@dataclass(frozen=True, repr=False)
class Case:
    """A process, who asks, whom else there is, and the forms they may hand in."""

    definition: ProcessDefinition
    author: str
    crowd: tuple[str, ...]
    forms: tuple[FilledForm, ...]

    def __repr__(self) -> str:
        """What a failing example is told with."""
        nodes = self.definition.nodes.values()
        ways = "; ".join(f"{n.id}[{n.mode}] → {', '.join(r.to for r in n.routes)}" for n in nodes if n.routes)
        return f"<{ways}; {[(f.people, dict(f.numbers)) for f in self.forms]}>"


def of_file() -> st.SearchStrategy[Case]:
    author, crowd = PEOPLE[0], tuple(p.id for p in PEOPLE[1:])
    leaves = tuple(filled(LEAVE, {**SICK, **form}, author) for form in (SICK, LONG, SHORT, {"end_half": "am"}))
    costs = tuple(filled(EXPENSE, {**TAXI, "amount": amount}, author) for amount in ("86", "5000"))
    cases = [Case(LEAVE.definition, author.id, crowd, leaves), Case(EXPENSE.definition, author.id, crowd, costs)]
    return st.sampled_from(cases)


def of_nobody() -> st.SearchStrategy[Case]:
    return st.builds(
        lambda flow, first: Case(
            flow.definition, AUTHOR, (*CROWD, *STRANGERS), tuple(flow.filled(a, first) for a in AMOUNTS)
        ),
        flows(),
        st.integers(0, len(CROWD) - 1),
    )
