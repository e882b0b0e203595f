"""Which files are changed, and which tests have to notice it, level by level."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
LEVELS = ("own", "unit", "stories")
"""The tests beside the code, those of other parts, whole conversations: each is asked when the one before is silent."""
_STORIES = ("tests/stories", "tests/golden")


@dataclass(frozen=True, slots=True)
class Part:
    """Files of a folder, and where their tests stand: folders, or patterns of files. Several have blanks between."""

    folder: str
    files: str
    own: str
    unit: str


PARTS = (
    Part(
        "bot/approvals",
        "state.py authorization.py press.py dialogs.py refusals.py lifecycle.py openings.py delivery.py render.py "
        "opinion_drafts.py outbox.py",
        "tests/approvals",
        "tests/conversation tests/core tests/storage tests/tools/mcp",
    ),
    Part(
        "bot/queue",
        "lanes.py writes.py worker.py lua/apply.lua lua/checkpoint.lua lua/claim.lua lua/commit.lua lua/common.lua "
        "lua/extend.lua lua/pump.lua lua/put.lua lua/retry.lua lua/slot.lua lua/stop.lua lua/writes.lua",
        "tests/queue",
        "tests/storage tests/app tests/conversation tests/approvals",
    ),
    Part(
        "bot/core",
        "records.py redaction.py logs.py disclosure.py",
        "tests/core",
        "tests/approvals tests/conversation tests/linear tests/ops/cli tests/tracing",
    ),
    Part(
        "bot/features",
        "retry.py duplicates.py approver_question.py changed_messages.py suggestions.py sets/sets.py",
        "tests/features",
        "tests/approvals tests/conversation",
    ),
    Part("bot/app", "ingress.py dispatch.py", "tests/app", "tests/approvals tests/queue"),
    Part("bot/conversation", "turn.py endings.py", "tests/conversation", "tests/approvals tests/agent"),
    Part(
        "bot/storage",
        "approvals.py spending.py dead_letters.py",
        "tests/storage",
        "tests/approvals tests/conversation tests/queue tests/ops/cli",
    ),
    Part("bot/ops", "dead_letters.py", "tests/ops/test_dead_letters.py", "tests/queue tests/ops/cli"),
    Part("tools/mail", "completeness.py send_email.py smtp.py", "tests/tools/test_*.py", "tests/approvals"),
    Part(
        "tools/workflow/engine",
        "reducer.py transitions.py authority.py votes.py embedded.py store.py announce.lua delegate.lua save.lua",
        "tests/tools/workflow/test_*.py",
        "tests/tools/test_*.py tests/approvals",
    ),
    Part("bot/dev/evaluation", "judge.py", "tests/dev/evaluation", ""),
)
PATHS = {f"{part.folder}/{name}": part for part in PARTS for name in part.files.split()}  # every file that is changed


def list_tests(path: str) -> dict[str, list[str]]:
    """By level: the test files that have to notice a change of a file. Those of its own name come first; none twice."""
    part, named = PATHS[path], f"test_{Path(path).stem}"
    found: dict[str, list[str]] = {}
    for level, places in zip(LEVELS, ((part.own,), part.unit.split(), _STORIES), strict=True):
        files = [file for place in places for file in sorted(find_test_files(place))]
        files.sort(key=lambda file: not Path(file).name.startswith(named))
        found[level] = files
    return found


def find_test_files(place: str) -> Iterator[str]:
    for file in ROOT.glob(place if place.endswith(".py") else f"{place}/**/test_*.py"):
        yield str(file.relative_to(ROOT))


def list_gone() -> list[str]:
    """What the table names and there is not."""
    places = {place for part in PARTS for place in (part.own, *part.unit.split())} | {*_STORIES}
    gone = [place for place in sorted(places) if not any(find_test_files(place))]
    return [path for path in PATHS if not (ROOT / path).is_file()] + gone
