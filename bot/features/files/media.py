"""The media type of a file, from its bytes: its name and what others say of it prove nothing.

A file is sent on to deciders, so it must do no harm when opened. Documents are judged by what programs go by: an office
document by its content types and the links of all its parts, a PDF by the names of its actions. An office document
passes only if all of these are on a list of harmless ones. A PDF passes only if it names no action that is known to be
harmful."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice, pairwise
from xml.etree.ElementTree import Element, ParseError

from defusedxml.ElementTree import fromstring

from bot.core.errors import FileRefusedError

PDF, PNG, JPEG, GIF = "application/pdf", "image/png", "image/jpeg", "image/gif"
WEBP, HEIC, TIFF, OFD = "image/webp", "image/heic", "image/tiff", "application/ofd"
_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX, XLSX = f"{_OFFICE}wordprocessingml.document", f"{_OFFICE}spreadsheetml.sheet"
PICTURES = frozenset({PNG, JPEG, GIF, WEBP})
"""The pictures that models see."""
ENDINGS = {
    PDF: ("pdf",),
    PNG: ("png",),
    JPEG: ("jpg", "jpeg", "jpe", "jfif"),
    GIF: ("gif",),
    WEBP: ("webp",),
    HEIC: ("heic", "heif"),
    TIFF: ("tif", "tiff"),
    OFD: ("ofd",),
    DOCX: ("docx",),
    XLSX: ("xlsx",),
}
"""Media type → endings of such files' names. A name with another ending gets the first one."""
_HEADS = (
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"\xff\xd8\xff", JPEG),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
    (b"II*\x00", TIFF),
    (b"MM\x00*", TIFF),
)
_HEIC_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
_OLD_OFFICE, _ENCRYPTED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "EncryptedPackage".encode("utf-16-le")
MAX_ENTRIES = 5_000
"""Most entries in an archive."""
MAX_UNPACKED = 300_000_000
"""Most bytes that the entries of an archive claim to unpack to."""
MAX_JUDGED = 5_000_000
"""Most bytes of content types and links in an office document."""
MAX_OBJECTS = 50_000_000
"""Most bytes of a PDF's unpacked compressed objects."""
MAX_ATTACHED = 10
"""Most references to files in a PDF, most files, and most versions of one file."""
_OFD_ENDINGS = re.compile("|xml|xbrl|xsd|txt|png|jpe?g|bmp|gif|tiff?|jb2|jbig2|gbig2|tt[fc]|otf|dat|esl")
_TYPES = re.compile(
    r"(?:application|text)/xml|image/[\w.+-]+|application/vnd\.openxmlformats-[\w.-]+\+xml"
    r"|application/vnd\.(?:ms-(?:word|excel|office)|wps-officedocument)\.[\w.-]+\+xml"
    r"|application/vnd\.openxmlformats-officedocument\.(?:vmldrawing|obfuscatedfont|spreadsheetml\.printersettings)"
    r"|application/vnd\.openxmlformats-package\.digital-signature-origin"
)
_ACTIVE_TYPES = re.compile(
    r"macro|vba|activex|control|external|connections|querytable|volatile|extension|taskpane|toolbars|keymap|customui"
)
_LINKS = re.compile(
    r"officedocument|core-properties|extended-properties|custom-properties|thumbnail|origin|signature"
    r"|certificate|styles|styleswitheffects|settings|websettings|fonttable|font|theme|themeoverride|numbering"
    r"|footnotes|endnotes|header|footer|image|hdphoto|hyperlink|comments|commentsextended|commentsids"
    r"|commentsextensible|people|person|threadedcomment|customxml|customxmlprops|customproperty"
    r"|glossarydocument|chart|chartex|chartusershapes|chartstyle|chartcolorstyle|chartsheet|drawing|vmldrawing"
    r"|diagramcolors|diagramdata|diagramdrawing|diagramlayout|diagramquickstyle|worksheet|sharedstrings"
    r"|calcchain|table|tablesinglecells|pivottable|pivotcachedefinition|pivotcacherecords|slicer|slicercache"
    r"|timeline|timelinecache|sheetmetadata|richstyles|rdrichvalue|rdrichvaluestructure|rdrichvaluetypes"
    r"|rdrichvaluewebimage|printersettings|cellimage|cellimages"
)
_ENDING = re.compile(r"[A-Za-z][A-Za-z0-9]{0,4}")
_WEB = re.compile(r"(?:https?://|mailto:|tel:|#)", re.IGNORECASE)

_ESCAPE = re.compile(rb"#([0-9A-Fa-f]{2})")
_ACTIONS = re.compile(
    rb"/(?:Launch|JavaScript|GoToR|GoToE|ImportData|SubmitForm|RichMedia)(?![A-Za-z0-9])|/XFA[\s\x00%]*[\[\d]"
)
_LOCK = re.compile(rb"/Encrypt[\s\x00%]*[<\d]")
_STREAM = re.compile(rb"stream(?<!endstream)[\s\x00]*")
_DEFLATED_ONCE = re.compile(rb"(?!.*Decode.*Decode).*/Filter\s*(?:\[\s*)?/FlateDecode", re.DOTALL)
_ATTACHED = re.compile(rb"/EF[\s\x00]*(?:<<([^<>]{0,500})>>|<<|%|\d{1,10}\s+\d{1,5}\s+R)")
_OBJECT = re.compile(rb"(?<!\d)0*(\d{1,10})\s+\d{1,5}\s+obj")
_REFERENCE = re.compile(rb"(?<!\d)0*(\d{1,10})\s+\d{1,5}\s+R")


def judge_file(content: bytes) -> str:
    """Return the media type of a picture or a document. Raises FileRefusedError for anything else (programs, archives,
    web pages, pictures that are programs: SVG), and for a document that is active, locked or built oddly."""
    for head, media in _HEADS:
        if content.startswith(head):
            return media
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return WEBP
    if content[4:8] == b"ftyp" and content[8:12] in _HEIC_BRANDS:
        return HEIC
    if content[:1024].lstrip(b"\x00\t\n\r \xef\xbb\xbf").startswith(b"%PDF-"):
        _judge_pdf(content)
        return PDF
    if content.startswith(b"PK\x03\x04"):
        return _judge_archive(content)
    raise FileRefusedError("locked" if content.startswith(_OLD_OFFICE) and _ENCRYPTED in content else "unknown_type")


def fit_file_name(name: str, media: str) -> str:
    """Return the name with an ending that fits the media type, because programs are started by their endings."""
    name = name.rstrip(". ")
    stem, _, ending = name.rpartition(".")
    if ending.lower() not in ENDINGS[media] and _ENDING.fullmatch(ending):
        name = stem or ending
    return name if name.lower().endswith(tuple(f".{one}" for one in ENDINGS[media])) else f"{name}.{ENDINGS[media][0]}"


# Documents in a ZIP


def _judge_archive(content: bytes) -> str:
    """Judge an archive: an e-invoice (OFD), or a document of an office program."""
    if content[-22:-18] != b"PK\x05\x06" or struct.unpack_from("<H", content, len(content) - 12)[0] > MAX_ENTRIES:
        raise FileRefusedError("broken")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = {entry.filename.casefold(): entry for entry in archive.infolist()}
            if not entries.keys() & {"ofd.xml", "[content_types].xml"}:
                raise FileRefusedError("unknown_type")
            if any(entry.flag_bits & 1 for entry in entries.values()):
                raise FileRefusedError("locked")
            if (
                len(entries) != len(archive.infolist())
                or min(entry.header_offset for entry in entries.values())
                or sum(entry.file_size for entry in entries.values()) > MAX_UNPACKED
                or any(one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for one in entries.values())
            ):
                raise FileRefusedError("broken")
            parts = {name: entry for name, entry in entries.items() if not entry.is_dir()}
            if "ofd.xml" not in parts:
                return _judge_office_parts(archive, parts)
            if not all(_OFD_ENDINGS.fullmatch(_get_ending(name)) for name in parts):
                raise FileRefusedError("active")
            return OFD
    except (
        zipfile.BadZipFile, zlib.error, struct.error, ParseError, EOFError, LookupError, NotImplementedError,
        OSError, ValueError,
    ) as wrong:  # fmt: skip
        raise FileRefusedError("broken") from wrong


def _judge_office_parts(archive: zipfile.ZipFile, parts: dict[str, zipfile.ZipInfo]) -> str:
    links = [name for name in parts if name.endswith(".rels")]
    if sum(parts[name].file_size for name in (*links, "[content_types].xml")) > MAX_JUDGED:
        raise FileRefusedError("broken")
    types = dict[str, str]()
    for row in _read_rows(archive, parts.pop("[content_types].xml")):
        name, kind = row.get("PartName", row.get("Extension", "")).casefold(), row.get("ContentType", "").lower()
        if not _TYPES.fullmatch(kind) or _ACTIVE_TYPES.search(kind):
            raise FileRefusedError("active")
        types[name] = kind
    main: list[str] = []
    for name in links:
        for row in _read_rows(archive, parts[name]):
            kind, target = row.get("Type", "").rpartition("/")[2].lower(), row.get("Target", "")
            is_inside = row.get("TargetMode", "Internal") == "Internal"
            if not (_WEB.match(target) if kind == "hyperlink" else is_inside and _LINKS.fullmatch(kind)):
                raise FileRefusedError("active")
            if name == "_rels/.rels" and kind == "officedocument":
                main.append(target)
    kinds = {name: types.get(f"/{name}") or types[_get_ending(name)] for name in parts}
    [kind] = [kinds[one.lstrip("/").casefold()] for one in main]
    media = kind.removesuffix(".main+xml")
    if media not in (DOCX, XLSX):
        raise FileRefusedError("unknown_type")
    return media


def _read_rows(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> list[Element]:
    return list(fromstring(archive.read(part), forbid_dtd=True))


def _get_ending(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[2] if "." in name.rpartition("/")[2] else ""


# PDF


def _judge_pdf(content: bytes) -> None:
    """Judge all bytes, not only what a reader would find, so that hidden objects are seen too."""
    texts = [_unescape_names(one) for one in (content, *_unpack_objects(content))]
    if any(_ACTIONS.search(text) for text in texts):
        raise FileRefusedError("active")
    if any(_LOCK.search(text) for text in texts):
        raise FileRefusedError("locked")
    attached = list(islice((one[1] for text in texts for one in _ATTACHED.finditer(text)), MAX_ATTACHED + 1))
    numbers = {number for one in attached for number in _REFERENCE.findall(one or b"") or [b""]}
    if max(len(attached), len(numbers)) > MAX_ATTACHED or not all(
        number and _is_xml(content, number) for number in numbers
    ):
        raise FileRefusedError("active")


def _unescape_names(text: bytes) -> bytes:
    """Decode names written with the codes of their characters: `/L#61unch`."""
    return _ESCAPE.sub(lambda code: bytes([int(code[1], 16)]), text)


def _unpack_objects(content: bytes) -> Iterator[bytes]:
    """Unpack the objects that are compressed together. Raises FileRefusedError unless they are deflated once, with no
    other filter."""
    before, room = 0, MAX_OBJECTS
    ends = chain((one.span() for one in _STREAM.finditer(content)), [(len(content), 0)])
    for (end, start), (following, _) in pairwise(ends):
        about, before = _unescape_names(content[before:end]), start
        if b"/ObjStm" not in about:
            continue
        packed, whole, _ = content[start:following].partition(b"endstream")
        inflater = zlib.decompressobj()
        try:
            unpacked = inflater.decompress(packed, room)
        except zlib.error as wrong:
            raise FileRefusedError("broken") from wrong
        room -= len(unpacked)
        if not whole or not inflater.eof or not room or not _DEFLATED_ONCE.match(about):
            raise FileRefusedError("broken")
        yield unpacked


def _is_xml(content: bytes, number: bytes) -> bool:
    """Whether a file in a PDF is the data of an e-invoice, in every version of it in the PDF."""
    versions = (one for one in _OBJECT.finditer(content) if one[1] == number)
    starts = [_STREAM.search(content, one.end()) for one in islice(versions, MAX_ATTACHED + 1)]
    if not 0 < len(starts) <= MAX_ATTACHED:
        return False
    for one in starts:
        head = content[one.end() : one.end() + 200] if one else b""
        with suppress(zlib.error):
            head = zlib.decompressobj().decompress(head, 20)
        if not head.lstrip(b"\xef\xbb\xbf\t\n\r ").startswith(b"<?xml"):
            return False
    return True
