"""Scenarios: short stories, played through the whole bot and judged from outside.

`scenario` reads a story, `environment` opens the world around one bot, and `actors` act in it. `effects` finds changes,
and `judge` decides whether somebody was entitled to each. `runner` plays one story, `evaluation` all of them."""
