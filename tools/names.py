"""Finding people by what others call them: one pure search for tools and forms."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from tools.ports import Directory
from tools.spec import Person, ToolError

MENTION = re.compile(r"^<@([A-Z0-9_]+)(?:\|[^>]*)?>$", re.IGNORECASE)
SHORTEST = 2
"""Letters that a part of a Latin name needs; one Chinese character is enough."""
CANDIDATES = 8


def find(people: Iterable[Person], text: str) -> tuple[Person, ...]:
    """Everybody active whom `text` may mean: by id, mention or e-mail; else by a whole name; else by the
    beginning of one; else by a part. Case and spaces do not count."""
    active = find_all(people)
    mention = MENTION.match(text.strip())
    exact = mention[1] if mention else text.strip()
    if by_id := tuple(p for p in active if p.id == exact):
        return by_id
    wanted = folded(text)
    if not wanted or mention:
        return ()
    tests: list[Callable[[str], bool]] = [lambda name: name == wanted]
    if len(wanted) >= SHORTEST or not wanted.isascii():
        tests += [lambda name: name.startswith(wanted), lambda name: wanted in name]
    for test in tests:
        if found := tuple(p for p in active if any(test(name) for name in _names(p))):
            return found
    return tuple(p for p in active if p.email and p.email.casefold() == exact.casefold())


def find_all(people: Iterable[Person]) -> tuple[Person, ...]:
    """Everybody active, by name."""
    return tuple(sorted((p for p in people if p.active), key=lambda p: (p.name, p.id)))


def the_one(people: Sequence[Person], text: str, *, field: str = "") -> Person:
    """The one person `text` means. Raises `ToolError`: `unknown_person` or `ambiguous_person`."""
    found = find(people, text)
    if len(found) == 1:
        return found[0]
    short = text.strip()[:60]
    if not found:
        raise ToolError(
            "unknown_person",
            f"nobody in the directory is called {short!r}; use list_people, or ask who is meant",
            ask=True,
            field=field,
            name=short,
        )
    raise ToolError(
        "ambiguous_person",
        f"{short!r} may be any of: {_candidates(found)}. Ask which one is meant, then use the id",
        ask=True,
        field=field,
        name=short,
        candidates=", ".join(described(p) for p in found[:CANDIDATES]),
    )


def described(person: Person) -> str:
    """`李四 (Li Si, team lead)`: enough to tell namesakes apart."""
    more = [n for n in (*person.names[:1], person.title) if n and n != person.name]
    return f"{person.name} ({', '.join(more)})" if more else person.name


def dense(text: str) -> str:
    """Without full-width forms and spaces."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def folded(text: str) -> str:
    """For comparing names and words: full-width forms, case and spaces do not count."""
    return dense(text).casefold()


def _names(person: Person) -> tuple[str, ...]:
    return tuple(folded(n) for n in (person.name, *person.names) if n)


def _candidates(found: Sequence[Person]) -> str:
    listed = "; ".join(f"{described(p)} = {p.id}" for p in found[:CANDIDATES])
    return listed if len(found) <= CANDIDATES else f"{listed}; and {len(found) - CANDIDATES} more"


async def name_of(directory: Directory, person: str) -> str:
    """The name people use, or the id of somebody who has left the directory."""
    found = await directory.get(person)
    return found.name if found else person


def standing_in(by: str, other: str) -> dict[str, str]:
    """Who acts, and for whom."""
    return {"zh": f"{by}（代{other}）", "en": f"{by} for {other}"}


async def names_of(directory: Directory, people: Iterable[str]) -> dict[str, str]:
    return listed([await name_of(directory, person) for person in people])


def listed(names: Iterable[str]) -> dict[str, str]:
    """Several names in a row, for readers of both languages."""
    names = tuple(names)
    return {"zh": "、".join(names), "en": ", ".join(names)}


async def language_of(directory: Directory, person: str) -> str:
    """The language to speak with somebody; English with somebody who has left the directory."""
    found = await directory.get(person)
    return found.language if found else "en"
