"""100,000 people in the directory: what an answer and a card cost, and a morning list for everybody."""

from tests.qa.bench import outside
from tests.qa.bench.bench import Bench
from tests.qa.bench.figures import Reading, format_rounded_number, reading

FEW = 100


def crowd(bench: Bench) -> list[Reading]:
    many = bench.options.few(100_000, 2_000)
    bench.doing(f"{many:,} people in the directory")
    few, all_ = (_measure(bench, count) for count in (FEW, many))
    return [
        _compare("crowd-answer", few["answer_ms"], all_["answer_ms"]),
        _compare("crowd-card", few["card_ms"], all_["card_ms"]),
        reading("crowd-built", all_["built_ms"] / 1000, "once in a process, and in part when a name changes"),
        reading("crowd-memory", all_["memory_mb"]),
        reading(
            "crowd-morning", all_["longest_ms"], f"the whole commit {format_rounded_number(all_['commit_s'])} s", **all_
        ),
    ]


def _measure(bench: Bench, count: int) -> dict[str, float]:
    bench.empty()
    with outside.service("tests.qa.bench.programs.crowd", bench.redis, str(count)) as found:
        return found


def _compare(name: str, few_ms: float, many_ms: float) -> Reading:
    told = " → ".join(f"{format_rounded_number(ms)} ms" for ms in (few_ms, many_ms))
    return reading(name, many_ms / few_ms, f"of {FEW} people: {told}")
