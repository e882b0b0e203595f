"""What the real scripts wrote down of their calls (`log_calls` of `tests.qa.chaos.bot`), played by the model.

spin plays it with the very text that it proves: what a script does stands in `store.pml` alone. Each lane is played by
itself, because a script takes one lane after the other. Not played: what a checkpoint or a commit writes into a card's
record."""

import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.queue.keys import Keys
from bot.redis.connect import connect_redis
from tests.qa.lanes.model import HERE, ModelError

_ANSWERS = {"ok": "OK", "refused": "OK", "lost": "LOST", "done": "DONE", "next": "NEXT", "new": "NEW", "taken": "TAKEN"}
Call = tuple[int, str, Sequence[str], Any, Any]
"""When (epoch ms), script, its arguments, its answer, what it has enqueued."""


@dataclass
class LaneLog:
    """One lane's calls as `log.pml` reads them. Items, tokens and nonces are numbered as they come."""

    lease_ms: int
    calls: list[str] = field(default_factory=list)
    items: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Numbers of an id: a timer puts it again. Those before the last that were committed are left out."""
    ended: set[int] = field(default_factory=set)
    tokens: dict[str, int] = field(default_factory=dict)
    nonces: dict[str, int] = field(default_factory=dict)
    stops: dict[str, str] = field(default_factory=dict)  # person → when they have said *stop* last
    count: int = 0

    def find_item(self, id: str) -> int:
        return self.items[id][0] if self.items[id] else self.add_item(id)

    def add_item(self, *ids: str) -> int:
        self.count += 1
        for id in ids:
            self.items[id] = [*(one for one in self.items[id] if one not in self.ended), self.count]
        return self.count

    def number_token(self, token: str) -> int:
        return self.tokens.setdefault(token, len(self.tokens) + 1)

    def number_nonce(self, nonce: str) -> int:
        return self.nonces.setdefault(nonce, len(self.nonces) + 3)

    def add(self, at: int, script: str, token: str, item: int, x: int, y: int, answer: str, row: Any = None) -> None:
        """`row`: the lane as it was handed out."""
        number = self.number_token(token) if token else 0
        head = (self.find_item(row[3]), self.number_token(row[1]), int(row[2])) if row else (0, 0, 0)
        self.calls.append(f"calls ! {at}, {script}, {number}, {item}, {x}, {y}, {answer}, {', '.join(map(str, head))};")


async def read_logs(url: str) -> dict[str, LaneLog]:
    """The log of each lane, from the calls of each partition in the order in which Redis ran them."""
    redis, keys = await connect_redis(url, connections=2), Keys()
    rows = [await redis.lrange(keys.build_key(one, "log"), 0, -1) for one in range(keys.partitions)]
    await redis.aclose()
    partitions: list[list[Call]] = [list(map(json.loads, calls)) for calls in rows if calls]
    lease_ms = next(int(args[5]) for calls in partitions for _, name, args, *_ in calls if name == "commit")
    logs: dict[str, LaneLog] = defaultdict(lambda: LaneLog(lease_ms))
    for calls in partitions:
        for call in calls:
            _add_call(logs, call, calls[0][0])
    return logs


def _add_call(logs: dict[str, LaneLog], call: Call, since_ms: int) -> None:
    now, name, args, answer, enqueued = call
    at = now - since_ms
    for lane, id in enqueued if name != "put" else ():
        is_new = name == "pump" or not logs[lane].items[id]  # a timer puts an id again
        item = logs[lane].add_item(id) if is_new else logs[lane].find_item(id)
        logs[lane].add(at, "ENQUEUE", "", item, 0, 0, "NEW")
    if name == "put":
        _add_put(logs[args[2]], args, answer, at)
    elif name == "claim":
        for row in answer:
            logs[row[0]].add(at, "CLAIM", "", 0, logs[row[0]].number_nonce(args[1]), 0, "TAKEN", row)
    elif name == "extend":
        for lane, token in zip(args[2::2], args[3::2], strict=True):
            logs[lane].add(at, "EXTEND", token, 0, 0, 0, "LOST" if token in answer[0] else "OK")
    elif name == "stop":
        log, said_at, whose = logs[args[2]], args[3], args[4]
        if log.stops.get(whose) != said_at:  # a repeated one keeps its first time
            log.add(at, "STOP", "", 0, 0, 0, "NOTHING")
        log.stops[whose] = said_at
    elif name in ("checkpoint", "commit", "retry"):
        log, item = logs[args[1]], logs[args[1]].find_item(args[3].partition("@")[2])
        said = answer if name == "retry" else answer[0]
        stopped = str(int(bool(answer[2]))) if name == "checkpoint" and said == "ok" else "-1"
        x, y = {"checkpoint": ("0", stopped), "commit": (args[9], "0"), "retry": args[4:6]}[name]
        if name == "commit" and said != "lost":
            log.ended.add(item)
        log.add(at, name.upper(), args[2], item, int(x), int(y), _ANSWERS[said], answer[1] if said == "next" else None)


def _add_put(log: LaneLog, args: Sequence[str], answer: Any, at: int) -> None:
    nonce, owner, ids, said = log.number_nonce(args[1]), int(bool(args[5])), args[15:], answer[0]
    known = next((log.items[id][0] for id in ids if log.items[id]), 0)
    if said not in ("new", "duplicate", "taken"):  # full, or closed: nothing has happened
        return
    item = known or log.add_item(*ids)
    if said == "duplicate" and not known:
        log.add(at, "WITHDRAW", "", item, 0, 0, "OK")
    row = answer[1] if said == "taken" else None
    log.add(at, "PUT", "", item, nonce, owner, "DUPLICATE" if said == "duplicate" else _ANSWERS[said], row)


def find_refused_call(log: LaneLog, folder: Path) -> str:
    """The first call whose answer is not the model's; empty: the model accepts the log. Raises ModelError."""
    shutil.copy(HERE / "store.pml", folder)
    sizes = f"#define LEASE {log.lease_ms}\n#define ITEMS {log.count + 1}\n#define ROOM {log.count + 2}\n"
    player, feed = (HERE / "log.pml").read_text(), "\n  ".join(log.calls)
    (folder / "played.pml").write_text(f"{sizes}{player}\nactive proctype Log() {{\n  {feed}\n}}\n")
    played = subprocess.run(["spin", "-T", "played.pml"], cwd=folder, capture_output=True, text=True, timeout=120)
    said, count = played.stdout + played.stderr, played.stdout.split().count("call")
    if "assertion violated" in said:
        return log.calls[count - 1]
    if count != len(log.calls):
        raise ModelError(f"{count} of {len(log.calls)} calls were played: {said[-500:]}")
    return ""
