"""The programs in the pages of ``docs/`` run as they stand there, and print what the pages say."""

import re
import subprocess
import sys
from pathlib import Path

import pages
import pytest

DOCS = Path(__file__).parents[1] / "docs"
WITH_TESTS_OF_THEIR_OWN = {"exec.md", "extending.md", "files.md", "ir.md", "keras.md", "trust.md"}
"""Pages whose programs are checked by more than what they print, below and in ``test_extending.py``."""
PAGES = {
    path.relative_to(DOCS).as_posix(): path
    for path in sorted(DOCS.rglob("*.md"))
    if path.name not in WITH_TESTS_OF_THEIR_OWN and pages.blocks(path)
}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore:tune. other programs took:UserWarning")
def test_a_page_prints_what_it_says(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TVTF_TUNED", str(tmp_path / "tuned"))
    outputs = pages.printed(PAGES[page])
    blocks = pages.blocks(PAGES[page])
    assert any(block.output for block in blocks)
    for block, got in zip(blocks, outputs, strict=True):
        assert pages.agrees(block.output or "", got), f"docs/{page}, line {block.line + 1} printed:\n{got}"


def test_a_page_that_says_something_else_is_found(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1.5, 'a')\n```\n\n```text\n1.4 a\n```\n\n```python\nx = 1\n```\n")
    (got, nothing), (block, silent) = pages.printed(page), pages.blocks(page)
    assert not pages.agrees(block.output, got) and pages.agrees("1.5001 a\n", got) and pages.agrees("... a\n", got)
    assert pages.agrees(silent.output or "", nothing)
    pages.write(page)
    assert "```text\n1.5 a\n```" in page.read_text()


def run(guide):
    (program,) = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    exec(compile(program, str(guide), "exec"), {})


def test_the_limit_is_raised_as_in_the_guide(monkeypatch, capsys):
    monkeypatch.setenv("TVTF_MAX_DECODED_BYTES", "1")
    run(DOCS / "files.md")
    message, length = capsys.readouterr().out.splitlines()
    assert "the limit is 999999 bytes" in message and length == "1000000"


def test_a_damaged_library_is_rejected_as_in_the_guide(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    run(DOCS / "trust.md")
    assert capsys.readouterr().out == (
        "damaged.so is damaged: its digest does not match its content; compile it again\n"
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Keras 3.15 needs Python 3.11")
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept:DeprecationWarning")
def test_a_model_of_keras_is_trained_and_saved_as_in_the_guide(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    run(DOCS / "keras.md")
    assert capsys.readouterr().out.split("\n")[:-1] == ["True", "(2, 1)", "True 2 16", "True True", *["True"] * 5, "1"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Keras 3.15 needs Python 3.11")
def test_tensorflow_is_tvtf_as_in_the_guide():
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / "exec.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "2.21.0\ntensorflow\nTrue\n[[1, 2], 3]\n"


def test_the_ir_is_as_the_guide_shows_it(tmp_path):
    """The guide's blocks are one file, whose lines the printed IR names; each is followed by what it prints."""
    pairs = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", (DOCS / "ir.md").read_text(), re.DOTALL)
    (tmp_path / "train.py").write_text("".join(program for program, _ in pairs))
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(printed for _, printed in pairs)
    assert (tmp_path / "timed.svg").read_text().startswith("<svg")
