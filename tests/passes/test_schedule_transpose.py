"""Blocks turned over in registers: NumPy's transpose, for every vector length, with rows missing."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from schedule_programs import HOST, values
from tvm import tirx

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.transpose import turned_block


@pytest.mark.parametrize(("lanes", "rows"), [(2, 2), (4, 3), (8, 8), (16, 16), (16, 5)])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_turned_block(lanes: int, rows: int, dtype: str) -> None:
    source, target = (tirx.decl_buffer((lanes, lanes), dtype, name) for name in ("source", "target"))
    body = turned_block(
        lambda row, lane: emit.load(source, [emit.index(row), lane]),
        lambda column, lane, item: emit.store(target, item, [emit.index(column), lane]),
        rows,
        lanes,
        dtype,
    )
    func = tirx.PrimFunc([source, target], body).with_attrs({"global_symbol": "main", "s_tir": True})
    given, result = values((lanes, lanes), dtype), tvm.runtime.tensor(np.full((lanes, lanes), 77, dtype))
    tvm.compile(tvm.IRModule({"main": func}), target=HOST)["main"](tvm.runtime.tensor(given), result)
    want = given.T.copy()
    want[:, rows:] = 0
    np.testing.assert_array_equal(result.numpy(), want)
