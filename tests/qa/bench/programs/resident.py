"""The bot as in production (`countersign run`), for days that pass in seconds. What production measures by the clock
that is not moved on is as much shorter here: pauses between two looks of a job, and Slack's pace of `chat.update`.
Nobody looks for what was missed while the time was moved on: nothing was written then."""

import asyncio
import sys
from functools import partial

from bot.app import build
from bot.app.settings import Settings
from bot.core.timing import Timing
from bot.features.files import file_copies
from bot.ops.cli import run
from bot.platforms.slack import channel, missed_messages
from tests.qa.process import end_when_orphaned

HOURLY_S = 1.0
PAUSES = Timing(poll_s=0.5, relay_pause_s=0.2, timer_pause_s=0.3, morning_pause_s=0.3, trim_pause_s=HOURLY_S)
UPDATE_MS = 5


if __name__ == "__main__":
    run.build_app = partial(build.build_app, timing=PAUSES)
    channel.UPDATE_MS = UPDATE_MS
    missed_messages.GAP_MS = sys.maxsize
    file_copies.PAUSE_S = HOURLY_S
    end_when_orphaned()
    asyncio.run(run.serve_until_stopped(Settings(_env_file=None)))
