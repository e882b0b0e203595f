"""The company's handbook: a folder of Markdown files, split at their headings, searched and read section by section.

`sections` splits a file, `ranking` ranks sections, `folder` reads the files on disk. None of them depends on a tool or
a platform."""
