"""The tool `list_people`, which searches the directory."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tools.characters import show_invisible
from tools.error_advice import select_advice
from tools.people.names import choose_name, find_people, fold_text, list_active_people, resolve_person
from tools.spec import Privacy, TextRef, ToolOutcome
from tools.tool import PAGE, Tool, ToolArgs, ToolContext, slice_page

MAX_DEPARTMENTS = 50
"""Most department names in the answer to an unknown department."""


class ListPeopleArgs(ToolArgs):
    person: str = Field("", max_length=100, description="Name or part of it, address or id; empty: everybody.")
    department: str = Field("", max_length=60, description="Only of this department or role.")
    manager: str = Field("", max_length=100, description="Only whose manager this is.")
    page: int = Field(1, ge=1, description=f"Of {PAGE} each.")


async def run_list_people(context: ToolContext, args: ListPeopleArgs) -> ToolOutcome:
    """List people. Texts by the person (`name`, `also`, `own_title`) stand apart from the data of the company or the
    platform."""
    everyone = await context.services.directory.list_people()
    people = find_people(everyone, args.person).people if args.person.strip() else list_active_people(everyone)
    if args.manager.strip():
        head = resolve_person(everyone, args.manager, field="manager")
        people = tuple(person for person in people if person.manager == head.id)
    department = fold_text(args.department)
    if department:
        people = tuple(p for p in people if department in {fold_text(one) for one in (p.department, *p.roles) if one})
    shown, more = slice_page(people, args.page)
    known, entries, language = {p.id: p for p in everyone}, list[dict[str, Any]](), context.caller.person.language
    for person in shown:
        manager = known.get(person.manager or "")
        details = {
            "title" if person.is_title_official else "own_title": person.title,
            "email": person.email,
            "department": person.department,
            "manager": choose_name(manager, language) if manager else "",
        }
        unlisted = {"in_company_directory": False} if person.is_in_directory is False else {}
        name = choose_name(person, language)
        also = [show_invisible(one) for one in dict.fromkeys((person.name, *person.names)) if one != name]
        names = {"id": person.id, "name": show_invisible(name), "also": also}
        entries.append({**names, **{name: value for name, value in details.items() if value}, **unlisted})
    data: dict[str, Any] = {"people": entries, "more": more}
    if not people and department:
        data["departments"] = sorted({p.department for p in list_active_people(everyone) if p.department})[
            :MAX_DEPARTMENTS
        ]
    return ToolOutcome(data=data, summary=TextRef(key="result.people", params={"n": len(people)}))


LIST_PEOPLE = Tool(
    name="list_people",
    purpose="Look people up in the directory: id, title, address, department, manager.",
    use_when="You need to know who is meant, who is in a department or has a role, or whose manager somebody is.",
    avoid_when="You know the id, or want to guess an approver.",
    args=ListPeopleArgs,
    returns='{"people": [{"id", "name", "also": [other names], "title"?, "own_title"?: they say so themselves, '
    '"email"?, "department"?, "manager"?, "in_company_directory"?: false}], "more": next page or null}. No match: [], '
    'and with a department "departments": those there are.',
    errors=select_advice("unknown_person", "ambiguous_person"),
    example={"person": "李四"},
    run=run_list_people,
    privacy=Privacy.PUBLIC,
)
