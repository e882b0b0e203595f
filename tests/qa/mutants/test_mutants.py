"""The mutator itself: what it changes, that it can be repeated, and that it finds a hole."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.qa.mutants.lua_edits import is_valid_lua, list_lua_edits
from tests.qa.mutants.mutant import Edit, Key, Mutant, build_mutants
from tests.qa.mutants.python_edits import list_python_edits
from tests.qa.mutants.sources import EQUIVALENT, draw_mutants, find_stale, list_mutants, read_keys
from tests.qa.mutants.table import PATHS, ROOT, list_gone, list_tests
from tests.qa.mutants.trial import Result, Trial, copy_tree
from tests.qa.process import list_processes_in

LIMITS = '''
def may_spend(amount: int, limit: int) -> bool:
    """Both ends count."""
    log.info("asked")
    if amount < 0:
        return False
    return amount <= limit
'''
GUARD = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'lost' end
redis.call('SET', KEYS[1], ARGV[2], 'NX')
return 'ok'
"""


def build_python(source: str, path: str = "a.py") -> list[Mutant]:
    return list(build_mutants(path, source, list_python_edits(source)))


def list_changes(mutants: Iterable[Mutant]) -> set[str]:
    return {f"{one.key.before} → {one.key.after}" for one in mutants}


def test_python_is_changed_where_a_decision_is_made_and_nowhere_else() -> None:
    assert list_changes(build_python(LIMITS)) == {
        "if amount < 0: → if False:",
        "if amount < 0: → if not (amount < 0):",
        "if amount < 0: → if amount <= 0:",
        "return False → return True",
        "return amount <= limit → return amount < limit",
        "return amount <= limit → return True",
        "return amount <= limit → return False",
    }


OPERATORS = (
    ("x = f(a and b)", "x = f(True and b)"),
    ("x = f(not a)", "x = f( a)"),
    ("x = ('é', b)", "x = (b,)"),
    ("x = (a,)", "x = ()"),
    ("x = [a, b]", "x = [a, ]"),
    ("x = {'a': 1, 'b': 2}", "x = {'b': 2}"),
    ("def f():\n    raise ValueError", "pass"),
    ("def f():\n    g(a, b=1)", "g(a, )"),
    ("async def f():\n    await g.hold()", "pass"),
    ("x = [a for a in b if a]", "x = [a for a in b if True]"),
    ("match x:\n    case 1 | 2 if a: pass", "case 1 | 2 if True: pass"),
    ("match x:\n    case 1 | 2: pass", "case 2: pass"),
    ("x = any(y)", "x = all(y)"),
    ("x = y + 1", "x = y - 1"),
)


def test_python_operators_are_changed() -> None:
    found = [(source, change, [one.key.after for one in build_python(source)]) for source, change in OPERATORS]
    assert [(source, change, after) for source, change, after in found if change not in after] == []


def test_lua_loses_calls_flags_conditions_and_returns() -> None:
    condition = GUARD.splitlines()[1]
    assert list_changes(build_mutants("a.lua", GUARD, list_lua_edits(GUARD))) == {
        f"{condition} → if false then return 'lost' end",
        f"{condition} → {condition.replace('~=', '==')}",
        "redis.call('SET', KEYS[1], ARGV[2], 'NX') → ",
        "redis.call('SET', KEYS[1], ARGV[2], 'NX') → redis.call('SET', KEYS[1], ARGV[2])",
        "return 'ok' → ",
    }
    assert [(one.start, one.end, one.text) for one in list_lua_edits("local x = not a")] == [(10, 13, "")]
    assert not list_lua_edits("-- if a == b then return end\nlocal x = 'if a == b then return end'")


def test_every_mutant_is_valid_and_known_by_its_content() -> None:
    for path in ("bot/approvals/authorization.py", "bot/queue/lua/commit.lua", "bot/queue/lua/common.lua"):
        source, mutants = (ROOT / path).read_text(encoding="utf-8"), list_mutants(path)
        assert len({one.key for one in mutants}) == len(mutants) > 10
        for changed in (one.apply_to(source) for one in mutants):
            assert changed != source
            assert is_valid_lua(changed) if path.endswith(".lua") else compile(changed, path, "exec")


def test_a_mutant_is_known_again_by_its_code_and_drawn_again_by_its_seed() -> None:
    before, after = build_python(LIMITS), build_python("import os\n\n" + LIMITS)
    assert [one.key for one in before] == [one.key for one in after]
    assert [one.line + 2 for one in before] == [one.line for one in after]
    paths = ["bot/approvals/authorization.py", "bot/queue/lua/commit.lua"]
    first, again, other = (draw_mutants(paths, 12, seed) for seed in (7, 7, 8))
    assert first == again != other and len(first) == 12
    assert draw_mutants(paths, None, 7) == draw_mutants(paths, 10_000, 8)


def test_the_table_names_only_what_there_is() -> None:
    assert list_gone() == []
    assert len(PATHS) > 50 and all(list_tests(path)["own"] and list_tests(path)["stories"] for path in PATHS)
    assert list_tests("bot/approvals/press.py")["own"][0] == "tests/approvals/test_press.py", "the nearest comes first"


def test_what_is_listed_as_harmless_says_why_and_is_a_file_of_the_table() -> None:
    listed = read_keys(EQUIVALENT)
    assert listed and all(listed.values())
    assert {key.path for key in listed} <= set(PATHS)


@pytest.mark.slow
def test_what_is_listed_as_harmless_is_still_in_the_code() -> None:
    gone = Key("bot/approvals/authorization.py", "f", "it's", "b", 1)
    assert find_stale({**read_keys(EQUIVALENT), gone: "no"}) == [gone]


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """A small tree with a safety, and tests of three levels that notice one part of it each; one fails anyway."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "safety.py").write_text(LIMITS.replace('    log.info("asked")\n', ""))
    (root / "test_own.py").write_text(
        "from safety import may_spend\n\n\n"
        "def test_broken() -> None:\n    raise OSError\n\n\n"
        "def test_limit() -> None:\n    assert may_spend(5, 5) and not may_spend(6, 5)\n"
    )
    (root / "test_story.py").write_text(
        "import pytest\nfrom safety import may_spend\n\n\n"
        "def test_debt() -> None:\n    assert not may_spend(-1, 5)\n\n\n"
        "@pytest.mark.slow\ndef test_nothing() -> None:\n    assert may_spend(0, 5)\n"
    )
    (root / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n")
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    there = Trial(tmp_path / "trial", 60, tell=lambda text: None)
    copy_tree(root, there.tree)
    return there


TREE = {"own": ["test_own.py"], "stories": ["test_story.py"]}


@pytest.mark.slow
def test_a_planted_hole_is_found_by_its_level_and_what_fails_anyway_notices_nothing(trial: Trial) -> None:
    source = (trial.tree / "safety.py").read_text()
    mutants = {one.key.after: one for one in build_python(source, "safety.py")}
    wrong = Edit(source.index("0:"), source.index("0:") + 1, "-9", "may_spend")
    [survivor] = build_mutants("safety.py", source, [wrong])
    found = {name: trial.judge(mutants[name], TREE) for name in ("return amount < limit", "if amount <= 0:")}
    told = {name: (one.result, one.level, one.is_slow, one.noticed_by) for name, one in found.items()}
    assert told == {
        "return amount < limit": (Result.NOTICED, "own", False, "test_own.py::test_limit"),
        "if amount <= 0:": (Result.NOTICED, "stories", True, "test_story.py::test_nothing"),
    }
    assert trial.unfit == {"test_own.py::test_broken"}
    assert trial.judge(survivor, {"own": ["test_own.py"]}).result is Result.SURVIVED
    assert (trial.tree / "safety.py").read_text() == source


@pytest.mark.slow
def test_what_takes_longer_than_its_limit_is_ended_and_leaves_nothing_running(trial: Trial) -> None:
    (trial.tree / "test_own.py").write_text("import time\n\n\ndef test_x() -> None:\n    time.sleep(600)\n")
    trial.limit_s = 1
    [mutant] = build_mutants("safety.py", LIMITS, [Edit(0, 0, " ", "")])
    verdict = trial.judge(mutant, TREE)
    assert (verdict.result, verdict.noticed_by) == (Result.TIMED_OUT, "all of them together")
    assert list_processes_in(trial.folder) == {}
