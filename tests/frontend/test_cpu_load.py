"""Measurements of the CPU time that other programs use."""

from tvtf.frontend.tuning import cpu_load


def test_readings_of_the_system_increase():
    start = cpu_load.current_ticks()
    sum(range(300_000))
    end = cpu_load.current_ticks()
    assert start is not None and end is not None
    assert end.all >= start.all and end.own >= start.own
    assert 0.0 <= cpu_load.others_share(start, end) <= 1.0


def test_without_counters_of_the_system_the_share_of_others_is_zero(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu_load, "STAT", tmp_path / "none")
    assert cpu_load.current_ticks() is None
    assert cpu_load.others_share(None, None) == 0.0


def test_a_process_that_worked_more_than_was_counted_leaves_others_no_share():
    assert cpu_load.others_share(cpu_load.Ticks(0, 0, 0.0), cpu_load.Ticks(9000, 5, 6.0)) == 0.0


def test_too_short_a_time_gives_no_reading():
    assert cpu_load.others_share(cpu_load.Ticks(0, 0, 0.0), cpu_load.Ticks(10, 10, 0.0)) == 0.0
