"""Converts text for Feishu's markdown (JSON 2.0): the model's Markdown, and people's own words shown exactly."""

from __future__ import annotations


def format_mention(id: str) -> str:
    """Return a real mention for an open id, or an empty text for anything else. Only for ids from the directory."""
    raise NotImplementedError


def escape_text(text: str) -> str:
    """Escape a person's text, so that Feishu's markdown shows it character for character."""
    raise NotImplementedError


def convert_markdown(text: str) -> str:
    """Convert the model's Markdown to Feishu's."""
    raise NotImplementedError
