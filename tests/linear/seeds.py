"""Texts made to be slow for a pattern: what it looks for, many times over, and then something that does not fit.

A backtracking matcher is slow where the same characters can be read in more than one way, or where it begins again at
every character and reads far each time. So the pieces of a pattern are written out as examples, and a text is one
example (or the beginning of one) repeated up to its length, after what has to stand before it and before what cannot
stand there.
"""

import random
import re
import sys
from collections.abc import Iterator, Sequence

if sys.version_info >= (3, 13):
    from re import _constants as constants
    from re import _parser as parser
else:
    from re import _constants as constants  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]

# fmt: off
COMMON = (
    " ", "\n", "\t", " \n", "_", "*", "`", "```", "~~~", "[",
    "]", "{", "}", "(", ")", "<", ">", "<@", "<@U1", "<!", "&lt;",
    '"', "'", "\\", '\\"', "\\u0041", "0", "1,", "1.", "12:34", "-",
    "+", "=", "a", "a.", "a@", "@a", "a@a.", "a:", "a: ", "A-1",
    "ab ", "x_", "_x_", "张", "张，", "年", "1月", "。", "，", "http://", "https://a", "xoxb-",
    "sk-", "://a:", "password=",
    "- ", "# ", "/*", "//", "<think>", "</think>",
    "<message>",
    "Action:", "Action: ", "Observation:",
    "\u200b", "😀", "\ud800", "é",
)
# fmt: on
"""Short texts that people, models and logs write, and that patterns care about."""
ENDS = ("", "\x00", "!", "\n\x00")
ALPHABET = "a A0_-.:;,/+@#<>()[]{}\"'`*~\\|=&%$?!\n\t é张。，：年一元\u200b"
MANY = 3
"""How often a repeated part is written out in an example."""


def make_seeds(pattern: re.Pattern[str], most: int = 60) -> list[tuple[str, str]]:
    """(head, unit) pairs: a text is the head once and the unit over and over. The same for every run."""
    chance = random.Random(repr(pattern.pattern))
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    runs = [(head, unit) for head, unit in _runs(tree, chance) if unit]
    units = [("", unit) for unit in (*_pieces(tree, chance), *_examples(tree, chance)) if unit]
    pairs = list(dict.fromkeys([*runs, *units]))
    if len(pairs) > most:
        pairs = chance.sample(pairs, most)
    return [*(("", unit) for unit in COMMON), *pairs]


def write(head: str, unit: str, end: str, length: int) -> str:
    """A text of that many characters."""
    room = max(length - len(head) - len(end), 1)
    return head + (unit * (room // len(unit) + 1))[:room] + end


def _examples(tree: Sequence[object], chance: random.Random) -> Iterator[str]:
    """Whole examples, and their beginnings: a beginning repeated is where a search starts again and again."""
    for repeats in (1, 1, MANY):
        whole = _write(tree, chance, repeats)
        yield whole
        yield whole[:-1]
        yield "\n" + whole
        if len(whole) > 3:
            yield whole[: chance.randrange(1, len(whole))]


def _pieces(tree: Sequence[object], chance: random.Random) -> Iterator[str]:
    """One character, or one round, of everything that may be repeated."""
    for body in _repeats(tree):
        for _ in range(3):
            yield _write(body, chance, 1)


def _runs(tree: Sequence[object], chance: random.Random) -> Iterator[tuple[str, str]]:
    """What stands before a repeated part, and the part."""
    for head, body in _headed(tree, chance):
        yield head, _write(body, chance, 1)
        yield "", head + _write(body, chance, 1)


def _headed(tree: Sequence[object], chance: random.Random) -> Iterator[tuple[str, Sequence[object]]]:
    head = ""
    for kind, value in tree:  # type: ignore[misc]
        if kind in _LOOPS:
            yield head, value[2]
            for inner, body in _headed(value[2], chance):
                yield head + inner, body
        for part in _parts(kind, value):
            for inner, body in _headed(part, chance) if kind not in _LOOPS else ():
                yield head + inner, body
        head += _write([(kind, value)], chance, 1)


_LOOPS = (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT)


def _repeats(tree: Sequence[object]) -> Iterator[Sequence[object]]:
    for kind, value in tree:  # type: ignore[misc]
        if kind in _LOOPS:
            yield value[2]
        for part in _parts(kind, value):
            yield from _repeats(part)


def _parts(kind: object, value: object) -> Iterator[Sequence[object]]:
    """The parts inside a node."""
    if kind in _LOOPS:
        yield value[2]  # type: ignore[index]
    elif kind is constants.SUBPATTERN:
        yield value[3]  # type: ignore[index]
    elif kind is constants.BRANCH:
        yield from value[1]  # type: ignore[index]
    elif kind in (constants.ASSERT, constants.ASSERT_NOT):
        yield value[1]  # type: ignore[index]
    elif kind is constants.ATOMIC_GROUP:
        yield value  # type: ignore[misc]
    elif kind is constants.GROUPREF_EXISTS:
        yield from (part for part in value[1:] if part)  # type: ignore[index]


def _write(tree: Sequence[object], chance: random.Random, repeats: int) -> str:
    """A text that the tree likes, or nearly: look-arounds are not minded."""
    return "".join(_one(kind, value, chance, repeats) for kind, value in tree)  # type: ignore[misc]


def _one(kind: object, value, chance: random.Random, repeats: int) -> str:  # type: ignore[no-untyped-def]
    if kind is constants.LITERAL:
        return chr(value)
    if kind is constants.NOT_LITERAL:
        return chance.choice([sign for sign in ALPHABET if sign != chr(value)])
    if kind is constants.ANY:
        return chance.choice("a 1张")
    if kind is constants.IN:
        return _member(value, chance)
    if kind is constants.BRANCH:
        return _write(chance.choice(value[1]), chance, repeats)
    if kind in _LOOPS:
        least, most, body = value
        times = min(max(least, repeats), most if most is not constants.MAXREPEAT else 99)
        return "".join(_write(body, chance, repeats) for _ in range(times))
    if kind is constants.ASSERT:
        return _write(value[1], chance, repeats) if value[0] > 0 else ""
    if kind is constants.ASSERT_NOT or kind in (constants.AT, constants.GROUPREF):
        return ""
    return "".join(_write(part, chance, repeats) for part in list(_parts(kind, value))[:1])


def _member(items: Sequence[tuple[object, object]], chance: random.Random) -> str:
    """A character of a class."""
    if items[0][0] is constants.NEGATE:
        fits = re.compile("[^" + "".join(map(_written, items[1:])) + "]")
        return chance.choice([sign for sign in ALPHABET if fits.match(sign)] or ["x"])
    kind, value = chance.choice(items)
    if kind is constants.LITERAL:
        return chr(value)  # type: ignore[arg-type]
    if kind is constants.RANGE:
        low, high = value  # type: ignore[misc]
        return chr(chance.choice((low, high, chance.randint(low, high))))
    return chance.choice(_CATEGORIES.get(value, "a"))


_CATEGORIES = {
    constants.CATEGORY_SPACE: " \n\t", constants.CATEGORY_NOT_SPACE: "a-", constants.CATEGORY_DIGIT: "07",
    constants.CATEGORY_NOT_DIGIT: "a ", constants.CATEGORY_WORD: "a_0张", constants.CATEGORY_NOT_WORD: " -\n",
}  # fmt: skip
_SHORT = {
    constants.CATEGORY_SPACE: r"\s", constants.CATEGORY_NOT_SPACE: r"\S", constants.CATEGORY_DIGIT: r"\d",
    constants.CATEGORY_NOT_DIGIT: r"\D", constants.CATEGORY_WORD: r"\w", constants.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _written(item: tuple[object, object]) -> str:
    kind, value = item
    if kind is constants.LITERAL:
        return re.escape(chr(value))  # type: ignore[arg-type]
    if kind is constants.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"  # type: ignore[index]
    return _SHORT[value]
