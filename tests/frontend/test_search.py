"""The search for a kernel's choices, on simulated kernels: what it tries, selects and rejects."""

from itertools import count

import pytest

from tvtf.frontend.tuning.search import Candidate, Search, gain_of
from tvtf.passes.schedule.choices import Decisions, choice, deciding


class Bench:
    """Simulated kernels: rules make the choices that ``next_choice`` makes, and its result is their time."""

    def __init__(self, next_choice, wrong=()):
        self.next_choice, self.wrong, self.seen, self.seconds = next_choice, wrong, set(), {}
        self.noise = lambda candidate: 0.0

    def build(self, wanted):
        return [self._candidate(choices) for choices in wanted]

    def _candidate(self, choices):
        with deciding(Decisions(choices, ignore_unknown=True)) as decisions:
            seconds = self.next_choice()
        code = tuple(decisions.answers.items())
        if code in self.seen:
            return None
        self.seen.add(code)
        self.seconds[code] = seconds
        return Candidate(decisions.questions, code, lambda: None)

    def measure(self, candidates, rounds):
        return [[self.seconds[c.code] + self.noise(c) for _ in range(rounds)] for c in candidates]

    def agrees(self, candidate):
        return candidate.code not in self.wrong

    def search(self, should_continue=lambda: True):
        return Search(self.build, self.measure, self.agrees, should_continue)


def tile_and_packing():
    tile = choice("tile", 4, lambda: [1, 2, 8])
    packed = choice("packed", "none", lambda: ["a", "b"])
    return {1: 9, 2: 7, 4: 5, 8: 3}[tile] + {"none": 1, "a": 2, "b": 0.5}[packed]


def test_the_quickest_of_all_is_found_and_nothing_is_tried_twice():
    bench = Bench(tile_and_packing)
    found = bench.search().run()
    assert (found.best.choices, found.before, found.after) == ({"tile": "8", "packed": "b"}, 6, 3.5)
    assert found.is_significant and found.mismatched == 0
    assert found.tried == len(bench.seen) - 1


def test_choices_that_only_another_choice_brings_are_searched():
    def next_choice():
        if choice("method", "direct", lambda: ["other"]) == "direct":
            return 5
        return {1: 4, 2: 2}[choice("cut", 1, lambda: [2])]

    assert Bench(next_choice).search().run().best.choices == {"method": "other", "cut": "2"}


def test_one_that_is_worse_until_another_choice_follows_is_not_found():
    """A known limit: the search changes one choice at a time."""

    def next_choice():
        if choice("method", "direct", lambda: ["other"]) == "direct":
            return 5
        return {1: 6, 2: 2}[choice("cut", 1, lambda: [2])]

    assert Bench(next_choice).search().run().best.choices == {"method": "direct"}


def test_a_quicker_kernel_that_computes_something_else_is_rejected():
    wrong = (("tile", "8"), ("packed", "none"))
    found = Bench(tile_and_packing, wrong=[wrong]).search().run()
    assert found.mismatched == 1
    assert found.best.code != wrong


def test_what_is_never_right_leaves_the_default():
    bench = Bench(tile_and_packing)
    bench.agrees = lambda candidate: False
    found = bench.search().run()
    assert found.best is found.default and not found.is_significant and found.mismatched > 0


@pytest.mark.parametrize(("gain", "is_significant"), [(1.02, False), (1.2, True)])
def test_what_is_within_the_noise_is_not_sure(gain, is_significant):
    found = Bench(lambda: 1.0 / (gain if choice("tile", 1, lambda: [2]) == 2 else 1.0)).search().run()
    assert found.is_significant is is_significant


def test_what_is_ahead_in_few_rounds_is_not_sure():
    bench = Bench(lambda: 1.0 if choice("tile", 1, lambda: [2]) == 2 else 1.5)
    search = bench.search()
    assert search.run().is_significant
    turn = count()
    quick = bench.measure

    def measure(candidates, rounds):
        times = quick(candidates, rounds)
        return [times[0], [t * (2 if next(turn) % 2 else 0.6) for t in times[1]]] if rounds == 15 else times

    bench.seen.clear()
    assert not Search(bench.build, measure, bench.agrees, lambda: True).run().is_significant


def test_the_budget_ends_it_with_what_was_found():
    left = iter([True, True, False])
    found = Bench(tile_and_packing).search(lambda: next(left, False)).run()
    assert found.best.choices == {"tile": "8", "packed": "none"}
    assert found.is_significant


def test_ctrl_c_ends_it_with_what_was_found():
    bench = Bench(tile_and_packing)
    build, turn = bench.build, count()

    def interrupted(wanted):
        if next(turn) == 2:
            raise KeyboardInterrupt
        return build(wanted)

    search = Search(interrupted, bench.measure, bench.agrees, lambda: True)
    found = search.run()
    assert search.interrupted and found.is_significant
    assert found.best.choices == {"tile": "8", "packed": "none"}


def test_a_kernel_without_choices_is_only_timed():
    found = Bench(lambda: 2.0).search().run()
    assert (found.before, found.after, found.tried, found.is_significant) == (2.0, 2.0, 0, False)


def test_a_default_that_cannot_be_built_is_an_error():
    with pytest.raises(ValueError, match="doesn't compile with its default schedule"):
        Search(lambda wanted: [None], lambda *_: [], lambda _: True, lambda: True).run()


def test_gain_is_paired_by_rounds():
    assert gain_of([1.0, 10.0, 2.0], [0.5, 5.0, 1.0]) == 2.0
