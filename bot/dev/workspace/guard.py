"""Protection of the page's API against foreign sites, DNS rebinding and path tricks: only this machine's own page may
use it."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from tools.local_host import is_local_host

PAGE_HEADER = "countersign-page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def parse_host_name(netloc: str) -> str:
    """Return the host without its port; empty if it is malformed."""
    try:
        return urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return ""


def require_own_page(request: web.Request) -> None:
    """Raise 403 unless the request comes from this server's own page, by a loopback name."""
    host = parse_host_name(request.host)
    if not (is_local_host(host) or host.endswith(".localhost")):
        raise web.HTTPForbidden(text="unknown host")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise web.HTTPForbidden(text="foreign origin")
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise web.HTTPForbidden(text="foreign site")
    if request.method == "POST" and request.headers.get("X-Requested-With") != PAGE_HEADER:
        raise web.HTTPForbidden(text="header X-Requested-With is missing")


def build_file_response(folder: Path, name: str) -> web.Response:
    """Return a file of the page. Raises 404 for files outside the folder, dot files and links that leave it."""
    file = (folder / name).resolve()
    hidden = any(part.startswith(".") for part in Path(name).parts)
    if hidden or not file.is_relative_to(folder.resolve()) or not file.is_file():
        raise web.HTTPNotFound(text="not found")
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    kind = "text/javascript" if file.suffix in (".js", ".mjs") else kind
    charset = "utf-8" if kind.startswith("text/") else None
    return web.Response(body=file.read_bytes(), content_type=kind, charset=charset, headers=HEADERS)
