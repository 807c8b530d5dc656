"""Client of web servers, which need not be trusted: bounded pages, and no secret headers for other hosts.

fsspec reads a page of any length into memory, and looks for links in it with an expression whose time grows with the
third power of the spaces in a tag. So it gets a page of links alone, which were found in linear time.
"""

from __future__ import annotations

import asyncio
import html
import re
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
from yarl import URL

from mnserve.errors import StoreError
from mnserve.object_store.url import StoreUrl

_MAX_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of a page, or of a part of a file: 1,600 for each of the 10,000 entries that a folder may have."""
_MAX_TAG: Final = 8192
"""Most characters of a tag with a link."""
_HREF: Final = re.compile(r"""\shref\s*=\s*(?:"([^"]+)"|'([^']+)')""", re.IGNORECASE)
_HARMLESS: Final = frozenset({"accept", "accept-encoding", "range", "user-agent"})
"""Headers that another host may see, in lower case."""
_QUOTED: Final = str.maketrans({'"': "%22", "'": "%27", "<": "%3C", ">": "%3E"})


def web_options(url: StoreUrl, timeout: float) -> dict[str, Any]:
    """Makes the options of fsspec's file system of a web server.

    Args:
        url: URL of the repository.
        timeout: Seconds for a connection, for the next bytes of an answer, and for a whole page.
    """

    class WholeAnswer(aiohttp.ClientResponse):
        """An answer that is read at once."""

        async def read(self) -> bytes:
            """Reads the body.

            Raises:
                StoreError: It is too long.
                TimeoutError: It takes too long.
            """
            body = bytearray()
            async with asyncio.timeout(timeout):
                async for piece in self.content.iter_any():
                    body += piece
                    if len(body) > _MAX_BYTES:
                        self.close()
                        raise StoreError(
                            f"the object store of {url.shown} sends a page, or a part of a file, of more than "
                            f"{_MAX_BYTES} bytes; is it the folder that holds the model folders?"
                        )
            return bytes(body)

        async def text(self, encoding: str | None = None, errors: str = "strict") -> str:
            """Reads a page, and returns its links alone."""
            links = links_of((await self.read()).decode(errors="ignore"))
            return "\n".join(f'<a href="{link.translate(_QUOTED)}">' for link in links)

    limits = aiohttp.ClientTimeout(total=None, sock_connect=timeout, sock_read=timeout)
    headers = {"Accept-Encoding": "identity"}  # a packed answer would have another size
    if url.authorization:
        headers["Authorization"] = url.authorization  # of requests, so that a redirection does not take it along
    tracing = aiohttp.TraceConfig()
    tracing.on_request_redirect.append(_drop_secret_headers)
    client = {"timeout": limits, "response_class": WholeAnswer, "trace_configs": [tracing]}
    # Paths stay as the listing has them, in percent-encoding.
    options: dict[str, Any] = {"encoded": True, "client_kwargs": client, "headers": headers}
    if url.parameters:
        options["params"] = list(url.parameters)
    return options


def links_of(page: str) -> list[str]:
    """Finds the links of a page of HTML, in a time that grows with its length alone."""
    links = []
    for piece in page.split("<")[1:]:
        tag = piece.partition(">")[0]
        if tag[:1] in ("a", "A") and tag[1:2].isspace() and len(tag) <= _MAX_TAG and (found := _HREF.search(tag, 1)):
            links.append(html.unescape(found[1] or found[2]).strip())
    return links


async def _drop_secret_headers(
    session: aiohttp.ClientSession, context: SimpleNamespace, redirect: aiohttp.TraceRequestRedirectParams
) -> None:
    """Drops headers of FSSPEC_HTTP before another host gets them; aiohttp drops those of its own credentials alone."""
    here = redirect.response.url
    try:
        same = here.join(URL(redirect.response.headers.get("Location", ""))).origin() == here.origin()
    except ValueError:
        same = False
    if not same:
        for name in {name for name in redirect.headers if name.lower() not in _HARMLESS}:
            redirect.headers.popall(name)
