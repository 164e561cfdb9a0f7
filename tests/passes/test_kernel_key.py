"""Keys of kernels: what changes a kernel's code changes its key, and names don't."""

import pytest
import tvm_ffi
from tvm import te, tirx
from tvm.target import Target

from tvtf.passes.codegen.kernel_key import common_name, kernel_key, with_common_names
from tvtf.passes.schedule import tuned_choices, tuning_records
from tvtf.passes.schedule.tuning_records import Record

TARGET = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})


def larger(shape=(16, 128), number=1.0, dtype="float32", name="x"):
    """A kernel that returns the larger of its operand and a number."""
    x = te.placeholder([tirx.IntImm("int64", n) for n in shape], dtype, name)
    y = te.compute(x.shape, lambda i, j: te.max(x[i, j], tirx.const(number, dtype)), "y")
    return te.create_prim_func([x, y])


def key(func, name="larger", target=TARGET, **options):
    return kernel_key(with_common_names(func, name), target, options)


def test_equal_kernels_have_one_key_whatever_their_parameters_and_symbols_are_called():
    assert key(larger()) == key(larger())
    assert key(larger()) == key(larger(name="image"))
    assert key(larger()) == key(larger(name="p1"))
    assert key(larger()) == key(larger().with_attr("global_symbol", "larger_7"))


DIFFERENT = {
    "shape": larger((17, 63)),
    "swapped shape": larger((128, 16)),
    "number": larger(number=1.0 + 2.0**-20),
    "zero": larger(number=0.0),
    "negative zero": larger(number=-0.0),
    "dtype": larger(dtype="float16"),
    "attribute": larger().with_attr("tvtf.inplace", [[1, 0]]),
}


def test_other_kernels_have_other_keys():
    assert len({key(func) for func in [larger(), *DIFFERENT.values()]}) == 1 + len(DIFFERENT)


def test_common_names_change_names_only():
    func = larger()
    renamed = with_common_names(func, "larger")
    assert [param.name for param in renamed.params] == ["p0", "p1"]
    assert tvm_ffi.structural_equal(renamed.without_attr("global_symbol"), func.without_attr("global_symbol"))


def test_sizes_that_are_parameters_stay_those_of_the_buffers():
    rows = tirx.Var("rows", "int64")
    x = tirx.decl_buffer((rows,), "float32", "x")
    func = tirx.PrimFunc([rows, x], tirx.BufferStore(x, tirx.const(0.0, "float32"), [rows - 1]))
    renamed = with_common_names(func, "last")
    assert renamed.params[0].same_as(rows)
    assert tvm_ffi.structural_equal(renamed.without_attr("global_symbol"), func)


def test_name_target_and_options_are_in_the_key():
    cores = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 4})
    machine = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    keys = [key(larger()), key(larger(), "other"), key(larger(), target=cores), key(larger(), target=machine)]
    keys.append(key(larger(), **{"tirx.disable_vectorize": True}))
    assert len(set(keys)) == len(keys)


def test_the_choices_of_the_kernels_own_record_are_in_the_key(tmp_path, monkeypatch):
    monkeypatch.setenv("TVTF_TUNED", str(tmp_path))
    plain, other = key(larger()), key(larger((7, 7)))
    described, workload = tuned_choices.describe(TARGET), tuned_choices.workload_key(larger())
    tuning_records.keep([Record(described, workload, "larger", {"rows": "8"}, 2.0, 1.0)])
    assert key(larger()) != plain
    assert key(larger((7, 7))) == other


@pytest.mark.parametrize(
    "symbol, name", [("add", "add"), ("add_12", "add"), ("fused_conv_3_relu", "fused_conv_relu"), ("conv2d", "conv2d")]
)
def test_numbers_that_make_names_unique_are_left_out(symbol, name):
    assert common_name(symbol) == name
