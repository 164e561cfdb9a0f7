"""Flattening of buffers: tvtf's pass gives the same kernels as TVM's, to which it leaves other buffers than plain arrays."""

import numpy as np
import pytest
from tvm import IRModule, tirx
from tvm.script import tirx as T
from tvm.tirx import DeclBuffer

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.codegen.flatten import FlattenBuffers


@T.prim_func(s_tir=True)
def turned(a: T.Buffer((6, 4), "float32"), b: T.Buffer((4, 6), "float32")):
    kept = T.alloc_buffer((4, 6), "float32")
    for i in range(6):
        for j in range(4):
            kept[j, i] = a[i, j]
    for i in range(4):
        for j in range(6):
            b[i, j] = kept[i, j] * T.float32(2)


@T.prim_func(s_tir=True)
def scalar(a: T.Buffer((), "float32"), b: T.Buffer((3, 2), "float32")):
    for i in range(3):
        b[i, 1] = a[()]


@T.prim_func(s_tir=True)
def doubtful(a: T.Buffer((3, 2), "bool"), b: T.Buffer((3, 2), "bool")):
    for i in range(3):
        b[i, 0] = a[i, 1]


def shapes(func) -> list[int]:
    """How many dims the buffers have that are read or written."""
    found = []
    structural_walk(func.body, (tirx.BufferStore, lambda store: found.append(len(store.indices))))
    return found


@pytest.mark.parametrize("func", [turned, scalar, doubtful])
def test_every_access_has_one_index(func):
    (flat,) = [f for _, f in FlattenBuffers(IRModule({"main": func})).functions_items()]
    assert shapes(func) and set(shapes(flat)) == {1}
    views = []
    structural_walk(flat.body, (DeclBuffer, views.append))
    assert len(views) == 2


def test_offsets_are_simple():
    (flat,) = [f for _, f in FlattenBuffers(IRModule({"main": turned})).functions_items()]
    text = flat.script()
    assert "kept[j * 6 + i]" in text or "kept[j * T.int64(6) + i]" in text


def test_values_stay():
    import tvm

    a, b = np.arange(24, dtype="float32").reshape(6, 4), np.zeros((4, 6), "float32")
    module = tvm.compile(FlattenBuffers(IRModule({"main": turned.with_attr("global_symbol", "main")})), target="llvm")
    given = [tvm.runtime.tensor(x) for x in (a, b)]
    module["main"](*given)
    np.testing.assert_array_equal(given[1].numpy(), a.T * 2)
