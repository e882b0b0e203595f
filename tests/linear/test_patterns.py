"""No pattern is slow: every regular expression of the packages, in the way it is used, against texts made for it.

A text of 40,000 characters (what one Slack message may hold) takes a pattern at most 20 ms of this machine's processor,
whatever stands in it; four times as long if a fifth of the text takes about a fifth of the time. A machine that is
slower than the one this was written on, or busy, is given more time: as much more as a plain pattern takes longer than
it should.
"""

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.linear.collect import Found, find_patterns, parse_modules
from tests.linear.pace import LENGTH, measure, measure_pace
from tests.linear.seeds import make_seeds, write

LIMIT_S, LINEAR_LIMIT_S = 0.020, 0.080
STEEP = 9
"""A text that is five times as long takes a quadratic pattern 25 times as long, and a linear one five times."""
SMALL = (18, 24, 120, 400, 1_200)
"""Lengths that are tried first: what is slow already there is not tried further, what is slowest there is."""
WORST = 4
"""Texts of a pattern that are tried at the full length."""


@dataclass(frozen=True, slots=True)
class Slow:
    """The worst text that was found for a pattern."""

    length: int
    took_s: float
    use: str
    head: str
    unit: str
    end: str
    growth: float = math.inf
    """How many times as long as for a fifth of the text; tried at the full length only."""

    @property
    def is_too_slow(self) -> bool:
        return self.took_s > (LIMIT_S if self.growth > STEEP else LINEAR_LIMIT_S)

    def __str__(self) -> str:
        text = f"{self.head!r} + {self.unit!r} * n + {self.end!r}"
        return f"{self.use} takes {self.took_s * 1000:.1f} ms for {self.length} characters of {text}"


def find_slowest(pattern: re.Pattern[str], uses: frozenset[str]) -> Slow:
    """The text of all seeds that takes longest at the full length; the first that takes too long, if there is one."""
    tried = list[tuple[float, str, str, str, str]]()
    for use in sorted(uses):
        for head, unit in make_seeds(pattern):
            for end in ("", "\x00"):
                for length in SMALL:
                    took_s = measure(pattern, use, write(head, unit, end, length))
                    if took_s > LIMIT_S and (slow := again(pattern, use, head, unit, end, length)).is_too_slow:
                        return slow
                tried.append((took_s, use, head, unit, end))
    slowest = list[Slow]()
    for one in sorted(tried, reverse=True)[:WORST]:
        slowest.append(try_at_length(pattern, *one[1:]))
        if slowest[-1].is_too_slow:
            return slowest[-1]
    return max(slowest, key=lambda one: one.took_s)


def try_at_length(pattern: re.Pattern[str], use: str, head: str, unit: str, end: str) -> Slow:
    """At a fifth of the length first: what is slow there is not waited for."""
    for length in (LENGTH // 5, LENGTH):
        slow = Slow(length, measure(pattern, use, write(head, unit, end, length)), use, head, unit, end)
        if slow.is_too_slow:
            slow = again(pattern, use, head, unit, end, length)
        if slow.is_too_slow:
            return slow
    return slow


def again(pattern: re.Pattern[str], use: str, head: str, unit: str, end: str, length: int) -> Slow:
    """The best of some tries, each in the pace of that moment: what else the machine does is not counted."""
    text, fifth = write(head, unit, end, length), write(head, unit, end, length // 5)
    took_s = growth = math.inf
    for _ in range(6):
        now_s = measure(pattern, use, text)
        took_s = min(took_s, now_s / measure_pace())
        if not LIMIT_S < took_s < 10 * LIMIT_S:
            break
        if length == LENGTH:
            growth = min(growth, now_s / measure(pattern, use, fifth))
    return Slow(length, took_s, use, head, unit, end, growth)


@pytest.fixture(scope="module")
def patterns() -> list[Found]:
    return find_patterns()


PARTS, SAMPLE = 8, 40
"""So many tests try all patterns; at every change each so many-th is tried."""


def require_quick(found: Sequence[Found]) -> None:
    assert found
    slow = {str(one): worst for one in found if (worst := find_slowest(one.pattern, one.uses)).is_too_slow}
    assert not slow, "\n".join(f"{where}: {worst}" for where, worst in slow.items())


@pytest.mark.sample
def test_a_sample_of_the_patterns_takes_no_more_than_its_time(patterns: list[Found]) -> None:
    require_quick(patterns[::SAMPLE])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_pattern_takes_more_than_its_time(patterns: list[Found], part: int) -> None:
    require_quick(patterns[part::PARTS])


def test_every_pattern_is_looked_at(patterns: list[Found]) -> None:
    """As many lines ask for a pattern as modules have calls of `re.compile` outside functions, and some more."""
    lines = {one.where for one in patterns}
    assert len(patterns) > 200 and len(lines) > 80
    modules = {one.rpartition(":")[0] for one in lines}
    assert modules >= {"bot.core.redaction", "bot.platforms.slack.text", "bot.agent.formats.text_format"}


SLOW = (
    (r"(a+)+$", "fullmatch"),
    (r"([\w.+%-])[\w.+%-]*@((?:[\w-]+\.)+[\w-]+)", "search"),
    (r"\s*<@U0BOT(?:\|[^<>]*)?>[ \t]*[,:，：]?\s*", "search"),
    (r"[*_`]*[^\W\d][\w-]*[*_`]*[:：]?\s*(?={)", "fullmatch"),
    (r"<message[^>]*>\n(?P<text>.*?)\n</message>", "search"),
    (r"(?s)\s*```[\w-]*[ \t]*\n?(.*?)```", "fullmatch"),
    (r"(?:x|xy)*\s+z", "search"),
    (r"^(\d+)\.?(\d+)$", "fullmatch"),
)
"""Patterns that stood in this program, and some from the book: exponential, quadratic where it searches, and others."""
QUICK = (r"\bfoo\b", r"(?<!\s)\s++x", r"[a-z]{1,20}+@", r"(?<![\w.])\w[\w.]*+@\w++")


def find_unnoticed(patterns: Sequence[tuple[str, str]]) -> list[str]:
    found = [(pattern, find_slowest(re.compile(pattern), frozenset({use}))) for pattern, use in patterns]
    return [f"{pattern}: {slowest}" for pattern, slowest in found if not slowest.is_too_slow]


@pytest.mark.sample
def test_negative_control_what_is_slow_is_noticed_and_what_is_quick_is_let_be() -> None:
    assert find_unnoticed(SLOW[:2]) == []
    assert len(find_unnoticed([(QUICK[0], "search"), (QUICK[3], "search")])) == 2


@pytest.mark.slow
def test_negative_control_the_seeds_find_everything_that_is_slow() -> None:
    assert find_unnoticed(SLOW) == []
    assert len(find_unnoticed([(one, use) for one in QUICK for use in ("search", "fullmatch")])) == 2 * len(QUICK)


MADE_WHEN_CALLED = {
    *("bot.dev.evaluation.judge", "bot.dev.rehearsal.words", "bot.dev.workspace.typed", "bot.core.redaction"),
    *("bot.app.setting_names", "bot.ops.cli.definition_errors"),
}
"""Modules with one pattern that is put together when a function is called, around a text with its signs escaped
(`tests.linear.test_entries` runs them), or by a function that modules call while they are imported."""


def test_no_other_pattern_is_made_when_a_function_is_called() -> None:
    """What is compiled in a function is seen by nobody who looks at what an import compiles."""
    made = list[str]()
    for module, tree in parse_modules():
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        calls = {one for function in functions for one in ast.walk(function) if isinstance(one, ast.Call)}
        names = [one.func for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr != "escape"]
        made += [module for one in names if isinstance(one.value, ast.Name) and one.value.id == "re"]
    assert sorted(made) == sorted(MADE_WHEN_CALLED)
