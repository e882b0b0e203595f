"""What the programs of this folder have in common at their command line."""

import argparse
import random
import signal
from collections.abc import Callable
from typing import NoReturn

WRONG, INTERRUPTED = 2, 130
"""Exit codes: nothing could be judged; told to end."""


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


def end_like_ctrl_c() -> None:
    """SIGTERM does what Ctrl-C does: everything that was started is ended."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
