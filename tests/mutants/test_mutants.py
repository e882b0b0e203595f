"""The mutator itself: what it changes, that it can be repeated, and that it finds a hole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import format_table, parse_options
from tests.mutants.lua_edits import is_valid_lua, list_lua_edits
from tests.mutants.mutant import Edit, Key, Mutant, build_mutants
from tests.mutants.python_edits import list_python_edits
from tests.mutants.sources import (
    EQUIVALENT,
    draw_mutants,
    find_stale,
    format_keys,
    list_mutants,
    read_keys,
)
from tests.mutants.table import ROOT, TESTS
from tests.mutants.trial import Bench, Result, Verdict, copy_tree

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


def list_changes(mutants: list[Mutant]) -> set[str]:
    return {f"{one.key.before} → {one.key.after}" for one in mutants}


def test_python_is_changed_where_a_decision_is_made_and_nowhere_else() -> None:
    assert list_changes(list(build_mutants("a.py", LIMITS, list_python_edits(LIMITS)))) == {
        "if amount < 0: → if False:",
        "if amount < 0: → if not (amount < 0):",
        "if amount < 0: → if amount <= 0:",
        "return False → return True",
        "return amount <= limit → return amount < limit",
        "return amount <= limit → return True",
        "return amount <= limit → return False",
    }


@pytest.mark.parametrize(
    ("source", "change"),
    [
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
    ],
)
def test_python_operators(source: str, change: str) -> None:
    assert change in {one.key.after for one in build_mutants("a.py", source, list_python_edits(source))}


def test_lua_loses_calls_flags_conditions_and_returns() -> None:
    assert list_changes(list(build_mutants("a.lua", GUARD, list_lua_edits(GUARD)))) == {
        f"{GUARD.splitlines()[1]} → if false then return 'lost' end",
        f"{GUARD.splitlines()[1]} → {GUARD.splitlines()[1].replace('~=', '==')}",
        "redis.call('SET', KEYS[1], ARGV[2], 'NX') → ",
        "redis.call('SET', KEYS[1], ARGV[2], 'NX') → redis.call('SET', KEYS[1], ARGV[2])",
        "return 'ok' → ",
    }


def test_words_in_strings_and_comments_of_lua_are_no_code() -> None:
    assert not list_lua_edits("-- if a == b then return end\nlocal x = 'if a == b then return end'")


@pytest.mark.parametrize(
    "path", ["bot/approvals/authorization.py", "bot/queue/lua/commit.lua", "bot/queue/lua/common.lua"]
)
def test_every_mutant_is_valid_and_known_by_its_content(path: str) -> None:
    source, mutants = (ROOT / path).read_text(encoding="utf-8"), list_mutants(path)
    assert len({one.key for one in mutants}) == len(mutants) > 10
    for one in mutants:
        changed = one.apply_to(source)
        assert changed != source
        if path.endswith(".lua"):
            assert is_valid_lua(changed)
        else:
            compile(changed, path, "exec")


def test_a_mutant_is_known_again_when_lines_are_added_above() -> None:
    later = "import os\n\n" + LIMITS
    before, after = (list(build_mutants("a.py", one, list_python_edits(one))) for one in (LIMITS, later))
    assert [one.key for one in before] == [one.key for one in after]
    assert [one.line + 2 for one in before] == [one.line for one in after]


def test_the_same_seed_draws_the_same_mutants() -> None:
    paths = ["bot/approvals/authorization.py", "bot/queue/lua/commit.lua"]
    first, again, other = (draw_mutants(paths, 12, seed) for seed in (7, 7, 8))
    assert first == again != other
    assert len(first) == 12
    assert draw_mutants(paths, None, 7) == draw_mutants(paths, 10_000, 8)


def test_the_table_names_files_that_there_are() -> None:
    named = {*TESTS, *(pattern for patterns in TESTS.values() for pattern in patterns)}
    assert {name for name in named if not any(ROOT.glob(name))} == set()


def test_what_is_listed_as_harmless_says_why_and_is_a_file_of_the_table() -> None:
    listed = read_keys(EQUIVALENT)
    assert all(listed.values())
    assert {key.path for key in listed} <= set(TESTS)


def test_a_listed_mutant_that_the_code_has_no_more_is_told(tmp_path: Path) -> None:
    mutant = list_mutants("bot/queue/lua/commit.lua")[0]
    (tmp_path / "listed.toml").write_text(
        format_keys({mutant.key: "because", Key("bot/approvals/authorization.py", "f", "it's", "b", 1): "no"})
    )
    listed = read_keys(tmp_path / "listed.toml")
    assert [key.before for key in find_stale(listed)] == ["it's"]
    assert listed[mutant.key] == "because"


def test_the_score_counts_what_timed_out_as_noticed_and_leaves_out_what_is_harmless() -> None:
    noticed, late, survived, harmless = list_mutants("bot/queue/lua/commit.lua")[:4]
    results = {noticed: Result.NOTICED, late: Result.TIMED_OUT, survived: Result.SURVIVED}
    table = format_table([Verdict(mutant, result, 1.0) for mutant, result in results.items()], [harmless])
    assert table.splitlines()[1].split() == ["bot/queue/lua/commit.lua", "1", "1", "1", "1", "67", "%"]


@pytest.mark.parametrize(
    "words", [["--sample", "0"], ["--seed", "-1"], ["--module", "bot/nowhere"], ["--again", "nowhere.toml"]]
)
def test_what_there_is_not_is_refused_in_one_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(words)
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A small tree with a safety, a test that notices one half of it, and one that fails anyway."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "safety.py").write_text(LIMITS.replace('    log.info("asked")\n', ""))
    (root / "test_safety.py").write_text(
        "from safety import may_spend\n\n\n"
        "def test_broken() -> None:\n    raise OSError\n\n\n"
        "def test_limit() -> None:\n    assert may_spend(5, 5) and not may_spend(6, 5)\n"
    )
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    told = Bench(tmp_path / "bench", 60, tell=lambda text: None)
    copy_tree(root, told.tree)
    return told


def test_a_planted_hole_is_found_and_a_test_that_fails_anyway_notices_nothing(bench: Bench) -> None:
    source = (bench.tree / "safety.py").read_text()
    mutants = {one.key.after: one for one in build_mutants("safety.py", source, list_python_edits(source))}
    noticed = bench.judge(mutants["return amount < limit"], ("test_safety.py",))
    assert (noticed.result, noticed.noticed_by) == (Result.NOTICED, "test_safety.py::test_limit")
    assert bench.unfit == {"test_safety.py::test_broken"}
    assert bench.judge(mutants["if False:"], ("test_safety.py",)).result is Result.SURVIVED
    assert (bench.tree / "safety.py").read_text() == source


def test_what_never_ends_times_out_and_leaves_nothing_running(bench: Bench) -> None:
    source = "x = 1\n"
    (bench.tree / "safety.py").write_text(source)
    (bench.tree / "test_safety.py").write_text(
        "import time\nfrom safety import x\n\n\ndef test_x() -> None:\n    time.sleep(0 if x == 1 else 600)\n"
    )
    bench.limit_s = 5
    [mutant] = build_mutants("safety.py", source, [Edit(4, 5, "2", "")])
    assert bench.judge(mutant, ("test_safety.py",)).result is Result.TIMED_OUT
