"""The built site in a real browser: pages fit, pictures load, formulas have a size, the search finds.

Chromium must be there, and ``SPOOKID_SITE`` must name the folder of the site.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

SITE = Path(os.environ.get("SPOOKID_SITE", os.devnull))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGES = sorted(str(path.relative_to(SITE)) for part in ("docs", "results") for path in (SITE / part).rglob("*.html"))
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.skipif("SPOOKID_SITE" not in os.environ, reason="SPOOKID_SITE is not set"),
]
PROBE = """<!doctype html><body><script>
const open = (page, width) => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 1000; frame.style.border = 0; frame.src = page;
  frame.onload = () => setTimeout(() => done(frame), 0);
  document.body.append(frame);
});
(async () => {
  const [pages, widths, query] = %s, found = {};
  for (const page of pages) for (const width of widths) {
    const frame = await open("/" + page, width), inside = frame.contentDocument;
    const text = inside.querySelector("article").getBoundingClientRect();
    found[page + " " + width] = {
      overflow: Math.max(inside.documentElement.scrollWidth, text.right) - width,
      broken: [...inside.images].filter(one => !one.naturalWidth).map(one => one.src),
      flat: [...inside.querySelectorAll("math")].filter(one => !one.getBoundingClientRect().height).length,
    };
    frame.remove();
  }
  if (query) {
    const frame = await open("/search.html?q=" + query, 1000);
    for (let i = 0; i < 100 && !frame.contentDocument.querySelector("#search-results li a"); i++)
      await new Promise(done => setTimeout(done, 100));
    found.search = [...frame.contentDocument.querySelectorAll("#search-results li a")].map(one => one.href);
  }
  document.body.innerHTML = "<pre></pre>";
  document.querySelector("pre").textContent = JSON.stringify(found);
})();
</script></body>"""


class _Handler(SimpleHTTPRequestHandler):
    """The site, and the probe that opens its pages in frames."""

    probe = ""

    def do_GET(self) -> None:
        if self.path != "/probe":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(_Handler.probe.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(SITE)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/probe"
    server.shutdown()


def seen(address: str, pages: list[str], widths: tuple[int, ...], query: str = "") -> dict[str, Any]:
    """What the browser measures on pages at widths [px], and the links that the search finds."""
    _Handler.probe = PROBE % json.dumps([pages, widths, query])
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=600000", "--dump-dom"]
    assert CHROMIUM
    dump = subprocess.run([CHROMIUM, *flags, address], capture_output=True, text=True, check=True).stdout
    (text,) = re.findall(r"<pre>(.*?)</pre>", dump, re.DOTALL)
    found: dict[str, Any] = json.loads(html.unescape(text))
    return found


def test_pages_fit_and_are_whole(address: str) -> None:
    found = seen(address, PAGES, (800, 1280))
    assert len(found) == 2 * len(PAGES) > 100
    assert {page: one for page, one in found.items() if one["overflow"] > 1 or one["broken"] or one["flat"]} == {}


def test_the_search_finds(address: str) -> None:
    links = seen(address, [], (), "quadrotor")["search"]
    assert any("docs/gallery/quadrotor.html" in link for link in links)
