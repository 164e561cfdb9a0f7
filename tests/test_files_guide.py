"""The guide to files runs as it stands there."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[1] / "docs" / "files.md"


def test_the_limit_is_raised_as_the_guide_tells(monkeypatch, capsys):
    monkeypatch.setenv("TVTF_MAX_DECODED_BYTES", "1")
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    exec(compile(program, str(GUIDE), "exec"), {})
    told, length = capsys.readouterr().out.splitlines()
    assert "the limit is 999999 bytes" in told and length == "1000000"
