"""`deploy/qa chaos`: a run on this machine, its figures and its findings. Ends with 1 when something was found, with 2
when the harness itself failed or was asked for what there is not, with 130 when it was told to end."""

import argparse
import asyncio
import logging
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from bot.core.errors import CountersignError
from tests.qa.chaos import check
from tests.qa.chaos.plan import FAULTS, RATE, Wanted
from tests.qa.chaos.run import ran
from tests.qa.chaos.scenes import SCENES
from tests.qa.chaos.store import KINDS, Absent
from tests.qa.command import INTERRUPTED, WRONG, Parser, draw_seed, print_findings, read_whole_number

T = TypeVar("T")
NOTHING = "Nothing lost, nothing twice, nothing stuck."


def read_span(text: str, least: int = 0, called: str = "a span of time", such_as: str = "1.5") -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not least <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not {called}: a number from {least} on, such as {such_as}")
    return value


def read_times(text: str) -> float:
    return read_span(text, 1, "how many times faster", "5")


def read_redis(text: str) -> str:
    if text not in KINDS and "://" not in text:
        raise argparse.ArgumentTypeError(f"there is no Redis {text!r}: say {', '.join(KINDS)}, or a URL")
    return text


def read_faults(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if unknown := sorted(set(names) - set(FAULTS)):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    return names


def options(words: list[str] | None = None) -> argparse.Namespace:
    """What is asked for. Exits with one sentence when there is no such thing."""
    parser = Parser(
        prog="deploy/qa chaos",
        description="Break everything; see that nothing is lost or doubled.",
        epilog="Exit codes: 0 nothing found, 1 something found, 2 the harness itself failed, 130 told to end.",
    )
    count, seed = read_whole_number(1), read_whole_number(0)
    kinds = "embedded (Valkey), server, cluster (of three), or the URL of an empty one"
    spread = f"minutes over which the messages are spread; 0: at {RATE} messages a second"
    faster = "how many times faster than production all of the bot goes that takes time"
    former = "2: every other process is of the version before (tests/former_version)"
    for name, read, default, called, text in (
        ("--conversations", count, 500, "N", "conversations, half of them direct, half threads in channels"),
        ("--messages", count, 20, "N", "messages of each conversation"),
        ("--processes", count, 4, "N", "bot processes, each started again whenever it ends"),
        ("--seed", seed, 0, "N", "number that everything is drawn from; 0: any; it is printed first"),
        ("--redis", read_redis, "embedded", "KIND", kinds),
        ("--minutes", read_span, 0.0, "MINUTES", spread),
        ("--faults", read_faults, ",".join(FAULTS), "NAMES", "what may happen, with commas between; empty: nothing"),
        ("--speed", read_times, 5.0, "TIMES", faster),
        ("--versions", count, 1, "N", former),
    ):
        parser.add_argument(name, type=read, default=default, metavar=called, help=f"{text} (default: %(default)s)")
    scene = "instead of a run, the one moment that this safety is for (default: a run)"
    parser.add_argument("--scene", choices=SCENES, help=scene)
    without = "with --scene: that safety is switched off, and something must be found (default: it is on)"
    parser.add_argument("--without", action="store_true", help=without)
    both = "half of the conversations on Slack and half on Feishu, in two runs side by side"
    parser.add_argument("--both", action="store_true", help=f"{both} (default: STORY_CHAT's alone)")
    told = parser.parse_args(words)
    if told.without and not told.scene:
        parser.error("--without says nothing without --scene")
    if told.both and (told.scene or told.conversations < 2 or "://" in told.redis):
        parser.error("--both wants two conversations, a Redis of its own for each run, and no --scene")
    return told


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs to the end; SIGTERM ends it like Ctrl-C: everything that was started is ended first."""

    async def until_told() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    return asyncio.run(until_told())


async def play_both(conversations: int, seed: int) -> int:
    """Two installations at once, one on each platform, with half of the conversations and the same seed; the worse exit
    code."""
    counts = {"slack": conversations - conversations // 2, "feishu": conversations // 2}
    return max(await asyncio.gather(*(play_half(chat, count, seed) for chat, count in counts.items())))


async def play_half(chat: str, conversations: int, seed: int) -> int:
    words = [one for one in sys.argv[1:] if one != "--both"]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.qa.chaos", *words, "--conversations", str(conversations), "--seed", str(seed)),
        env={**os.environ, "STORY_CHAT": chat, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        async for line in child.stdout:
            print(f"{chat:6} {line.decode()}", end="", flush=True)
        return abs(await child.wait())  # a child that was killed ends with a negative code
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            child.terminate()
        await child.wait()
        raise


def failed(error: Exception) -> str:
    """What to say when nothing could be judged; with where it happened, unless the cause is a known one."""
    causes = list(_causes(error))
    for cause in causes:
        if not isinstance(cause, CountersignError):
            traceback.print_exception(cause)
    named = "; ".join(f"{type(cause).__name__}: {cause}" for cause in causes)
    return f"deploy/qa chaos: the harness itself failed: {named}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _causes(one)
    else:
        yield error


def judged(told: argparse.Namespace) -> int:
    """The exit code of the run or the scene that is asked for. A scene with its safety switched off ends with 1, or the
    checks are worth nothing."""
    seed, began = told.seed or draw_seed(), time.monotonic()
    print(f"seed {seed}", flush=True)
    if told.both:
        return run(play_both(told.conversations, seed))
    if told.scene:
        scene = SCENES[told.scene](is_off=told.without, seed=seed, redis=told.redis)
        return print_findings(check.wrong(run(scene)), NOTHING)
    same = {name: getattr(told, name) for name in ("conversations", "messages", "processes", "faults", "speed")}
    wanted = Wanted(seed, seconds=told.minutes * 60, versions=told.versions, **same)

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    facts = run(ran(wanted, told.redis, tell=tell))
    print(check.build_table(facts, time.monotonic() - began))
    return print_findings(check.everything(facts), NOTHING)


def main() -> None:
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # it tells of every connection that we break on purpose
    told = options()
    try:
        sys.exit(judged(told))
    except Absent as absent:
        print(f"skipped: {absent}")
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(INTERRUPTED)
    except Exception as error:
        print(failed(error), file=sys.stderr)
        sys.exit(WRONG)


if __name__ == "__main__":
    main()
