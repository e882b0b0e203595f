"""A program of its own, for the Python of a fresh installation: visits `countersign run` in an empty folder.

    python visit.py COMMAND PORT

It leaves the network first and is locked up as the systemd unit is, where the system lets it. It makes a
request as a person on the page, asks `countersign doctor`, and prints what it saw as JSON. Standard library only."""

import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0
NEW_USERS, NEW_NETWORK = 0x10000000, 0x40000000  # CLONE_NEWUSER, CLONE_NEWNET
GET_FLAGS, SET_FLAGS, IS_UP = 0x8913, 0x8914, 1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
NO_NEW_RIGHTS, DENY_WRITE_EXECUTE = 38, 65  # PR_SET_NO_NEW_PRIVS, PR_SET_MDWE
PERSON = "U01ZHANG"


def leave_network() -> bool:
    """Only loopback from now on, for this process and its children. False where the system does not permit it."""
    with suppress(OSError, AttributeError):
        call, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
        if call.unshare(NEW_NETWORK):
            if call.unshare(NEW_USERS | NEW_NETWORK):
                return False
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        with socket.socket() as any_socket:
            request = bytearray(struct.pack("16sh14x", b"lo", 0))
            ioctl(any_socket, GET_FLAGS, request)
            request[16:18] = struct.pack("h", struct.unpack("h", request[16:18])[0] | IS_UP)
            ioctl(any_socket, SET_FLAGS, request)
        return True
    return False


def lock_up() -> bool:
    """As the systemd unit does: no new rights, and no memory that is written and executed. False on an older Linux."""
    with suppress(OSError, AttributeError):
        control = ctypes.CDLL(None).prctl
        return not control(NO_NEW_RIGHTS, 1, 0, 0, 0) and not control(DENY_WRITE_EXECUTE, 1, 0, 0, 0)
    return False


class Page:
    """The page's own API, as a browser asks it, and the DM of Zhang San with the bot."""

    def __init__(self, address: str) -> None:
        self.address, self.dm = address, ""

    def read(self, path: str, body: bytes | None = None) -> bytes:
        headers = {"Content-Type": "application/json", "X-Requested-With": "countersign-page"} if body else {}
        request = urllib.request.Request(f"{self.address}{path}", body, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return bytes(answer.read())

    def look(self, what: str) -> Any:
        return json.loads(self.read(f"local/{what}"))

    def act(self, what: str, **arguments: str) -> None:
        self.read(f"local/{what}", json.dumps({"person": PERSON, **arguments}).encode())

    def find(self, words: str, fits: Callable[[Any], Any] = bool) -> Any:
        """Wait for the first message that fits; return it."""
        late, messages = time.monotonic() + PATIENCE_S, list[Any]()
        while time.monotonic() < late:
            messages = self.look(f"messages?person={PERSON}&channel={self.dm}")["messages"]
            for message in messages:
                if words in json.dumps(message, ensure_ascii=False) and fits(message):
                    return message
            time.sleep(0.05)
        raise SystemExit(f"no word of {words}: {json.dumps(messages, ensure_ascii=False)[-2000:]}")


def read_address(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    for line in child.stdout:
        if "Open http" in line:
            return line.split()[1]
    raise SystemExit("it ended without an address")


def list_buttons(message: Any, words: str) -> list[dict[str, str]]:
    """What is sent when a button of this name is pressed."""
    rows = [block for block in message.get("blocks", ()) if block["type"] == "actions"]
    return [
        {"action_id": one["action_id"], "block_id": block["block_id"], "value": one["value"]}
        for block in rows
        for one in block["elements"]
        if words in one.get("text", {}).get("text", "")
    ]


def request_leave(page: Page) -> None:
    """From the first word to the request: message, card, press, effect."""
    page.act("open")
    rooms = page.look(f"state?person={PERSON}")["channels"]
    page.dm = next(room["id"] for room in rooms if room["kind"] == "im")
    page.act("say", channel=page.dm, text="2027-03-01到2027-03-02请年假，审批人李四，原因：看父母")
    card = page.find("确认", lambda message: list_buttons(message, "确认"))
    page.act("click", channel=page.dm, ts=card["ts"], **list_buttons(card, "确认")[0])
    page.find("L-0001")


def main() -> None:
    command, port = sys.argv[1:]
    seen: dict[str, Any] = {"alone": leave_network(), "locked": lock_up()}
    env = {"PATH": os.environ["PATH"], "HOME": str(Path.cwd()), "LOCAL_PORT": port, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([command, "run"], env=env, stdout=subprocess.PIPE, text=True) as child:
        try:
            page = Page(read_address(child))
            seen["index"] = page.read("").decode()
            seen["texts"] = len(page.look("texts?lang=zh"))
            request_leave(page)
            doctor = subprocess.run([command, "doctor"], env=env, capture_output=True, text=True, check=False)
            seen["doctor"] = {"code": doctor.returncode, "said": doctor.stdout + doctor.stderr}
        finally:
            child.send_signal(signal.SIGINT)
            child.communicate()
    seen["code"] = child.returncode
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
