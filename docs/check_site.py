"""Check the built site: it loads nothing from a server, its links lead somewhere, its API is whole.

Usage: python docs/check_site.py docs/_build/html
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "audio": "src", "embed": "src", "iframe": "src", "img": "src", "input": "src", "link": "href",
    "object": "data", "script": "src", "source": "src", "track": "src", "video": "src",
}  # fmt: skip
"""Attributes whose address a browser fetches by itself."""
NOT_FETCHED = {"canonical", "author", "license", "next", "prev", "search", "index", "alternate"}
STYLE = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)")
SERVES = "predict_proba"
GENERATED = "api/generated"


class Page(HTMLParser):
    """What one page loads, links to, and can be linked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag loads or links to."""
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        fetched = not NOT_FETCHED & set(given.get("rel", "").split())
        if tag in LOADED and LOADED[tag] in given and fetched:
            self.loads.append(given[LOADED[tag]])
        self.loads += [part.split()[0] for part in given.get("srcset", "").split(",") if part]
        self.loads += STYLE.findall(given.get("style", ""))

    def has(self, fragment: str) -> bool:
        """Return whether a link's fragment leads somewhere on the page."""
        return not fragment or unquote(fragment) in self.ids


def problems(site: Path) -> Iterator[str]:
    """Yield everything that is wrong with a site, a line each."""
    found = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    texts = {path: path.read_text("utf-8") for path in found}
    pages = {path: Page(text) for path, text in texts.items()}
    for path, page in pages.items():
        here = path.relative_to(site)
        for address in [*page.loads, *STYLE.findall(texts[path])]:
            if is_elsewhere(address):
                yield f"{here} loads {address}"
            elif not address.startswith("data:") and not _target(path, address).exists():
                yield f"{here} loads {address}, which is not there"
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = _target(path, link)
            if not target.exists():
                yield f"{here} links to {link}, which is not there"
            elif target in pages and not pages[target].has(parts.fragment):
                yield f"{here} links to {link}, where nothing has that name"
    for path in sorted(site.rglob("*.css")):
        for address in STYLE.findall(path.read_text("utf-8")):
            yield f"{path.relative_to(site)} loads {address}"
    for path, page in pages.items():
        is_classifier = path.stem.endswith("Classifier") and path.parent == site / GENERATED
        if is_classifier and f"{path.stem}.{SERVES}" not in page.ids:
            yield f"{path.relative_to(site)} lists no {SERVES}"


def is_elsewhere(address: str) -> bool:
    """Return whether an address is on some server."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "ftp")


def _target(page: Path, address: str) -> Path:
    path = unquote(urlsplit(address).path)
    found = (page.parent / path).resolve() if path else page
    return found / "index.html" if found.is_dir() else found


def main(site: str) -> int:
    """Print what is wrong; 1 if anything is."""
    if not (Path(site) / "index.html").is_file():
        print(f"{site} holds no site: expected a folder with index.html.")
        return 1
    found = list(problems(Path(site).resolve()))
    print(*found, f"{len(found)} problems.", sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
