"""The programs in README.md and the pages of ``docs/`` run as they stand there, and print what the pages say."""

import re
import subprocess
import sys
from pathlib import Path

import pages
import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
IN_A_PROCESS_OF_THEIR_OWN = ["exec.md", "numpy.md"]
"""Pages whose programs change the process that runs them."""
WITH_TESTS_OF_THEIR_OWN = {*IN_A_PROCESS_OF_THEIR_OWN, "extending.md", "ir.md"}
"""Pages that need a process of their own, below, or whose results are checked by ``test_extending.py``."""
PAGES = {
    path.relative_to(ROOT).as_posix(): path
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    if path.name not in WITH_TESTS_OF_THEIR_OWN and pages.blocks(path)
}
needs_keras = pytest.mark.skipif(sys.version_info < (3, 11), reason="Keras 3.15 needs Python 3.11")


@pytest.mark.parametrize("page", [pytest.param(name, marks=needs_keras) if "keras" in name else name for name in PAGES])
@pytest.mark.filterwarnings("ignore:tune. other programs took:UserWarning")
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept:DeprecationWarning")
def test_a_page_prints_what_it_says(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TVTF_TUNED", str(tmp_path / "tuned"))
    monkeypatch.setenv("TVTF_MAX_DECODED_BYTES", str(1 << 29))  # the default; docs/files.md changes it
    outputs = pages.printed(PAGES[page])
    blocks = pages.blocks(PAGES[page])
    assert any(block.output for block in blocks)
    for block, got in zip(blocks, outputs, strict=True):
        assert pages.agrees(block.output or "", got), f"{page}, line {block.line + 1} printed:\n{got}"


def test_a_page_that_says_something_else_is_found(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1.5, 'a')\n```\n\n```text\n1.4 a\n```\n\n```python\nx = 1\n```\n")
    (got, nothing), (block, silent) = pages.printed(page), pages.blocks(page)
    assert not pages.agrees(block.output, got) and pages.agrees("1.5001 a\n", got) and pages.agrees("... a\n", got)
    assert pages.agrees(silent.output or "", nothing)
    pages.write(page)
    assert "```text\n1.5 a\n```" in page.read_text()


@needs_keras
@pytest.mark.parametrize("page", IN_A_PROCESS_OF_THEIR_OWN)
def test_a_page_whose_program_changes_its_process(page):
    (block,) = pages.blocks(DOCS / page)
    done = subprocess.run([sys.executable, "-c", block.code], capture_output=True, text=True, check=True)
    assert done.stdout == block.output


def test_the_ir_is_as_the_guide_shows_it(tmp_path):
    """The guide's blocks are one file, whose lines the printed IR names; each is followed by what it prints."""
    pairs = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", (DOCS / "ir.md").read_text(), re.DOTALL)
    (tmp_path / "train.py").write_text("".join(program for program, _ in pairs))
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(printed for _, printed in pairs)
    assert (tmp_path / "timed.svg").read_text().startswith("<svg")
