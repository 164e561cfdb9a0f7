"""Pages of the site that stand in no file of ``docs/``: the API reference, and the project's files that pages link to.

MkDocs calls the functions named ``on_...`` (``hooks`` in mkdocs.yml). A link from a page to a file outside ``docs/``, such as
``../passes/pipeline.py``, works in the repository as it is; in the site it leads to a page that shows the file.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(Path(__file__).parent))

import api_reference  # noqa: E402 - beside this file

PROJECT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "README.md": "project/readme.md",
    "SECURITY.md": "project/security.md",
}
"""Files of the repository's root that are pages of the site."""
LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")
LANGUAGES = {".py": "python", ".toml": "toml", ".ll": "llvm", "": "make"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds generated pages to MkDocs' files: the API reference, the project's own files, and sources that pages link to."""
    pages = api_reference.pages()
    for file, target in PROJECT.items():
        pages[target] = _moved((ROOT / file).read_text(), ".", posixpath.dirname(target))
    for file in sorted(_linked_sources()):
        language = LANGUAGES.get(Path(file).suffix, "text")
        pages[_source_page(file)] = f"# {file}\n\n````{language}\n{(ROOT / file).read_text()}\n````\n"
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    config.nav = [_with_reference(entry, sorted(pages)) for entry in config.nav or []]
    return files


def _with_reference(entry: Any, pages: list[str]) -> Any:
    """Replaces the entry ``api/`` of MkDocs' navigation by the list of the API reference's pages."""
    first_pages = ("api/index.md", "api/tf.md")
    if isinstance(entry, dict) and list(entry.values()) == ["api/"]:
        return {
            title: ["api/index.md", "api/tf.md", *(p for p in pages if p.startswith("api/") and p not in first_pages)]
            for title in entry
        }
    return entry


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links to files outside ``docs/`` into links to their pages."""
    source = page.file.abs_src_path
    if source is None or page.file.generated_by:
        return markdown
    place = posixpath.dirname(page.file.src_uri)
    return _moved(markdown, posixpath.join("docs", place), place)


def _moved(text: str, folder: str, page_folder: str) -> str:
    """Adapts the links in a text of the repository's ``folder``, so that they work from a page in the site's ``page_folder``."""

    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        target = page_of(path)
        return f"]({posixpath.relpath(target, page_folder or '.')}{match[2] or ''})" if target else match[0]

    return LINK.sub(link, text)


def page_of(path: str) -> str | None:
    """The page of the site that shows a file of the repository; None for what is not there."""
    if path in PROJECT:
        return PROJECT[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return _source_page(path) if (ROOT / path).is_file() else None


def _source_page(path: str) -> str:
    return f"source/{path}.md"


def _linked_sources() -> set[str]:
    """Returns the files outside ``docs/`` to which a page of the site, or one of the project's own files, links."""
    texts = {path.relative_to(ROOT).parent.as_posix(): "" for path in (ROOT / "docs").rglob("*.md")}
    for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in PROJECT)]:
        folder = path.relative_to(ROOT).parent.as_posix()
        texts[folder] = texts.get(folder, "") + path.read_text()
    targets = {
        posixpath.normpath(posixpath.join(folder, link[1]))
        for folder, text in texts.items()
        for link in LINK.finditer(text)
    }
    return {
        path for path in targets if not path.startswith("docs/") and path not in PROJECT and (ROOT / path).is_file()
    }


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Names the pages of the reference by their namespaces, without rendering them for their titles."""
    for page in nav.pages:
        if page.file.src_uri.startswith("api/") and page.file.src_uri != "api/index.md":
            space = page.file.src_uri.removeprefix("api/").removesuffix(".md")
            page.title = space if space == "tf" else f"tf.{space}"
    return nav
