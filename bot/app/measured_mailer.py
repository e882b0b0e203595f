"""The mailer of the tools, with its mails counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bot.core import metrics
from tools.ports import Mailer
from tools.spec import EffectUnknownError, ToolError


@dataclass(frozen=True, slots=True)
class MeasuredMailer:
    """A mailer (`tools.ports.Mailer`) that counts the mails of another one by their outcome."""

    mailer: Mailer

    async def send_mail(self, *mail: Any, **more: Any) -> None:
        with metrics.time_outcome(metrics.MAILS, outcome="sent") as ended:
            try:
                await self.mailer.send_mail(*mail, **more)
            except ToolError as failed:
                ended.name = failed.code
                raise
            except EffectUnknownError:
                ended.name = "unknown"
                raise
