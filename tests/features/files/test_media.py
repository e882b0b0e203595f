"""What a file is, by its bytes, and which bytes would harm whoever opens them."""

import struct
import zlib
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import FileRefusedError
from bot.features.files.media import DOCX, OFD, PDF, PNG, XLSX, fit_file_name, judge_file
from tests.harness.corpus import corpus
from tests.harness.files import EXCEL, HTML, OFFICE, WORD, archive, build_links, ofd, office, pdf, png

SHEET = {"xl/worksheets/sheet1.xml": f"{OFFICE}spreadsheetml.worksheet+xml"}


def build_pdf_stream(about: str, content: bytes) -> bytes:
    packed = zlib.compress(content)
    return f"9 0 obj <<{about}/Filter/FlateDecode/Length {len(packed)}>> stream\n".encode() + packed + b"\nendstream\n"


def invoice_with(attached: bytes) -> bytes:
    """A PDF with a file in it."""
    about = b"4 0 obj <</Type/Filespec/F(factur-x.xml)/EF<</F 9 0 R/UF 9 0 R>>>> endobj\n"
    return pdf() + about + build_pdf_stream("/Type/EmbeddedFile/Subtype/text#2Fxml", attached)


def change_byte(content: bytes, at: int, value: int) -> bytes:
    return content[:at] + bytes([value]) + content[at + 1 :]


def say_size(content: bytes, size: int) -> bytes:
    """The first entry says that it unpacks to so much."""
    at = content.index(b"PK\x01\x02") + 24
    return content[:at] + struct.pack("<I", size) + content[at + 4 :]


def judge(content: bytes) -> str:
    """The media type, or why it is not taken."""
    try:
        return judge_file(content)
    except FileRefusedError as refused:
        return refused.reason


def test_pictures_and_documents_are_known_and_anything_else_is_not_taken() -> None:
    rows = [
        (png(), PNG), (pdf(), PDF), (b"\xef\xbb\xbf\n%PDF-1.7", PDF), (ofd(), OFD),
        (ofd("Doc_0/Res/image_1.jb2", "Doc_0/Signs/Sign_0/SignedValue.dat", "Doc_0/Attachs/original_invoice.xml"), OFD),
        (office(), DOCX), (office(EXCEL, SHEET, ["worksheet worksheets/sheet1.xml"]), XLSX),
        (b"\xff\xd8\xff\xe0", "image/jpeg"), (b"GIF89a", "image/gif"), (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"\0\0\0\x18ftypheic", "image/heic"), (b"II*\0", "image/tiff"),
    ]  # fmt: skip
    assert [(content, judge(content)) for content, _ in rows] == rows
    others = [
        b"", HTML, b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"MZ\x90\0", b"\x7fELF", b"#!/bin/sh",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", HTML + b"%PDF-1.4", archive("a.txt"), archive("word/document.xml"),
        office(("ppt/presentation.xml", f"{OFFICE}presentationml.presentation.main+xml")),
        office((WORD[0], f"{OFFICE}wordprocessingml.template.main+xml")), b"RIFF\0\0\0\0AVI ", b"text",
    ]  # fmt: skip
    assert {judge(content) for content in others} == {"unknown_type"}


HARMLESS: Mapping[str, bytes] = {
    "a picture and a link": office(
        parts={"word/media/a.png": "image/png"}, links=["image media/a.png", "hyperlink https://a.cn External"]
    ),
    "an e-invoice with its data": invoice_with(b"<?xml version='1.0'?><Invoice/>"),
    "deflated objects": pdf() + build_pdf_stream("/Type/ObjStm/N 1/First 4", b"1 0 <</Type/Page>>"),
    "a link to a page on the web": pdf() + b"<</Type/Annot/A<</S/URI/URI(https://a.cn)>>>>",
    "a name that begins as a bad one": pdf() + b"<</LaunchDate 1>>",
}


@corpus("kind", *HARMLESS)
def test_what_harms_nobody_is_taken(kind: str) -> None:
    assert judge(HARMLESS[kind]) in (DOCX, PDF)


HARMFUL: Mapping[str, bytes] = {
    "macros": office(parts={"word/vbaProject.bin": "application/vnd.ms-office.vbaProject"}),
    "macros under another name": office(parts={"word/evil.bin": "application/vnd.ms-office.vbaProject"}),
    "macros that only a link names": office(parts={"word/a.png": "image/png"}, links=["vbaProject a.png"]),
    "a main part with macros": office(("word/document.xml", "application/vnd.ms-word.document.macroEnabled.main+xml")),
    "a sheet of old macros": office(EXCEL, {"xl/macrosheets/sheet1.xml": "application/vnd.ms-excel.macrosheet+xml"}),
    "a sheet of old macros by its link": office(EXCEL, SHEET, ["xlMacrosheet worksheets/sheet1.xml"]),
    "an OLE object": office(parts={"word/embeddings/a.bin": f"{OFFICE}oleObject"}, links=["oleObject a.bin"]),
    "an OLE object that only a link names": office(parts={"word/a.png": "image/png"}, links=["oleObject a.png"]),
    "a document in a document": office(parts={"word/a.xlsx": f"{OFFICE}spreadsheetml.sheet"}, links=["package a.xlsx"]),
    "a control": office(parts={"word/activeX/a.xml": "application/vnd.ms-office.activeX+xml"}),
    "a template elsewhere": office(links=["attachedTemplate https://a.cn/t.dotm External"]),
    "a picture elsewhere": office(links=["image file://a.cn/p.png External"]),
    "a frame elsewhere": office(links=["frame https://a.cn External"]),
    "a link to a program": office(links=["hyperlink file:///c:/windows/calc.exe External"]),
    "a link to a handler": office(links=["hyperlink ms-msdt:/id External"]),
    "a page in a document": office(parts={"word/a.html": "text/html"}, links=["aFChunk a.html"]),
    "a link of an unjudged folder": office(
        entries={"word/x/_rels/A.RELS": build_links("oleObject https://a.cn External")}
    ),
    "a workbook linked to another": office(EXCEL, links=["externalLink externalLinks/a.xml"]),
    "a connection": office(EXCEL, {"xl/connections.xml": f"{OFFICE}spreadsheetml.connections+xml"}),
    "a ribbon": office(links=["extensibility customUI/a.xml"]),
    "a program in an invoice": ofd("Doc_0/Attachs/invoice.exe"),
    "a page in an invoice": ofd("Doc_0/Attachs/invoice.html"),
    "a PDF that starts a program": pdf() + b"1 0 obj <</OpenAction<</S/Launch/F(calc.exe)>>>> endobj",
    "a PDF with a script": pdf() + b"<</S/JavaScript/JS(app.alert)>>",
    "a name with escapes": pdf() + b"<</S/#4caunc#68/F(calc.exe)>>",
    "a PDF that opens another file": pdf() + rb"<</S/GoToR/F(\\\\a.cn\\b)>>",
    "a form that is a program": pdf() + b"<</AcroForm<</XFA 3 0 R>>>>",
    "a film": pdf() + b"<</Subtype/RichMedia>>",
    "a start among deflated objects": pdf() + build_pdf_stream("/Type/ObjStm/N 1/First 4", b"1 0 <</S/Launch>>"),
    "a program in a PDF": invoice_with(b"MZ\x90\0"),
    "a file in a PDF that nobody finds": pdf() + b"<</EF 12 0 R>>",
    "a file in a PDF that is not there": pdf() + b"<</EF<</F 12 0 R>>>>",
}


LOCKED: Mapping[str, bytes] = {
    "a document with a password": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
    "a PDF with a password": pdf() + b"trailer <</Encrypt 5 0 R>>",
    "an archive with a password": change_byte(ofd(), ofd().index(b"PK\x01\x02") + 8, 1),
}


BROKEN: Mapping[str, bytes] = {
    "no types": archive("[Content_Types].xml", "word/document.xml"),
    "types that are no XML": office(entries={"[Content_Types].xml": b"x"}),
    "types with a declaration": office(entries={"[Content_Types].xml": b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"}),
    "an entry without a type": office(entries={"word/evil.exe": b"MZ"}),
    "links too long to judge": office(entries={"word/_rels/document.xml.rels": b" " * 5_000_000}),
    "more than anybody unpacks": say_size(ofd(), 300_000_001),
    "two entries of one name": office(entries={"WORD/document.xml": b"x"}),
    "a main part that is not there": office(entries={"_rels/.rels": build_links("officeDocument word/other.xml")}),
    "too many entries": archive(*(f"f{n}" for n in range(5_001)), "OFD.xml"),
    "cut off": ofd()[:-10],
    "only a head": b"PK\x03\x04" + b"\0" * 100,
    "something behind the end": ofd() + b"MZ",
    "something before the first entry": archive("a.txt")[:40] + ofd(),
    "another compression": change_byte(ofd(), ofd().index(b"PK\x01\x02") + 10, 99),
    "objects that nobody can unpack": pdf() + b"<</Type/ObjStm/First 1/Filter/LZWDecode>> stream\n\x80endstream",
    "more objects than anybody unpacks": pdf() + build_pdf_stream("/Type/ObjStm/First 1", b" " * 51_000_000),
}


REFUSED = {"active": HARMFUL, "locked": LOCKED, "broken": BROKEN}


@corpus(("reason", "kind"), *((reason, kind) for reason, kinds in REFUSED.items() for kind in kinds))
def test_what_would_act_cannot_be_looked_into_or_is_not_built_as_it_should_be_is_not_taken(
    reason: str, kind: str
) -> None:
    assert judge(REFUSED[reason][kind]) == reason


@given(st.binary(max_size=400), st.sampled_from([b"", b"PK\x03\x04", b"%PDF-", b"RIFF", b"PK\x05\x06"]))
def test_no_bytes_are_too_odd(content: bytes, head: bytes) -> None:
    assert isinstance(judge(head + content + archive("a")[-30:]), str)


NAMES = [
    ("receipt.hta", "image/gif", "receipt.gif"), ("invoice.pdf.exe", PDF, "invoice.pdf"),
    ("photo.JPG", "image/jpeg", "photo.JPG"), ("photo.jpeg", "image/jpeg", "photo.jpeg"), ("发票", OFD, "发票.ofd"),
    ("taxi 3.12", PNG, "taxi 3.12.png"), ("claim.xlsm", XLSX, "claim.xlsx"), (".hta", PNG, "hta.png"),
    ("a.exe.", PDF, "a.pdf"), ("a.pdf .", PDF, "a.pdf"),
]  # fmt: skip


@corpus("name, media, fitting", *NAMES)
def test_a_file_ends_as_what_it_is(name: str, media: str, fitting: str) -> None:
    assert fit_file_name(name, media) == fitting
