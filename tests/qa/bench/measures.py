"""What work costs: a step beside the floor and beside peers, a turn with a long history, many runs at once, many people
in the directory, and waiting for replicas. And what people feel: how soon an event is acknowledged, also while a
hundred mails are confirmed in one moment."""

import json
import tempfile
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tests.qa.bench import outside, town
from tests.qa.bench.bench import CORES, Bench, run_on_cores
from tests.qa.bench.figures import Reading, compute_percentile, format_rounded_number, median, ratios, reading, spread
from tests.qa.bench.job import Result
from tests.qa.bench.mock import STEPS
from tests.qa.bench.outside import NotMeasured
from tests.qa.company import DIRECTORS, get_person_id

FLOOR = "peers:floor"
BIG = 100_000
FEW_PEOPLE = 100
SLACK_WAITS_MS = 3000
OTHERS_PER_S = 20.0  # messages of others while mails are confirmed
QUESTION = "Who of Person 1 to Person 6 is at work today?"
MOMENTS = {"card": "message → card", "press": "press → mail"}
Costs = defaultdict[str, list[float]]  # CPU ms of a step, by what was measured, round by round


def cpu(bench: Bench) -> list[Reading]:
    """All programs in turn, several rounds; ratios are of the same round."""
    runs, warm, costs = bench.few(100, 10), bench.few(10, 2), Costs(list)
    ours = dict.fromkeys((FLOOR, "ours", "ours:responses", "ours:whole"), outside.PYTHON)
    programs = ours | {one.program: one.python for one in bench.peers}
    with outside.child("tests.qa.bench.town", str(runs + warm)) as town:  # where every step of `whole` is posted
        workspace = outside.heard(town) | outside.tell(town, do="list_rooms")
        for number in bench.list_rounds():
            for program, python in programs.items():
                bench.tell(f"{program}, one run after another", number)
                result = bench.run(program, bench.job(runs=runs, warm=warm, workspace=workspace), python)
                costs[program].append(result.cpu_ms)
    best = min(bench.peers, key=lambda one: median(costs[one.program]), default=None)
    return [
        _compare("ours", costs, "ours", FLOOR, rounds=costs),
        _compare("ours-responses", costs, "ours:responses", FLOOR),
        _compare("whole", costs, "ours:whole", FLOOR),
        *([_compare("peers", costs, best.program, "ours", f" of {best.title}")] if best else []),
    ]


def history(bench: Bench) -> list[Reading]:
    """A turn in a conversation that is as long as a life beside one in a short one."""
    runs, warm, costs = bench.few(200, 15), bench.few(20, 4), Costs(list)
    most = bench.few(BIG, 2_000)
    for number in bench.list_rounds():
        for count in (10, most):
            bench.tell(f"a turn with {count:,} messages of history", number)
            job = bench.job(runs=runs, warm=warm, earlier=count)
            costs[str(count)].append(bench.run("ours", job).cpu_ms * job.steps)
    return [_compare("history", costs, str(most), "10", f" a turn, {most:,} messages", rounds=costs)]


def _compare(name: str, costs: Costs, above: str, below: str, told: str = "", **detail: Any) -> Reading:
    found = ratios(costs[above], costs[below])
    note = " ÷ ".join(format_rounded_number(median(costs[one])) for one in (above, below))
    return reading(name, median(found), f"{note} ms{told}, {spread(found)}".removesuffix(", "), ratios=found, **detail)


@dataclass(frozen=True)
class Crowd:
    """So many runs at once in one process, with a model that answers after so many ms."""

    runs: int
    after_ms: int
    rounds: int

    @property
    def ideal_s(self) -> float:
        """As if nothing but the model took time."""
        return STEPS * self.after_ms / 1000

    def run(self, bench: Bench, program: str, python: str = outside.PYTHON) -> Result:
        bench.doing(f"{program}, {self.runs} runs at once, {self.after_ms} ms model")
        job = bench.job(after_ms=self.after_ms, runs=self.runs, at_once=self.runs, warm=5)
        return bench.run(program, job, python, failing=True)

    def compare(self, bench: Bench, name: str, results: list[Result]) -> Reading:
        """With the floor and the peers in the same place, once, where the model is quick."""
        found, beside = [one.wall_s / self.ideal_s for one in results], list[str]()
        programs = [(FLOOR, outside.PYTHON), *((peer.program, peer.python) for peer in bench.peers)]
        if name != "many-1000-slow":
            for program, python in programs:
                one = self.run(bench, program, python)
                times = f"{format_rounded_number(one.wall_s / self.ideal_s)} ×"
                beside.append(f"{program} {f'{len(one.errors)} failed' if one.errors else times}")
        taken, ideal = map(format_rounded_number, (median([one.wall_s for one in results]), self.ideal_s))
        note = f"{self.runs} runs, {taken} s for {ideal} s; {'; '.join(beside)}".removesuffix("; ")
        return reading(name, median(found), note, rounds=found, cpu_ms_per_step=median([one.cpu_ms for one in results]))


def many(bench: Bench) -> list[Reading]:
    few, rounds = bench.few, bench.rounds
    crowds = {
        "many-200": Crowd(few(200, 40), 300, min(rounds, 3)),
        "many-1000-slow": Crowd(few(1000, 100), few(3000, 1000), min(rounds, 2)),
        "many-1000": Crowd(few(1000, 100), 300, min(rounds, 3)),
    }
    found = {name: [one.run(bench, "ours") for _ in range(one.rounds)] for name, one in crowds.items()}
    errors = [error for results in found.values() for one in results for error in one.errors]
    growth = [one.rss_per_run / 1024 for name in ("many-1000", "many-1000-slow") for one in found[name]]
    return [
        *(one.compare(bench, name, found[name]) for name, one in crowds.items()),
        reading("many-errors", len(errors), errors[0] if errors else "", errors=errors[:20]),
        reading("many-memory", max(growth), "the worst of the rounds", rounds=growth),
    ]


def crowd(bench: Bench) -> list[Reading]:
    """What an answer and a card cost with many people in the directory, and a morning list for everybody."""
    found = list[dict[str, Any]]()
    for count in (FEW_PEOPLE, bench.few(100_000, 2_000)):
        bench.doing(f"{count:,} people in the directory")
        bench.empty()
        with outside.service("tests.qa.bench.programs.crowd", bench.redis, str(count)) as one:
            found.append(one)
    few, all_ = found

    def compare(name: str, what: str) -> Reading:
        told = " → ".join(f"{format_rounded_number(one[what])} ms" for one in found)
        return reading(name, all_[what] / few[what], f"of {FEW_PEOPLE} people: {told}")

    commit_s = format_rounded_number(all_["commit_s"])
    return [
        compare("crowd-answer", "answer_ms"),
        compare("crowd-card", "card_ms"),
        reading("crowd-built", all_["built_ms"] / 1000, "once in a process, and in part when a name changes"),
        reading("crowd-memory", all_["memory_mb"]),
        reading("crowd-morning", all_["longest_ms"], f"the whole commit {commit_s} s", **all_),
    ]


def confirm(bench: Bench) -> list[Reading]:
    with outside.service("tests.qa.bench.programs.confirm", str(bench.few(100, 2))) as found:
        readings = list[Reading]()
        for moment, title in MOMENTS.items():
            told = ", ".join(f"{name} {format_rounded_number(one[f'{moment}_ms'])} ms" for name, one in found.items())
            more_ms = found["replica"][f"{moment}_more_ms"]
            readings.append(reading(f"confirm-{moment}", more_ms, f"{title}: {told}", **found))
        times = found["embedded"]["press_ms"] / found["embedded-server"]["press_ms"]
        return [*readings, reading("confirm-embedded", times)]


def ack(bench: Bench) -> list[Reading]:
    """A burst of messages over the real Bolt connection, while the worker has its hands full of them too."""
    seconds, per_s, rounds = bench.few(4, 1), bench.few(500, 50), list[dict[str, Any]]()
    for number in bench.list_rounds():
        bench.tell(f"{per_s} events/s for {seconds} s", number)
        bench.empty()
        with outside.child("tests.qa.bench.town", str(per_s)) as workspace:
            job = bench.job(after_ms=bench.few(3000, 300), workspace=outside.heard(workspace))
            with outside.child("tests.qa.bench.programs.connected", json.dumps(asdict(job))) as bot:
                outside.heard(bot)
                outside.tell(workspace, do="wait_for_link")
                outside.tell(workspace, do="hear_answers", lines=[(get_person_id(0), QUESTION)])
                burst = {"events": per_s * seconds, "per_s": per_s, "text": QUESTION}
                rounds.append(outside.tell(workspace, do="send_burst", **burst))
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
    mails, others = bench.few(100, 10), bench.few(600, 20)
    bench.doing(f"{mails} mails are confirmed at once, and {others} others write")
    found = _confirm_mails(bench, mails, others)
    answers_ms, sent = [1000 * one for one in found["answers_s"]], found["mails_s"]
    if len(sent) != mails:
        raise NotMeasured(f"{len(sent)} mails arrived, not {mails}")
    measured = compute_percentile(found["acks_ms"], 0.99), compute_percentile(sent, 0.5), median(answers_ms)
    ack, half, middle, longest = map(format_rounded_number, (*measured, max(answers_ms)))
    late = f"{found['late_cards']} cards had yet to be rewritten then; acknowledged p99 {ack} ms"
    return [
        reading("rush-mails", max(sent), f"p50 {half} s; {late}", **found),
        reading("rush-others", compute_percentile(answers_ms, 0.99), f"p50 {middle} ms, max {longest} ms"),
    ]


def click(bench: Bench) -> list[Reading]:
    """Cards of mails are pressed, evenly spaced. On Feishu the answer to a press has the new card."""
    presses, per_s, rounds = bench.few(300, 10), 100.0, list[list[float]]()
    for number in bench.list_rounds():
        bench.tell(f"{presses} cards are pressed", number)
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
