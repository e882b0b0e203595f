"""An S3 server by others (moto), as a separate program on loopback."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

from tests.harness.cluster import HOST
from tests.harness.programs import free_ports
from tests.harness.tied import build_tied_command, open_tie

BUCKET = "countersign-files"
RIGHTS = ("s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject")
READY_S = 30.0
REGION = "us-east-1"


@dataclass
class S3Server:
    """A server with one bucket and one user with the rights that the bot needs. It forgets everything when it ends."""

    folder: Path
    port: int = field(default_factory=lambda: free_ports(1))
    access_key: str = "nobody"
    secret_key: str = "nothing"
    _child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "files_bucket": f"s3://{BUCKET}/receipts",
            "files_bucket_endpoint": self.url,
            "files_bucket_access_key": self.access_key,
            "files_bucket_secret_key": self.secret_key,
        }

    @property
    def variables(self) -> dict[str, str]:
        return {name.upper(): value for name, value in self.settings.items()}

    def ask(self, service: str = "s3") -> Any:
        """Return a client, which may do everything until the server checks rights, and then what the user may."""
        keys = {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key}
        return boto3.client(service, endpoint_url=self.url, region_name=REGION, **keys)

    def names(self) -> list[str]:
        return [one["Key"] for one in self.ask().list_objects_v2(Bucket=BUCKET).get("Contents", ())]

    def start(self, *, checks_rights: bool = False) -> None:
        """Start the server. `checks_rights`: check signatures and rights after the set-up; otherwise everybody may do
        everything."""
        setup = 4 if checks_rights else 1_000_000
        env = {"PATH": os.environ["PATH"], "INITIAL_NO_AUTH_ACTION_COUNT": str(setup)}
        with (self.folder / "s3.log").open("ab") as log:
            self._child = subprocess.Popen(
                build_tied_command(sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self.port)),
                pass_fds=[open_tie()],
                env=env,
                stdout=log,
                stderr=log,
            )
        ends = time.monotonic() + READY_S
        while not self._answers():
            assert time.monotonic() < ends, "it does not answer"
            time.sleep(0.05)
        self._set_up()

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), 1).close()
        except OSError:
            return False
        return True

    def _set_up(self) -> None:
        """Set up the bucket and the user, in four calls."""
        self.ask().create_bucket(Bucket=BUCKET)
        users = self.ask("iam")
        users.create_user(UserName="bot")
        key = users.create_access_key(UserName="bot")["AccessKey"]
        allowed = {"Effect": "Allow", "Action": RIGHTS, "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        users.put_user_policy(UserName="bot", PolicyName="files", PolicyDocument=policy)
        self.access_key, self.secret_key = key["AccessKeyId"], key["SecretAccessKey"]


@contextmanager
def serve_s3(folder: Path, *, checks_rights: bool = False) -> Iterator[S3Server]:
    server = S3Server(folder)
    try:
        server.start(checks_rights=checks_rights)
        yield server
    finally:
        server.stop()
