"""One small change of one file."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Edit:
    """These characters of the text become others. `scope`: the function or class that it happens in; empty at the top
    of the file."""

    start: int
    end: int
    text: str
    scope: str


@dataclass(frozen=True, slots=True)
class Key:
    """What a mutant is recognised by in another version of the file: its content, never its line number. `number`:
    which one it is, where several in one function look the same."""

    path: str
    scope: str
    before: str
    after: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Mutant:
    """An edit of a file, with the lines it changes."""

    key: Key
    line: int
    edit: Edit

    def apply_to(self, source: str) -> str:
        return source[: self.edit.start] + self.edit.text + source[self.edit.end :]

    def __str__(self) -> str:
        key = self.key
        return f"{key.path}:{self.line}  {key.scope}\n    - {key.before}\n    + {key.after or '(nothing)'}"


def build_mutants(path: str, source: str, edits: Iterable[Edit]) -> Iterator[Mutant]:
    """The mutants of a file from top to bottom, none of them twice."""
    counts: Counter[Key] = Counter()
    for edit in sorted(set(edits), key=lambda one: (one.start, one.end, one.text)):
        first, last = source.rfind("\n", 0, edit.start) + 1, f"{source}\n".find("\n", edit.end)
        before, after = source[first:last], source[first : edit.start] + edit.text + source[edit.end : last]
        key = Key(path, edit.scope, " ".join(before.split()), " ".join(after.split()))
        yield Mutant(replace(key, number=counts[key]), source.count("\n", 0, edit.start) + 1, edit)
        counts[key] += 1
