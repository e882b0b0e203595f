"""What is written to Redis and what stands there afterwards, one line for each shape."""

import base64
import hashlib
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.golden.golden_files import hide_changing

TELLING = frozenset({"v", "k", "kind", "state", "status", "effect", "gate", "is_answer"})
"""Names of which the value belongs to the shape."""
BEFORE = 60
"""Characters that may stand before JSON in what is stored."""
BRIEF_MS = 60_000
"""What Redis keeps no longer than this may be gone or not when it is looked at."""
FILES = ("# ", "<?xml")
"""How the files of a process begin."""
_GENERAL = tuple(
    (re.compile(pattern), placeholder)
    for pattern, placeholder in (
        (r"\bDU\d\b", "<dm>"),
        (r"\bU\d\b", "<person>"),
        (r"\b\d{4}-\d\d-\d\d\b", "<day>"),
        (r"\b[A-Z]-\d{4}(-\d+)?\b", lambda found: "<task>" if found[1] else "<request>"),
        (r"\b(Ev|i|c|s)\d+\b", "<item>"),
        (r"(?<=:)\d+\.\d+$", "<thread>"),
        (r"(?<=:)\d+(?=:|$)", "<n>"),
    )
)
_NAME = re.compile(r"[a-z][a-z_]*")
_FIELD = re.compile(r"[a-z][a-z_]*|[A-Za-z\d]*\t.*")
_UNITS = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000))


def generalize(text: str) -> str:
    """The text with placeholders for everything that belongs to one person, request or moment."""
    text = hide_changing(text)
    for pattern, placeholder in _GENERAL:
        text = pattern.sub(placeholder, text)
    return text.replace("\t", "\\t")


def describe_shape(value: Any, name: str = "", depth: int = 0) -> str:
    """What the value is: names of its fields, two levels deep, and of what tells its kind, the value."""
    if isinstance(value, str) and value.startswith("z:"):
        return f"packed {describe_shape(zlib.decompress(base64.b64decode(value[2:])).decode(), name, depth)}"
    if isinstance(value, str):
        begin, opened = _open_json(value)
        shape = _describe_text(value, name) if opened is None else describe_shape(opened, name, depth)
        return f"{_describe_text(value[:begin], name)} {shape}" if begin else shape
    if isinstance(value, dict):
        if not all(map(_NAME.fullmatch, value)):
            shapes = {f"{generalize(key)}: {describe_shape(one, '', depth + 1)}" for key, one in value.items()}
            return f"{{{', '.join(sorted(shapes))}}}" if depth < 2 else "{…}"
        scalars = {key for key, one in value.items() if key in TELLING and not isinstance(one, dict | list)}
        parts = [f"{key}={value[key]}" if key in scalars else key for key in sorted(value)]
        return f"{{{', '.join(map(str, parts))}}}" if depth < 2 else "{…}"
    if isinstance(value, list):
        return f"[{', '.join(sorted({describe_shape(one, '', depth + 1) for one in value}))}]"
    if name in TELLING:
        return str(value)
    return {"int": "<n>", "bool": "<bool>", "NoneType": "null"}.get(type(value).__name__, "…")


def _open_json(text: str) -> tuple[int, Any]:
    """Where JSON begins in the text, and what it is; (0, None) if there is none."""
    begin = next((found.start() for found in re.finditer(r"\{\"|\[[\[\"{]|\{\}$|\[\]$", text)), -1)
    if begin not in range(BEFORE):
        return 0, None
    try:
        return begin, json.loads(text[begin:])
    except ValueError:
        return 0, None


def _describe_text(text: str, name: str) -> str:
    hidden = generalize(text)
    if text == "" or name in TELLING or (hidden.startswith("<") and hidden.endswith(">") and " " not in hidden):
        return hidden or "''"
    return "<n>" if re.fullmatch(r"-?\d+", text) else "…"


@dataclass
class Shapes:
    """Shapes under the name of where they stand, each once."""

    found: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, where: str, shape: str) -> None:
        self.found[where].add(shape)

    def add_fields(self, where: str, fields: Mapping[str, str], first: str = "") -> None:
        """Which fields stand together, and what is in each."""
        self.add(where, f"({' | '.join(filter(None, (first, ' '.join(fields))))})")
        for name, shape in fields.items():
            self.add(where, f"{name}: {shape}")

    def list_sections(self) -> dict[str, list[str]]:
        return {where: sorted(shapes) for where, shapes in sorted(self.found.items())}

    def watch_writes(self, patch: pytest.MonkeyPatch) -> None:
        """From here on, every write that a script is asked for is added."""
        known: dict[str, str] = {}
        load, run = Redis.script_load, Redis.evalsha

        def watch_load(redis: Redis, script: str) -> Any:
            known[hashlib.sha1(script.encode()).hexdigest()] = script
            return load(redis, script)

        def watch_run(redis: Redis, sha: str, *rest: Any) -> Any:
            script = known.get(sha, "")
            if script and len(rest) == 3 and str(rest[-1]).startswith("["):
                for write in _read_writes(script, json.loads(rest[-1])):
                    self._add_write(*write)
            return run(redis, sha, *rest)

        patch.setattr(Redis, "script_load", watch_load)
        patch.setattr(Redis, "evalsha", watch_run)

    def _add_write(self, op: str, key: str, *rest: Any) -> None:
        """A write by its parts; names and values that stand in a row as fields, behind all others."""
        texts, rows = [], list[list[Any]]()
        for one in rest:
            if isinstance(one, list):
                rows.append(one)
            elif one is not False:
                texts.append(str(one))
        if op == "fields":
            texts += [part for rule in rows.pop() for part in rule]
        where, row = f"{op} {generalize(key)}", [part for one in rows for part in one]
        names, values = row[::2], row[1::2]
        if not names or len(names) != len(values) or not all(map(_FIELD.fullmatch, names)):
            self.add(where, " | ".join(map(_describe_argument, (*texts, *row))))
            return
        first = " ".join(map(_describe_argument, texts))
        fields = {generalize(one): describe_shape(value, one) for one, value in zip(names, values, strict=True)}
        if op == "entry":  # what is told of each kind
            self.add(where, f"{first} | {' '.join(f'{name}={shape}' for name, shape in fields.items())}")
        else:
            self.add_fields(where, fields, first)

    async def add_keys(self, redis: Redis) -> None:
        """The keys that there are now: each with its type, how long it is kept, and the shape of its value."""
        async for key in redis.scan_iter():
            kind, ttl_ms = (await redis.type(key)).decode(), await redis.pttl(key)
            if ttl_ms == -1 or ttl_ms >= BRIEF_MS:
                name = generalize(key.decode())
                family, item = re.fullmatch(r"(cs:\{q\}:dd:)?(.*)", name).groups()  # type: ignore[union-attr]
                where = f"{f'{family}<item>' if family else name} | {kind} | {_format_ttl(ttl_ms)}"
                if family:
                    self.add(where, item)
                else:
                    await self._add_content(where, redis, key, kind)

    async def _add_content(self, where: str, redis: Redis, key: bytes, kind: str) -> None:
        match kind:
            case "string":
                self.add(where, _describe_stored(await redis.get(key)))
            case "hash":
                stored = {generalize(name.decode()): value for name, value in (await redis.hgetall(key)).items()}
                fields = {name: _describe_stored(value, name) for name, value in sorted(stored.items())}
                if all(map(_NAME.fullmatch, fields)):
                    self.add_fields(where, fields)
                else:
                    self.found[where] |= {f"{name}: {shape}" for name, shape in fields.items()}
            case "list":
                self.found[where] |= {_describe_stored(one) for one in await redis.lrange(key, 0, -1)}
            case "set":
                self.found[where] |= {_describe_stored(one) for one in await redis.smembers(key)}
            case "zset":
                for one, score in await redis.zrange(key, 0, -1, withscores=True):
                    self.add(where, f"{_describe_stored(one)} at {'<ms>' if score > 10**12 else '<n>'}")
            case _:
                for _, entry in await redis.xrange(key):
                    told = {name.decode(): value for name, value in entry.items()}
                    shapes = (f"{name}={_describe_stored(value, name)}" for name, value in told.items())
                    self.add(where, " ".join(shapes))


def _describe_argument(text: str) -> str:
    if _open_json(text)[1] is not None or text.startswith("z:"):
        return describe_shape(text)
    hidden = generalize(text)
    return hidden if re.fullmatch(r"[\w:{}<>./-]*", hidden) else "…"


def _read_writes(script: str, args: list[Any]) -> Iterator[list[Any]]:
    """The writes that a script is given, each with name and arguments, from where the script itself says; and the whole
    row of one that puts an item into a lane."""
    begins = re.search(r"\bapply\((\d+)\)", script)
    if begins is None:
        if any(isinstance(one, str) and one.startswith("{") for one in args):
            yield ["script", *(one if isinstance(one, str) else json.dumps(one) for one in args)]
        return
    yield from args[int(begins[1]) - 1 :]


def _format_ttl(ttl_ms: int) -> str:
    """In the largest unit of which there are several; what has passed since the write does not show."""
    if ttl_ms < 0:
        return "for ever"
    unit, ms = next(((unit, ms) for unit, ms in _UNITS if ttl_ms > 1.5 * ms), _UNITS[-1])
    return f"{-(-ttl_ms // ms)} {unit}"


def _describe_stored(value: Any, name: str = "") -> str:
    """Also where it was packed. Of the files of processes only that they are there."""
    if isinstance(value, bytes):
        try:
            return _describe_stored(value.decode(), name)
        except UnicodeDecodeError:
            return f"packed {describe_shape(unpack(value), name)}"
    return "(a file)" if value.startswith(FILES) else describe_shape(value, name)


def unpack(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return zlib.decompress(value, 15 if value[:1] == b"\x78" else -15).decode()
