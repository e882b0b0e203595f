"""`deploy/qa lanes`: goes through every state of the model of the lanes, and sees that each mutant of it is noticed.
Ends with 1 when something does not hold or is not noticed, with 2 when nothing could be judged."""

import tempfile
import time
from pathlib import Path

from tests.qa.command import FOUND, Parser, run_command
from tests.qa.lanes.model import ModelError, check_configurations, check_mutants, find_missing_program, read_model


def main() -> int:
    parser = Parser(
        prog="deploy/qa lanes",
        description="Go through every state of the model of the lanes; see that each mutant of the model is noticed.",
        epilog="Exit codes: 0 all holds, and each mutant was noticed; 1 not so; 2 nothing could be judged; 130 told to "
        "end.",
    )
    text = "one configuration, and no mutants (default: all)"
    parser.add_argument("--only", choices=list(read_model()[0]), help=text)
    only = parser.parse_args().only
    if missing := find_missing_program():
        print(f"skipped: no {missing} on this machine (apt-get install -y spin gcc libc6-dev)")
        return 0
    began, found, states = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="lanes-") as name:
        for configuration, result in check_configurations(Path(name), only):
            states += result.states
            found += bool(result.violated)
            told = f"FOUND  {result.violated}" if result.violated else "holds"
            print(f"{configuration:12}{result.states:>10,} states{result.seconds:6.1f} s  {told}", flush=True)
        for mutant, result in [] if only else check_mutants(Path(name)):
            found += not result.violated
            print(f"{'noticed' if result.violated else 'FOUND  not noticed'}: {mutant.what}", flush=True)
    print(f"{states:,} states, {time.monotonic() - began:.0f} s, {found} findings")
    return FOUND if found else 0


if __name__ == "__main__":
    run_command("lanes", main, ModelError, OSError)
