"""`deploy/qa mutants`: changes the safety core in small ways, one at a time, and shows what no test notices."""

import argparse
import queue
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from tests.qa.command import INTERRUPTED, WRONG, Parser, draw_seed, end_like_ctrl_c, read_whole_number
from tests.qa.mutants.mutant import Mutant
from tests.qa.mutants.sources import EQUIVALENT, draw_mutants, find_stale, format_keys, list_mutants, read_keys
from tests.qa.mutants.table import LEVELS, PATHS, ROOT, list_tests
from tests.qa.mutants.trial import Interrupted, Result, Trial, TrialError, Verdict, copy_tree

SURVIVORS = 1
"""The exit code, where `WRONG` and `INTERRUPTED` are none."""
LIMIT_S = 1_200
"""For the tests of one level."""
COLUMNS = (*LEVELS, "slow", "timed out", "survived", "harmless")
"""Of the table: what noticed mutants without the slow tests, by level, then the slow ones; and the rest."""


def _read_module(text: str) -> str:
    """A file of the table, or the beginning of its path."""
    if not any(path.startswith(text) for path in PATHS):
        raise argparse.ArgumentTypeError(f"nothing in tests/qa/mutants/table.py begins with {text!r}")
    return text


def _read_file(text: str) -> Path:
    if not (file := Path(text)).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}")
    return file


def parse_options(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(
        prog="deploy/qa mutants",
        description="Change the safety core in small ways, one at a time, in a copy; see what no test notices.",
        epilog="Without --sample: all of them, which takes a night. Exit codes: 0 every mutant was noticed, 1 some "
        "survived, 2 nothing could be judged, 130 told to end.",
    )
    add = parser.add_argument
    count, seed = read_whole_number(1), read_whole_number(0)
    add("--sample", type=count, metavar="N", help="so many mutants, drawn by the seed (default: all)")
    add("--seed", type=seed, default=0, metavar="N", help="number that they are drawn from; 0: any; it is printed")
    text = "only files whose path begins so, e.g. bot/approvals/press.py or bot/queue/lua; may be given several times"
    add("--module", type=_read_module, action="append", metavar="PATH", help=text)
    add("--jobs", type=count, default=1, metavar="N", help="mutants at a time, each in a copy (default: 1)")
    add("--again", type=_read_file, metavar="FILE", help="the mutants listed in this file, such as survivors of a run")
    add("--survivors", type=Path, metavar="FILE", help="write the survivors there, in the form of equivalent.toml")
    return parser.parse_args(words)


def choose_mutants(options: argparse.Namespace) -> list[Mutant]:
    paths = [path for path in PATHS if not options.module or any(path.startswith(one) for one in options.module)]
    if options.again is None:
        return draw_mutants(paths, options.sample, options.seed)
    wanted = read_keys(options.again)
    return [mutant for path in paths for mutant in list_mutants(path) if mutant.key in wanted]


def judge_mutants(mutants: Sequence[Mutant], jobs: int) -> Generator[Verdict, None, None]:
    """Verdicts as they come. What was begun is ended and cleared away however this ends."""
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)
    found: queue.SimpleQueue[Verdict | Exception] = queue.SimpleQueue()

    def work(trial: Trial) -> None:
        try:
            while True:
                mutant = waiting.get_nowait()
                found.put(trial.judge(mutant, list_tests(mutant.key.path)))
        except (queue.Empty, Interrupted):
            pass
        except Exception as error:
            found.put(error)

    with _set_up_trials(min(jobs, len(mutants))) as trials:
        threads = [threading.Thread(target=work, args=(trial,), daemon=True) for trial in trials]
        for thread in threads:
            thread.start()
        try:
            for _ in mutants:
                verdict = found.get()
                if isinstance(verdict, Exception):
                    raise verdict
                yield verdict
        finally:
            for trial in trials:
                trial.stop()
            for thread in threads:
                thread.join()


@contextmanager
def _set_up_trials(count: int) -> Iterator[list[Trial]]:
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        trials = [Trial(folder / str(at), LIMIT_S, tell=_say) for at in range(count)]
        for trial in trials:
            copy_tree(ROOT, trial.tree)
        yield trials


def format_table(verdicts: Sequence[Verdict], harmless: Sequence[Mutant]) -> str:
    """By module: which tests noticed how many, and the score. What timed out counts as noticed: the suite would not
    have passed."""
    counts: Counter[tuple[str, str]] = Counter((one.mutant.key.path, _choose_column(one)) for one in verdicts)
    counts.update((mutant.key.path, "harmless") for mutant in harmless)
    paths = [path for path in PATHS if any(counts[path, column] for column in COLUMNS)]
    lines = [f"{'':42}{''.join(f'{column:>10}' for column in COLUMNS)}{'score':>8}"]
    for path in [*paths, "together"]:
        row = {
            column: sum(counts[one, column] for one in (paths if path == "together" else [path])) for column in COLUMNS
        }
        judged = sum(row.values()) - row["harmless"]
        score = f"{100 * (judged - row['survived']) / judged:.0f} %" if judged else "-"
        lines.append(f"{path:42}{''.join(f'{one:>10}' for one in row.values())}{score:>8}")
    return "\n".join(lines)


def _choose_column(verdict: Verdict) -> str:
    if verdict.result is not Result.NOTICED:
        return verdict.result
    return "slow" if verdict.is_slow else verdict.level


def run(options: argparse.Namespace) -> int:
    options.seed = options.seed or draw_seed()
    listed = read_keys(EQUIVALENT)
    chosen = choose_mutants(options)
    harmless = [mutant for mutant in chosen if mutant.key in listed]
    judged = [mutant for mutant in chosen if mutant.key not in listed]
    _say(f"seed {options.seed}: {len(chosen)} mutants, {len(harmless)} of them listed as harmless and not tried")
    for key in find_stale(listed):
        _say(f"listed as harmless, and no longer in the code: {key.path} {key.scope}: {key.before}")
    verdicts: list[Verdict] = []
    began = time.monotonic()
    try:
        with closing(judge_mutants(judged, options.jobs)) as coming:
            for verdict in coming:
                verdicts.append(verdict)
                _say(f"[{len(verdicts)}/{len(judged)}] {verdict}")
    finally:
        _report(verdicts, harmless, options.survivors, time.monotonic() - began)
    return SURVIVORS if any(one.result is Result.SURVIVED for one in verdicts) else 0


def _report(verdicts: Sequence[Verdict], harmless: Sequence[Mutant], file: Path | None, seconds: float) -> None:
    survivors = [one.mutant for one in verdicts if one.result is Result.SURVIVED]
    if survivors:
        _say("\nSurvivors:\n" + "\n".join(map(str, survivors)))
    _say(f"\n{format_table(verdicts, harmless)}\n{seconds / 60:.0f} minutes")
    if file is not None:
        file.write_text(format_keys(dict.fromkeys((one.key for one in survivors), "")), encoding="utf-8")


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    end_like_ctrl_c()
    try:
        sys.exit(run(parse_options()))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (TrialError, OSError, ValueError) as error:
        print(f"deploy/qa mutants: {error}", file=sys.stderr)
        sys.exit(WRONG)


if __name__ == "__main__":
    main()
