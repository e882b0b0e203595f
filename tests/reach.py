"""Which tests a change can reach: `python -m tests.reach [COMMIT]` prints the test files that import what has changed
since the commit (HEAD without one), directly or by way of other modules; the nearest come first. Changes that are not
committed and new files count.

A file that is no module (sentences, Lua, a page) stands for all modules of the nearest folder with modules above it.
What every test uses by way of `conftest.py` is not followed: that would be all of them, each time.
"""

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("bot", "tools", "tests")
EVERYTHING = ("pyproject.toml", "tests/conftest.py", "deploy/requirements-test.lock")
"""What reaches all tests when it changes."""
PAPERS = "tests/deploy"
"""The tests of everything outside the packages: papers, deployment."""


def list_changed_files(base: str) -> list[str]:
    """Paths from the root, of files that are there no more too. Raises `CalledProcessError` for an unknown commit."""
    since = _run_git("diff", "--name-only", "--no-renames", base)
    return [*since, *_run_git("ls-files", "--others", "--exclude-standard")]


def _run_git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def read_imports(root: Path = ROOT) -> dict[str, set[str]]:
    """By file, the files that it imports, all as paths from the root."""
    files = [one.relative_to(root).as_posix() for name in PACKAGES for one in sorted((root / name).rglob("*.py"))]
    by_name = {one.removesuffix(".py").removesuffix("/__init__").replace("/", "."): one for one in files}
    return {
        file: {by_name[name] for name in _list_imported_names((root / file).read_text("utf-8")) if name in by_name}
        for file in files
    }


def _list_imported_names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def find_reached_tests(changed: Iterable[str], imports: Mapping[str, set[str]]) -> list[str]:
    """Test files to run, or a folder of them; those that are fewer imports away first."""
    changed = list(changed)
    if any(one in EVERYTHING for one in changed):
        return ["tests"]
    users = defaultdict[str, list[str]](list)
    for file, imported in imports.items():
        for one in imported if not file.endswith("conftest.py") else ():
            users[one].append(file)
    outside = [PAPERS] if any(not one.startswith(PACKAGES) for one in changed) else []
    reached = dict.fromkeys(module for one in changed for module in _list_modules_of(one, imports))
    ring = list(reached)
    while ring:
        ring = [user for file in ring for user in users[file] if user not in reached]
        reached |= dict.fromkeys(ring)
    return [*outside, *(one for one in reached if Path(one).name.startswith("test_"))]


def _list_modules_of(changed: str, imports: Mapping[str, set[str]]) -> list[str]:
    if changed in imports:
        return [changed]
    for folder in Path(changed).parents:
        beside = [one for one in imports if Path(one).parent == folder]
        if beside:
            return beside
    return []


if __name__ == "__main__":
    try:
        names = list_changed_files(sys.argv[1] if len(sys.argv) > 1 else "HEAD")
    except subprocess.CalledProcessError as error:
        sys.exit(f"git cannot tell what has changed: {error.stderr.splitlines()[0]}")
    print("\n".join(find_reached_tests(names, read_imports())))
