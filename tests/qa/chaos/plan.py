"""From a seed to what happens: who says what where and when, how a card is answered, when what breaks. Frozen data.

Every message carries a tag of its own (`#c17-4`: the fourth of conversation 17), which comes back in everything that
follows from it: step lines, cards, requests, mails. The scripted model reads nothing else.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bot.app.settings import Settings
from bot.dev.workspace.world import WorkspaceApp, WorkspaceRoom, World
from tests.harness.office import name_id
from tests.qa.company import TEAM, build_directory_file, build_members, get_dm, get_manager, get_person_id, is_leader

PER_CHANNEL = 8  # threads in one shared channel
SPEAKERS = 5  # people who talk in one thread
KINDS = (("plain", 58), ("look", 14), ("leave", 13), ("mail", 9), ("decide", 6))
"""What messages ask for, and how often of a hundred."""
LEADERS_KINDS = (("plain", 50), ("look", 10), ("leave", 6), ("mail", 9), ("decide", 25))
DAYS = (("1", 15), ("2", 60), ("5", 25))  # working days of a leave: by rule, one approver, two approvers
TAG = re.compile(r"#(c\d+-\d+)\b")
RATE = 30  # messages a second, unless the time is given
EVERY_S = {
    "kill": 8.0, "stop": 20.0, "redis": 40.0, "refuse": 25.0, "stall": 25.0, "dead": 30.0, "cut": 6.0, "promote": 30.0,
    "socket": 10.0, "away": 30.0,
}  # fmt: skip
"""About how far apart faults of a kind are."""
LASTS = {
    "stop": (1.3, 2.0), "redis": (0.2, 0.7), "refuse": (0.2, 0.9), "stall": (0.2, 0.9), "dead": (0.3, 1.3),
    "away": (0.4, 1.0),
}  # fmt: skip
"""How long they last, in leases."""
PROXIED = ("dead", "cut")  # faults that need a proxy before Redis; none stands before somebody else's
REPLICATED = ("promote",)  # faults that need a replica; only a server has one
OWNED = ("redis", "refuse", "stall")  # faults that nobody gives to somebody else's Redis
IN_TURN = ("refuse",)  # faults of several sorts, each of which comes in its turn
FAULTS = (*EVERY_S, "withheld", "twice", "late", "lost", "api", "model", "smtp", "expiry", "escalation")
ENGINE_FASTER = 8640
"""Where tasks escalate: so many times faster are the engine's timers, which remind after a day and escalate after
three: 10 and 30 seconds."""
EXPIRES_S = 20.0  # where cards expire: so long they wait for a button. At half time people are reminded.


@dataclass(frozen=True, slots=True)
class Rates:
    """How often of a hundred something small goes wrong."""

    withheld: float = 2.0  # an envelope never arrives: nothing before its redelivery
    unheard: float = 1.0  # an acknowledgement is lost on the way
    twice: float = 5.0  # a payload is delivered twice
    api: float = 3.0  # a Web API call: 429, 500, or the connection breaks before or after it was carried out
    model: float = 5.0  # a model call: 429, 500, no answer in time, a reply cut by length or in mid-body
    smtp: float = 12.0  # a mail: the connection is refused, or breaks before or after the text
    late: float = 3.0  # a payload comes later than those that were sent after it
    lost: float = 0.5  # an event is given up: nobody hears of it

    def only(self, faults: Sequence[str]) -> Rates:
        """These, with the faults that were not asked for switched off."""
        asked = {*faults, *(("unheard",) if "withheld" in faults else ())}
        return Rates(**{name: getattr(self, name) if name in asked else 0.0 for name in self.__slots__})


CALM = Rates(0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How big a run is, and what may break in it."""

    seed: int
    conversations: int = 500
    messages: int = 20
    processes: int = 4
    seconds: float = 0.0  # over which the messages are spread; 0: as long as `RATE` takes
    faults: tuple[str, ...] = FAULTS
    rates: Rates = field(default_factory=Rates)
    speed: float = 5.0
    """How many times faster than production everything of the bot goes that takes time: lease, paces, pauses. Their
    proportions and all limits are production's own."""
    versions: int = 1  # 2: every other process is of the version before
    odd: bool = False
    """That version reads a field of approvals under another name, as no version may: the control."""
    expires_s: float = EXPIRES_S
    engine_faster: int = ENGINE_FASTER

    def shorten(self, setting: str) -> float:
        """A setting's default, shorter by the speed."""
        return float(Settings.model_fields[setting].default) / self.speed

    @property
    def escalates_s(self) -> float:
        """Where tasks escalate: after so long."""
        return 72 * 3600 / self.engine_faster

    @property
    def lease_s(self) -> float:
        return self.shorten("lease_seconds")

    @property
    def reply_s(self) -> float:
        """How long one model call may take."""
        return self.shorten("reply_seconds")

    @property
    def lasts_s(self) -> float:
        return self.seconds or self.conversations * self.messages / RATE


@dataclass(frozen=True, slots=True)
class Line:
    tag: str
    conversation: int
    index: int
    at_s: float
    person: str
    text: str
    kind: str

    @property
    def file(self) -> str:
        """Name of the file that comes with it: every other leave has a note. Empty for none."""
        return f"note-{self.tag}.png" if self.kind == "leave" and self.index % 2 == 0 else ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A DM, or a thread that begins with its first line."""

    number: int
    channel: str
    direct: bool
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Strike:
    at_s: float
    kind: str
    lasts_s: float
    draw: int  # what picks the victim among those alive


@dataclass(frozen=True, slots=True)
class Plan:
    wanted: Wanted
    world: World
    directory: str  # the directory file: who leads whom
    conversations: tuple[Conversation, ...]
    strikes: tuple[Strike, ...]

    @property
    def lines(self) -> list[Line]:
        return [line for one in self.conversations for line in one.lines]


def dice(*about: object) -> random.Random:
    """The same about the same."""
    return random.Random(":".join(map(str, about)))


def draw(among: Sequence[tuple[str, int]], rng: random.Random) -> str:
    return rng.choices([name for name, _ in among], [weight for _, weight in among])[0]


def planned(wanted: Wanted) -> Plan:
    directs = (wanted.conversations + 1) // 2
    crowd = max(directs, 3 * TEAM)
    count = wanted.conversations // PER_CHANNEL + 1
    channels = tuple(WorkspaceRoom(name_id(f"C{n:03d}"), f"room-{n}", "channel") for n in range(count))
    talks = tuple(_conversation(wanted, n, crowd, directs) for n in range(wanted.conversations))
    world = World(WorkspaceApp(), build_members(crowd), channels)
    return Plan(wanted, world, build_directory_file(crowd), talks, _strikes(wanted))


def _conversation(wanted: Wanted, number: int, crowd: int, directs: int) -> Conversation:
    rng, lines = dice(wanted.seed, "talk", number), list[Line]()
    direct = number < directs
    channel = get_dm(get_person_id(number)) if direct else name_id(f"C{(number - directs) // PER_CHANNEL:03d}")
    speakers = [number] if direct else rng.sample(range(crowd), SPEAKERS)
    for index, at_s in enumerate(sorted(rng.uniform(0, wanted.lasts_s) for _ in range(wanted.messages))):
        tag, speaker, more = f"c{number}-{index}", rng.choice(speakers), ""
        kind = draw(LEADERS_KINDS if is_leader(speaker) else KINDS, rng)
        if kind == "leave":  # who is to approve how many days
            more = f" {get_person_id(get_manager(speaker))} {draw(DAYS, rng)}"
        elif kind == "mail":  # who gets it
            more = f" {get_person_id(rng.choice([n for n in range(crowd) if n != speaker]))}"
        lines.append(Line(tag, number, index, at_s, get_person_id(speaker), f"#{tag} {kind}{more}", kind))
    return Conversation(number, channel, direct, tuple(lines))


def _strikes(wanted: Wanted) -> tuple[Strike, ...]:
    """At least one of every kind that was asked for, none at the very end."""
    found: list[Strike] = []
    for kind in (one for one in EVERY_S if one in wanted.faults):
        rng, times = dice(wanted.seed, "strike", kind), max(1, round(wanted.lasts_s / EVERY_S[kind]))
        start = rng.randrange(10_000)
        for n in range(times):
            at_s = wanted.lasts_s / times * (n + rng.uniform(0.2, 0.8))
            lasts_s = wanted.lease_s * rng.uniform(*LASTS.get(kind, (0.0, 0.0)))
            found.append(Strike(at_s, kind, lasts_s, start + n if kind in IN_TURN else rng.randrange(10_000)))
    return tuple(sorted(found, key=lambda one: one.at_s))
