"""`countersign backup` and `restore` as programs: their numbers agree, or `restore` says why they do not."""

import asyncio
import re
from pathlib import Path

from redis.asyncio import Redis

from bot.queue.keys import Keys
from tests.harness.programs import ran


async def test_the_keys_of_a_restore_are_those_of_its_backup(redis: Redis, valkey: str, tmp_path: Path) -> None:
    """One key ends between the two."""
    lasting, passing = (Keys().build_key(0, name) for name in ("lasting", "passing"))
    env = {"REDIS_URL": valkey, "LANG": "en_US.UTF-8"}
    await ran("--version", cwd=tmp_path, env=env)  # whatever has to be imported is
    await redis.set(lasting, "x")
    await redis.set(passing, "x", px=10_000)
    made = await ran("backup", "copy", cwd=tmp_path, env=env)
    copied = re.search(r"Backed up to copy: (\d+) keys;", made.out)
    assert copied and made.code == 0 and copied[1] == "2", made
    same = await ran("restore", "copy", "--replace", "--yes", cwd=tmp_path, env=env)
    assert f": {copied[1]} keys, SHA-256" in same.out, same
    async with asyncio.timeout(20):
        while await redis.exists(passing):
            await asyncio.sleep(0.1)
    later = await ran("restore", "copy", "--replace", "--yes", cwd=tmp_path, env=env)
    assert f": {int(copied[1]) - 1} keys (1 more in it has expired since and is not brought back), SHA-256" in later.out
    assert await redis.get(lasting) == "x"
