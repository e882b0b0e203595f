"""Countersign, an approval bot for chat workspaces."""

import asyncio
import sys

if sys.version_info < (3, 12):
    from bot.core.cancellation import wait_for

    asyncio.wait_for = wait_for  # type: ignore[assignment] # no type parameter is needed here
