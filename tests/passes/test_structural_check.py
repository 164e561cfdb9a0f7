"""The structural check of passes: every rule refuses a module that breaks it, by the phase, the function and the binding."""

import pytest
import tvm
from tvm import ir, relax, tirx
from tvm.script import tirx as T

import tvtf as tf
from tvtf import passes
from tvtf.core.primitive import table
from tvtf.core.thread_state import debug_settings
from tvtf.ir import dialect
from tvtf.passes import pipeline
from tvtf.passes.analysis.loop_op import while_loop
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.debug import memory_check
from tvtf.passes.debug.structural_check import STAGES, StructuralCheck
from tvtf.passes.memory.memory_plan import ARENA_PARTS, ARENA_SIZE, ARENA_TENSOR, _arena_tensor
from tvtf.runtime.target import host_target

ROW = relax.TensorType((16,), "float32")


@T.prim_func(s_tir=True)
def double(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.sblock("double"):
            v = T.axis.spatial(16, i)
            b[v] = a[v] + a[v]


@T.prim_func(s_tir=True)
def wider(a: T.Buffer((16,), "float32"), b: T.Buffer((32,), "float32")):
    for i in range(32):
        with T.sblock("wider"):
            v = T.axis.spatial(32, i)
            b[v] = a[v % 16]


def var(name, ty=ROW):
    return relax.Var(name, ty)


def tanh(x):
    return dialect.write(table["tanh"], [x], {}, x.ty, None)


def doubled(source, target):
    return relax.Call(ir.GlobalVar("double"), [source, target], ret_ty=relax.TupleType([]))


def function(params, bindings, result, attrs=None):
    body = Bindings()
    for name, value in bindings:
        body.bind(name, value)
    like = relax.Function(params, relax.SeqExpr([], result), result.ty, False)
    found = body.function(like, result, pure=False)
    return found.with_attrs({"global_symbol": "main", **(attrs or {})})


def module(func, **others):
    kernel = double.with_attr("global_symbol", "double")
    found = {ir.GlobalVar("main"): func}
    names = {}
    for name, other in {"double": kernel, **others}.items():
        names[name] = ir.GlobalVar(name)
        found[names[name]] = other
    return ir.IRModule(found)


def error_text(phase, mod):
    """What the check says of a module that a phase left."""
    with pytest.raises(tf.errors.InternalError) as caught:
        StructuralCheck().after(phase, mod)
    return str(caught.value)


def test_the_check_is_on_in_all_tests():
    assert debug_settings.check


def test_a_variable_is_bound_before_its_use():
    x, y, z = map(var, "xyz")
    text = error_text("simplify", module(function([x], [(y, tanh(z)), (z, tanh(x))], y)))
    assert text.startswith("the phase 'simplify' left 'y' of 'main' wrong (")
    assert text.endswith("): 'z' is used, and not bound before")


def test_a_variable_of_a_branch_stays_in_it():
    x, y, z, flag = var("x"), var("y"), var("z"), var("flag", relax.TensorType((), "bool"))
    inside = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, x)])], y)
    other = relax.SeqExpr([], x)
    choice = relax.If(flag, inside, other)
    Bindings.typed(choice, ROW)
    text = error_text("legalize", module(function([x, flag], [(z, choice)], y)))
    assert text == "the phase 'legalize' left the function 'main' wrong: 'y' is used, and not bound before"


def test_a_variable_is_bound_once():
    x, y = map(var, "xy")
    text = error_text("simplify", module(function([x], [(y, tanh(x)), (y, tanh(x))], y)))
    assert text.endswith("): this variable is bound already")


def test_dead_bindings_are_reported_after_the_passes_that_remove_them():
    x, y, z = map(var, "xyz")
    mod = module(function([x], [(y, tanh(x)), (z, tanh(x))], z))
    assert error_text("simplify", mod).endswith("): nothing depends on it")
    StructuralCheck().after("trim", mod)


def test_other_ops_than_those_of_the_dialect_are_rejected():
    x, y = map(var, "xy")
    call = Bindings.typed(relax.op.tanh(x), ROW)
    text = error_text("simplify", module(function([x], [(y, call)], y)))
    assert "relax.tanh may not stand here: until they are legalized, modules have the ops of tvtf alone" in text


def test_an_op_that_was_not_lowered_is_reported():
    x, y = map(var, "xy")
    text = error_text("legalize", module(function([x], [(y, tanh(x))], y)))
    assert "tvtf.tanh may not stand here: allowed are a function of the module" in text


def test_a_function_that_is_not_there_is_reported():
    x, y = map(var, "xy")
    call = relax.Call(ir.GlobalVar("absent"), [x], ret_ty=ROW)
    text = error_text("legalize", module(function([x], [(y, call)], y)))
    assert text.endswith("): it names the function 'absent', which the module doesn't have")


def _identity():
    x = var("x")
    return function([x], [], x)


def with_main(build, **others):
    mod = module(_identity(), **others)
    func = build(mod.get_global_var)
    mod.update_func(mod.get_global_var("main"), func)
    return mod


def test_a_kernel_takes_as_many_tensors_as_it_is_given():
    def build(name):
        x, y = map(var, "xy")
        call = relax.Call(name("double"), [x], ret_ty=relax.TupleType([]))
        return function([x], [(var("_", relax.TupleType([])), call)], x)

    text = error_text("destinations", with_main(build))
    assert text.endswith("the kernel double takes 2 arguments, and is given 1")


def test_a_kernel_is_given_tensors_of_its_ranks():
    def build(name):
        x, y = var("x", relax.TensorType((4, 4), "float32")), var("y")
        call = relax.Call(name("double"), [x, y], ret_ty=relax.TupleType([]))
        return function([x, y], [(var("_", relax.TupleType([])), call)], x)

    text = error_text("destinations", with_main(build))
    assert "the kernel double takes 'a' of rank 1, and is given R.Tensor((4, 4), dtype=\"float32\")" in text


def test_a_loop_hands_on_what_its_body_takes():
    part = _identity().without_attr("global_symbol")

    def build(name):
        x, y, z = map(var, "xyz")
        call = while_loop(name("more"), name("step"), [x], [y])
        return function([x, y], [(z, Bindings.typed(call, ROW))], z)

    text = error_text("legalize", with_main(build, more=part, step=part))
    assert text.endswith("more takes 1 values, and the loop hands on 2")


def test_an_undefined_dim_is_rejected():
    n = tirx.Var("n", "int64")
    x, y = var("x"), var("y", relax.TensorType((n,), "float32"))
    call = relax.Call(relax.ExternFunc("f"), [x], ret_ty=y.ty)
    text = error_text("legalize", module(function([x], [(y, call)], y)))
    assert text.endswith("left the function 'main' wrong: the dims 'n' are used but not defined")


# -- memory


def place(name, offset, ty=ROW):
    made = _arena_tensor(
        relax.VarBinding(var(name, ty), relax.Call(relax.ExternFunc("alloc"), [ty.shape], ret_ty=ty)), offset
    )
    return made.var, relax.Call(ir.Op.get(ARENA_TENSOR), [ty.shape], attrs=made.value.attrs, ty_args=[ty], ret_ty=ty)


def memory_error_text(offsets, steps, size=256):
    """Of a function with tensors ``a``, ``b``, ... at offsets, doubled from one into another; ``x`` is the argument."""

    def build(name):
        x = var("x")
        made = [place(each, offset) for each, offset in zip("abc", offsets)]
        known = {"x": x} | {v.name: v for v, _ in made}
        void = relax.TupleType([])
        calls = [(var("_", void), relax.Call(name("double"), [known[a], known[b]], ret_ty=void)) for a, b in steps]
        return function([x], [*made, *calls], x, {ARENA_SIZE: size, ARENA_PARTS: {}})

    return error_text("arena", with_main(build))


def test_memory_is_not_read_after_something_else_was_written_there():
    text = memory_error_text([0, 0], [("x", "a"), ("x", "b"), ("a", "b")])
    assert text.endswith("it reads 'a', which was overwritten by 'b'")


def test_memory_that_overlaps_in_part_is_reported():
    def build(name):
        x = var("x")
        (a, first), (b, second) = place("a", 0), place("b", 64, relax.TensorType((16,), "float32"))
        wide, third = place("wide", 0, relax.TensorType((32,), "float32"))
        half = var("half")
        void = relax.TupleType([])
        steps = [relax.Call(name("double"), [x, b], ret_ty=void), relax.Call(name("wider"), [x, wide], ret_ty=void)]
        calls = [(var("_", void), step) for step in [*steps, relax.Call(name("double"), [b, a], ret_ty=void)]]
        return function(
            [x, half], [(a, first), (b, second), (wide, third), *calls], x, {ARENA_SIZE: 128, ARENA_PARTS: {}}
        )

    text = error_text("arena", with_main(build, wider=wider))
    assert text.endswith("it reads 'b', which was overwritten by 'wide'")


def test_a_place_is_aligned_and_within_the_arena():
    assert memory_error_text([16], [("x", "a")]).endswith("it begins at 16, which is not a multiple of 64")
    assert memory_error_text([256], [("x", "a")]).endswith("it ends at 320, beyond the function's part of the arena")


def test_memory_used_one_after_the_other_is_right():
    def build(name):
        x = var("x")
        (a, first), (b, second), (c, third) = place("a", 0), place("b", 64), place("c", 0)
        void = relax.TupleType([])
        calls = [
            (var("_", void), relax.Call(name("double"), [s, t], ret_ty=void))
            for s, t in ((x, a), (a, b), (b, c), (c, b))
        ]
        return function([x], [(a, first), (b, second), (c, third), *calls], x, {ARENA_SIZE: 128, ARENA_PARTS: {}})

    mod = with_main(build)
    assert list(memory_check.violations(mod, mod["main"])) == []


# -- in the pipeline


def test_a_users_pass_that_breaks_a_module_is_named(own_cache):
    def wrong(mod):
        main = mod["main"]
        first = main.body.blocks[0].bindings[0]
        twice = Bindings()
        twice.bindings = [first, *(b for block in main.body.blocks for b in block.bindings)]
        broken = mod.clone()
        broken.update_func(mod.get_global_var("main"), twice.function(main))
        return broken

    passes.add_pass("doubles", wrong)
    try:
        with pytest.raises(tf.errors.InternalError, match="the phase 'doubles' left .* this variable is bound already"):
            tf.function(lambda x: tf.tanh(x) + 2.0, autograph=False)(tf.ones([3]))
    finally:
        passes.remove_pass("doubles")


def test_every_stage_begins_with_a_phase():
    names = [phase.name for phase in pipeline.phases(host_target())]
    begins = [stage.begin for stage in STAGES[1:]]
    assert [name for name in names if name in begins] == begins


def test_a_kernel_that_stores_outside_its_buffer_is_named():
    out = tirx.decl_buffer([4], "float32", "out")
    inside, outside = (tirx.BufferStore(out, tirx.const(1.0, "float32"), [tirx.IntImm("int64", i)]) for i in (3, 4))
    kernel = tirx.PrimFunc([out], tirx.SeqStmt([inside, outside]))
    check = StructuralCheck()
    check.after("scalars", tvm.IRModule({"kernel": kernel}))
    with pytest.raises(tf.errors.InternalError, match="the kernel 'kernel' with a write outside its buffer: out.*4"):
        check.after("schedule", tvm.IRModule({"kernel": kernel}))
