"""The Relax op of a loop, and the kernel by which a long loop polls for Ctrl-C."""

from __future__ import annotations

import functools

import tvm_ffi
from tvm import ir, relax, tirx, transform

from tvtf.core.tvm_visitor import structural_walk

PURE_LOOP, IMPURE_LOOP = LOOPS = "tvtf.while_loop", "tvtf.impure_while_loop"
POLL_SYMBOL = "tvtf_poll_signals"
PRIVATE = "tvtf.private"


def while_loop(
    condition: ir.GlobalVar,
    body: ir.GlobalVar,
    carried: list[ir.Expr],
    invariants: list[ir.Expr],
    result_type: relax.TupleType | None = None,
    *,
    pure: bool = True,
) -> relax.Call:
    """Returns a call that runs `body` on the carried values while `condition` holds; its value is the last tuple.

    `condition(*carried, *invariants)` returns a bool scalar tensor and `body(*carried, *invariants)` a tuple of as
    many values as are carried. Both are private Relax functions of the module. `result_type` is needed where the
    shape of a carried value changes between iterations; without it, types are those of `carried`. A loop whose
    functions have side effects (print, a write) needs `pure=False`, so that no pass drops or moves it.

    Example:
        >>> x = relax.Var("x", relax.TensorType((3,), "float32"))
        >>> call = while_loop(ir.GlobalVar("more"), ir.GlobalVar("step"), [x], [])
        >>> len(relax.BlockBuilder().normalize(call).ty.fields)
        1

    Source: `tf.while_loop`; the loop becomes a backward jump in the bytecode of TVM's virtual machine.
    """
    attrs = ir.make_node("ir.DictAttrs", carried=len(carried))
    types = [] if result_type is None else [result_type]
    return relax.Call(
        ir.Op.get(PURE_LOOP if pure else IMPURE_LOOP), [condition, body, *carried, *invariants], attrs, types
    )


@transform.module_pass(opt_level=0, name="MarkPrivate")
def MarkPrivate(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
    """Marks the private Relax functions of a module, and gives the conditions and bodies of loops a public symbol.

    TVM's AttachGlobalSymbol later gives all functions a symbol; the mark still tells code generation which functions
    were private. FuseTIR removes unused parameters from private functions, but doesn't update the operands of loops.
    Functions with a symbol keep all their parameters.
    """
    result = mod.clone()
    loop_functions = {name.name_hint for name in loop_parts(mod)}
    for name, func in mod.functions_items():
        if isinstance(func, relax.Function) and not has_symbol(func):
            marked = func.with_attr(PRIVATE, True)
            if name.name_hint in loop_functions:
                marked = marked.with_attr("global_symbol", name.name_hint)
            result.update_func(name, marked)
    return result


def has_symbol(func: ir.BaseFunc) -> bool:
    """Returns whether a function has a symbol that is visible from outside."""
    return bool(func.attrs) and "global_symbol" in func.attrs


def loop_parts(mod: ir.IRModule) -> list[ir.GlobalVar]:
    """Returns the functions that a module's loops call: each loop's condition, then its body; with repetitions."""
    return [part for call in all_calls(mod) if is_loop(call) for part in call.args[:2]]


def all_calls(mod: ir.IRModule) -> list[relax.Call]:
    """Returns every call in the Relax functions of a module."""
    calls: list[relax.Call] = []
    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            structural_walk(func.body, (relax.Call, calls.append))
    return calls


def is_loop(call: relax.Call) -> bool:
    """Returns whether a call is one of the two loop operators."""
    return isinstance(call.op, ir.Op) and call.op.name in LOOPS


def carried_count(call: relax.Call) -> int:
    """Returns how many operands of a `tvtf.while_loop` call are carried; the rest are invariant."""
    return int(call.attrs["carried"])


def _infer_type(call: relax.Call, _builder: relax.BlockBuilder) -> ir.Type:
    """Returns the type of a loop's result: the one given to its call, else that of the carried operands."""
    if call.ty_args:
        return call.ty_args[0]
    _, _, *operands = call.args
    return relax.TupleType([operand.ty for operand in operands[: carried_count(call)]])


def _register(name: str) -> None:
    """Registers a loop operator with Relax."""
    tvm_ffi.get_global_func("ir.RegisterOp")(name, "Repeat a function while a condition holds.")
    ir.register_op_attr(name, "FInferType", _infer_type)
    ir.register_op_attr(name, "FPurity", name == PURE_LOOP)
    ir.register_op_attr(name, "TScriptPrinterName", name)


for _name in LOOPS:
    if _name not in ir.Op.list_op_names():
        _register(_name)


@functools.cache
def poll_kernel() -> tirx.PrimFunc:
    """Builds the kernel that each iteration of a loop calls, so that Ctrl-C can interrupt the loop.

    At most once a second, the kernel lets Python handle pending signals. Its argument is a buffer with the second of the
    last poll.
    """

    last_poll = tirx.decl_buffer((1,), "int64", "last", data_alignment=8)
    poll = tirx.SeqStmt([tirx.BufferStore(last_poll, seconds(), [0]), signal_check()])
    is_next_second = tirx.NE(seconds(), tirx.BufferLoad(last_poll, [0]))
    body = tirx.IfThenElse(is_next_second, poll, None)
    func = tirx.PrimFunc([last_poll], body).with_attr("global_symbol", POLL_SYMBOL)
    # Only the CPU receives signals.
    return func.with_attr("tirx.is_host_func", True)


def seconds() -> ir.Expr:
    """Returns the time in seconds, as an expression."""
    return tirx.call_extern("int64", "time", tirx.IntImm("int64", 0))


def signal_check() -> tirx.AssertStmt:
    """Builds the statement that lets Python handle pending signals, and that fails if a handler raised an exception.

    The error kind `EnvErrorAlreadySet` means to tvm_ffi (tvm/ffi/error.h) that a Python exception, such as
    KeyboardInterrupt, is already set.
    """
    no_signal = tirx.EQ(tirx.call_extern("int32", "TVMFFIEnvCheckSignals"), tirx.IntImm("int32", 0))
    # TVM 0.27 documents the kind as first argument, but its constructor takes the condition first.
    return tirx.AssertStmt(no_signal, ir.StringImm("EnvErrorAlreadySet"), [ir.StringImm("interrupted")])
