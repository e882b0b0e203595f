"""Identities of persons for cards, so that the presser can check who is meant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tools.people.lookalikes import compute_looks
from tools.people.names import is_searchable_name, list_names_by_language
from tools.people.same_list import remember_by_list
from tools.ports import Directory
from tools.spec import Identities, Identity, Person, TextRef

Roll = tuple[tuple[str, tuple[str, ...]], ...]
"""Pairs of person id and names, for everybody."""


async def identify_people(directory: Directory, people: Iterable[str], note: TextRef | None = None) -> Identities:
    """The identities of the persons with these ids, under their current names. `note` is the sentence that names
    them."""
    owners = _map_looks_to_owners(_list_names(await directory.list_people()))
    found = [(id, await directory.find_person(id)) for id in dict.fromkeys(people)]
    return Identities(people=tuple(_identify_person(id, person, owners) for id, person in found), text=note)


def _identify_person(id: str, person: Person | None, owners: Mapping[str, frozenset[str]]) -> Identity:
    """Build a person's identity. A person who has left the directory has only an id."""
    if person is None:
        return Identity(id=id, name=id)
    names = (person.name, *person.names)
    return Identity(
        id=person.id,
        name=person.name,
        names={k: name for k, name in list_names_by_language(person).items() if name != person.name},
        email=person.email,
        is_name_shared=any(owners.get(look, frozenset()) - {id} for name in names for look in compute_looks(name)),
        is_name_misleading=not all(map(is_searchable_name, filter(None, names))),
        is_in_directory=person.is_in_directory,
    )


def _list_identifiers(person: Person) -> tuple[str, ...]:
    """A person's names and address. The address is included, so that a name that looks like another person's address
    counts as shared."""
    return tuple(filter(None, (person.name, *person.names, person.email)))


@remember_by_list
def _list_names(people: Sequence[Person]) -> Roll:
    return tuple((person.id, _list_identifiers(person)) for person in people if person.active)


@remember_by_list
def _map_looks_to_owners(roll: Roll) -> Mapping[str, frozenset[str]]:
    """Look of a name → ids of the persons with that name."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for id, names in roll:
        for name in names:
            for look in compute_looks(name):
                owners[look].add(id)
    return {look: frozenset(ids) for look, ids in owners.items()}
