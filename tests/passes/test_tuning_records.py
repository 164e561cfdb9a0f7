"""Tuning records in files: reading, merging and errors."""

import json

import pytest

from tvtf.passes.schedule import tuning_records
from tvtf.passes.schedule.tuning_records import Record, keep, line_of, record_of, records

MATMUL = Record("llvm mcpu=a", "0123456789abcdef", "matmul: float32[8, 8]", {"tile": "12 x 2"}, 2e-4, 1e-4)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TVTF_TUNED", str(tmp_path))
    return tmp_path


def test_what_is_kept_is_read(home):
    other = MATMUL._replace(target="llvm mcpu=b", choices={})
    assert keep([MATMUL, other]) == home / "tuned.jsonl"
    assert records("llvm mcpu=a") == {MATMUL.key: MATMUL}
    assert records("llvm mcpu=b") == {MATMUL.key: other}
    assert records("llvm mcpu=c") == {}


def test_without_a_folder_there_are_no_records(monkeypatch, tmp_path):
    monkeypatch.setenv("TVTF_TUNED", str(tmp_path / "none"))
    assert records("llvm") == {}
    assert tuning_records.digest("llvm") == ""


def test_the_folder_is_in_that_of_compiled_code_unless_named(monkeypatch, tmp_path):
    monkeypatch.delenv("TVTF_TUNED", raising=False)
    monkeypatch.setenv("TVTF_CACHE_DIR", str(tmp_path))
    assert tuning_records.folder() == tmp_path / "tuned"


def test_one_file_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TVTF_TUNED", str(tmp_path / "shipped.jsonl"))
    assert keep([MATMUL]) == tmp_path / "shipped.jsonl"
    assert records(MATMUL.target) == {MATMUL.key: MATMUL}


def test_of_all_files_the_record_that_gained_most_counts(home):
    best = MATMUL._replace(choices={"tile": "6 x 4"}, before=4e-4, after=1e-4)
    (home / "a.jsonl").write_text(line_of(MATMUL) + "\n")
    (home / "b.jsonl").write_text(line_of(best) + "\n")
    (home / "c.jsonl").write_text(line_of(MATMUL._replace(after=1.9e-4)) + "\n")
    (home / "d.txt").write_text("no records")
    assert records(MATMUL.target) == {MATMUL.key: best}


def test_new_records_are_seen_by_a_process_that_has_read_old_ones(home):
    keep([MATMUL])
    before = tuning_records.digest(MATMUL.target)
    keep([MATMUL._replace(key="00")])
    assert set(records(MATMUL.target)) == {MATMUL.key, "00"}
    assert tuning_records.digest(MATMUL.target) != before


def test_the_digest_follows_choices_not_times(home):
    keep([MATMUL])
    before = tuning_records.digest(MATMUL.target)
    keep([MATMUL._replace(after=0.9e-4)])
    assert tuning_records.digest(MATMUL.target) == before
    keep([MATMUL._replace(after=0.5e-4, choices={"tile": "1"})])
    assert tuning_records.digest(MATMUL.target) != before


HOSTILE = [
    ("", None),
    ("{", "not a line of JSON"),
    ("[" * 100_000, "not a line of JSON"),
    ("\x00\xff", "not a line of JSON"),
    ("[]", "not a record of version 1"),
    ("null", "not a record of version 1"),
    (json.dumps({**json.loads(line_of(MATMUL)), "tvtf_tuned": 2}), "not a record of version 1"),
    (json.dumps({"tvtf_tuned": 1}), "a record has the fields target"),
    (json.dumps({**json.loads(line_of(MATMUL)), "more": 1}), "a record has the fields target"),
    (line_of(MATMUL._replace(key=7)), "target, key and kernel"),
    (line_of(MATMUL._replace(kernel="x" * 10_000)), "target, key and kernel"),
    (line_of(MATMUL._replace(choices={"tile": 3})), "choices must be short strings"),
    (line_of(MATMUL._replace(choices={str(i): "" for i in range(1000)})), "choices must be an object"),
    (json.dumps({**json.loads(line_of(MATMUL)), "choices": "tile"}), "choices must be an object"),
    (line_of(MATMUL._replace(after=0.0)), "before and after"),
    (line_of(MATMUL._replace(before=float("nan"))), "before and after"),
    (line_of(MATMUL._replace(before=float("inf"))), "before and after"),
    (line_of(MATMUL._replace(before="1")), "before and after"),
    (line_of(MATMUL._replace(before=True)), "before and after"),
]


@pytest.mark.parametrize(("line", "reason"), HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_record_is_rejected_and_the_others_count(home, line, reason):
    (home / "a.jsonl").write_text(f"{line}\n{line_of(MATMUL)}\n", encoding="latin-1")
    if reason is None:
        assert records(MATMUL.target) == {MATMUL.key: MATMUL}
        return
    with pytest.warns(UserWarning, match=rf"^rejected 1 tuning records in {home}/a.jsonl: line 1: {reason}"):
        assert records(MATMUL.target) == {MATMUL.key: MATMUL}
    assert records(MATMUL.target), "told once"


def test_a_line_that_a_crash_cut_costs_only_itself(home):
    (home / "tuned.jsonl").write_text(line_of(MATMUL)[:50])
    with pytest.warns(UserWarning, match="line 1: not a line of JSON"):
        keep([MATMUL])
        assert records(MATMUL.target) == {MATMUL.key: MATMUL}


def test_a_file_that_is_too_large_is_not_read(home, monkeypatch):
    keep([MATMUL])
    monkeypatch.setattr(tuning_records, "MAX_BYTES", 10)
    monkeypatch.setattr(tuning_records, "_cache", {})
    with pytest.warns(UserWarning, match="the file is larger than 10 bytes"):
        assert records(MATMUL.target) == {}


def test_a_file_that_cannot_be_read_is_reported(home):
    (home / "a.jsonl").mkdir()
    with pytest.warns(UserWarning, match=r"rejected 1 tuning records in .*a\.jsonl"):
        assert records("llvm") == {}


def test_a_record_is_what_its_line_was():
    assert record_of(line_of(MATMUL)) == MATMUL


def test_a_place_that_cannot_be_looked_at_is_reported(monkeypatch):
    monkeypatch.setenv("TVTF_TUNED", "x" * 1000)
    with pytest.warns(UserWarning, match="^no records of tuning are used: .*name too long"):
        assert records("llvm") == {}
