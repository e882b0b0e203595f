"""Describes who approves what, in words for the model, from the policy rows of the forms and of the policy file. The
text is guidance only: the engine works out who decides a request, and the card shows that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tools.workflow.process.forms import Form
from tools.workflow.process.policy import PeopleSelector, PolicyRow

MAX_LENGTH = 3_000
"""Longest text, in characters. If rows are left out, the text says so."""


def describe_policies(forms: Iterable[Form], rows: Sequence[PolicyRow] = ()) -> str:
    """Describe the policy rows in one line each. `rows` are those of the policy file and come first. Return an empty
    text if no row says anything."""
    lines = list[str]()
    for form in forms:
        labels = {one.name: one.label.en for one in form.fields} | {one.name: one.label.en for one in form.levels}
        for row in (*(one for one in rows if one.process == form.key), *form.policy):
            case = [labels.get(row.level, row.level)]
            case += [f"for {row.department}"] if row.department else []
            case += [f"if {row.when}"] if row.when else []
            who = ", else ".join(map(_describe_selector, row.who))
            choice = "; the author may choose somebody else, who is then flagged" if row.others == "flagged" else ""
            lines.append(f"- {form.key}, {' '.join(case)}: {who}{choice}")
    shown_lines = list[str]()
    for line in lines:
        if sum(map(len, shown_lines)) + len(line) > MAX_LENGTH:
            return "\n".join([*shown_lines, "- (there are more rows than fit here)"])
        shown_lines.append(line)
    return "\n".join(shown_lines)


def _describe_selector(selector: PeopleSelector) -> str:
    match selector.kind:
        case "manager":
            return f"the manager of {_describe_selector(selector.of)}" if selector.of else "the author's manager"
        case "role":
            return f"who has the role {selector.name}"
        case "person":
            return selector.name
        case "field":
            return f"whoever {selector.name} names"
