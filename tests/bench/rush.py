"""A hundred mails are confirmed in one moment, with production's settings and Slack's real pace: when the last of them
is handed over, and how long others wait for their answers meanwhile."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.bench import outside, town
from tests.bench.bench import CORES, Bench, run_on_cores
from tests.bench.figures import Reading, compute_percentile, format_rounded_number, reading
from tests.bench.senders import APP_TOKEN, BOT_TOKEN

PER_S = 20.0
"""Messages of others a second."""


def rush(bench: Bench) -> list[Reading]:
    mails, others = bench.options.few(100, 10), bench.options.few(600, 20)
    bench.doing(f"{mails} mails are confirmed at once, and {others} others write")
    found = _confirm_mails(bench, mails, others)
    answers, sent, acks = found["answers_s"], found["mails_s"], found["acks_ms"]
    if len(sent) != mails:
        raise outside.NotMeasured(f"{len(sent)} mails arrived, not {mails}")
    middle, longest, ack = (
        format_rounded_number(value)
        for value in (1000 * compute_percentile(answers, 0.5), 1000 * max(answers), compute_percentile(acks, 0.99))
    )
    late = f"{found['late_cards']} cards had yet to be rewritten then; acknowledged p99 {ack} ms"
    return [
        reading(
            "rush-mails", max(sent), f"p50 {format_rounded_number(compute_percentile(sent, 0.5))} s; {late}", **found
        ),
        reading("rush-others", 1000 * compute_percentile(answers, 0.99), f"p50 {middle} ms, max {longest} ms"),
    ]


def _confirm_mails(bench: Bench, mails: int, others: int) -> dict[str, Any]:
    bench.empty()
    ids = [town.build_person_id(town.DIRECTORS + number) for number in range(mails + others)]
    asked = [(person, f"#c{number}-0 mail {town.build_person_id(0)}") for number, person in enumerate(ids[:mails])]
    said = [(person, f"#c{number}-0 plain") for number, person in enumerate(ids[mails:], mails)]
    count = town.DIRECTORS + len(ids)
    with (
        tempfile.TemporaryDirectory(prefix="bench-rush-") as folder,
        outside.child("tests.bench.senders", str(count)) as people,
        outside.service("tests.bench.clerk") as model,
    ):
        where = outside.heard(people)
        variables = town.build_variables(Path(folder), count, where, bench.redis, str(model["url"]))
        tokens = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
        with run_on_cores(CORES[:1]), outside.child("bot", "run", more=variables | tokens):
            outside.tell(people, {"do": "link"})
            outside.tell(people, {"do": "ask", "lines": asked})
            return outside.tell(people, {"do": "confirm", "lines": said, "per_s": PER_S})
