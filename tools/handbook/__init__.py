"""The company's handbook: a folder of Markdown files, split at their headings, searched and read section by section.

`sections` splits a file, `ranking` finds, `folder` keeps what is on disk. Knows no tool and no platform.
"""
