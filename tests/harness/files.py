"""Files as people send them: small, and with or without the content that they claim."""

import io
import zipfile
from collections.abc import Mapping, Sequence

from bot.dev.evaluation.pictures import build_picture

HTML = b"<!DOCTYPE html><html><body>Sign in</body></html>"
OFFICE = "application/vnd.openxmlformats-officedocument."
WORD = ("word/document.xml", f"{OFFICE}wordprocessingml.document.main+xml")
EXCEL = ("xl/workbook.xml", f"{OFFICE}spreadsheetml.sheet.main+xml")
_LINKED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"


def png(text: str = "") -> bytes:
    """A picture of one pixel; another `text` makes other bytes."""
    return build_picture(text)


def pdf(text: str = "") -> bytes:
    return f"%PDF-1.4\n% {text}\n%%EOF\n".encode()


def archive(*names: str, entries: Mapping[str, bytes] = {}) -> bytes:
    """A ZIP with these entries."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name in dict.fromkeys([*names, *entries]):
            file.writestr(name, entries.get(name, b"x"))
    return out.getvalue()


def ofd(*names: str) -> bytes:
    """An e-invoice as Chinese offices receive it."""
    return archive("OFD.xml", "Doc_0/Document.xml", *names)


def office(
    main: tuple[str, str] = WORD,
    parts: Mapping[str, str] = {},
    links: Sequence[str] = (),
    entries: Mapping[str, bytes] = {},
) -> bytes:
    """A document of an office program. `main`, `parts`: names and content types. `links`: the links of its main part,
    as `type target`, with ` External` after an outside target."""
    types = "".join(f'<Override PartName="/{part}" ContentType="{kind}"/>' for part, kind in (main, *parts.items()))
    folder, _, name = main[0].rpartition("/")
    made = {
        "[Content_Types].xml": f"""<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
            <Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
            <Default Extension="png" ContentType="image/png"/>{types}</Types>""".encode(),
        "_rels/.rels": build_links(f"officeDocument {main[0]}"),
        f"{folder}/_rels/{name}.rels": build_links(*links),
    }
    return archive(main[0], *parts, entries={**made, **entries})


def build_links(*links: str) -> bytes:
    rows = "".join(
        f'<Relationship Type="{_LINKED}{kind}" Target="{target}" TargetMode="{mode or "Internal"}"/>'
        for kind, target, mode in (f"{link}  ".split(" ")[:3] for link in links)
    )
    schema = "http://schemas.openxmlformats.org/package/2006/relationships"
    return f'<Relationships xmlns="{schema}">{rows}</Relationships>'.encode()
