"""Saved models: results, printed forms and errors."""

import os
import tempfile

import numpy as np
from parity_calls import result_or_kind


def programs(tf):
    return _objects(tf) | _functions(tf) | _random_functions(tf) | _signatures(tf) | _errors(tf)


def _round(tf, obj, **options):
    folder = tempfile.mkdtemp()
    tf.saved_model.save(obj, folder, **options)
    return tf.saved_model.load(folder)


def _model(tf):
    class Demo(tf.Module):
        def __init__(self):
            super().__init__(name="demo")
            with self.name_scope:
                self.x = tf.Variable(1.0, name="x")
            self.layers = [tf.Variable([1.0, 2.0], name="first"), tf.Module()]
            self.named = {"a": tf.Variable(2, trainable=False, name="a")}

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def add(self, a):
            self.x.assign_add(a)
            return self.x

        @tf.function
        def poly(self, x, n=2, *, flag=True):
            return {"y": x * n, "z": (x, 3)} if flag else x

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="rows")])
        def __call__(self, x):
            return x * self.x

    model = Demo()
    model.poly(tf.constant(1.0))
    model.poly(tf.constant([1.0, 2.0]), 3, flag=False)
    return model


def _objects(tf):
    def edited(change):
        loaded = _round(tf, _model(tf))
        change(loaded)
        return loaded

    def independent():
        model = _model(tf)
        loaded = _round(tf, model)
        loaded.x.assign(7.0)
        return model.x.numpy(), loaded.x.numpy()

    def checkpoint():
        model, folder = _model(tf), tempfile.mkdtemp()
        model.x.assign(9.0)
        path = tf.train.Checkpoint(model=model).save(folder + "/ckpt")
        loaded = _round(tf, _model(tf))
        tf.train.Checkpoint(model=loaded).restore(path).expect_partial()
        return loaded.x.numpy()

    def from_folder():
        model, folder = _model(tf), tempfile.mkdtemp()
        model.x.assign(9.0)
        tf.saved_model.save(model, folder)
        fresh = _model(tf)
        tf.train.Checkpoint(fresh).restore(folder + "/variables/variables").expect_partial()
        return fresh.x.numpy()

    def attributes():
        loaded = _round(tf, _model(tf))
        return [n for n in ("x", "layers", "named", "add", "poly", "signatures", "_name") if hasattr(loaded, n)]

    return {
        "variable": lambda: repr(_round(tf, _model(tf)).x),
        "list": lambda: [repr(v) for v in list(_round(tf, _model(tf)).layers)[:1]],
        "list length": lambda: len(_round(tf, _model(tf)).layers),
        "dict": lambda: repr(_round(tf, _model(tf)).named["a"]),
        "trainable": lambda: (_round(tf, _model(tf)).x.trainable, _round(tf, _model(tf)).named["a"].trainable),
        "no class": lambda: type(_round(tf, _model(tf))).__name__,
        "attributes": attributes,
        "missing attribute": lambda: _round(tf, _model(tf)).nothing,
        "independent": independent,
        "assign": lambda: edited(lambda m: m.x.assign(4.0)).x.numpy(),
        "new attribute": lambda: edited(lambda m: setattr(m, "extra", 5)).extra,
        "checkpoint into it": checkpoint,
        "its variables into a checkpoint": from_folder,
        "files": lambda: _files(tf),
        "contains": lambda: tf.saved_model.contains_saved_model(tempfile.mkdtemp()),
        "unknown shape": lambda: _round(tf, _holding(tf, tf.Variable([1.0], shape=tf.TensorShape([None])))).held.shape,
        "nested": lambda: _round(tf, _holding(tf, _holding(tf, tf.Variable(3.0)))).held.held.numpy(),
        "shared": lambda: _shared(tf),
        "any rank": lambda: _any_rank(tf),
        "variables of any size": lambda: _of_any_size(tf),
        "tuple": lambda: [v.numpy() for v in _round(tf, _holding(tf, (tf.Variable(1.0), tf.Variable(2.0)))).held],
    }


def _holding(tf, value):
    module = tf.Module()
    module.held = value
    return module


def _any_rank(tf):
    """A function of unknown rank: indices, branches, loops, a custom gradient and a Variable; saved, and saved again."""

    @tf.custom_gradient
    def clipped(y):
        return y, lambda dy: tf.clip_by_norm(dy, 0.5)

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(3.0)

        @tf.function(input_signature=[tf.TensorSpec(None)])
        def f(self, x):
            y = x[..., tf.newaxis] * self.w
            if tf.reduce_sum(x) > 0:
                y = tf.reverse(y, [0])
            z = tf.concat([y, tf.zeros_like(y)], axis=-1)
            for _ in tf.range(3):
                z = z + tf.cast(tf.rank(x), tf.float32)
            self.w.assign_add(1.0)
            return tf.reshape(clipped(z), [-1]) * np.float32(2)

    loaded = _round(tf, Model())
    again = _round(tf, loaded)
    results = []
    for model in (loaded, again):
        for x in (tf.constant([1.0, 2.0]), tf.constant([[1.0, 2.0], [-5.0, 1.0]])):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = model.f(x)
            results += [y, tape.gradient(y, x)]
    return results


def _of_any_size(tf):
    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.a = tf.Variable([1.0, 2.0], shape=[None])
            self.b = tf.Variable(3.0, shape=tf.TensorShape(None))

        @tf.function(input_signature=[tf.TensorSpec([None])])
        def f(self, x):
            self.a.assign(tf.concat([self.a, x], 0))
            return self.a * 2.0, tf.reduce_sum(self.b)

    loaded = _round(tf, Model())
    first = loaded.f(tf.constant([5.0]))
    loaded.b.assign([1.0, 2.0])
    return first, loaded.f(tf.constant([6.0, 7.0])), loaded.a.shape, loaded.b.shape


def _shared(tf):
    module, variable = tf.Module(), tf.Variable(1.0)
    module.a, module.b = variable, variable
    loaded = _round(tf, module)
    return loaded.a is loaded.b


def _files(tf):
    folder = tempfile.mkdtemp()
    tf.saved_model.save(_model(tf), folder)
    return sorted(os.listdir(folder + "/variables")), os.path.isdir(folder + "/assets")


def _random_functions(tf):
    """Functions that draw random numbers, loaded and run twice."""

    def module(draw):
        made = tf.Module()
        made.rate = tf.Variable(0.5)
        made.f = tf.function(lambda x: draw(x, made.rate), input_signature=[tf.TensorSpec([3])])
        return made

    def twice(f):
        return [f(tf.ones([3])).numpy() for _ in range(2)]

    def drawn(draw, set_later=None):
        tf.random.set_seed(3)
        made = module(draw)
        trained = twice(made.f)
        loaded = _round(tf, made)
        if set_later is not None:
            tf.random.set_seed(set_later)
        found, again = twice(loaded.f), _round(tf, loaded)
        return trained, found, twice(again.f)

    def restarted():
        tf.random.set_seed(3)
        loaded = _round(tf, module(draws["uniform"]))
        return twice(loaded.f), tf.random.set_seed(3), twice(loaded.f)

    def without_seed():
        made = module(lambda x, rate: x + tf.random.uniform([3]))
        tf.random.set_seed(None)
        made.f(tf.ones([3]))
        first, second = _round(tf, made), _round(tf, made)
        both = twice(first.f) + twice(second.f)
        return [bool(np.all(a == b)) for i, a in enumerate(both) for b in both[:i]]

    def signature():
        tf.random.set_seed(3)
        made = module(draws["normal"])
        serve = _round(tf, made, signatures=made.f).signatures["serving_default"]
        return [next(iter(serve(x=tf.ones([3])).values())).numpy() for _ in range(2)]

    draws = {
        "uniform": lambda x, rate: x + rate * tf.random.uniform([3], seed=5),
        "normal": lambda x, rate: x + rate * tf.random.normal([3], seed=5),
        "two ops": lambda x, rate: tf.random.uniform([3], seed=1) - tf.random.uniform([3], seed=2) * rate,
        "dropout": lambda x, rate: tf.nn.dropout(x, rate, seed=7),
        "shuffled": lambda x, rate: tf.random.shuffle(x * rate * [1.0, 2.0, 3.0], seed=7),
        "in a branch": lambda x, rate: tf.cond(rate > 0, lambda: tf.random.uniform([3], seed=5), lambda: x),
    }
    return {
        **{f"random numbers, {name}": lambda draw=draw: drawn(draw) for name, draw in draws.items()},
        "random numbers, a seed that is set later": lambda: drawn(draws["uniform"], 4)[1:],
        "random numbers, the seed set again": restarted,
        "random numbers, no seed": without_seed,
        "random numbers, a signature": signature,
    }


def _functions(tf):
    def fine_tuned():
        loaded = _round(tf, _model(tf))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loaded(tf.ones([2, 3])))
        gradient = tape.gradient(loss, loaded.x)
        loaded.x.assign_sub(0.5 * gradient)
        return gradient.numpy(), loaded(tf.ones([1, 3])).numpy()

    def inside():
        loaded = _round(tf, _model(tf))
        outer = tf.function(lambda x: loaded(x) + 1.0)
        return outer(tf.ones([1, 3])).numpy()

    def of_closure():
        module, weights = tf.Module(), tf.constant(np.arange(40, dtype=np.float32))
        module.f = tf.function(lambda x: x * weights, input_signature=[tf.TensorSpec([40])])
        return _round(tf, module).f(tf.ones([40])).numpy().sum()

    def of_custom_gradient():
        @tf.custom_gradient
        def clipped(x):
            return x, lambda ct: tf.clip_by_value(ct, -1.0, 1.0)

        module = tf.Module()
        module.f = tf.function(lambda x: 5.0 * clipped(x), input_signature=[tf.TensorSpec([])])
        loaded, x = _round(tf, module), tf.constant(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = loaded.f(x)
        return tape.gradient(y, x).numpy()

    def of_loop():
        module = tf.Module()

        @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
        def total(n):
            found = 0
            for i in tf.range(n):
                if i % 2 == 0:
                    found += i
            return found

        module.total = total
        return _round(tf, module).total(10).numpy()

    def concrete():
        module = tf.Module()
        module.f = tf.function(lambda x: x + 1.0).get_concrete_function(tf.TensorSpec([], tf.float32, name="x"))
        return _round(tf, module).f(tf.constant(1.0)).numpy()

    def nested_arguments():
        module = tf.Module()
        module.f = tf.function(lambda pair, scale: (pair["a"] * scale[0], [pair["b"] * scale[1]]))
        module.f({"a": tf.constant(1.0), "b": tf.constant(2.0)}, (2, 3))
        loaded = _round(tf, module)
        return tf.nest.map_structure(
            lambda t: t.numpy(), loaded.f({"a": tf.constant(5.0), "b": tf.constant(7.0)}, (2, 3))
        )

    def ragged():
        module = tf.Module()
        spec = tf.RaggedTensorSpec([None, None], tf.float32)
        module.doubled = tf.function(lambda x: (x * 2.0, {"rows": x.row_lengths()}), input_signature=[spec])
        module.counted = tf.function(lambda n: tf.ragged.range(n), input_signature=[tf.TensorSpec([None], tf.int32)])
        loaded = _round(tf, module)
        twice, lengths = loaded.doubled(tf.ragged.constant([[1.0], [2.0, 3.0], []]))
        return twice.to_list(), lengths["rows"].numpy(), loaded.counted(tf.constant([2, 0, 1])).to_list()

    return {
        "of ragged tensors": ragged,
        "call": lambda: _round(tf, _model(tf))([[1.0, 2.0, 3.0]]).numpy(),
        "update": lambda: (lambda m: [m.add(a).numpy() for a in (1.0, 2.0)])(_round(tf, _model(tf))),
        "update of one saved twice": lambda: (lambda m: m.add(2.0).numpy())(_round(tf, _round(tf, _model(tf)))),
        "polymorphic": lambda: _round(tf, _model(tf)).poly(tf.constant(4.0))["y"].numpy(),
        "polymorphic structure": lambda: _round(tf, _model(tf)).poly(tf.constant(4.0))["z"][1].numpy(),
        "polymorphic other": lambda: _round(tf, _model(tf)).poly(tf.constant([1.0, 5.0]), 3, flag=False).numpy(),
        "by keyword": lambda: _round(tf, _model(tf)).poly(x=tf.constant([1.0, 5.0]), n=3, flag=False).numpy(),
        "python number": lambda: _round(tf, _model(tf)).poly(4.0)["y"].numpy(),
        "no match": lambda: _round(tf, _one_trace(tf)).f(tf.constant([1, 2])),
        "no match value": lambda: _round(tf, _one_trace(tf)).f(tf.constant([1.0, 2.0]), n=5),
        "no argument": lambda: _matched(lambda: _round(tf, _one_trace(tf)).f()),
        "gradients": fine_tuned,
        "inside a function": inside,
        "closure": of_closure,
        "custom gradient": of_custom_gradient,
        "loop": of_loop,
        "concrete function": concrete,
        "nested arguments": nested_arguments,
        "run eagerly": lambda: _eagerly(tf),
    }


def _eagerly(tf):
    loaded = _round(tf, _model(tf))
    tf.config.run_functions_eagerly(True)
    try:
        return loaded([[1.0, 2.0, 3.0]]).numpy()
    finally:
        tf.config.run_functions_eagerly(False)


def _one_trace(tf):
    module = tf.Module()
    module.f = tf.function(lambda x, n=2: x * n)
    module.f(tf.constant([1.0, 2.0]))
    return module


def _matched(call):
    """The beginning of a message: TensorFlow goes on with what it does not know of defaults."""
    try:
        return call()
    except TypeError as error:
        return str(error).partition(" Received")[0]


def _signatures(tf):
    def signature(key="serving_default", **signatures):
        model = _model(tf)
        loaded = _round(tf, model, signatures={name: getattr(model, method) for name, method in signatures.items()})
        return loaded.signatures[key]

    def kept():
        model = _model(tf)
        again = _round(tf, _round(tf, model, signatures=model.add))
        return list(again.signatures)

    def resaved():
        model = _model(tf)
        loaded = _round(tf, model, signatures=model.add)
        return list(_round(tf, loaded, signatures=loaded.signatures).signatures)

    def two(**outputs):
        module = tf.Module()
        specs = [tf.TensorSpec([2], name="a"), tf.TensorSpec([2], name="b")]
        module.f = tf.function(lambda a, b: (a + b, a - b), input_signature=specs)
        return _round(tf, module, signatures=module.f).signatures["serving_default"]

    pair = tf.constant([1.0, 2.0]), tf.constant([3.0, 5.0])
    return {
        "signature": lambda: signature(serving_default="add")(a=tf.constant(2.0)),
        "signature by position": lambda: signature(serving_default="add")(tf.constant(2.0)),
        "signature inputs": lambda: signature(serving_default="__call__").structured_input_signature,
        "signature outputs": lambda: signature(serving_default="__call__").structured_outputs,
        "signature missing": lambda: _matched(lambda: signature(serving_default="add")()),
        "signature tuple": lambda: {k: v.numpy() for k, v in sorted(two()(a=pair[0], b=pair[1]).items())},
        "several": lambda: list(_several(tf)),
        "single": lambda: list(_round(tf, _holding_function(tf)).signatures),
        "none": lambda: list(_round(tf, _model(tf)).signatures),
        "unknown": lambda: signature("other", serving_default="add"),
        "kept": kept,
        "saved again": resaved,
        "gradient": lambda: _signature_gradient(tf),
    }


def _several(tf):
    model = _model(tf)
    return _round(tf, model, signatures={"one": model.add, "two": model.__call__}).signatures


def _holding_function(tf):
    module = tf.Module()
    module.f = tf.function(lambda x: x + 1.0, input_signature=[tf.TensorSpec([])])
    return module


def _signature_gradient(tf):
    model = _model(tf)
    loaded, x = _round(tf, model, signatures=model.__call__), tf.ones([1, 3])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = loaded.signatures["serving_default"](rows=x)["output_0"]
    return tape.gradient(y, [x, loaded.x])


def _errors(tf):
    def rejected(signatures):
        return _round(tf, tf.Module(), signatures=signatures)

    def with_attribute():
        module = tf.Module()
        module.signatures = {"a": 1}
        return _round(tf, module)

    def untracked():
        module, variable = tf.Module(), tf.Variable(1.0)
        module.f = tf.function(lambda x: x * variable, input_signature=[tf.TensorSpec([])])
        try:
            return _round(tf, module)
        except AssertionError as error:
            return str(error).partition("See the information")[0]

    def doubled():
        spec = tf.TensorSpec([], tf.float32, name="x")
        loaded = rejected(tf.function(lambda x, y: x + y, input_signature=[spec, spec]))
        given, named = loaded.signatures["serving_default"].structured_input_signature
        return given, sorted(named.items())  # TensorFlow's come in the order of a protobuf's map, which is none

    return {
        "not trackable": lambda: _start(lambda: _round(tf, 5)),
        "missing folder": lambda: _start(lambda: tf.saved_model.load("/nowhere/model")),
        "wrong tags": lambda: _start(lambda: _tagged(tf)),
        "python function as signature": lambda: _start(lambda: rejected(len)),
        "no input signature": lambda: _start(lambda: rejected(tf.function(lambda x: x))),
        "key": lambda: result_or_kind(lambda: rejected(_giving(tf, lambda: {1: tf.constant(1.0)}))),
        "no tensor": lambda: result_or_kind(lambda: rejected(_giving(tf, lambda: {"a": None}))),
        "nested results": lambda: result_or_kind(lambda: rejected(_giving(tf, lambda: {"a": {"b": tf.constant(1)}}))),
        "one name": lambda: _start(doubled),
        "signatures attribute": lambda: _start(with_attribute),
        "untracked": untracked,
        "in a function": lambda: _start(
            tf.function(lambda: tf.saved_model.save(tf.Module(), "never"), autograph=False)
        ),
    }


def _giving(tf, result):
    return tf.function(result, input_signature=[], autograph=False)


def _tagged(tf):
    folder = tempfile.mkdtemp()
    tf.saved_model.save(tf.Module(), folder)
    return tf.saved_model.load(folder, tags=["train"])


def _start(call):
    """A refusal's type and first words: what follows names folders and addresses."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:22]}"
