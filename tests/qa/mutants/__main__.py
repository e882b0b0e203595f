"""`deploy/qa mutants`: changes the safety core in small ways, one at a time, and shows what no test notices."""

import argparse
import queue
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from tests.qa.command import FOUND, Parser, draw_seed, read_whole_number, run_command
from tests.qa.mutants.mutant import Mutant
from tests.qa.mutants.sources import EQUIVALENT, draw_mutants, find_stale, format_keys, list_mutants, read_keys
from tests.qa.mutants.table import LEVELS, PATHS, ROOT, list_tests
from tests.qa.mutants.trial import Interrupted, Result, Trial, TrialError, Verdict, copy_tree

LIMIT_S = 1_200  # for the tests of one level
COLUMNS = (*LEVELS, "slow", "timed out", "survived", "harmless")
"""Of the table: what noticed mutants without the slow tests, by level, then the slow ones; and the rest."""
say = partial(print, flush=True)


def _read_module(text: str) -> str:
    """A file of the table, or the beginning of its path."""
    if not any(path.startswith(text) for path in PATHS):
        raise argparse.ArgumentTypeError(f"nothing in tests/qa/mutants/table.py begins with {text!r}")
    return text


def _read_file(text: str) -> Path:
    if not (file := Path(text)).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}")
    return file


def parse_options() -> argparse.Namespace:
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
    return parser.parse_args()


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

    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        trials = [Trial(folder / str(at), LIMIT_S, tell=say) for at in range(min(jobs, len(mutants)))]
        for trial in trials:
            copy_tree(ROOT, trial.tree)
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


def format_table(verdicts: Sequence[Verdict], harmless: Sequence[Mutant]) -> str:
    """By module: which tests noticed how many, and the score. What timed out counts as noticed: the suite would not
    have passed."""
    counts: Counter[tuple[str, str]] = Counter((mutant.key.path, "harmless") for mutant in harmless)
    for one in verdicts:
        column = one.result if one.result is not Result.NOTICED else "slow" if one.is_slow else one.level
        counts[one.mutant.key.path, column] += 1
        counts["together", column] += 1
    counts["together", "harmless"] = len(harmless)
    lines = [f"{'':42}{''.join(f'{column:>10}' for column in COLUMNS)}{'score':>8}"]
    for path in [*(path for path in PATHS if any(counts[path, column] for column in COLUMNS)), "together"]:
        row = {column: counts[path, column] for column in COLUMNS}
        judged = sum(row.values()) - row["harmless"]
        score = f"{100 * (judged - row['survived']) / judged:.0f} %" if judged else "-"
        lines.append(f"{path:42}{''.join(f'{one:>10}' for one in row.values())}{score:>8}")
    return "\n".join(lines)


def run() -> int:
    options = parse_options()
    options.seed = options.seed or draw_seed()
    listed, chosen = read_keys(EQUIVALENT), choose_mutants(options)
    harmless = [mutant for mutant in chosen if mutant.key in listed]
    judged = [mutant for mutant in chosen if mutant.key not in listed]
    say(f"seed {options.seed}: {len(chosen)} mutants, {len(harmless)} of them listed as harmless and not tried")
    for key in find_stale(listed):
        say(f"listed as harmless, and no longer in the code: {key.path} {key.scope}: {key.before}")
    verdicts, survivors, began = list[Verdict](), list[Mutant](), time.monotonic()
    try:
        with closing(judge_mutants(judged, options.jobs)) as coming:
            for verdict in coming:
                verdicts.append(verdict)
                survivors += [verdict.mutant] if verdict.result is Result.SURVIVED else []
                say(f"[{len(verdicts)}/{len(judged)}] {verdict}")
    finally:
        if survivors:
            say("\nSurvivors:\n" + "\n".join(map(str, survivors)))
        say(f"\n{format_table(verdicts, harmless)}\n{(time.monotonic() - began) / 60:.0f} minutes")
        if options.survivors is not None:
            keys = dict.fromkeys((one.key for one in survivors), "")
            options.survivors.write_text(format_keys(keys), encoding="utf-8")
    return FOUND if survivors else 0


if __name__ == "__main__":
    run_command("mutants", run, TrialError, OSError, ValueError)
