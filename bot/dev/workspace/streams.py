"""Parts of a streamed message: Markdown, tasks and blocks, in the order of their first appearance."""

from __future__ import annotations

from dataclasses import dataclass, field

from bot.dev.workspace.schema import check_anything, check_by_type, check_items, check_one_of, check_shape, check_string
from bot.dev.workspace.world import Json

LIFETIME_S = 300.0
"""Lifetime of a stream in seconds. Afterwards it cannot be continued or stopped (observed: slackapi/python-slack-sdk
issue 1859)."""
CHUNK_CHARS = 256
"""Maximum characters of a title in a chunk, and of a task's details or output in each chunk."""
STREAM_BLOCKS = 50
"""Maximum blocks in all chunks of a stream; its stop may add as many."""
DISPLAYS = ("timeline", "plan", "dense")

CHUNKS = check_items(
    check_by_type(
        {
            "markdown_text": check_shape({"text": check_string(12_000)}),
            "task_update": check_shape(
                {
                    "id": check_string(255),
                    "title": check_string(CHUNK_CHARS),
                    "status": check_one_of("pending", "in_progress", "complete", "error"),
                },
                {
                    "details": check_string(CHUNK_CHARS, 0),
                    "output": check_string(CHUNK_CHARS, 0),
                    "sources": check_items(
                        check_by_type({"url": check_shape({"url": check_string(3000), "text": check_string(256)})}),
                        50,
                        0,
                    ),
                },
            ),
            "plan_update": check_shape({"title": check_string(CHUNK_CHARS)}),
            "blocks": check_shape({"blocks": check_anything}),
        }
    ),
    100,
)


@dataclass(slots=True)
class StreamPart:
    """One part of a stream, with one of the three fields filled."""

    text: str = ""
    tasks: dict[str, Json] = field(default_factory=dict)
    """Id → last `task_update`, with all details and output so far."""
    blocks: list[Json] = field(default_factory=list)


@dataclass(slots=True)
class MessageStream:
    """A message that is being streamed."""

    thread_ts: str
    started_at: float
    """Start in seconds of the workspace's clock."""
    display: str = "timeline"
    mode: str = ""
    """Mode of the first content: `markdown_text` or `chunks`; empty before any content."""
    title: str = ""
    is_stopped_by_user: bool = False
    parts: list[StreamPart] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    def count_blocks(self) -> int:
        return sum(len(part.blocks) for part in self.parts)

    def add_text(self, text: str) -> None:
        if not self.parts or not self.parts[-1].text:
            self.parts.append(StreamPart())
        self.parts[-1].text += text

    def add_chunk(self, chunk: Json) -> None:
        if chunk["type"] == "markdown_text":
            self.add_text(chunk["text"])
        elif chunk["type"] == "plan_update":
            self.title = chunk["title"]
        elif chunk["type"] == "blocks":
            self.parts.append(StreamPart(blocks=chunk["blocks"]))
        else:
            # A known task is rewritten in its place, with details and output appended.
            part = next((part for part in self.parts if chunk["id"] in part.tasks), None) or self._find_task_part()
            before = part.tasks.get(chunk["id"], {})
            grown = {name: before.get(name, "") + (chunk.get(name) or "") for name in ("details", "output")}
            part.tasks[chunk["id"]] = {**before, **chunk, **grown}

    def _find_task_part(self) -> StreamPart:
        """Return the part for a new task: a plan has all tasks in one part, other displays have them in order of
        arrival."""
        known = [part for part in self.parts if part.tasks]
        if self.display != "plan":
            known = [part for part in known if part is self.parts[-1]]
        if not known:
            known = [StreamPart()]
            self.parts += known
        return known[0]

    def build_blocks(self) -> list[Json]:
        """Build the message's present blocks."""
        blocks: list[Json] = []
        for part in self.parts:
            cards = [build_task_card(task) for task in part.tasks.values()]
            if part.text:
                blocks.append({"type": "markdown", "text": part.text})
            elif not cards or self.display == "timeline":
                blocks += [*cards, *part.blocks]
            else:
                blocks.append({"type": "plan", "title": self.title or cards[-1]["title"], "tasks": cards})
        return blocks


def build_task_card(task: Json) -> Json:
    """Build the block of a task."""
    card = {"type": "task_card", "task_id": task["id"], "title": task["title"], "status": task["status"]}
    said = {name: build_plain_rich_text(task[name]) for name in ("details", "output") if task.get(name)}
    return {**card, **said, **({"sources": task["sources"]} if task.get("sources") else {})}


def build_plain_rich_text(text: str) -> Json:
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "elements": [section]}
