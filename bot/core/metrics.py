"""The metrics of a process, for Prometheus. `bot.ops.health` serves them.

Each kind of action has one histogram: how often, how it ended (`outcome`), how long it took. Labels have few values,
all of them ours: kinds of work, names of scripts, of Slack's methods, of the models in the settings, of our tools. No
label ever holds a person, a place, a request or a text."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

PREFIX = "countersign"
QUICK_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3, 10)
"""Bounds (s) for actions that take milliseconds. Slack waits for three seconds."""
SLOW_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 180)
"""Bounds (s) for requests to other systems."""
LONG_S = (1, 5, 15, 60, 300, 3_600, 86_400)
"""Bounds (s) for actions that may wait for people."""

OTHER = "other"
"""The label for any value outside a known few."""

REGISTRY = CollectorRegistry()
"""The registry of this process. Two bots in one process, which only tests have, count together."""
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)


def _build_histogram(name: str, text: str, labels: tuple[str, ...], bounds: tuple[float, ...]) -> Histogram:
    return Histogram(name, text, labels, namespace=PREFIX, buckets=bounds, registry=REGISTRY)


def _build_counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, labels, namespace=PREFIX, registry=REGISTRY)


def _build_gauge(name: str, text: str, *labels: str) -> Gauge:
    return Gauge(name, text, labels, namespace=PREFIX, registry=REGISTRY)


# Input and waiting work

ACKNOWLEDGEMENTS = _build_histogram(
    "acknowledgement_seconds",
    "From the delivery of an event to the platform's hearing that it has arrived: acknowledged or failed.",
    ("kind", "outcome"),
    QUICK_S,
)
ACCEPTED_ITEMS = _build_histogram(
    "accepted_item_seconds",
    "Making durable what has come, which is a part of the acknowledgement: new, duplicate, full or failed.",
    ("outcome",),
    QUICK_S,
)
ITEMS = _build_histogram(
    "item_seconds",
    "Handling one item of a lane, by kind of work: done, later, failed or lost.",
    ("kind", "outcome"),
    SLOW_S,
)
ITEM_WAITS = _build_histogram(
    "item_wait_seconds", "From putting an item to the first time it is handled, by kind of work.", ("kind",), SLOW_S
)
QUEUE_LANES = _build_gauge("queue_lanes", "Lanes that hold items, of the whole installation.")
QUEUE_DUE_LANES = _build_gauge("queue_due_lanes", "Lanes that nobody has taken though they are due.")
QUEUE_ITEMS = _build_gauge("queue_items", "Items in the lanes that are due (of the first 50 of each partition).")
QUEUE_OLDEST = _build_gauge("queue_oldest_seconds", "How long the oldest item of a lane that is due has waited.")
QUEUE_TIMERS = _build_gauge("queue_timers", "Timers that are set.")
OPEN_CARDS = _build_gauge("open_cards", "Cards that wait for somebody.")
HELD_LANES = _build_gauge("held_lanes", "Lanes that this process handles now.")
LEASE_LOSSES = _build_counter("lease_losses", "Lanes that this process has lost to another one.")
TAKEOVERS = _build_counter("store_takeovers", "Times that a Redis server has taken over or was started again.")
DEAD_LETTERS = _build_counter("items_given_up", "Items that were given up after their tries.", "kind")
DEAD_LETTERS_KEPT = _build_gauge("dead_letters", "Dead letters that nobody has put back.")

ACCEPTED_ITEMS.labels("full")  # starts at zero, so that the first one is an increase

# The bot's work

RUNS = _build_histogram(
    "run_seconds",
    "Runs that have ended, by done, stopped or cancelled, with their waiting for people.",
    ("outcome",),
    LONG_S,
)
STEPS = _build_counter("steps", "Calls of tools, by tool and how they ended.", "tool", "outcome")
MODEL_REQUESTS = _build_histogram(
    "model_request_seconds", "Requests to a model: answered, or why it did not.", ("model", "outcome"), SLOW_S
)
MODEL_RETRIES = _build_counter(
    "model_retries", "Tries of a request to a model that failed and were followed by another, by why.", "model", "cause"
)
TOKENS = _build_counter("tokens", "Tokens by model: in, cached (part of in) and out.", "model", "kind")
COSTS = _build_counter("cost", "What replies cost by the price list, by currency.", "model", "currency")
UNPRICED_TOKENS = _build_counter("unpriced_tokens", "Tokens for which there is no price.", "model")
PRESSES = _build_counter("presses", "Presses: decided, changed (nothing decided), or why they were refused.", "outcome")
EFFECTS = _build_counter("effects", "Effects that have ended: done, failed or unknown.", "tool", "outcome")
EFFECT_TIMES = _build_histogram("effect_seconds", "Running an effect, by tool.", ("tool",), SLOW_S)
MAILS = _build_histogram("mail_seconds", "Mails: sent, or why not; unknown if nobody can say.", ("outcome",), SLOW_S)

# The systems it depends on

REDIS_SCRIPTS = _build_histogram(
    "redis_script_seconds", "Calls of the queue's scripts: ok or failed.", ("script", "outcome"), QUICK_S
)
REDIS_ERRORS = _build_counter("redis_errors", "Calls of Redis that did not succeed, by why.", "error")
CHAT_CALLS = _build_histogram(
    "chat_call_seconds",
    "Calls of the chat platform's API: ok, refused, limited or unreachable.",
    ("method", "outcome"),
    SLOW_S,
)
CHAT_LIMITS = _build_counter("chat_rate_limits", "Calls that the chat platform refused by its rate limit.", "method")
DIRECTORY_AGE = _build_gauge("directory_age_seconds", "Since the whole list of people was read; NaN before that.")
CLOCK_OFFSET = _build_gauge("clock_offset_seconds", "This machine's clock minus that of Redis.")
READY = _build_gauge("ready", "1 if this process takes work, 0 if not.")
STORE_UP = _build_gauge("store_up", "1 if Redis answered while these figures were collected, 0 if not.")
INFO = _build_gauge("info", "Always 1; the label tells the version.", "version")


@dataclass(slots=True)
class Outcome:
    """The outcome of a timed action."""

    name: str


@contextmanager
def time_outcome(histogram: Histogram, *, outcome: str = "ok", **labels: str) -> Iterator[Outcome]:
    """Time the work in the context, under the outcome set there. An exception counts as failed if no outcome was
    set."""
    began, ended = time.perf_counter(), Outcome(outcome)
    try:
        yield ended
    except BaseException:
        if ended.name == outcome:
            ended.name = "failed"
        raise
    finally:
        histogram.labels(**labels, outcome=ended.name).observe(time.perf_counter() - began)
