"""Files with arbitrary contents and right or wrong checksums: tvtf's error, or a complete restore."""

import checkpoint_programs as programs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvtf import train
from tvtf.errors import OpError
from tvtf.fileio import crc32c
from tvtf.state.module import Module
from tvtf.state.variable import Variable
from tvtf.train import bundle, strings, table
from tvtf.train.checkpoint_protos import BundleEntryProto
from tvtf.train.object_graph import GRAPH_KEY

mutations = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4)
fast = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def net():
    return programs.nested_net(Module, Variable)


def mutated(content, changes):
    damaged = bytearray(content)
    for at, octet in changes:
        damaged[at % len(damaged)] = octet
    return bytes(damaged)


def restore_or_raise(net, prefix):
    before = [variable.numpy() for variable in net.variables]
    try:
        train.Checkpoint(net=net).read(prefix).expect_partial()
    except (OpError, ValueError) as caught:
        assert str(caught)
        for variable, value in zip(net.variables, before):
            np.testing.assert_array_equal(variable.numpy(), value)


@fast
@given(changes=mutations, suffix=st.sampled_from(programs.SUFFIXES))
def test_any_damage(tmp_path, net, changes, suffix):
    prefix = programs.place_golden("net", tmp_path)
    with open(prefix + suffix, "wb") as file:
        file.write(mutated(programs.golden("net", suffix), changes))
    restore_or_raise(net, prefix)


@fast
@given(changes=mutations, which=st.integers(0, 100))
def test_any_entry_with_right_checksums(tmp_path, net, changes, which):
    prefix = programs.place_golden("net", tmp_path)
    entries = table.read(programs.golden("net", ".index"), "golden")
    key = sorted(entries)[which % len(entries)]
    entries[key] = mutated(entries[key], changes)
    with open(bundle.index_name(prefix), "wb") as file:
        file.write(table.write(entries.items()))
    restore_or_raise(net, prefix)


@fast
@given(changes=mutations)
def test_any_block_with_a_right_checksum(tmp_path, net, changes):
    prefix = programs.place_golden("net", tmp_path)
    whole = programs.golden("net", ".index")
    size = whole.index(b"\0\0\0\0\1\0\0\0\0") + 8
    contents = mutated(whole[:size], changes) + b"\0"
    with open(bundle.index_name(prefix), "wb") as file:
        file.write(contents + crc32c.masked(contents).to_bytes(4, "little") + whole[size + 5 :])
    restore_or_raise(net, prefix)


@fast
@given(changes=mutations)
def test_any_object_graph_with_right_checksums(tmp_path, net, changes):
    prefix = programs.place_golden("net", tmp_path)
    graph = mutated(bundle.Reader(prefix).get_tensor(GRAPH_KEY), changes)
    chunks, checksum = strings.encode(np.array([graph], object), GRAPH_KEY)
    entries = table.read(programs.golden("net", ".index"), "golden")
    entry = BundleEntryProto.FromString(entries[GRAPH_KEY.encode()])
    entry.size, entry.crc32c = chunks[0].nbytes, checksum
    entries[GRAPH_KEY.encode()] = entry.SerializeToString()
    with open(bundle.index_name(prefix), "wb") as file:
        file.write(table.write(entries.items()))
    with open(bundle.data_name(prefix, 0, 1), "wb") as file:
        file.write(programs.golden("net", programs.SUFFIXES[1])[: entry.offset] + chunks[0].tobytes())
    restore_or_raise(net, prefix)
