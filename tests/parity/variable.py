"""Variables: values, printing, errors, and values read before an assignment."""

import copy
import pickle

import numpy as np


def programs(tf):
    return _making(tf) | _assigning(tf) | _keeping(tf) | _growing(tf) | _copies(tf) | _views(tf)


def _making(tf):
    make = tf.Variable

    class Doubled(tf.Variable):
        """A Variable without memory: its value is made of a tensor, whose conversion is another one."""

        def __init__(self, tensor):
            self.tensor = tensor

        shape = property(lambda self: self.tensor.shape)
        dtype = property(lambda self: self.tensor.dtype)

        def value(self):
            return 2.0 * self.tensor

        def __sub__(self, other):
            return "its own"

    tf.register_tensor_conversion_function(Doubled, lambda value, dtype=None, name=None, as_ref=False: value.tensor)

    def of_a_subclass():
        v = Doubled(tf.constant([1.0, 3.0]))
        return [v + 1.0, 1.0 + v, -v, v < 3.0, v[0], v**2.0, v - 1.0, 1.0 - v, tf.add(v, 1.0)]

    return {
        "operators on the value of a subclass": of_a_subclass,
        "repr": lambda: repr(make([1.0, 2.0], name="v")),
        "repr scalar": lambda: repr(make(1.0)),
        "repr int": lambda: repr(make(3)),
        "repr matrix": lambda: repr(make([[1.0, 2.0], [3.0, 4.0]])),
        "repr bool": lambda: repr(make(True)),
        "repr text": lambda: repr(make("a")),
        "repr bfloat16": lambda: repr(make(1.5, dtype=tf.bfloat16)),
        "names": lambda: (make(1.0).name, make(1.0, name="w").name),
        "trainable": lambda: (make(1.0).trainable, make(1.0, trainable=False).trainable, make(1).trainable),
        "from function": lambda: make(lambda: tf.constant(2.0)).numpy(),
        "from variable": lambda: make(make(2.0)).numpy(),
        "from list of tensors": lambda: make([tf.constant(1.0), 2.0]).numpy(),
        "nothing": lambda: make(),
        "dtype": lambda: make(1, dtype=tf.float64).dtype,
        "static shape": lambda: make([1.0], shape=tf.TensorShape([None])).shape,
        "hash": lambda: hash(make(1.0)),
        "iterate": lambda: list(make([1.0, 2.0])),
        "bool": lambda: bool(make(0.0)),
        "int": lambda: int(make(2.5)),
        "float": lambda: float(make(2.5)),
        "numpy": lambda: type(make(1.0).numpy()).__name__,
        "asarray": lambda: np.asarray(make([1.0, 2.0])),
        "asarray dtype": lambda: np.asarray(make([1.0, 2.0]), np.float64).dtype,
        "arithmetic": lambda: (make(1.0) + 1, 2 * make([1.0, 2.0]), make([1.0]) > 0.5, -make(1.0)),
        "slice": lambda: make([1.0, 2.0, 3.0])[1:],
        "equal": lambda: make(1.0) == 1.0,
        "shape": lambda: (make([[1.0]]).shape, make([[1.0]]).dtype),
        "ref": lambda: (lambda v: (v.ref() == v.ref(), v.ref() == make(1.0).ref(), v.ref().deref() is v))(make(1.0)),
        "is_tensor": lambda: tf.is_tensor(make(1.0)),
    }


def _assigning(tf):
    def after(change, value=(1.0, 2.0)):
        variable = tf.Variable(list(value))
        change(variable)
        return variable

    def failed(change):
        variable = tf.Variable([1.0, 2.0])
        try:
            change(variable)
        except (ValueError, TypeError):
            return variable.numpy()
        return "not refused"

    def deepcopied():
        first = tf.Variable([1.0], name="w", trainable=False)
        second = copy.deepcopy(first)
        second.assign([2.0])
        return first.numpy(), second.numpy(), second.trainable, second.name

    return {
        "assign": lambda: after(lambda v: v.assign([3.0, 4.0])),
        "assign_add": lambda: after(lambda v: v.assign_add([3.0, 4.0])),
        "assign_sub": lambda: after(lambda v: v.assign_sub([3.0, 4.0])),
        "assign variable": lambda: after(lambda v: v.assign(tf.Variable([5.0, 6.0]))),
        "assign ints": lambda: after(lambda v: v.assign([5, 6])),
        "assign result": lambda: repr(tf.Variable([1.0, 2.0]).assign([3.0, 4.0])),
        "assign_add result": lambda: repr(tf.Variable(1.0).assign_add(1.0)),
        "assign without result": lambda: tf.Variable(1.0).assign(2.0, read_value=False),
        "assign chain": lambda: after(lambda v: v.assign_add([1.0, 1.0]).assign_sub([3.0, 3.0])),
        "result of assign in arithmetic": lambda: tf.Variable(1.0).assign_add(1.0) * 2,
        "assign shape": lambda: tf.Variable([1.0, 2.0]).assign([1.0, 2.0, 3.0]),
        "assign broadcast": lambda: tf.Variable([1.0, 2.0]).assign(3.0),
        "assign dtype": lambda: tf.Variable([1.0, 2.0]).assign(tf.constant([1, 2])),
        "assign float to int": lambda: tf.Variable(1).assign(1.5),
        "assign to unknown dim": lambda: repr(
            tf.Variable([1.0], shape=tf.TensorShape([None])).assign([1.0, 2.0]).numpy()
        ),
        "failed assign leaves": lambda: failed(lambda v: v.assign([1.0, 2.0, 3.0])),
        "failed assign_add leaves": lambda: failed(lambda v: v.assign_add(tf.constant([1, 2]))),
        "deepcopy": deepcopied,
    }


def _keeping(tf):
    """Everything taken before an update keeps its value."""

    def eagerly(take):
        v = tf.Variable([1.0, 2.0])
        taken = take(v)
        v.assign_add([10.0, 10.0])
        v.assign([7.0, 7.0])
        return taken, v

    def traced(take):
        v = tf.Variable([1.0, 2.0])

        @tf.function
        def step():
            taken = take(v)
            v.assign_add([10.0, 10.0])
            return taken, v.read_value()

        return step(), step(), v.numpy()

    def compiled(take):
        v = tf.Variable([1.0, 2.0])
        step = tf.function(lambda: v.assign_add([10.0, 10.0]))
        step()
        taken = take(v)
        step()
        step()
        return taken, v.numpy()

    ways = {
        "read_value": lambda v: v.read_value(),
        "value": lambda v: v.value(),
        "identity": tf.identity,
        "convert": tf.convert_to_tensor,
        "slice": lambda v: v[1:],
        "plus": lambda v: v + 0.0,
        "reshape": lambda v: tf.reshape(v, [2, 1]),
    }
    outside = ways | {"numpy": lambda v: v.numpy()}
    made = {f"{label} before an eager update": lambda w=way: eagerly(w) for label, way in outside.items()}
    made |= {f"{label} before a traced update": lambda w=way: traced(w) for label, way in ways.items()}
    made |= {f"{label} before a compiled update": lambda w=way: compiled(w) for label, way in outside.items()}
    return made


def _growing(tf):
    """Variables of unknown size or rank, read and written by functions that were traced for another one."""

    def of_sizes():
        v = tf.Variable(tf.zeros([0]), shape=[None])

        @tf.function
        def extend(x):
            v.assign(tf.concat([v, x], 0))
            return v + 1.0, tf.shape(v)

        return [extend(tf.ones([n])) for n in (1, 5, 2)]

    def of_ranks(function):
        v = tf.Variable(1.0, shape=tf.TensorShape(None))
        traced = tf.function(lambda: function(v), autograph=False)
        results = []
        for value in (2.0, [2.0, 3.0], [[4.0]], 5.0):
            v.assign(value)
            results.append(traced())
        return results, traced.experimental_get_tracing_count()

    def halved(v):
        v.assign_sub(v * 0.5)
        return v.read_value()

    def gradient(v):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(v * v)
        return tape.gradient(y, v)

    def outside():
        v = tf.Variable([1.0], shape=tf.TensorShape(None))
        doubled = tf.function(lambda: v * 2.0, autograph=False)
        results = []
        for value in ([3.0], [[1.0, 2.0]], 4.0):
            v.assign(value)
            with tf.GradientTape() as tape:
                y = doubled()
            results.append(tape.gradient(y, v))
        return results

    def in_control_flow():
        v = tf.Variable([1.0], shape=[None])

        @tf.function
        def step(x):
            for _ in tf.range(2):
                v.assign(v * 2.0)
            if x > 0.0:
                v.assign_add(tf.ones_like(v))
            return v.read_value()

        results = [step(tf.constant(1.0))]
        v.assign([1.0, 2.0])
        return [*results, step(tf.constant(-1.0))]

    return {
        "of several sizes": of_sizes,
        "of several ranks": lambda: of_ranks(lambda v: tf.reduce_sum(v) * 2.0),
        "of several ranks, written": lambda: of_ranks(halved),
        "of several ranks, differentiated": lambda: of_ranks(gradient),
        "of several ranks, from outside": outside,
        "of several sizes in control flow": in_control_flow,
    }


def _copies(tf):
    v = tf.Variable([1.0, 2.0], name="v", trainable=False, synchronization=tf.VariableSynchronization.ON_READ)

    def separate(copied):
        copied.assign([5.0, 6.0])
        return copied, v, copied.trainable, copied.synchronization

    return {
        "copy is itself": lambda: copy.copy(v) is v,
        "deep copy": lambda: separate(copy.deepcopy(v)),
        "deep copy of a static shape": lambda: copy.deepcopy(tf.Variable([[1]], shape=[None, 1])).shape,
        "pickle": lambda: separate(pickle.loads(pickle.dumps(v))),
        "pickle twice in a list": lambda: len({x.ref() for x in pickle.loads(pickle.dumps([v, v]))}),
        "complex": lambda: complex(tf.Variable(1 + 2j)),
    }


def _views(tf):
    """Results that are what a Variable was given keep it when the next call updates the Variable."""

    def thrice(view):
        v = tf.Variable([0.0, 0.0])

        @tf.function
        def step(x):
            v.assign_add(x)
            return view(v)

        return [step(tf.ones([2])) for _ in range(3)]

    def given_to_several():
        v, w, u = (tf.Variable(tf.zeros(shape)) for shape in ([2, 1], [2, 1], [2]))

        @tf.function
        def give(x):
            z = x * 2.0
            v.assign(z)
            w.assign(z)
            u.assign(tf.reshape(z, [2]))
            return z, tf.reshape(z, [1, 2])

        @tf.function
        def update():
            v.assign_add(tf.ones([2, 1]))

        found = give(tf.ones([2, 1]))
        update()
        update()
        return found, v, w, u

    return {
        "updated and given, identity": lambda: thrice(tf.identity),
        "updated and given, reshaped": lambda: thrice(lambda v: tf.reshape(v, [2, 1])),
        "updated and given, of a new axis": lambda: thrice(lambda v: tf.expand_dims(v, 0)),
        "updated and given, without a gradient": lambda: thrice(tf.stop_gradient),
        "updated and given, twice": lambda: thrice(lambda v: (v, tf.identity(v), tf.reshape(v, [1, 2]))),
        "given to several": given_to_several,
    }
