"""Identities of persons for cards, so that the presser can check who is meant.

The looks of all names are compared. A directory returns the same tuple of people until somebody has changed, so the
looks are computed once per tuple and not for each card."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

from tools.people.lookalikes import compute_looks
from tools.people.names import is_searchable_name, list_names_by_language
from tools.ports import Directory
from tools.spec import Identities, Identity, Person, TextRef

T = TypeVar("T")
S = TypeVar("S", bound=Sequence[Any])


def remember_by_list(make: Callable[[S], T]) -> Callable[[S], T]:
    """Wrap a function so that it is not called again for the tuple it was last called with. Nothing is cached for other
    sequences, which may change. If the value for another tuple equals the last value, the last object is returned
    again, so that values computed from it are cached too."""
    latest: list[tuple[S, T]] = []

    @wraps(make)
    def remembered(people: S) -> T:
        for known, value in latest:
            if known is people:
                return value
        value = make(people)
        if latest and latest[0][1] == value:
            value = latest[0][1]
        latest[:] = [(people, value)] if isinstance(people, tuple) else []
        return value

    return remembered


Roll = tuple[tuple[str, tuple[str, ...]], ...]
"""Pairs of person id and names, for everybody."""


async def identify_people(directory: Directory, people: Iterable[str], note: TextRef | None = None) -> Identities:
    """The identities of the persons with these ids, under their current names. A person who has left the directory has
    only an id. `note` is the sentence that names them."""
    owners, identities = _map_looks_to_owners(_list_names(await directory.list_people())), list[Identity]()
    for id in dict.fromkeys(people):
        person = await directory.find_person(id)
        if person is None:
            identities.append(Identity(id=id, name=id))
            continue
        names = (person.name, *person.names)
        identities.append(
            Identity(
                id=person.id,
                name=person.name,
                names={k: name for k, name in list_names_by_language(person).items() if name != person.name},
                email=person.email,
                is_name_shared=any(owners.get(look, frozenset()) - {id} for n in names for look in compute_looks(n)),
                is_name_misleading=not all(map(is_searchable_name, filter(None, names))),
                is_in_directory=person.is_in_directory,
            )
        )
    return Identities(people=tuple(identities), text=note)


@remember_by_list
def _list_names(people: Sequence[Person]) -> Roll:
    """The names and addresses of all active people. A name that looks like another person's address counts as shared
    too."""
    return tuple((p.id, tuple(filter(None, (p.name, *p.names, p.email)))) for p in people if p.active)


@remember_by_list
def _map_looks_to_owners(roll: Roll) -> Mapping[str, frozenset[str]]:
    """Look of a name → ids of the persons with that name."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for id, names in roll:
        for name in names:
            for look in compute_looks(name):
                owners[look].add(id)
    return {look: frozenset(ids) for look, ids in owners.items()}
