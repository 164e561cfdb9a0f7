"""Kernels on arrays at every address that their dtype allows."""

import re

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from tvtf.passes.codegen.align import ItemAlign, item_aligned

AVX512 = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v4"})
HOST = tvm.target.Target("llvm")
HOST_FEATURES = [
    str(name) for name, there in tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")().items() if there
]


@T.prim_func(s_tir=True)
def vectorised_double(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 64), "float32")
    B = T.match_buffer(b, (n, 64), "float32")
    for row in T.parallel(n):
        for outer in range(4):
            for lane in T.vectorized(16):
                with T.sblock("double"):
                    i = T.axis.spatial(n, row)
                    j = T.axis.spatial(64, outer * 16 + lane)
                    B[i, j] = A[i, j] * T.float32(2)


def built(func: tirx.PrimFunc, target: tvm.target.Target) -> tvm.runtime.Module:
    return tvm.tirx.build(tvm.IRModule({"double": func.with_attr("global_symbol", "double")}), target=target)


def aligned_moves(func: tirx.PrimFunc) -> int:
    return len(re.findall(r"\bvmova[a-z0-9]*\s.*zmm", built(func, AVX512).inspect_source("asm")))


def shifted(shape: tuple[int, ...], dtype: str, offset: int) -> np.ndarray:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 128, "uint8")
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + size].view(dtype).reshape(shape)


def test_avx512_code_moves_unaligned_vectors_only():
    assert aligned_moves(vectorised_double) > 0
    assert aligned_moves(item_aligned(vectorised_double)) == 0


@pytest.mark.parametrize("offset", [4, 8, 60])
def test_kernel_runs_on_an_array_at_any_item_address(offset):
    kernel = built(item_aligned(vectorised_double), HOST)["double"]
    source, result = shifted((3, 64), "float32", offset), shifted((3, 64), "float32", offset)
    source[:] = np.arange(192).reshape(3, 64)
    assert source.ctypes.data % 64 == offset
    kernel(tvm_ffi.from_dlpack(source), tvm_ffi.from_dlpack(result))
    np.testing.assert_array_equal(result, source * 2)


@pytest.mark.skipif("avx512f" not in HOST_FEATURES, reason="this CPU has no AVX-512")
def test_avx512_kernel_runs_four_bytes_off():
    kernel = built(item_aligned(vectorised_double), AVX512)["double"]
    source, result = shifted((3, 64), "float32", 4), shifted((3, 64), "float32", 4)
    source[:] = 1.5
    kernel(tvm_ffi.from_dlpack(source), tvm_ffi.from_dlpack(result))
    np.testing.assert_array_equal(result, np.full((3, 64), 3.0, "float32"))


def test_module_pass_aligns_every_kernel_and_keeps_the_module():
    mod = tvm.IRModule({"one": vectorised_double, "two": vectorised_double}).with_attr("mark", 7)
    aligned = ItemAlign(mod)
    alignments = [int(p.ty.data_alignment) for f in aligned.functions.values() for p in f.params]
    assert alignments == [4, 4, 4, 4]
    assert aligned.attrs["mark"] == 7
    assert [int(p.ty.data_alignment) for p in mod["one"].params] == [64, 64]


def test_aligning_twice_changes_nothing_more():
    once = item_aligned(vectorised_double)
    tvm.ir.assert_structural_equal(item_aligned(once), once, map_free_vars=True)
