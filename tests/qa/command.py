"""What the programs of this folder have in common at their command line."""

import argparse
import random
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

FOUND, WRONG, INTERRUPTED = 1, 2, 130  # exit codes: something was found; nothing could be judged; told to end


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, f"{self.prog}: {message}\n")


def read_whole_number(least: int) -> Callable[[str], int]:
    """How an option is read that is such a number."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return int(text)

    return read


def draw_seed() -> int:
    """Any, but not 0, which asks for one."""
    return random.SystemRandom().randrange(1, 1_000_000)


def print_findings(findings: Sequence[str], nothing: str, most: int = 50) -> int:
    """Prints each, up to so many, and how many there are; the exit code."""
    for finding in findings[:most]:
        print(f"FOUND  {finding}")
    if len(findings) > most:
        print(f"… and {len(findings) - most} more")
    print(f"{len(findings)} findings" if findings else nothing)
    return FOUND if findings else 0


def run_command(name: str, work: Callable[[], int], *known: type[Exception]) -> NoReturn:
    """Ends with the exit code of this work. SIGTERM does what Ctrl-C does: everything that was started is ended.
    `known`: errors that say by themselves why nothing could be judged."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(work())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except known as error:
        print(f"deploy/qa {name}: {error}", file=sys.stderr)
        sys.exit(WRONG)
