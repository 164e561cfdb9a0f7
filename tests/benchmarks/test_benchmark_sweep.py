"""The sweep over sizes of matrix products: what it compares with what, and that it runs."""

from benchmarks import sweep


def test_sizes_are_compared_with_the_nearest_round_one():
    line = sweep.Line("N", sweep.SAMPLED, sweep.ROUND, 64)
    assert [line.nearest(size) for size in (1, 3, 17, 24, 35, 71, 130)] == [1, 4, 16, 32, 32, 64, 128]
    assert line.product(17, "TN", 0).shapes() == [(64, 64), (64, 17), (64, 17)]


def test_the_ratio_is_of_seconds_a_multiply_add():
    product, other = sweep.Product(3, 4, 5, "NN", 0), sweep.Product(4, 4, 5, "NN", 0)
    assert sweep.Pair("M", product, other).ratio({product: 3.0, other: 2.0}) == 2.0


def test_only_pairs_of_which_one_takes_some_time_are_compared():
    small, other, large = (sweep.Product(size, 4, 4, "NN", 0) for size in (3, 4, 5))
    best = {small: sweep.LEAST_SECONDS, other: sweep.LEAST_SECONDS, large: 2 * sweep.LEAST_SECONDS}
    pairs = [sweep.Pair("M", product, other) for product in (small, large)]
    assert [pair.product for pair in sweep.reported(pairs, best)] == [large]


def test_it_runs(monkeypatch, capsys):
    monkeypatch.setattr(sweep, "SAMPLED", [3, 5])
    monkeypatch.setattr(sweep, "SECONDS_A_TURN", 1e-6)
    monkeypatch.setattr(sweep, "LEAST_SECONDS", -1.0)
    sweep.main(["--forms", "NT", "--lines", "MNK", "--around", "4", "--batch", "2"])
    assert "worst of 2: " in capsys.readouterr().out


def test_its_kernels_run_on_the_threads_of_programs(monkeypatch, tmp_path):
    adopted = []
    monkeypatch.setattr(sweep, "adopt", adopted.append)
    products = [sweep.Product(size, 4, 4, "NN", 0) for size in (3, 4)]
    assert list(sweep.built(products, tmp_path)) == products
    assert adopted == [tmp_path / "0.so"]
