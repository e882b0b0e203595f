"""What the papers name is there: files, tests, settings, names of the code, headings, keys of Redis."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bot.app.settings import Settings

ROOT = Path(__file__).parents[2]
QA = ("bench", "chaos", "failover", "lanes", "mutants")
OF_THE_HOUSE = ("CONTRIBUTING", "CHANGELOG", "DECISIONS", "pull_request_template", "SECURITY")
PAPERS = (
    *("README.md", "bot/README.md", "tools/README.md", "deploy/README.md", "tests/README.md"),
    *(f"tests/qa/{one}/README.md" for one in QA),
    *(f".github/{one}.md" for one in OF_THE_HOUSE),
)
FRONT_LINES = 150
ROOMS = ("bot", "tools", "tests", "deploy", ".github", ".ci")
ENDINGS = r"(?:py|toml|lua|md|bpmn|yaml|json|png|tsv|lock|sh|example|service)"
PATH = re.compile(rf"(?:[\w.-]+/)*[\w.-]+\.{ENDINGS}|(?:{'|'.join(map(re.escape, ROOMS))})(?:/[\w.-]+)*/?")
TEST = re.compile(r"([\w./-]+\.py)::(\w+)")
NAME = re.compile(r"_?[A-Za-z]\w*(?:\.\w+)*(?:\(\))?")
SETTING = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
ELSEWHERE = frozenset(
    {"OLLAMA_CONTEXT_LENGTH", "WSS_PROXY", "GOLDEN", "README_PICTURE", "EVERY_BEHAVIOUR", "EVERY_SLIP", "CHAOS"}
)  # names of others' programs and of our tests
MADE = frozenset({"tools/my_tool.py"})
"""Files that the papers tell somebody to make."""


def read_paper(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def remove_code(text: str) -> str:
    """Without what stands between fences: commands and examples."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


@cache
def list_files() -> tuple[str, ...]:
    """Every file of the project."""
    found = [*ROOT.glob("*"), *(file for room in ROOMS for file in (ROOT / room).rglob("*"))]
    made = {"__pycache__", ".hypothesis"}
    return tuple(str(file.relative_to(ROOT)) for file in found if file.is_file() and made.isdisjoint(file.parts))


@cache
def list_words(*rooms: str) -> frozenset[str]:
    """Every name in the code and data of these rooms; not in this file, which has wrong ones."""
    endings = (".py", ".lua", ".toml", ".yaml", ".bpmn", ".example", ".js")
    files = [ROOT / file for file in list_files() if file.endswith(endings) and file.startswith(rooms)]
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files if file != Path(__file__)]
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


def find_missing(paper: str, text: str) -> Iterator[str]:
    """What a paper names and nobody has."""
    folder = (ROOT / paper).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http://", "https://")):
            yield from find_missing_target(folder, target, text)
    for quoted in re.findall(r"`([^`\n]+)`", remove_code(text)):
        yield from find_missing_name(folder, quoted)


def find_missing_target(folder: Path, target: str, text: str) -> Iterator[str]:
    path, _, heading = target.partition("#")
    file = folder / path if path else None
    if file is None or file.exists():
        there = list_anchors(file.read_text(encoding="utf-8") if file else text) if heading else [""]
        yield from [] if heading in there else [target]
    else:
        yield target


def list_anchors(text: str) -> list[str]:
    headings = re.findall(r"^#+ (.+)$", remove_code(text), re.M)
    return [re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings]


def find_missing_name(folder: Path, quoted: str) -> Iterator[str]:
    if test := TEST.fullmatch(quoted):
        files = [one for one in (ROOT / test[1], folder / test[1]) if one.is_file()]
        if not files or not re.search(rf"def {test[2]}\b", files[0].read_text(encoding="utf-8")):
            yield quoted
    elif PATH.fullmatch(quoted):
        if not is_there(folder, quoted):
            yield quoted
    elif SETTING.fullmatch(quoted):
        known = quoted.lower() in Settings.model_fields or quoted in ELSEWHERE or quoted in list_words("bot", "tools")
        yield from [] if known else [quoted]
    elif NAME.fullmatch(quoted) and ("_" in quoted or re.search(r"[a-z][A-Z]", quoted)):
        last = quoted.removesuffix("()").rpartition(".")[2]
        yield from [] if last in list_words(*ROOMS, "pyproject") else [quoted]


def is_there(folder: Path, path: str) -> bool:
    """From the root or from the paper's folder, or the end of a file's path."""
    if path in MADE or (ROOT / path).exists() or (folder / path).exists():
        return True
    return any(file.endswith(f"/{path}") for file in list_files())


def test_what_every_paper_names_is_there() -> None:
    written = {file for file in list_files() if file.endswith(".md") and not file.startswith("bot/dev/demo/")}
    assert written == set(PAPERS)
    assert [(paper, name) for paper in PAPERS for name in find_missing(paper, read_paper(paper))] == []


WRONG = (
    "`bot/store/lanes.py`", "[lanes](bot/nowhere.py)", "`gone.py`", "`tests/queue/test_lanes.py::test_of_nothing`",
    "`OPENAI_MODLE`", "`WorkDispatcher.hold_the_door`", "`told_everybody`", "[there](#nowhere)",
)  # fmt: skip
RIGHT = (
    "`lanes.py`", "`bot/queue/`", "[lanes](bot/queue/lanes.py)", "`OPENAI_MODEL`", "`WorkDispatcher`", "[up](#here)",
)  # fmt: skip


def test_control_what_is_not_there_is_found_and_what_is_there_is_not() -> None:
    found = {name for name in (*WRONG, *RIGHT) if list(find_missing("README.md", f"# Here\n\nSee {name}.\n"))}
    assert found == set(WRONG)


def test_the_front_page_is_short() -> None:
    assert len(read_paper("README.md").splitlines()) <= FRONT_LINES


def test_every_key_that_a_story_leaves_is_listed() -> None:
    recorded = (ROOT / "tests" / "golden" / "recorded" / "stored").glob("keys*.txt")
    texts = [file.read_text(encoding="utf-8") for file in recorded]
    keys = {key for text in texts for key in re.findall(r"^(?:== )?(cs:\S+) \| ", text, re.M)}
    listed = {get_family(key) for key in re.findall(r"`(cs:[^`]+)`", read_paper("bot/README.md"))}
    assert len(keys) > 50 and {get_family(key) for key in keys} <= listed


def get_family(key: str) -> str:
    """What the key of one thing has in common with those of others: `cs:{q}:run`."""
    parts = re.sub(r"\{q(NN)?\}", "{q}", key).split(":")
    return ":".join(parts[: 3 if parts[1].startswith("{") else 2])
