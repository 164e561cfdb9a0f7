"""The site of the documentation builds strictly: every link, anchor and page of the navigation is there."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytest.importorskip("mkdocs")
pytest.importorskip("material")


def build(config, target):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", target]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=500)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    code, said = build(ROOT / "mkdocs.yml", folder)
    assert code == 0, said
    return folder


def test_the_reference_shows_docstrings(site):
    page = (site / "api" / "nn" / "index.html").read_text()
    assert re.search(r'id="tfnnrelu"', page)
    text = re.sub(r"<[^>]+>", "", page)
    assert "tf.nn.relu(features, name=None)" in text and "The gradient at 0 is 0." in text
    assert "Checkpoint" in (site / "api" / "train" / "index.html").read_text()


def test_links_to_sources_lead_to_pages_that_show_them(site):
    page = (site / "design" / "graph" / "index.html").read_text()
    (link,) = set(re.findall(r'href="([^"]*simplify\.py/)"', page))
    shown = (site / "design" / "graph" / link / "index.html").resolve()
    assert "Simplification" in shown.read_text() or "simplif" in shown.read_text()


def test_no_page_loads_anything_from_elsewhere(site):
    for page in (site / "index.html", site / "tour" / "index.html", site / "api" / "nn" / "index.html"):
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="([^"]+)"', page.read_text())
        loaded += re.findall(r'<link[^>]* rel="(?:stylesheet|preconnect)"[^>]* href="([^"]+)"', page.read_text())
        assert not [each for each in loaded if each.startswith(("http", "//"))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[there](nowhere.md)", "nowhere.md"),
        ("[there](../passes/nowhere.py)", "nowhere.py"),
        ("[there](b.md#nowhere)", "nowhere"),
    ],
)
def test_a_broken_link_is_an_error(text, message, tmp_path):
    """By a small site with this one's settings: building the whole takes 20 seconds."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A\n\n{text}\n")
    (tmp_path / "docs" / "b.md").write_text("# B\n")
    settings = (ROOT / "mkdocs.yml").read_text()
    validation = settings[settings.index("validation:") : settings.index("markdown_extensions:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: a\n{validation}")
    code, said = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert code != 0 and message in said


def test_docstrings_become_markdown():
    spec = importlib.util.spec_from_file_location("api_reference", ROOT / "tools" / "api_reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    docstring = """Adds ``x``; see :func:`add`.

    Args:
      x: a tensor,
        of numbers.

    >>> 1 + 1
    2

    Source: https://example.org/a
    """
    lines = [line for line in reference.markdown(__import__("inspect").cleandoc(docstring)) if line.strip()]
    assert lines == [
        "Adds `x`; see `add`.",
        "**Args:** ",
        "- `x`: a tensor,",
        "  of numbers.",
        "```pycon",
        ">>> 1 + 1",
        "2",
        "```",
        "**Source:** <https://example.org/a>",
    ]
