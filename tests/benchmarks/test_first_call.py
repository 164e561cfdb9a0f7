"""The table "first call": that it runs, and what it shows."""

import json

import pytest

from benchmarks import first_call
from benchmarks.first_call import BY_NAME, Cell, First, cells, markdown
from benchmarks.peers import PEERS, TVTF

JAX = next(p for p in PEERS if p.name == "JAX")


@pytest.mark.parametrize("name", ["mlp", pytest.param("resnet50-step", marks=pytest.mark.sweep)])
def test_a_first_call_is_measured_in_a_process_of_its_own(tmp_path, name):
    first = first_call.measured(TVTF, BY_NAME[name], tiny=True, folder=str(tmp_path))
    assert isinstance(first, First) and first.wall > 0 and first.cpu > 0
    assert list(tmp_path.glob("code/*.so"))


def test_every_state_of_the_folders_is_measured(monkeypatch):
    held = []

    def measured(peer, workload, tiny, folder, log=None):
        held.append((peer.name, workload.name, folder))
        return First(1.0, 2.0, 3.0)

    monkeypatch.setattr(first_call, "measured", measured)
    found = list(cells([BY_NAME["unet-128-step"]], [TVTF, JAX], tiny=True))
    assert [(c.peer, c.state) for c in found] == [("tvtf", s) for s in ("cold", "warm", "after")] + [("JAX", "cold")]
    (cold, warm, other, after, jax) = held
    assert (
        cold == warm and other[2] == after[2] != cold[2] and other[1] != after[1] and jax[2] not in (cold[2], after[2])
    )


def test_the_table_has_a_column_for_each_state():
    found = [Cell("mlp", "tvtf", state, First(1.0, 2.5, 0.0)) for state in ("cold", "warm")]
    found += [Cell("mlp", "tvtf", "after", "ended with 1"), Cell("mlp", "JAX", "cold", First(0.25, 0.5, 0.0))]
    assert markdown(found, [TVTF, JAX]).splitlines() == [
        "| workload | tvtf, cold | tvtf, warm | tvtf, after | JAX |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| MLP 64x784-512-10, SGD step | 1.00 (2.50) | 1.00 (2.50) | failed | 0.25 (0.50) |",
    ]


def test_the_program_says_which_names_it_does_not_know():
    with pytest.raises(SystemExit, match="no workload or peer is called nothing"):
        first_call.main(["nothing"])


def test_numbers_are_written_as_json(monkeypatch, tmp_path):
    monkeypatch.setattr(first_call, "measured", lambda *_: First(1.0, 2.0, 3.0))
    first_call.main(["mlp", "--peers", "tvtf", "--json", str(tmp_path / "numbers.json")])
    written = json.loads((tmp_path / "numbers.json").read_text())
    assert [cell["state"] for cell in written] == ["cold", "warm", "after"]
