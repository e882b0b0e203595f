"""Little stories, played through the whole bot and judged from outside.

`scenario` reads a story, `town` opens the world around one bot, `people` act in it, `effects` looks at what changed,
`judge` says whether somebody was entitled to it, `playing` does one story and `evaluation` all of them.
"""
