"""What a file is, by its bytes: its name and what others say of it prove nothing."""

from __future__ import annotations

import io
import struct
import zipfile

PDF, PNG, JPEG, GIF = "application/pdf", "image/png", "image/jpeg", "image/gif"
WEBP, HEIC, TIFF, OFD = "image/webp", "image/heic", "image/tiff", "application/ofd"
_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX, XLSX = f"{_OFFICE}wordprocessingml.document", f"{_OFFICE}spreadsheetml.sheet"
PICTURES = frozenset({PNG, JPEG, GIF, WEBP})
"""Those that models see."""
_HEADS = (
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"\xff\xd8\xff", JPEG),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
    (b"II*\x00", TIFF),
    (b"MM\x00*", TIFF),
)
_HEIC_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
MAX_ENTRIES = 5_000
"""Most entries of an archive whose names are read."""
MACROS = "vbaProject.bin"


def detect_media(content: bytes) -> str:
    """The media type of a picture or a document that is taken; empty for anything else: programs, archives, web pages,
    pictures that are programs (SVG), documents with macros."""
    for head, media in _HEADS:
        if content.startswith(head):
            return media
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return WEBP
    if content[4:8] == b"ftyp" and content[8:12] in _HEIC_BRANDS:
        return HEIC
    if b"%PDF-" in content[:1024]:
        return PDF if content.lstrip(b"\x00\t\n\r \xef\xbb\xbf").startswith(b"%PDF-") else ""
    return _detect_archive(content) if content.startswith(b"PK\x03\x04") else ""


def _detect_archive(content: bytes) -> str:
    """A document in a ZIP: an e-invoice (OFD), or one of an office program. Nothing in it is unpacked."""
    end = content.rfind(b"PK\x05\x06", max(0, len(content) - 66_000))
    if end < 0 or len(content) < end + 22 or struct.unpack_from("<H", content, end + 10)[0] > MAX_ENTRIES:
        return ""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, struct.error):
        return ""
    if any(name.endswith(MACROS) for name in names):
        return ""
    if "OFD.xml" in names:
        return OFD
    if "[Content_Types].xml" in names:
        return DOCX if "word/document.xml" in names else XLSX if "xl/workbook.xml" in names else ""
    return ""
