"""Random nests of loops and branches over values that alias, compiled, against the same program in Python."""

import itertools
import random

import numpy as np
import pytest
from codegen_programs import COUNT, compiled, counting, like, number, private, variable
from covering import some
from tvm import relax

from tvtf.passes.analysis.loop_op import while_loop

WIDTH, SHAPE = 3, (2,)
HALF = np.float32(0.5)
NAMES = itertools.count()


def fixed(index):
    return np.full(SHAPE, index + 0.25, "float32")


def state():
    return [variable(f"v{k}", SHAPE) for k in range(WIDTH)]


class Mix:
    """Each new value is an old one as it is, half of one, half the sum of two, or a constant."""

    def __init__(self, rng, _depth):
        kinds = ("same", "sum", "half", "fixed")
        self.rules = [(rng.choice(kinds), rng.randrange(WIDTH), rng.randrange(WIDTH)) for _ in range(WIDTH)]

    def run(self, values):
        choices = {
            "same": lambda a, b: values[a],
            "sum": lambda a, b: (values[a] + values[b]) * HALF,
            "half": lambda a, b: values[a] * HALF,
            "fixed": lambda a, b: fixed(a),
        }
        return [choices[kind](a, b) for kind, a, b in self.rules]

    def prepare(self, builder):
        def emit(values):
            half = number(0.5)
            choices = {
                "same": lambda a, b: values[a],
                "sum": lambda a, b: builder.emit(relax.op.multiply(relax.op.add(values[a], values[b]), half)),
                "half": lambda a, b: builder.emit(relax.op.multiply(values[a], half)),
                "fixed": lambda a, b: relax.const(fixed(a), "float32"),
            }
            return [choices[kind](a, b) for kind, a, b in self.rules]

        return emit


class Steps:
    """One statement after the other."""

    def __init__(self, rng, depth):
        self.steps = [rng.choice(KINDS if depth else (Mix,))(rng, depth - 1) for _ in range(rng.randint(1, 3))]

    def run(self, values):
        for step in self.steps:
            values = step.run(values)
        return values

    def prepare(self, builder):
        emits = [step.prepare(builder) for step in self.steps]

        def emit(values):
            for one in emits:
                values = one(values)
            return values

        return emit


class Branch:
    """Two private functions, and which of them runs depends on the first value."""

    def __init__(self, rng, depth):
        self.limit = rng.random() * 2
        self.sides = Steps(rng, depth), Steps(rng, depth)

    def run(self, values):
        return self.sides[0 if values[0].sum() > np.float32(self.limit) else 1].run(values)

    def prepare(self, builder):
        sides = [function_of(builder, side) for side in self.sides]

        def emit(values):
            flag = builder.emit(relax.op.greater(relax.op.sum(values[0]), number(self.limit)))
            given = [builder.emit(value) for value in values]
            chosen = builder.emit(relax.If(flag, *[call_sequence(builder, side, given) for side in sides]))
            return [builder.emit(relax.TupleGetItem(chosen, k)) for k in range(WIDTH)]

        return emit


class Loop:
    """The same statements a few times."""

    def __init__(self, rng, depth):
        self.times = rng.randint(0, 3)
        self.body = Steps(rng, depth)

    def run(self, values):
        for _ in range(self.times):
            values = self.body.run(values)
        return values

    def prepare(self, builder):
        emit_body = self.body.prepare(builder)
        inputs = [relax.Var("i", COUNT), *state(), relax.Var("n", COUNT)]
        parts = counting(builder, f"loop{next(NAMES)}", inputs, lambda i, *rest: tuple(emit_body(list(rest[:-1]))))

        def emit(values):
            start, times = number(0, "int64"), number(self.times, "int64")
            result = builder.emit(while_loop(*parts, [start, *values], [times]))
            return [builder.emit(relax.TupleGetItem(result, 1 + k)) for k in range(WIDTH)]

        return emit


KINDS = (Mix, Branch, Loop)


def function_of(builder, step):
    emit = step.prepare(builder)
    return private(builder, f"side{next(NAMES)}", state(), lambda *values: tuple(emit(list(values))))


def call_sequence(builder, function, arguments):
    call = builder.normalize(relax.Call(function, arguments))
    var = relax.Var("side", call.ty)
    return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(var, call)])], var)


def compiled_steps(steps, folder):
    builder = relax.BlockBuilder()
    emit = steps.prepare(builder)
    params = [like(p.name, p) for p in state()]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(relax.Tuple([*emit(list(params)), params[0]])))
    return compiled(builder.get(), folder)


@pytest.mark.parametrize("seed", some(range(12), range(6)))
def test_random_program_computes_what_python_does(tmp_path, seed):
    steps = Steps(random.Random(seed), 3)
    run = compiled_steps(steps, tmp_path)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        given = [rng.random(SHAPE, "float32") * 2 for _ in range(WIDTH)]
        np.testing.assert_array_equal(run(*given), [*steps.run(given), given[0]])
