"""The common base of the objects that `bot.app` builds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bot.app.resources import Resources
from bot.chat.ingress_gate import IngressGate
from bot.conversation.file_intake import FileIntake
from bot.conversation.memory import ConversationMemory
from bot.conversation.reply import MessageDelivery
from bot.queue.overflow import LaneOverflows
from tools.requests.start_tools import StartTools
from tools.tool import Tool, ToolServices


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    resources: Resources
    delivery: MessageDelivery
    """Posts text where it may be shown."""
    tool_services: ToolServices
    tools: Mapping[str, Tool]
    """All tools by name: ours, and those of MCP servers as they come and go."""
    start_tools: StartTools
    """The start tools of the processes."""
    memory: ConversationMemory
    ingress_gate: IngressGate
    overflows: LaneOverflows
    file_intake: FileIntake
