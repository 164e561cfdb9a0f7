"""Nests of objects: classes of attrs, and dataclasses with methods for flattening."""

import dataclasses
from types import SimpleNamespace
from typing import Any


class Pair:
    """What ``attr.s`` makes of a class of two attributes, as far as anybody asks."""

    __attrs_attrs__ = (SimpleNamespace(name="x"), SimpleNamespace(name="y"))

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __repr__(self):
        return f"Pair(x={self.x!r}, y={self.y!r})"


class Unpacked(Pair):
    """A pair that is unpacked as a tuple is."""

    def __len__(self):
        return 2

    def __iter__(self):
        return iter((self.x, self.y))

    def __repr__(self):
        return f"Unpacked(x={self.x!r}, y={self.y!r})"


@dataclasses.dataclass
class Named:
    a: Any
    b: Any
    name: str = "n"

    def __tf_flatten__(self):
        return (self.name,), (self.a, self.b)

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
        return cls(*components, name=metadata[0])


def programs(tf):
    return _nests(tf) | _functions(tf) | _control(tf) | _elsewhere(tf)


def _nests(tf):
    def equal(a, b, check_types):
        def compared():
            try:
                return tf.nest.assert_same_structure(a, b, check_types=check_types)
            except (TypeError, ValueError) as error:
                return f"{type(error).__name__}: {error}"

        return compared

    pairs = {
        "a list": (Pair(1, 2), [1, 2]),
        "a tuple": (Named(1, 2), (1, 2)),
        "another": (Pair(1, 2), Named(1, 2)),
        "one with a list": (Pair(1, 2), Pair(1, [2])),
        "one of another name": (Named(1, 2), Named(1, 2, "z")),
        "one in a dict": ({"a": Pair(1, 2)}, {"a": Pair(3, 4)}),
    }
    each = {
        f"{type(value).__name__} {what}": call
        for value in (Pair(1, [2, 3]), Named(1, [2, 3], "q"))
        for what, call in {
            "flat": lambda v=value: tf.nest.flatten({"k": v}),
            "nested": lambda v=value: tf.nest.is_nested(v),
            "mapped": lambda v=value: tf.nest.map_structure(lambda leaf: leaf * 2, v),
            "packed": lambda v=value: tf.nest.pack_sequence_as(v, [4, 5, 6]),
            "too little": lambda v=value: equal_error(lambda: tf.nest.pack_sequence_as(v, [4, 5])),
        }.items()
    }
    return each | {
        f"beside {what}{'' if strict else ', types apart'}": equal(*both, strict)
        for what, both in pairs.items()
        for strict in (True, False)
    }


def equal_error(call):
    try:
        return call()
    except ValueError as error:
        return f"ValueError: {error}"


def _functions(tf):
    def of_pairs():
        def more(p):
            return Pair(p.x + 1, p.y)

        run = tf.function(more, autograph=False)
        results = [run(Pair(tf.constant(n), tf.constant([2.0]))) for n in (1, 2)]
        inputs = run.get_concrete_function(results[0]).structured_input_signature
        return results, run.experimental_get_tracing_count(), inputs, run.pretty_printed_concrete_signatures()

    def of_named():
        def more(d):
            return Named(d.a + 1, d.b, d.name)

        run = tf.function(more, autograph=False)
        results = [run(Named(tf.constant(1), tf.constant([2.0]), name)) for name in "aba"]
        inputs = run.get_concrete_function(results[0]).structured_input_signature
        return results, run.experimental_get_tracing_count(), inputs, run.pretty_printed_concrete_signatures()

    def given():
        specs = Pair(tf.TensorSpec([None]), tf.TensorSpec([]))
        return tf.function(lambda p: p.x * p.y, input_signature=[specs])(Pair([1.0, 2.0], 3.0))

    return {"function of pairs": of_pairs, "function of named pairs": of_named, "input_signature": given}


def _control(tf):
    def loop(start):
        return tf.while_loop(lambda s: s.x < 3, lambda s: [Pair(s.x + 1, s.y * 2.0)], [start])

    def unpacked(most):
        start = Unpacked(0, 1.0)
        return tf.while_loop(lambda x, y: x < 3, lambda x, y: Unpacked(x + 1, y * 2.0), start, maximum_iterations=most)

    def python_loop(n):
        state = Pair(0, 1.0)
        while state.x < n:
            state = Pair(state.x + 1, state.y * 2.0)
        if state.y > 3.0:
            state = Pair(state.x, 0.0)
        return state

    return {
        "while_loop": lambda: [run(Pair(0, 1.0)) for run in (loop, tf.function(loop))],
        "while_loop of one that is unpacked": lambda: [
            run(most) for run in (unpacked, tf.function(unpacked)) for most in (None, 2)
        ],
        "while": lambda: tf.function(python_loop)(tf.constant(3)),
        "cond": lambda: tf.function(lambda t: tf.cond(t, lambda: Pair(1, 2), lambda: Pair(3, 4)))(tf.constant(True)),
        "scan": lambda: tf.scan(lambda a, x: Pair(a.x + x, a.y * 2), tf.constant([1, 2]), Pair(0, 1)),
        "map_fn": lambda: tf.map_fn(lambda p: Pair(p.y, p.x), Pair(tf.constant([1, 2]), tf.constant([3, 4]))),
        "containers of eager loops": lambda: [
            tf.while_loop(lambda i: i < 3, body, start)
            for body in (lambda i: [i + 1], lambda i: (i + 1,))
            for start in ([0], (0,))
        ],
    }


def _elsewhere(tf):
    def gradient():
        with tf.GradientTape() as tape:
            pair = Pair(tf.constant(2.0), tf.constant(3.0))
            tape.watch([pair.x, pair.y])
            product = pair.x * pair.y
        return tape.gradient(product, pair)

    class Model(tf.Module):
        def __init__(self):
            self.pair = Pair(tf.Variable(1.0, name="one"), [tf.Variable(2.0, name="two")])
            self.named = Named(tf.Variable(3.0, name="three"), tf.Module("inner"))

    def data(make):
        dataset = tf.data.Dataset.from_tensor_slices(make([1, 2], [3.0, 4.0]))
        return dataset.element_spec, list(dataset), list(dataset.map(lambda each: each).batch(2))

    return {
        "gradient": gradient,
        "tracked": lambda: ([v.name for v in Model().variables], [m.name for m in Model().submodules]),
        "dataset of pairs": lambda: data(Pair),
        "dataset of named pairs": lambda: data(Named),
        "dataset swapped": lambda: list(
            tf.data.Dataset.from_tensor_slices(Pair([1, 2], [3.0, 4.0])).map(lambda p: Pair(p.y, p.x))
        ),
    }
