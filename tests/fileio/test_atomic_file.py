"""Files written at once: what is replaced and what is written to."""

import os
import subprocess
import sys

import pytest

from tvtf.fileio.atomic_file import replace

PROGRAM = """
import sys
from tvtf.fileio.atomic_file import replace

print("before", flush=True)
replace(sys.argv[1], b"content\\n")
print("after", flush=True)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux's links to open files")
@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "link"])
def test_standard_output_that_is_a_file_keeps_its_content(tmp_path, path):
    log, link = tmp_path / "log", tmp_path / "link"
    link.symlink_to("/dev/stdout")
    log.write_text("old\n")
    with open(log, "a") as output:
        subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / path)], stdout=output, check=True)
    assert log.read_text() == "old\nbefore\ncontent\nafter\n"
    assert link.is_symlink()


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    link.symlink_to("file")
    replace(str(link), b"new")
    assert (link.is_symlink(), file.read_text()) == (True, "new")


def test_links_that_lead_to_each_other(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("link")
    replace(str(link), b"new")
    assert link.read_bytes() == b"new"
