"""The forms of ids on the chat platforms: Slack's. Another platform adds its own forms to these patterns."""

from __future__ import annotations

import re

PERSON_ID = re.compile(r"[UW](?=[A-Z0-9]*[0-9])[A-Z0-9]{6,}")
"""An id of a person. It means nothing to readers. No name of this form finds anybody, because it may have been another
person's id."""
MENTION = re.compile(r"<@([A-Z0-9_]+)(?:\|[^<>]*)?>", re.IGNORECASE)
"""A person's id, mentioned in a text, with or without the name that was shown."""
FILE_ID = re.compile(r"F[A-Z0-9]{6,20}")
