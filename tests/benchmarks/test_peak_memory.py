"""The table "peak memory": that it runs, and what it shows."""

from benchmarks import memory
from benchmarks.memory import COLD, WARM, Peak, markdown, peaks
from benchmarks.peers import PEERS, TVTF
from benchmarks.workloads import WORKLOADS

TORCH = next(p for p in PEERS if p.name == "torch")


def test_memory_is_measured_in_a_process_of_its_own():
    small, large = (
        memory.measured(TVTF, WORKLOADS[name], tiny) for name, tiny in (("add", True), ("elementwise", False))
    )
    assert isinstance(small, int) and isinstance(large, int)
    assert 2**24 < small < large - 2**25  # the larger one holds 4M floats, and the compiler


def test_tvtf_has_a_column_with_and_without_stored_code(monkeypatch):
    held = []

    def measured(peer, workload, tiny):
        held.append((peer.name, memory.os.environ[memory.CACHE]))
        return 2**20

    monkeypatch.setenv(memory.CACHE, "unchanged after the test")
    monkeypatch.setattr(memory, "measured", measured)
    found = list(peaks([WORKLOADS["mlp"]], [TVTF, TORCH], tiny=True))
    assert found == [Peak("mlp", column, 2**20) for column in (COLD, WARM, "torch")]
    assert [name for name, _ in held] == ["tvtf", "tvtf", "torch"] and len({folder for _, folder in held}) == 1


def test_the_table_shows_mib_and_the_ratio_to_torch():
    found = [Peak("mlp", COLD, 3 * 2**20), Peak("mlp", WARM, 2**21), Peak("mlp", "torch", 6 * 2**20)]
    found.append(Peak("loop", COLD, "it failed"))
    title = WORKLOADS["mlp"].title, WORKLOADS["loop"].title
    assert markdown(found).splitlines() == [
        "| workload | tvtf, cold | tvtf, warm | torch | ratio to torch |",
        "| --- | ---: | ---: | ---: | ---: |",
        f"| {title[0]} | 3 | 2 | 6 | 0.50 |",
        f"| {title[1]} | failed |  |  |  |",
        "",
        "median ratio to torch: 0.50",
    ]
