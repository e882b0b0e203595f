"""Looking people up: the tool `list_people`."""

from __future__ import annotations

from pydantic import Field

from tools.advice import advice
from tools.names import find, find_all
from tools.paging import PAGE, page_of
from tools.spec import Frozen, Note, Outcome
from tools.tool import Tool, Use


class ListPeople(Frozen):
    name: str = Field("", max_length=100, description="Name, part of a name, id or mention; empty lists everybody.")
    page: int = Field(1, ge=1, description=f"Page of {PAGE} people.")


async def run_list_people(use: Use, args: ListPeople) -> Outcome:
    everyone = await use.desk.directory.everyone()
    found = find(everyone, args.name) if args.name.strip() else find_all(everyone)
    shown, more = page_of(found, args.page)
    people = [{"id": p.id, "name": p.name, "also": list(p.names), "title": p.title} for p in shown]
    return Outcome(data={"people": people, "more": more}, note=Note(key="result.people", params={"n": len(found)}))


LIST_PEOPLE = Tool(
    name="list_people",
    purpose="Look people up in the company directory.",
    use_when="A request, a mail or a question names a person and you need to know who that is.",
    avoid_when="You already have the person's id, or you want to guess who should approve: ask the caller that.",
    args=ListPeople,
    returns='{"people": [{"id", "name", "also": [other names], "title"}], "more": next page or null}. No match: [].',
    errors=advice(),
    example={"name": "李四"},
    run=run_list_people,
)
