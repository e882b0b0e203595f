"""The forms of ids on the chat platforms: Slack's, and Feishu's beside them."""

from __future__ import annotations

import re

PERSON_ID = re.compile(r"[UW](?=[A-Z0-9]*[0-9])[A-Z0-9]{6,}|ou_[0-9a-z]{6,64}")
"""An id of a person. It means nothing to readers. No name of this form finds anybody, because it may have been another
person's id."""
MENTION = re.compile(r"<@([A-Z0-9_]+)(?:\|[^<>]*)?>", re.IGNORECASE)
"""A person's id, mentioned in a text, with or without the name that was shown."""
FILE_ID = re.compile(r"F[A-Z0-9]{6,20}|om_[0-9A-Za-z]{6,64}/(?:image|file)/[0-9A-Za-z_-]{1,120}")
"""An id of a file. On Feishu, it names the message, the type and the key."""
