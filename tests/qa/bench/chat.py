"""What people feel: how soon an event is acknowledged, also while a hundred mails are confirmed in one moment."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from tests.qa.bench import outside, town
from tests.qa.bench.bench import CORES, Bench, run_on_cores
from tests.qa.bench.figures import Reading, compute_percentile, format_rounded_number, median, reading
from tests.qa.bench.outside import NotMeasured
from tests.qa.company import DIRECTORS, get_person_id

SLACK_WAITS_MS = 3000
OTHERS_PER_S = 20.0
"""Messages of others while mails are confirmed."""
QUESTION = "Who of Person 1 to Person 6 is at work today?"


@contextmanager
def linked(bench: Bench, people: int, after_ms: int) -> Iterator[subprocess.Popen[str]]:
    """The workspace, with the whole bot connected to it."""
    bench.empty()
    with outside.child("tests.qa.bench.town", str(people)) as workspace:
        job = bench.job(after_ms=after_ms, workspace=outside.heard(workspace))
        with outside.child("tests.qa.bench.programs.connected", json.dumps(asdict(job))) as bot:
            outside.heard(bot)
            outside.tell(workspace, do="wait_for_link")
            yield workspace


def ack(bench: Bench) -> list[Reading]:
    """A burst of messages over the real Bolt connection, while the worker has its hands full of them too."""
    seconds, per_s, rounds = bench.options.few(4, 1), bench.options.few(500, 50), list[dict[str, Any]]()
    for number in range(1, bench.options.rounds + 1):
        bench.doing(f"{per_s} events/s for {seconds} s, round {number} of {bench.options.rounds}")
        with linked(bench, per_s, bench.options.few(3000, 300)) as workspace:
            outside.tell(workspace, do="hear_answers", lines=[(get_person_id(0), QUESTION)])
            rounds.append(outside.tell(workspace, do="send_burst", events=per_s * seconds, per_s=per_s, text=QUESTION))
    acks, lost = [ms for one in rounds for ms in one["acks_ms"]], sum(one["lost"] for one in rounds)
    if not acks:
        raise NotMeasured("no event was acknowledged")
    p50, p99 = compute_percentile(acks, 0.5), [compute_percentile(one["acks_ms"], 0.99) for one in rounds]
    late = lost + sum(one > SLACK_WAITS_MS for one in acks)
    middle, worst, rate = map(format_rounded_number, (p50, max(p99), median([one["per_s"] for one in rounds])))
    note = f"p50 {middle} ms, p99 of the worst round {worst} ms, at {rate} events/s"
    return [
        reading("ack", median(p99), note, p50=p50, p99_by_round=p99),
        reading("ack-late", 100 * late / (len(acks) + lost), f"{late} of {len(acks) + lost}", lost=lost),
    ]


def rush(bench: Bench) -> list[Reading]:
    """With production's settings and Slack's real pace: when the last mail is handed over, and how long others wait for
    their answers meanwhile."""
    mails, others = bench.options.few(100, 10), bench.options.few(600, 20)
    bench.doing(f"{mails} mails are confirmed at once, and {others} others write")
    found = _confirm_mails(bench, mails, others)
    answers_ms, sent = [1000 * one for one in found["answers_s"]], found["mails_s"]
    if len(sent) != mails:
        raise NotMeasured(f"{len(sent)} mails arrived, not {mails}")
    ack, half, middle, longest = map(
        format_rounded_number,
        (
            compute_percentile(found["acks_ms"], 0.99),
            compute_percentile(sent, 0.5),
            median(answers_ms),
            max(answers_ms),
        ),
    )
    late = f"{found['late_cards']} cards had yet to be rewritten then; acknowledged p99 {ack} ms"
    return [
        reading("rush-mails", max(sent), f"p50 {half} s; {late}", **found),
        reading("rush-others", compute_percentile(answers_ms, 0.99), f"p50 {middle} ms, max {longest} ms"),
    ]


def click(bench: Bench) -> list[Reading]:
    """Cards of mails are pressed, evenly spaced. On Feishu the answer to a press has the new card."""
    presses, per_s, rounds = bench.options.few(300, 10), 100.0, list[list[float]]()
    for number in range(1, bench.options.rounds + 1):
        bench.doing(f"{presses} cards are pressed, round {number} of {bench.options.rounds}")
        rounds.append(_confirm_mails(bench, presses, 0, per_s)["acks_ms"])
    p99 = [compute_percentile(one, 0.99) for one in rounds]
    middle, worst = map(format_rounded_number, (compute_percentile([*chain(*rounds)], 0.5), max(map(max, rounds))))
    return [reading("click", median(p99), f"p50 {middle} ms, max {worst} ms", p99_by_round=p99)]


def _confirm_mails(bench: Bench, mails: int, others: int, per_s: float = 0.0) -> dict[str, Any]:
    bench.empty()
    ids = [get_person_id(DIRECTORS + number) for number in range(mails + others)]
    asked = [(person, f"#c{number}-0 mail {get_person_id(0)}") for number, person in enumerate(ids[:mails])]
    said = [(person, f"#c{number}-0 plain") for number, person in enumerate(ids[mails:], mails)]
    count = DIRECTORS + len(ids)
    with (
        tempfile.TemporaryDirectory(prefix="bench-rush-") as folder,
        outside.child("tests.qa.bench.town", str(count)) as people,
        outside.service("tests.qa.chaos.model") as model,
    ):
        where = outside.heard(people)
        variables = town.build_variables(Path(folder), count, where, bench.redis, str(model["url"]))
        with run_on_cores(CORES[:1]), outside.child("bot", "run", more=variables):
            outside.tell(people, do="wait_for_link")
            outside.tell(people, do="ask_for_mails", lines=asked)
            return outside.tell(people, do="confirm_mails", lines=said, per_s=OTHERS_PER_S, presses_per_s=per_s)
