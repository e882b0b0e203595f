"""Real workflow engines on this machine: Operaton, Camunda 7 and Flowable, each with H2 in memory or in a file.

They need Java 17 and Maven, which fetches them once."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TextIO

HERE = Path(__file__).parent
PATHS = {"operaton": "/engine-rest", "camunda": "/engine-rest", "flowable": "/process-api"}
"""Engine → the path of its API."""
START_TIMEOUT_S, END_TIMEOUT_S, FETCH_TIMEOUT_S = 250, 30, 600
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx400m")
"""It starts in half the time, and is quick enough."""


class NoEngineError(Exception):
    """The engine cannot be started here; the message says what is missing."""


def read_class_path(kind: str) -> str:
    """The jars of an engine, fetched where they are missing. Raises `NoEngineError`."""
    if missing := [program for program in ("java", "mvn") if not shutil.which(program)]:
        raise NoEngineError(f"{' and '.join(missing)} not found: the engines need Java 17 and Maven")
    pom = HERE / "pom.xml"
    kept = HERE / "target" / f"{kind}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}.classpath"
    if kept.exists() and all(Path(jar).exists() for jar in kept.read_text(encoding="utf-8").split(os.pathsep)):
        return kept.read_text(encoding="utf-8")
    kept.parent.mkdir(exist_ok=True)
    own = kept.with_suffix(f".{os.getpid()}")
    words = ["mvn", "-q", "-B", "-f", str(pom), "-P", kind, "dependency:build-classpath", f"-Dmdep.outputFile={own}"]
    found = subprocess.run(words, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if found.returncode or not own.exists():
        raise NoEngineError(f"Maven could not fetch {kind}: {found.stdout.strip()[:500]}")
    own.replace(kept)
    return kept.read_text(encoding="utf-8")


@contextmanager
def running_engine(
    kind: str,
    log: TextIO,
    *,
    port: int = 0,
    database: str = "mem:engine",
    more: Mapping[str, str] | None = None,
    note_process: Callable[[int], object] = bool,
) -> Iterator[str]:
    """The URL of an engine's API while the context is open. The engine also ends with this process, however that ends.
    `database`: for H2, such as `file:/tmp/engine`. `more`: further settings of Spring. `note_process` gets the id of
    the engine's process. Raises `NoEngineError`."""
    settings = {
        "server.port": str(port),
        "server.address": "127.0.0.1",
        "spring.main.banner-mode": "off",
        "logging.level.root": "warn",
        "spring.datasource.url": f"jdbc:h2:{database};DB_CLOSE_DELAY=-1",
        f"{kind}.bpm.metrics.enabled": "false",
        **(more or {}),
    }
    words = ["java", *JVM, "-cp", read_class_path(kind), str(HERE / "Engine.java")]
    words += [f"--{name}={value}" for name, value in settings.items()]
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C is not for it: it ends with its standard input
    ) as program:
        assert program.stdin and program.stdout
        note_process(program.pid)
        told, ports = Event(), list[str]()

        def read_output(lines: TextIO) -> None:
            for line in lines:
                if line.startswith("PORT "):
                    ports.append(line.split()[1])
                    told.set()
                else:
                    log.write(line)
            told.set()

        Thread(target=read_output, args=(program.stdout,), daemon=True).start()
        try:
            if not told.wait(START_TIMEOUT_S) or not ports:
                raise NoEngineError(f"{kind} did not start")
            yield f"http://127.0.0.1:{ports[0]}{PATHS[kind]}"
        finally:
            program.stdin.close()
            try:
                program.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                program.kill()
