"""What a file is, by its bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.media import DOCX, OFD, PDF, PNG, XLSX, detect_media
from tests.harness.files import HTML, archive, ofd, pdf, png

DOC = ("[Content_Types].xml", "word/document.xml")


@pytest.mark.parametrize(
    ("content", "media"),
    [
        (png(), PNG),
        (pdf(), PDF),
        (b"\xef\xbb\xbf\n%PDF-1.7", PDF),
        (ofd(), OFD),
        (archive(*DOC), DOCX),
        (archive("[Content_Types].xml", "xl/workbook.xml"), XLSX),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"\0\0\0\x18ftypheic", "image/heic"),
        (b"II*\0", "image/tiff"),
    ],
)
def test_pictures_and_documents_are_known(content: bytes, media: str) -> None:
    assert detect_media(content) == media


@pytest.mark.parametrize(
    "content",
    [
        b"",
        HTML,
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"MZ\x90\0",
        b"\x7fELF",
        b"#!/bin/sh",
        HTML + b"%PDF-1.4",
        archive("a.txt"),
        archive(*DOC, "word/vbaProject.bin"),
        archive(*(f"f{n}" for n in range(5_001)), "OFD.xml"),
        archive("OFD.xml")[:-10],
        b"PK\x03\x04" + b"\0" * 100,
        b"RIFF\0\0\0\0AVI ",
        b"text",
    ],
)
def test_anything_else_is_not_taken(content: bytes) -> None:
    assert detect_media(content) == ""


@given(st.binary(max_size=400), st.sampled_from([b"", b"PK\x03\x04", b"%PDF-", b"RIFF", b"PK\x05\x06"]))
def test_no_bytes_are_too_odd(content: bytes, head: bytes) -> None:
    assert isinstance(detect_media(head + content + archive("a")[-30:]), str)
