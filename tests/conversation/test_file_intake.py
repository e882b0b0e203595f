"""Files between a message and its request: killed anywhere, each is kept and attached once, and none is lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.chat.messages import Place, SentFile
from bot.conversation.file_intake import FileIntake
from bot.core.errors import FileRefusedError
from bot.storage.file_bytes import FolderBytes
from bot.storage.files import FileStore, build_waiting_key
from tests.harness.files import pdf, png
from tests.harness.lab import DM, Edges, Lab, every_edge
from tests.stories.script import expense
from tools.spec import AttachedFile

SENT = (SentFile(id="F0RECEIPT1", name="taxi.png"), SentFile(id="F0RECEIPT2", name="hotel.pdf"))
CONTENT = {"F0RECEIPT1": png("taxi"), "F0RECEIPT2": pdf("hotel")}


@dataclass
class Shelf:
    """A platform's files in memory; every look is a place where the process can end."""

    edge: Edges
    fetched: int = 0

    async def list_message_files(self, place: Place, at: str) -> tuple[SentFile, ...]:
        return ()

    async def fetch_file(self, file: SentFile, max_bytes: int) -> bytes:
        self.edge()
        self.fetched += 1
        if file.id not in CONTENT:
            raise FileRefusedError("gone")
        return CONTENT[file.id]


@dataclass(frozen=True)
class EdgedBytes(FolderBytes):
    """Bytes on the disk; the process can end right before and right after they are there."""

    edge: Edges = field(default_factory=Edges)

    async def save_bytes(self, sha256: str, content: bytes) -> None:
        self.edge()
        await super().save_bytes(sha256, content)
        self.edge()


def build_intake(lab: Lab, folder: Path, edges: Edges) -> FileIntake:
    store = FileStore(lab.redis, lab.keys, "T1", EdgedBytes(folder, edges))
    return FileIntake(source=Shelf(edges), files=store, clock=lab.clock, max_bytes=1_000_000)


async def answer(messages: Messages) -> ModelReply:
    """The same, however often it is asked."""
    return ModelReply(text="好的。") if any(one["role"] == "tool" for one in messages) else expense()


def build_lab(redis: Redis, folder: Path, edges: Edges) -> Lab:
    lab = Lab(redis, [answer] * 50, files=lambda lab: build_intake(lab, folder, edges))
    lab.wall.edge = lab.lanes.edge = edges
    return lab


async def test_killed_anywhere_both_files_are_on_one_request(redis: Redis, tmp_path: Path) -> None:
    round_ = 0

    async def play(edges: Edges) -> None:
        nonlocal round_
        round_ += 1
        folder = tmp_path / str(round_)
        await redis.flushall()
        lab = build_lab(redis, folder, edges)
        await lab.says("报销 500 元差旅费", files=SENT)
        await lab.work()
        await lab.presses(lab.wall.cards()[-1], "confirm")
        await lab.work()
        [request] = await lab.engine.list_own_requests("U1")
        assert [one.name for one in request.filled.files] == ["taxi.png", "hotel.pdf"]
        assert len([p for p in folder.glob("*/*") if p.suffix != ".part"]) == 2, "each once, whatever happened"
        assert not await redis.hgetall(build_waiting_key(lab.keys, DM.conversation)), "nothing waits any more"

    assert await every_edge(play) > 10


async def test_the_same_bytes_under_two_ids_are_kept_once_and_go_with_the_last(redis: Redis, tmp_path: Path) -> None:
    lab = build_lab(redis, tmp_path, Edges())
    assert lab.intake is not None
    store = lab.intake.files
    one = await store.keep_file("U1", AttachedFile(id="F1", name="a.png"), png("same"), 1)
    two = await store.keep_file("U2", AttachedFile(id="F2", name="b.png"), png("same"), 2)
    assert one.sha256 == two.sha256 and len(list(tmp_path.glob("*/*"))) == 1
    await store.delete_file("U1:F1")
    assert await store.load_content(two.sha256) == png("same")
    assert not await store.find_files("U1", ["F1", "F2"]), "nobody finds somebody else's"
    await store.delete_file("U2:F2")
    assert await store.load_content(two.sha256) is None and not list(tmp_path.glob("*/*"))


async def test_bytes_that_were_changed_on_the_disk_are_nobodys(redis: Redis, tmp_path: Path) -> None:
    store = build_lab(redis, tmp_path, Edges()).intake.files  # type: ignore[union-attr]
    kept = await store.keep_file("U1", AttachedFile(id="F1", name="a.png"), png("true"), 1)
    [path] = tmp_path.glob("*/*")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    path.write_bytes(png("forged"))
    assert await store.load_content(kept.sha256) is None


async def test_what_a_killed_process_has_left_is_swept(redis: Redis, tmp_path: Path) -> None:
    store = build_lab(redis, tmp_path, Edges()).intake.files  # type: ignore[union-attr]
    await store.keep_file("U1", AttachedFile(id="F1", name="a.png"), png("kept"), 1)
    await store.file_bytes.save_bytes("0" * 64, b"no record knows of it")
    (tmp_path / "00" / f"{'0' * 64}.1.part").write_bytes(b"half")
    assert await store.delete_orphans(3_600) == 0, "it may be on its way"
    assert await store.delete_orphans(-1) == 1 and len(list(tmp_path.glob("*/*"))) == 1


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "F" * 64, "0" * 63])
async def test_only_a_hash_becomes_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a SHA-256"):
        await FolderBytes(tmp_path).save_bytes(name, b"x")
