"""Bytecode for everything but loops: calls, branches, tuples, constants, shapes, closures and checks."""

import re

import numpy as np
import pytest
import tvm
from codegen_programs import TARGET, compiled, finalized, like, load, number, private, variable
from tvm import relax, tirx

from tvtf.passes.codegen.llvm import build_library
from tvtf.passes.codegen.vm import generate


def tensor(value, dtype="float32"):
    return tvm.runtime.tensor(np.asarray(value, dtype))


def main_of(params, rule):
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(rule(builder, *params)))
    return builder.get()


def test_nested_tuples_are_built_and_unpacked(tmp_path):
    def rule(builder, x):
        pair = builder.emit(relax.Tuple([builder.emit(relax.op.add(x, x)), x]))
        nested = builder.emit(relax.Tuple([pair, number(3)]))
        inner = builder.emit(relax.TupleGetItem(nested, 0))
        return relax.Tuple([builder.emit(relax.TupleGetItem(inner, 0)), nested])

    doubled, (pair, three) = compiled(main_of([variable("x", (2,))], rule), tmp_path)(np.float32([1, 2]))
    np.testing.assert_array_equal(doubled, [2, 4])
    np.testing.assert_array_equal(pair, [[2, 4], [1, 2]])
    assert three == 3


def test_parameter_may_be_a_tuple(tmp_path):
    pair = relax.Var("pair", relax.TupleType([relax.TensorType((2,), "float32")] * 2))

    def rule(builder, pair):
        fields = [builder.emit(relax.TupleGetItem(pair, k)) for k in range(2)]
        return relax.op.subtract(*fields)

    for checks in (True, False):
        compiled(main_of([pair], rule), tmp_path, check_arguments=checks)
        got = load(tmp_path / "program.so")["main"]([tensor([5, 6]), tensor([1, 2])])
        np.testing.assert_array_equal(got.numpy(), [4, 4])


def test_constants_of_every_width_are_kept(tmp_path):
    values = [np.arange(6).reshape(2, 3).astype(dtype) for dtype in ("bool", "int8", "float16", "float64")]
    large = np.random.default_rng(0).random((300, 300), "float32")
    mod = main_of([], lambda builder: relax.Tuple([relax.const(v, str(v.dtype)) for v in [*values, large]]))
    for got, expected in zip(compiled(mod, tmp_path)(), [*values, large], strict=True):
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == expected.dtype


def test_a_module_without_kernels_gives_its_argument_back(tmp_path):
    compiled(main_of([variable("x", (2,))], lambda builder, x: x), tmp_path)
    given = tensor([1, 2])
    np.testing.assert_array_equal(load(tmp_path / "program.so")["main"](given).numpy(), [1, 2])


def test_shapes_and_scalars_pass_through(tmp_path):
    rows = tirx.Var("rows", "int64")
    scale = relax.Var("shape", relax.ShapeType([rows]))
    mod = main_of([scale], lambda builder, shape: relax.op.full((rows, 2), number(7), "float32"))
    compiled(mod, tmp_path)
    got = load(tmp_path / "program.so")["main"](tvm_shape(3))
    np.testing.assert_array_equal(got.numpy(), np.full((3, 2), 7))


def tvm_shape(*dims):
    return tvm.runtime.ShapeTuple(dims)


def called_in_branches():
    builder = relax.BlockBuilder()
    x = variable("x", (2,))
    once = private(builder, "once", [like("x", x)], lambda x: (relax.op.add(x, x), relax.op.negative(x)))
    both = private(builder, "both", [like("x", x)], lambda x: (x, relax.op.abs(x)))
    flag = relax.Var("flag", relax.TensorType((), "bool"))

    def sequence(name, argument):
        call = builder.normalize(relax.Call(name, [argument]))
        var = relax.Var("branch", call.ty)
        return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(var, call)])], var)

    with builder.function("main", [flag, x]):
        chosen = builder.emit(relax.If(flag, sequence(once, x), sequence(both, x)))
        last = builder.emit(relax.Call(both, [builder.emit(relax.TupleGetItem(chosen, 1))]))
        fields = [builder.emit(relax.TupleGetItem(t, k)) for t, k in ((chosen, 0), (chosen, 1), (last, 1))]
        builder.emit_func_output(builder.emit(relax.Tuple(fields)))
    return builder.get()


def test_private_functions_in_branches(tmp_path):
    run = compiled(called_in_branches(), tmp_path)
    x = np.float32([1, -2])
    np.testing.assert_array_equal(run(np.bool_(True), x), [2 * x, -x, abs(x)])
    np.testing.assert_array_equal(run(np.bool_(False), x), [x, abs(x), abs(x)])


def test_a_private_function_called_once_is_inlined_and_one_called_twice_is_shared(tmp_path):
    compiled(called_in_branches(), tmp_path)
    machine = load(tmp_path / "program.so")
    assert [machine.implements_function(name) for name in ("main", "once", "both")] == [True, False, True]


def test_public_functions_call_each_other_and_stay_callable(tmp_path):
    builder = relax.BlockBuilder()
    x = variable("x", (2,))
    with builder.function("twice", [x]):
        twice = builder.emit_func_output(builder.emit(relax.op.add(x, x)))
    y = variable("y", (2,))
    with builder.function("main", [y]):
        builder.emit_func_output(builder.emit(relax.Call(twice, [builder.emit(relax.op.negative(y))])))
    compiled(builder.get(), tmp_path)
    machine = load(tmp_path / "program.so")
    np.testing.assert_array_equal(machine["twice"](tensor([1, 2])).numpy(), [2, 4])
    np.testing.assert_array_equal(machine["main"](tensor([1, 2])).numpy(), [-2, -4])


def test_an_external_function_and_its_error_come_through(tmp_path):
    def fail(value):
        raise IndexError(f"no {value.shape[0]} here")

    tvm.register_global_func("tvtf_test.fail", fail, override=True)
    x = variable("x", (2,))
    mod = main_of([x], lambda b, x: relax.Call(relax.ExternFunc("tvtf_test.fail"), [x], ty_args=[x.ty]))
    mod["main"] = relax.Function(mod["main"].params, mod["main"].body, mod["main"].ret_ty, False, mod["main"].attrs)
    run = compiled(mod, tmp_path)
    with pytest.raises(IndexError, match="no 2 here"):
        run(np.float32([1, 2]))


def symbolic():
    rows = tirx.Var("rows", "int64")
    x, y = variable("x", (rows, 2)), variable("y", (rows, 2))
    return main_of([x, y], lambda builder, x, y: relax.op.add(relax.op.sum(x, keepdims=True), y))


@pytest.mark.parametrize("checks", [True, False])
def test_symbolic_dims_are_bound_and_held_against_each_other(tmp_path, checks):
    run = compiled(symbolic(), tmp_path, check_arguments=checks)
    np.testing.assert_array_equal(run(np.ones((3, 2), "float32"), np.zeros((3, 2), "float32")), np.full((3, 2), 6))
    with pytest.raises(RuntimeError, match=r"param=y.* shape\[0\] mismatch to a previous populated value"):
        run(np.ones((3, 2), "float32"), np.zeros((2, 2), "float32"))


def builtins_called(mod, **options):
    builder = relax.ExecBuilder()
    generate(builder, finalized(mod), **options)
    return re.findall(r"vm\.builtin\.(check_\w+|match_\w+)", builder.get().as_text().split("main:")[1])


def test_static_parameters_are_checked_only_on_demand():
    mod = main_of([variable("x", (2,)), variable("y", (2,))], lambda builder, x, y: relax.op.add(x, y))
    assert sorted(builtins_called(mod, check_arguments=True)) == ["check_tensor_info"] * 2 + ["match_shape"] * 2
    assert builtins_called(mod, check_arguments=False) == []


def test_what_binds_symbolic_dims_is_never_dropped():
    assert builtins_called(symbolic(), check_arguments=False) == ["match_shape"] * 2


def test_a_shape_that_the_program_asserts_is_never_dropped(tmp_path):
    def rule(builder, x):
        return relax.op.add(builder.match_cast(x, relax.TensorType((3,), "float32")), number(1))

    x = relax.Var("x", relax.TensorType(None, "float32", ndim=1))
    run = compiled(main_of([x], rule), tmp_path, check_arguments=False)
    np.testing.assert_array_equal(run(np.float32([1, 2, 3])), [2, 3, 4])
    with pytest.raises(RuntimeError, match=r"match_cast error,  shape\[0\] mismatch to specified constant"):
        run(np.float32([1, 2]))


def test_a_wrong_argument_is_named_when_arguments_are_checked(tmp_path):
    run = compiled(main_of([variable("x", (2,))], lambda b, x: relax.op.add(x, x)), tmp_path, check_arguments=True)
    with pytest.raises(ValueError, match=r"param=x.*expect Tensor with dtype float32 but get float64"):
        run(np.ones(2))


def test_an_operator_that_was_not_lowered_is_named():
    mod = main_of([variable("x", (2,))], lambda builder, x: relax.op.sin(x))
    expected = "bytecode: operator relax.sin wasn't lowered to a kernel before code generation"
    with pytest.raises(NotImplementedError, match=f"^{re.escape(expected)}$"):
        generate(relax.ExecBuilder(), mod)


def test_a_failed_build_leaves_the_old_library(tmp_path):
    out = tmp_path / "kept.so"
    build_library(finalized(main_of([variable("x", (2,))], lambda b, x: relax.op.add(x, x))), TARGET, out)
    before = out.read_bytes()
    with pytest.raises(NotImplementedError, match=r"relax\.sin"):
        build_library(main_of([variable("x", (2,))], lambda b, x: relax.op.sin(x)), TARGET, out)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["kept.so"]


def test_a_closure_is_called(tmp_path):
    builder = relax.BlockBuilder()
    x = variable("x", (2,))
    with builder.function("main", [x]):
        shifted = variable("y", (2,))
        body = relax.SeqExpr([], builder.normalize(relax.op.add(shifted, x)))
        inner = builder.emit(relax.Function([shifted], builder.normalize(body), x.ty))
        builder.emit_func_output(builder.emit(relax.Call(inner, [builder.emit(relax.op.negative(x))])))
    mod = relax.transform.LambdaLift()(builder.get())
    got = compiled(mod, tmp_path)(np.float32([1, 2]))
    np.testing.assert_array_equal(got, [0, 0])


def branched_chain(length):
    builder = relax.BlockBuilder()
    flag, x = relax.Var("flag", relax.TensorType((), "bool")), variable("x", (8, 8))
    rows = builder.normalize(relax.op.matmul(x, x)).ty

    def sequence(value):
        var = relax.Var("branch", rows)
        return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(var, value)])], var)

    with builder.function("main", [flag, x]):
        first = builder.emit(relax.op.matmul(x, x))
        value = builder.emit(relax.If(flag, sequence(relax.op.add(first, x)), sequence(relax.op.exp(first))))
        for _ in range(length):
            value = builder.emit(relax.op.matmul(value, x))
        builder.emit_func_output(value)
    return builder.get()


def kills_in(mod):
    builder = relax.ExecBuilder()
    generate(builder, finalized(mod))
    return builder.get().as_text().count("vm.builtin.null_value")


def test_intermediates_after_a_branch_are_let_go():
    assert kills_in(branched_chain(7)) - kills_in(branched_chain(2)) >= 5


def test_a_branched_program_computes_the_same_with_its_kills(tmp_path):
    run = compiled(branched_chain(5), tmp_path)
    x = np.random.default_rng(1).random((8, 8), "float32") / 4
    for flag in (True, False):
        expected = x @ x + x if flag else np.exp(x @ x)
        for _ in range(5):
            expected = expected @ x
        np.testing.assert_allclose(run(np.bool_(flag), x), expected, rtol=1e-5)


def test_what_a_private_function_hands_through_outlives_its_argument(tmp_path):
    builder = relax.BlockBuilder()
    x = variable("x", (8,))
    same = private(builder, "same", [like("x", x)], lambda x: x)
    with builder.function("main", [x]):
        first = builder.emit(relax.op.add(x, number(1)))
        handed = builder.emit(relax.Call(same, [first]))
        total = builder.emit(relax.op.matmul(first, first))
        builder.emit_func_output(builder.emit(relax.Tuple([total, handed])))
    total, handed = compiled(builder.get(), tmp_path)(np.ones(8, "float32"))
    assert total == 32
    np.testing.assert_array_equal(handed, np.full(8, 2))
