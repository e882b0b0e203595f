"""Resolves persons: the only resolver for tools and forms.

A text is tried in this order: as a person's exact id or mention; as a person's exact e-mail address, if it has an `@`;
as a person's name. People choose their own names, so a name is never an identity. A name resolves only if nobody else
can be meant by it; everybody with a lookalike name can be meant (`tools.people.lookalikes`)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tools.characters import has_invisible, show_invisible
from tools.people.lookalikes import compute_looks, compute_skeleton, is_lookalike, remove_hidden, split_skeleton
from tools.platform_ids import MENTION, PERSON_ID
from tools.ports import Directory
from tools.spec import Person, ToolError

MIN_PART_LENGTH = 2
"""Fewest letters in a part of a Latin name; one Chinese character is enough."""
_ENGLISH_NAME = re.compile(r"[A-ZÀ-ÖØ-Þ][A-Za-zÀ-ÖØ-öø-ɏ .'’-]{1,79}")
_CHINESE_NAME = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff·]{2,20}")
PERSON = "id"
"""Key of the person's id, beside their names by language, for the platform's own mention."""
CANDIDATES = 8
SHOWN_LENGTH = 60
"""Most characters shown of a name, a department or an address."""


@dataclass(frozen=True, slots=True)
class PersonMatches:
    """Everybody whom a text may mean, and whether the match is certain."""

    people: tuple[Person, ...] = ()
    is_certain: bool = False
    """Whether there is exactly one person, and nobody else can be meant."""


def find_people(people: Iterable[Person], text: str) -> PersonMatches:
    """All active people whom `text` may mean: by exact id, mention or e-mail address; else by a name or the start of a
    word in one; else by a part. Case, spaces and full-width forms do not count."""
    active = list_active_people(people)
    normalized = " ".join(unicodedata.normalize("NFKC", remove_hidden(text)).split())
    mention = MENTION.fullmatch(normalized)
    exact = mention[1] if mention else normalized
    if by_id := tuple(p for p in active if p.id in (exact, text.strip())):
        return PersonMatches(by_id, len(by_id) == 1)
    if "@" in normalized:
        by_email = tuple(p for p in active if p.email and _fold_address(p.email) == _fold_address(normalized))
        return PersonMatches(by_email, len(by_email) == 1)
    part, looks = compute_skeleton(normalized), compute_looks(normalized)
    if not looks:
        return PersonMatches()
    whole = [p for p in active if any(not looks.isdisjoint(compute_looks(name)) for name in _list_own_names(p))]
    is_long = len(normalized) >= MIN_PART_LENGTH or not normalized.isascii()
    words = [
        p
        for p in active
        if any(
            part in compute_skeleton(name) and split_skeleton(name).has_word(part) for name in _list_searchable_names(p)
        )
    ]
    matches = list(dict.fromkeys((*whole, *(words if whole or is_long else ()))))
    if not matches and is_long:
        matches = [p for p in active if any(_name_has_part(name, part) for name in _list_searchable_names(p))]
    if len(matches) != 1:
        return PersonMatches(tuple(matches))
    [only] = matches
    by = [
        name
        for name in _list_searchable_names(only)
        if _name_has_part(name, part) or not looks.isdisjoint(compute_looks(name))
    ]
    twins = [
        p for p in active if p != only and any(is_lookalike(name, other) for other in _list_own_names(p) for name in by)
    ]
    return PersonMatches((only, *twins), bool(by) and not twins)


def list_active_people(people: Iterable[Person]) -> tuple[Person, ...]:
    """All active people, by name."""
    return tuple(sorted((p for p in people if p.active), key=lambda p: (p.name, p.id)))


def resolve_person(people: Sequence[Person], text: str, *, field: str = "") -> Person:
    """The one person whom `text` means. Raises `ToolError`: `unknown_person` or `ambiguous_person`."""
    matches = find_people(people, text)
    if matches.is_certain:
        return matches.people[0]
    short = show_invisible(text.strip())[:SHOWN_LENGTH]
    if not matches.people:
        raise ToolError(
            "unknown_person",
            f"nobody in the directory is called {short!r}; use list_people, or ask who is meant",
            needs_person=True,
            field=field,
            name=short,
        )
    several = {language: _format_candidates(matches.people, people, language) for language in ("zh", "en")}
    raise ToolError(
        "ambiguous_person",
        f"{short!r} may be any of: {_format_candidates(matches.people, people)}. Ask which one is "
        "meant, showing these addresses and departments, then use the id",
        needs_person=True,
        field=field,
        people=tuple(one.id for one in matches.people[:CANDIDATES]),
        name=short,
        candidates=several,
    )


async def load_person(directory: Directory, id: str, *, field: str = "") -> Person:
    """The active person with exactly this id. A person who was resolved and shown before is never resolved again by
    name. Raises `ToolError`: `unknown_person`."""
    person = await directory.find_person(id)
    if person is None or not person.active:
        message = f"the person {id[:SHOWN_LENGTH]!r} is not in the directory any more; look them up again"
        raise ToolError("unknown_person", message, needs_person=True, field=field, name=id[:SHOWN_LENGTH])
    return person


def is_searchable_name(name: str) -> bool:
    """Whether a name may be used to find its person: it imitates neither an address nor an id, and has no invisible
    characters."""
    plain = unicodedata.normalize("NFKC", name)
    return not ("@" in plain or has_invisible(name) or PERSON_ID.fullmatch(remove_hidden(plain)))


def describe_person(person: Person, people: Iterable[Person], language: str) -> str:
    """A person with their details: `“李四” (lisi@example.com, Engineering, manager “王五”)`. The person chooses only
    the name, which cannot imitate the rest. The text tells if the company's directory file lacks them. For a model,
    which may speak any language (`language` is empty), people have their names in both scripts."""
    manager = next((p for p in people if p.id == person.manager), None)
    zh = language == "zh"
    facts = [person.email, person.department]
    facts += [f"{'上级' if zh else 'manager '}{_quote_person_name(manager, language)}"] if manager else []
    facts += ["不在公司通讯录里" if zh else "not in the company directory"] if person.is_in_directory is False else []
    details = [show_invisible(fact)[: 2 * SHOWN_LENGTH] for fact in facts if fact]
    name = _quote_person_name(person, language)
    if not details:
        return name
    return f"{name}（{'，'.join(details)}）" if zh else f"{name} ({', '.join(details)})"


def remove_spaces(text: str) -> str:
    """The text in ordinary width, without spaces."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def fold_text(text: str) -> str:
    """The text folded for comparison: full-width forms, case and spaces do not count."""
    return remove_spaces(text).casefold()


def _name_has_part(name: str, part: str) -> bool:
    return part in compute_skeleton(name) and split_skeleton(name).has_part(part)


def _list_own_names(person: Person) -> Iterator[str]:
    return (name for name in (person.name, *person.names) if name)


def _list_searchable_names(person: Person) -> Iterator[str]:
    return filter(is_searchable_name, _list_own_names(person))


def _fold_address(address: str) -> str:
    return unicodedata.normalize("NFKC", address.strip()).casefold()


def _quote_person_name(person: Person, language: str) -> str:
    """A name on one line, in quotation marks that the name itself does not have."""
    names = [choose_name(person, language)] if language else dict.fromkeys(list_names_by_language(person).values())
    plain = ["".join(sign for sign in " ".join(show_invisible(one).split()) if sign not in '“”「」"') for one in names]
    return " / ".join(f"「{one[:SHOWN_LENGTH]}」" if language == "zh" else f"“{one[:SHOWN_LENGTH]}”" for one in plain)


def _format_candidates(found: Sequence[Person], people: Sequence[Person], language: str = "") -> str:
    """The people whom a text may mean, for readers of a language; with their ids for a model."""
    shown = [describe_person(p, people, language) + ("" if language else f" = {p.id}") for p in found[:CANDIDATES]]
    listed = ("；" if language == "zh" else "; ").join(shown)
    if (more := len(found) - CANDIDATES) <= 0:
        return listed
    return f"{listed}；另有 {more} 人" if language == "zh" else f"{listed}; and {more} more"


async def get_person_name(directory: Directory, person: str, language: str) -> str:
    """A person's name for readers of a language; the id of a person who has left the directory."""
    found = await directory.find_person(person)
    return choose_name(found, language) if found else person


def choose_name(person: Person, language: str) -> str:
    """A person's name for readers of this language: the first one in its script, which is Chinese characters, or Latin
    letters with a capital (handles have none). Without such a name, the name people use."""
    pattern = _CHINESE_NAME if language == "zh" else _ENGLISH_NAME
    names = (name for name in (person.name, *person.names) if is_searchable_name(name))
    return next(filter(pattern.fullmatch, names), person.name)


def list_names_by_language(person: Person) -> dict[str, str]:
    return {language: choose_name(person, language) for language in ("zh", "en")}


async def get_names_by_language(directory: Directory, person: str) -> dict[str, str]:
    """The names by language of the person with this id; the id itself for a person who has left the directory."""
    found = await directory.find_person(person)
    return list_names_by_language(found) if found else {"zh": person, "en": person}


def format_stand_in(by: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """The person who acted and the person they stood in for, by language."""
    return {"zh": f"{by['zh']}（代{other['zh']}）", "en": f"{by['en']} for {other['en']}"}


async def format_people_names(directory: Directory, people: Iterable[str]) -> dict[str, str]:
    return join_in_both_languages([await get_names_by_language(directory, person) for person in people])


def join_in_both_languages(names: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Several names joined, by language."""
    names = tuple(names)
    return {"zh": "、".join(one["zh"] for one in names), "en": ", ".join(one["en"] for one in names)}


async def get_person_language(directory: Directory, person: str) -> str:
    """A person's language; English if they have left the directory."""
    found = await directory.find_person(person)
    return found.language if found else "en"
