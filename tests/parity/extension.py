"""Extension types: declaration, creation, printing, comparison; in functions, control flow, datasets, saved modules; dispatch."""

import pickle
import tempfile
import typing

from parity_calls import result_or_kind


def programs(tf):
    return {
        **_declared(tf),
        **_made(tf),
        **_rejected(tf),
        **_specs(tf),
        **_functions(tf),
        **_control(tf),
        **_batches(tf),
        **_encoders(tf),
        **_elsewhere(tf),
        **_saved(tf),
        **_dispatch(tf),
        **_dispatch_errors(tf),
        **_elementwise(tf),
    }


def _types(tf):
    class Masked(tf.experimental.ExtensionType):
        values: tf.Tensor
        mask: tf.Tensor

        shape = property(lambda self: self.values.shape)

        def with_default(self, default):
            return tf.where(self.mask, self.values, default)

        @tf.function
        def total(self, weight=1):
            return tf.reduce_sum(tf.where(self.mask, self.values * weight, 0))

    class Everything(tf.experimental.ExtensionType):
        i: int
        f: float
        s: str
        b: bool
        n: None
        shape: tf.TensorShape
        dtype: tf.DType
        masked: Masked
        ragged: tf.RaggedTensor
        either: typing.Union[int, str]  # noqa: UP007
        pair: tuple[int, tf.Tensor]
        many: tuple[tf.Tensor, ...]
        tags: typing.Mapping[str, tf.Tensor]
        maybe: typing.Optional[tf.Tensor] = None  # noqa: UP045

    class Pencil(tf.experimental.ExtensionType):
        color: str = "black"
        length: tf.Tensor = 1.0

    class Vehicle(tf.experimental.BatchableExtensionType):
        speed: tf.Tensor
        shape: tf.TensorShape
        name: str = "car"

    return Masked, Everything, Pencil, Vehicle


def _everything(tf):
    masked, everything, *_ = _types(tf)
    return everything(
        1,
        2.0,
        "three",
        True,
        None,
        [2, None],
        tf.float32,
        masked([1], [True]),
        tf.ragged.constant([[1], [2, 3]]),
        "or",
        (1, 2),
        [1, [2]],
        {"b": 1, "a": [2.0]},
    )


def _declared(tf):
    base, batchable = tf.experimental.ExtensionType, tf.experimental.BatchableExtensionType

    def declare(fields, annotations=(), of=base, name="Declared"):
        return type(base)(name, (of,), {"__annotations__": dict(annotations), "__module__": __name__, **fields})

    def subclass():
        class Point(tf.experimental.ExtensionType):
            x: tf.Tensor
            y: tf.Tensor = 0

        class Space(Point):
            z: tf.Tensor = 1

        class Named(Point):
            name: str

        made = Space(5), Named(1, name="p")
        return (*made, isinstance(made[0], Point))

    class Node(tf.experimental.ExtensionType):
        value: tf.Tensor
        children: tuple["Node", ...] = ()

    return {
        "subclasses": subclass,
        "a reserved name": lambda: declare({}, {"Spec": int}),
        "a reserved attribute": lambda: declare({"value_type": 5}),
        "a reserved prefix": lambda: declare({}, {"_tf_extension_type_x": int}),
        "no annotation": lambda: declare({"x": 5}),
        "a list": lambda: declare({}, {"x": list[int]}),
        "a class": lambda: declare({}, {"x": object}),
        "a tensor as a key": lambda: declare({}, {"x": typing.Mapping[tf.Tensor, int]}),
        "a default of another type": lambda: declare({"x": "a"}, {"x": int}),
        "a spec that is no class": lambda: declare({"Spec": 5}, {"x": int}),
        "a spec of another base": lambda: declare({"Spec": type("Spec", (dict,), {})}, {"x": int}),
        "a spec with a field": lambda: declare({"Spec": type("Spec", (), {"x": 1})}, {"x": int}),
        "a spec with a reserved name": lambda: declare({"Spec": type("Spec", (), {"_serialize": 1})}, {"x": int}),
        "an encoder without batches": lambda: declare({"__batch_encoder__": None}, {"x": int}),
        "the base itself": lambda: base(),
        "a type of no fields": lambda: (declare({})(), declare({})() == 1),
        "a type that is not there": lambda: declare({}, {"x": "Nowhere"})(5),
        "optional fields": lambda: declare({"x": None}, {"x": typing.Optional[tf.Tensor]})(),  # noqa: UP045
        "bases": lambda: (issubclass(batchable, base), issubclass(base, tf.__internal__.CompositeTensor)),
        "a forward reference": lambda: str(Node.__init__.__signature__.parameters["value"].name),
        "a tree": lambda: _tree_text(tf, Node),
    }


def _tree_text(tf, node):
    try:
        return node(3, [node(5), node(2)])
    except NameError as error:
        return type(error).__name__


def _made(tf):
    masked, _, pencil, vehicle = _types(tf)
    a = masked([1, 2], [True, False])

    class Toy(tf.experimental.ExtensionType):
        name: str
        price: tf.Tensor

        def __init__(self, name, price, discount=0):
            self.price = price * (1 - discount)
            self.name = name

        def __validate__(self):
            assert self.price.shape.rank == 0, "one price"  # noqa: S101

    class Same(tf.experimental.ExtensionType):
        values: tf.Tensor

        def __eq__(self, other):
            return tf.reduce_all(self.values == other.values)

        def __add__(self, other):
            return Same(self.values + other.values)

    return {
        "printed": lambda: a,
        "every field": lambda: _everything(tf),
        "by name": lambda: masked(mask=[True], values=[5.0]),
        "defaults": lambda: (pencil(), pencil(length=0.5, color="blue")),
        "signature": lambda: [str(p.kind) for p in pencil.__init__.__signature__.parameters.values()],
        "numpy": lambda: masked(__import__("numpy").arange(2), tf.Variable([True, False])),
        "equal": lambda: (
            a == a,
            a == masked([1, 3], [True, False]),
            a == masked([[1]], [True]),
            a == 5,
            a == a.values,
        ),
        "unequal": lambda: (a != a, a != masked([1, 3], [True, False]), a != masked([1], [True]), a != 5),
        "equal without tensors": lambda: tf.experimental.extension_type.as_dict(vehicle(1, [])),
        "own constructor": lambda: Toy("ball", 5.0, discount=0.2),
        "own check": lambda: Toy("ball", [5.0]),
        "own equality": lambda: (Same([1]) == Same([1]), Same([1]) != Same([1]), Same([1]) + Same([2])),
        "methods": lambda: (a.with_default(0), a.shape, a.total(), a.total(weight=3)),
        "as_dict": lambda: tf.experimental.extension_type.as_dict(a),
        "is_tensor": lambda: tf.is_tensor(a),
        "hash": lambda: hash(a),
        "mappings": lambda: (_everything(tf).tags, dict(_everything(tf).tags)["a"], len(_everything(tf).tags)),
        "no attribute": lambda: a.nothing,
        "sparse": lambda: _sparse(tf),
        "unions": lambda: [_union(tf)(x).x for x in (1, "a", None, [1.0])],
    }


def _sparse(tf):
    class Holder(tf.experimental.ExtensionType):
        sparse: tf.SparseTensor
        slices: tf.IndexedSlices

    st = tf.SparseTensor([[0, 1]], [5], [2, 2])
    return Holder(st, tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))).sparse


def _union(tf):
    class Either(tf.experimental.ExtensionType):
        x: typing.Union[int, str, None, tf.Tensor]  # noqa: UP007

    return Either


def _rejected(tf):
    masked, everything, pencil, vehicle = _types(tf)
    a = masked([1, 2], [True, False])

    class Half(tf.experimental.ExtensionType):
        x: tf.Tensor
        y: tf.Tensor

        def __init__(self, x):
            self.x = x

    class Other(tf.experimental.ExtensionType):
        x: tf.Tensor

        def __init__(self, x):
            self.x = x
            self.z = 5

    class Fields(tf.experimental.ExtensionType):
        shape: tf.TensorShape = None
        dtype: tf.DType = tf.int32
        pair: tuple[int, str] = (1, "a")
        many: tuple[int, ...] = ()
        tags: typing.Mapping[str, int] = {}  # noqa: RUF012
        inner: typing.Union[masked, None] = None  # noqa: UP007
        number: typing.Union[int, str] = 0  # noqa: UP007
        ragged: typing.Optional[tf.RaggedTensor] = None  # noqa: UP045

    def assign():
        a.mask = 5

    def assign_new():
        a.nothing = 5

    def delete():
        del a.mask

    def delete_spec():
        del a._type_spec.mask

    return {
        "no tensor": lambda: masked([1, 2, 3], None),
        "ragged lists": lambda: masked([[1], [1, 2]], True),
        "too few": lambda: masked([1]),
        "too many": lambda: masked(1, 2, 3),
        "an unknown name": lambda: masked(1, 2, third=3),
        "an int": lambda: pencil(color=5),
        "a field not set": lambda: Half(1),
        "a field not declared": lambda: Other(1),
        "assigned": assign,
        "assigned, new": assign_new,
        "deleted": delete,
        "deleted of a spec": delete_spec,
        "a shape": lambda: Fields(shape="a"),
        "a dtype": lambda: Fields(dtype="nothing"),
        "a dtype by name": lambda: Fields(dtype="float32").dtype,
        "a tuple": lambda: Fields(pair=5),
        "a tuple's length": lambda: Fields(pair=(1,)),
        "a tuple's element": lambda: Fields(pair=(1, 2)),
        "an element": lambda: Fields(many=[1, "a"]),
        "a mapping": lambda: Fields(tags=[1]),
        "a mapping's key": lambda: Fields(tags={1: 1}),
        "a mapping's value": lambda: Fields(tags={"a": "b"}),
        "a union": lambda: Fields(number=1.5),
        "converted": lambda: tf.convert_to_tensor(a),
        "in an op": lambda: tf.abs(pencil()),
        "in an operator": lambda: tf.constant(1) + pencil(),
        "in a list": lambda: tf.stack([pencil()]),
    }


def _specs(tf):
    masked, everything, pencil, vehicle = _types(tf)

    class Shaped(tf.experimental.ExtensionType):
        values: tf.Tensor
        mask: tf.Tensor

        class Spec:
            def __init__(self, shape, dtype=tf.float32):
                self.values = tf.TensorSpec(shape, dtype)
                self.mask = tf.TensorSpec(shape, tf.bool)

            def __repr__(self):
                return f"Shaped.Spec(shape={self.shape})"

            shape = property(lambda self: self.values.shape)

    spec = masked.Spec(tf.TensorSpec([None]), tf.TensorSpec([None], tf.bool))
    narrow = masked([1.0], [True])._type_spec

    def assign():
        spec.mask = 5

    return {
        "of a value": lambda: tf.type_spec_from_value(masked([1, 2], [True, False])),
        "of every field": lambda: _everything(tf)._type_spec,
        "of defaults": lambda: tf.type_spec_from_value(pencil()),
        "spec printed": lambda: spec,
        "spec fields": lambda: (spec.values, spec.mask, spec.value_type is masked),
        "spec by name": lambda: masked.Spec(mask=tf.TensorSpec([], tf.bool), values=tf.TensorSpec([])),
        "spec of no spec": lambda: masked.Spec(5, tf.TensorSpec([])),
        "spec of a spec of another type": lambda: masked.Spec(tf.RaggedTensorSpec([None]), tf.TensorSpec([])),
        "spec of too few": lambda: masked.Spec(tf.TensorSpec([])),
        "spec assigned": assign,
        "specs equal": lambda: (spec == spec, spec == narrow, narrow == masked([2.0], [False])._type_spec, spec == 5),
        "specs compatible": lambda: (spec.is_compatible_with(narrow), spec.is_compatible_with(masked([1], [True]))),
        "subtypes": lambda: (
            narrow.is_subtype_of(spec),
            spec.is_subtype_of(narrow),
            spec.is_subtype_of(pencil()._type_spec),
        ),
        "common supertype": lambda: narrow.most_specific_common_supertype(
            [masked([1.0, 2.0], [True, True])._type_spec]
        ),
        "no common supertype": lambda: narrow.most_specific_common_supertype([masked([1], [True])._type_spec]),
        "no compatible type": lambda: narrow.most_specific_compatible_type(pencil()._type_spec),
        "of other plain values": lambda: pencil("a")._type_spec.most_specific_common_supertype(
            [pencil("b")._type_spec]
        ),
        "hashed": lambda: hash(narrow) == hash(masked([2.0], [False])._type_spec),
        "is a TypeSpec": lambda: (isinstance(spec, tf.TypeSpec), isinstance(spec, tf.experimental.ExtensionTypeSpec)),
        "own constructor of a spec": lambda: (
            Shaped.Spec([2]),
            Shaped.Spec([2]) == Shaped([1.0, 2.0], [True, True])._type_spec,
        ),
        "serialized": lambda: _everything(tf)._type_spec._serialize()[-2:],
        "flattened": lambda: tf.nest.flatten(_everything(tf), expand_composites=True),
        "flattened spec": lambda: tf.nest.flatten(_everything(tf)._type_spec, expand_composites=True),
        "packed": lambda: tf.nest.map_structure(lambda t: t + t, masked([1], [2]), expand_composites=True),
        "packed mapping": lambda: tf.nest.map_structure(lambda t: t, _everything(tf), expand_composites=True).tags,
        "a leaf": lambda: len(tf.nest.flatten([masked([1], [2])])),
        "too many components": lambda: spec._from_components((1, 2, 3)),
        "pickled": lambda: pickle.loads(pickle.dumps(_Pickled(tf).Spec(tf.TensorSpec([2])))),  # noqa: S301
    }


def _Pickled(tf):  # noqa: N802 - the name of a class
    global Pickled

    class Pickled(tf.experimental.ExtensionType):
        x: tf.Tensor

    Pickled.__qualname__ = "Pickled"
    return Pickled


def _functions(tf):
    masked, everything, pencil, vehicle = _types(tf)
    wide = masked.Spec(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.bool))

    class Player(tf.experimental.ExtensionType):
        name: tf.Tensor
        attributes: typing.Mapping[str, tf.Tensor]

    def traces():
        seen = []

        @tf.function
        def anonymous(player):
            seen.append(1)
            return Player("<anonymous>", player.attributes)

        anonymous(Player("Anne", {"height": 8.3, "speed": 28.1}))
        counts = [len(seen)]
        anonymous(Player("Bart", {"height": 8.1, "speed": 25.3}))
        counts.append(len(seen))
        found = anonymous(Player("Chuck", {"height": 11.0, "jump": 5.3}))
        return [*counts, len(seen)], found

    def plain_traces():
        seen = []

        @tf.function
        def colored(pen):
            seen.append(pen.color)
            return pen.length

        for color in ("a", "b", "a"):
            colored(pencil(color))
        return seen

    def twice(x):
        return masked(x.values * 2, x.mask)

    def signature():
        f = tf.function(twice, input_signature=[wide])
        return f(masked([1], [True])), f(masked([1, 2], [True, False]))

    def misfit(value):
        return lambda: tf.function(twice, input_signature=[wide])(value)

    def concrete():
        found = tf.function(twice).get_concrete_function(wide)
        return found(masked([1, 2], [True, False])), found.structured_outputs

    def gradient():
        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.function(twice)(masked(x * x, True)).values)
        return tape.gradient(y, x)

    def composite_gradient():
        x = masked([1.0], [2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x.values * 2
        return tape.gradient(y, x)

    def watched():
        x = masked([1.0], [2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x.values * 2
        return tape.gradient(y, x.values)

    def reduced():
        f = tf.function(twice, reduce_retracing=True)
        for n in (1, 2, 3, 4):
            f(masked([1] * n, [True] * n))
        return f.experimental_get_tracing_count()

    @tf.function
    def method(x):
        return x.total(weight=2), x.with_default(7), x == x, x != x

    @tf.function
    def printed(x):
        return str(type(x).__name__), x.values.shape, str(x._type_spec)

    def captured():
        x = masked([1, 2], [True, False])
        return tf.function(lambda: twice(x))()

    def message():
        return [
            type(t).__name__ for t in tf.nest.flatten(tf.function(twice).get_concrete_function(wide).structured_outputs)
        ]

    return {
        "retraced by spec": traces,
        "retraced by plain values": plain_traces,
        "input signature": signature,
        "input signature, another dtype": lambda: _first_line(misfit(masked([1.0], [True]))),
        "concrete": lambda: concrete()[0],
        "concrete outputs": message,
        "gradient through one": gradient,
        "gradient by one": composite_gradient,
        "gradient by a field": watched,
        "traces reduced": reduced,
        "methods in a function": lambda: method(masked([1, 2], [True, False])),
        "printed in a function": lambda: [str(x) for x in _seen(tf, printed, masked([1], [True]))],
        "captured": captured,
        "every field in a function": lambda: tf.function(lambda x: x)(_everything(tf)),
        "built in a function": lambda: tf.function(lambda x: pencil(length=x))(tf.constant(2.0)),
        "refused in a function": lambda: tf.function(lambda x: masked(x, None))(1),
        "compared in a function": lambda: tf.function(lambda a, b: (a == b, a != b))(
            masked([1], [True]), masked([2], [True])
        ),
    }


def _first_line(program):
    try:
        return program()
    except TypeError as error:
        return str(error)[:48]


def _seen(tf, function, value):
    found = []

    @tf.function
    def run(x):
        found.append((type(x).__name__, x.values.shape, x._type_spec))
        return x.values

    run(value)
    return found[0]


def _control(tf):
    masked, everything, pencil, vehicle = _types(tf)
    a, b = masked([1.0, 2.0, 3.0], [True, False, True]), masked([22.0, 33.0], [True, False])

    @tf.function
    def branches(x, flag):
        if flag:
            x = masked(x, tf.less(x, 0))
        else:
            x = masked(x, tf.greater(x, 0))
        for _ in tf.range(5 if flag else 7):
            x = masked(x.values + 0.5, x.mask)
        return x

    def loop(x):
        return tf.while_loop(lambda i, _: i < 10, lambda i, m: (i + 1, masked(m.values + 3 / 7, m.mask)), [0, x])[1]

    def growing():
        spec = masked.Spec(tf.TensorSpec([None]), tf.TensorSpec([None], tf.bool))

        @tf.function
        def run(x):
            return tf.while_loop(
                lambda i, m: i < 3,
                lambda i, m: (i + 1, masked(tf.concat([m.values, m.values], 0), tf.concat([m.mask, m.mask], 0))),
                [0, x],
                shape_invariants=[tf.TensorShape([]), spec],
            )[1]

        return run(b)

    def other_types(flag):
        return tf.cond(flag, lambda: pencil("a"), lambda: pencil("b"))

    return {
        "cond": lambda: (
            tf.cond(tf.constant(True), lambda: a, lambda: b),
            tf.cond(tf.constant(False), lambda: a, lambda: b),
        ),
        "cond in a function": lambda: tf.function(lambda f: tf.cond(f, lambda: a, lambda: a))(tf.constant(True)),
        "cond of other shapes": lambda: tf.function(lambda f: tf.cond(f, lambda: a, lambda: b))(tf.constant(False)),
        "cond of other types": lambda: result_or_kind(lambda: tf.function(other_types)(tf.constant(True))),
        "case": lambda: tf.case([(tf.constant(False), lambda: a)], default=lambda: b),
        "switch_case": lambda: tf.function(lambda i: tf.switch_case(i, [lambda: a, lambda: a]))(tf.constant(1)),
        "while_loop": lambda: loop(b),
        "while_loop in a function": lambda: tf.function(loop)(b),
        "a loop that grows": growing,
        "autograph": lambda: (
            branches(tf.constant([1.0, -2.0]), tf.constant(True)),
            branches(tf.constant([1.0, -2.0]), tf.constant(False)),
        ),
        "identity": lambda: (tf.identity(a), tf.function(tf.identity)(a)),
        "stop_gradient": lambda: tf.stop_gradient(a),
        "py_function": lambda: tf.py_function(lambda x: masked(x.values + 1, x.mask), [a], a._type_spec),
        "py_function in a function": lambda: tf.function(
            lambda x: tf.py_function(lambda y: y.values + 1, [x], tf.TensorSpec([3]))
        )(a),
    }


def _batches(tf):
    masked, everything, pencil, vehicle = _types(tf)

    class Pair(tf.experimental.BatchableExtensionType):
        left: tf.Tensor
        right: tf.Tensor
        tags: typing.Mapping[str, tf.Tensor] = {}  # noqa: RUF012

        class Spec:
            shape = property(lambda self: self.left.shape)

    class Uneven(tf.experimental.BatchableExtensionType):
        rows: tf.RaggedTensor
        sparse: tf.SparseTensor
        inner: Pair

    pair = Pair([[1, 2], [3, 4], [5, 6]], [1.0, 2.0, 3.0], {"t": [7, 8, 9]})
    data = tf.data.Dataset

    def uneven():
        return Uneven(
            tf.ragged.constant([[1], [2, 3]]),
            tf.sparse.from_dense([[0, 1], [2, 0]]),
            Pair([1, 2], [3, 4]),
        )

    def generated():
        def values():
            for i in range(1, 4):
                yield Pair([i, i], float(i))

        spec = Pair.Spec(tf.TensorSpec([2], tf.int32), tf.TensorSpec([], tf.float32), {})
        found = data.from_generator(values, output_signature=spec)
        return found.element_spec, list(found), list(found.batch(2))

    def looped():
        @tf.function
        def total(ds):
            found = tf.constant(0)
            for each in ds:
                found += tf.reduce_sum(each.left)
            return found

        return total(data.from_tensor_slices(pair))

    return {
        "from_tensors": lambda: list(data.from_tensors(masked([1], [True]))),
        "from_tensors, spec": lambda: data.from_tensors(masked([1], [True])).element_spec,
        "from_tensor_slices": lambda: list(data.from_tensor_slices(pair)),
        "from_tensor_slices, spec": lambda: data.from_tensor_slices(pair).element_spec,
        "from_tensor_slices, length": lambda: len(data.from_tensor_slices(pair)),
        "from_tensor_slices, in a tuple": lambda: list(data.from_tensor_slices((pair, [1, 2, 3])))[1],
        "batch": lambda: list(data.from_tensor_slices(pair).batch(2)),
        "batch, spec": lambda: (
            data.from_tensor_slices(pair).batch(2).element_spec,
            data.from_tensor_slices(pair).batch(2, True).element_spec,
        ),
        "unbatch": lambda: list(data.from_tensor_slices(pair).batch(2).unbatch()),
        "unbatch, spec": lambda: data.from_tensors(pair).unbatch().element_spec,
        "rebatched": lambda: list(data.from_tensors(pair).rebatch(2)),
        "map": lambda: list(data.from_tensor_slices(pair).map(lambda p: Pair(p.right, p.left))),
        "map, spec": lambda: data.from_tensor_slices(pair).map(lambda p: Pair(p.right, p.left)).element_spec,
        "filter": lambda: list(data.from_tensor_slices(pair).filter(lambda p: p.right > 2.0)),
        "reduce": lambda: data.from_tensor_slices(pair).reduce([0, 0], lambda s, p: s + p.left),
        "shuffled, cached, repeated": lambda: len(
            list(data.from_tensor_slices(pair).cache().shuffle(5).repeat(2).prefetch(1))
        ),
        "zipped": lambda: list(data.zip(data.from_tensor_slices(pair), data.range(3)))[2],
        "generated": generated,
        "looped": looped,
        "ragged and sparse": lambda: list(data.from_tensor_slices(uneven())),
        "ragged and sparse, batched": lambda: list(data.from_tensor_slices(uneven()).batch(2)),
        "ragged and sparse, spec": lambda: data.from_tensor_slices(uneven()).batch(2, True).element_spec,
        "shapes are batched": lambda: _batched_shapes(tf, vehicle),
        "map_fn": lambda: tf.map_fn(lambda p: Pair(p.left * 2, p.right + 1.0, p.tags), pair),
        "map_fn to tensors": lambda: tf.map_fn(lambda p: p.right * 2, pair, fn_output_signature=tf.float32),
        "map_fn from tensors": lambda: tf.map_fn(
            lambda x: Pair(x, x + 1),
            tf.constant([1, 2]),
            fn_output_signature=Pair.Spec(tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int32), {}),
        ),
        "map_fn in a function": lambda: tf.function(
            lambda p: tf.map_fn(lambda q: Pair(q.left * 2, q.right, q.tags), p)
        )(pair),
        "map_fn of ragged": lambda: tf.map_fn(lambda u: tf.reduce_sum(u.rows), uneven(), fn_output_signature=tf.int32),
        "vectorized_map": lambda: tf.vectorized_map(lambda p: p.right * 2.0, pair),
        "vectorized_map to one": lambda: tf.vectorized_map(lambda p: Pair(p.left + 1, p.right, p.tags), pair),
        "iterator": lambda: next(iter(data.from_tensor_slices(pair))),
        "as_numpy_iterator": lambda: result_or_kind(lambda: list(data.from_tensor_slices(pair).as_numpy_iterator())),
    }


def _batched_shapes(tf, vehicle):
    found = tf.data.Dataset.from_tensor_slices(vehicle([1, 2], [2]))
    return found.element_spec, found.batch(2, True).element_spec, list(found)[0].shape, list(found.batch(2))[0].shape


def _encoders(tf):
    class Encoder(tf.experimental.ExtensionTypeBatchEncoder):
        def encode(self, spec, value, minimum_rank=0):
            return {"v": value.values * 10, "s": value.scale}

        def decode(self, spec, encoded_value):
            return Scaled(encoded_value["v"] // 10, encoded_value["s"], "decoded")

        def encoding_specs(self, spec):
            return {"v": spec.values, "s": spec.scale}

        def batch(self, spec, batch_size):
            found = super().batch(spec, batch_size)
            return type(spec)(found.values, found.scale, "decoded")

    class Scaled(tf.experimental.BatchableExtensionType):
        __batch_encoder__ = Encoder()
        values: tf.Tensor
        scale: tf.Tensor
        state: str = "new"

    value = Scaled([[1, 2], [3, 4], [5, 6]], [1, 2, 3])
    slices = tf.data.Dataset.from_tensor_slices
    return {
        "own encoder, rows": lambda: list(slices(value)),
        "own encoder, spec": lambda: (slices(value).element_spec, slices(value).batch(2).element_spec),
        "own encoder, batch": lambda: list(slices(value).batch(2)),
        "own encoder, map_fn": lambda: tf.map_fn(lambda s: s.values + s.scale, value, fn_output_signature=tf.int32),
        "default encoder": lambda: _default_encoder(tf),
    }


def _default_encoder(tf):
    *_, vehicle = _types(tf)
    encoder = tf.experimental.ExtensionTypeBatchEncoder()
    value = vehicle([1, 2], [2])
    spec = value._type_spec
    batched = encoder.batch(spec, 5)
    return (
        batched,
        encoder.unbatch(batched) == spec,
        encoder.encoding_specs(spec),
        encoder.decode(spec, encoder.encode(spec, value)),
    )


def _elsewhere(tf):
    masked, everything, pencil, vehicle = _types(tf)

    class Network(tf.Module):
        def __init__(self):
            super().__init__()
            self.kept = masked([1], [True])
            self.v = tf.Variable(2)

        @tf.function
        def __call__(self, x):
            return masked(x.values * self.v, self.kept.mask)

    def array():
        found = tf.TensorArray(tf.int32, 2)
        return result_or_kind(lambda: found.write(0, masked([1], [True])))

    return {
        "in a module": lambda: Network()(masked([1], [False])),
        "in an array": array,
        "print": lambda: tf.strings.format("{}", [masked([1], [True]).values]),
        "no value": lambda: tf.cast(masked([1], [True]).mask, tf.int32),
        "custom_gradient": lambda: tf.custom_gradient(lambda x: (x * 2, lambda dy: dy))(masked([1.0], [True]).values),
        "debugging": lambda: result_or_kind(
            lambda: tf.debugging.assert_equal(masked([1], [True]), masked([1], [True]))
        ),
    }


def _saved(tf):
    class Named(tf.experimental.BatchableExtensionType):
        __name__ = "tvtf.parity.Named"
        values: tf.Tensor
        tags: typing.Mapping[str, tf.Tensor]
        unit: str = "m"

    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.v = tf.Variable(10.0)

        @tf.function
        def grow(self, x):
            return Named(x.values * self.v, x.tags, x.unit + "m")

        @tf.function
        def wrapped(self, values):
            return self.grow(Named(values, {})).values

    def again(call):
        module = Module()
        module.grow(Named([1.0], {"a": 2}))
        module.wrapped(tf.constant([1.0]))
        folder = tempfile.mkdtemp()
        tf.saved_model.save(module, folder, signatures=module.wrapped.get_concrete_function(tf.TensorSpec([1])))
        return call(tf.saved_model.load(folder))

    return {
        "saved and loaded": lambda: again(lambda m: m.grow(Named([3.0], {"a": 2}))),
        "signature of tensors": lambda: again(lambda m: m.signatures["serving_default"](values=tf.constant([2.0]))),
        "loaded, another unit": lambda: again(lambda m: result_or_kind(lambda: m.grow(Named([3.0], {"a": 2}, "s")))),
    }


def _registered(tf, api, target, call, *signatures):
    found = tf.experimental.dispatch_for_api(api, *signatures)(target)
    try:
        return call()
    finally:
        tf.experimental.unregister_dispatch_for(found)


def _dispatch(tf):
    masked, everything, pencil, vehicle = _types(tf)
    a, b = masked([1, 2], [True, False]), masked([3, 4], [True, True])

    def stacked(values: list[masked], axis=0):
        return masked(tf.stack([v.values for v in values], axis), tf.stack([v.mask for v in values], axis))

    def mixed(values: list[typing.Union[masked, tf.Tensor]], axis=0):  # noqa: UP007
        return "mixed", len(values), axis

    def added(x, y, name=None):
        return "added", type(x).__name__, type(y).__name__, name

    def unnamed(x, y):
        return tf.constant(1.0, name="made") if False else ("unnamed", x is a, y is b)

    def declined(x, y):
        return NotImplemented

    def concat(values: typing.List[masked], axis):  # noqa: UP006
        return masked(tf.concat([v.values for v in values], axis), tf.concat([v.mask for v in values], axis))

    def run_twice():
        first = tf.experimental.dispatch_for_api(tf.add, {"x": masked})(lambda x, y: "first")
        second = tf.experimental.dispatch_for_api(tf.add, {"y": masked})(lambda x, y: "second")
        try:
            return tf.add(a, b), tf.add(1, b)
        finally:
            tf.experimental.unregister_dispatch_for(first)
            tf.experimental.unregister_dispatch_for(second)

    def unregistered():
        found = tf.experimental.dispatch_for_api(tf.add, {"x": masked})(lambda x, y: "first")
        tf.experimental.unregister_dispatch_for(found)
        return tf.add(a, b)

    def on_plain():
        return _registered(tf, tf.add, added, lambda: tf.add(1, 2), {"x": typing.Union[masked, int]})  # noqa: UP007

    return {
        "stack": lambda: _registered(tf, tf.stack, stacked, lambda: tf.stack([a, b])),
        "stack, axis": lambda: _registered(tf, tf.stack, stacked, lambda: tf.stack([a, b], axis=1)),
        "stack of nothing": lambda: _registered(tf, tf.stack, stacked, lambda: tf.stack([])),
        "stack of tensors": lambda: _registered(tf, tf.stack, mixed, lambda: tf.stack([a.values, b.values])),
        "stack, mixed": lambda: _registered(tf, tf.stack, mixed, lambda: tf.stack((a, tf.constant(1)), 5)),
        "stack in a function": lambda: _registered(
            tf, tf.stack, stacked, lambda: tf.function(lambda x, y: tf.stack([x, y]))(a, b)
        ),
        "add": lambda: _registered(tf, tf.add, added, lambda: tf.add(a, b), {"x": masked, "y": masked}),
        "add, by position": lambda: _registered(tf, tf.add, added, lambda: tf.add(a, 1, "n"), {0: masked}),
        "add, one of two": lambda: _registered(
            tf, tf.add, added, lambda: (tf.add(a, 1), tf.add(1, a), tf.add(a, b)), {"x": masked}, {"y": masked}
        ),
        "add, by name": lambda: _registered(tf, tf.math.add, added, lambda: tf.add(y=a, x=b, name="z"), {"x": masked}),
        "add without a name": lambda: _registered(tf, tf.add, unnamed, lambda: tf.add(a, b, name="n"), {"x": masked}),
        "add declined": lambda: _registered(
            tf, tf.add, declined, lambda: result_or_kind(lambda: tf.add(a, b)), {"x": masked}
        ),
        "add of others": lambda: _registered(tf, tf.add, added, lambda: tf.add(1, 2), {"x": masked}),
        "add of plain values": on_plain,
        "the first one": run_twice,
        "unregistered": lambda: result_or_kind(unregistered),
        "concat": lambda: _registered(tf, tf.concat, concat, lambda: tf.concat([a, b], 0)),
    }


def _dispatch_errors(tf):
    masked, *_ = _types(tf)
    register = tf.experimental.dispatch_for_api

    def other(x):
        return x

    return {
        "no public function": lambda: result_or_kind(lambda: register(other)),
        "no annotations": lambda: register(tf.add)(lambda x, y: 1),
        "other parameters": lambda: register(tf.add, {"x": masked})(lambda a, b: 1),
        "fewer parameters": lambda: register(tf.add, {"x": masked})(lambda x: 1),
        "an unknown parameter": lambda: register(tf.add, {"z": masked}),
        "no dict": lambda: register(tf.add, masked),
        "an annotation": lambda: result_or_kind(lambda: register(tf.add, {"x": typing.Mapping[str, masked]})),
        "no function": lambda: register(tf.add, {"x": masked})(5),
        "not registered": lambda: result_or_kind(lambda: tf.experimental.unregister_dispatch_for(other)),
        "unary twice": lambda: result_or_kind(lambda: _twice(tf, masked)),
    }


def _twice(tf, masked):
    @tf.experimental.dispatch_for_unary_elementwise_apis(masked)
    def first(function, x):
        return "first"

    try:
        tf.experimental.dispatch_for_unary_elementwise_apis(masked)(first)
    finally:
        tf.experimental.unregister_dispatch_for(first)


def _elementwise(tf):
    masked, everything, pencil, vehicle = _types(tf)
    x, y = masked([1.0, -2.0], [True, False]), masked([[4.0], [5.0]], [[True], [False]])

    def unary(call):
        handler = lambda function, x: masked(function(x.values), x.mask)  # noqa: E731
        return lambda: _handled(tf, tf.experimental.dispatch_for_unary_elementwise_apis(masked), handler, call)

    def binary(call, *types):
        def handler(function, x, y):
            x, y = (v if isinstance(v, masked) else masked(v, True) for v in (x, y))
            return masked(function(x.values, y.values), x.mask & y.mask)

        decorator = tf.experimental.dispatch_for_binary_elementwise_apis(*types or (masked, masked))
        return lambda: _handled(tf, decorator, handler, call)

    def asserting(call):
        def handler(function, x, y):
            both = tf.logical_and(x.mask, y.mask)
            function(tf.boolean_mask(x.values, both), tf.boolean_mask(y.values, both))

        masked, *_ = _types(tf)
        x, y = masked([1.0, -2.0], [True, False]), masked([0.0, 5.0], [True, False])
        decorator = tf.experimental.dispatch_for_binary_elementwise_assert_apis(masked, masked)
        return lambda: (decorator(handler), call(x, y))[1]

    either = typing.Union[masked, tf.Tensor]  # noqa: UP007
    return {
        "abs": unary(lambda: tf.abs(x)),
        "ones_like": unary(lambda: tf.ones_like(x, dtype=tf.int32)),
        "unary, named": unary(lambda: tf.abs(x, name="n")),
        "unary, by name": unary(lambda: tf.nn.relu(features=x)),
        "unary, other arguments": unary(lambda: tf.clip_by_value(x, 0.0, clip_value_max=1.5)),
        "cast": unary(lambda: tf.cast(x, tf.int32)),
        "unary in a function": unary(lambda: tf.function(tf.math.exp)(x)),
        "unary of another": unary(lambda: result_or_kind(lambda: tf.abs(pencil()))),
        "unary afterwards": lambda: result_or_kind(lambda: tf.abs(x)),
        "math.add": binary(lambda: tf.math.add(x, y)),
        "binary in a function": binary(lambda: tf.function(tf.maximum)(x, y)),
        "binary, named": binary(lambda: tf.less(x, y, name="n")),
        "binary with a tensor": binary(lambda: tf.multiply(x, tf.constant(2.0)), either, either),
        "binary of tensors": binary(lambda: tf.multiply(tf.constant(1.0), tf.constant(2.0)), either, either),
        "binary with a number": binary(lambda: result_or_kind(lambda: tf.multiply(x, 2.0)), either, either),
        "squared_difference": binary(lambda: tf.math.squared_difference(x, y)),
        "assert_equal": asserting(lambda x, y: tf.debugging.assert_equal(x, x)),
        "assert_greater": asserting(lambda x, y: tf.debugging.assert_less(x, y)),
        "every unary": unary(lambda: [result_or_kind(lambda f=f: type(f(x)).__name__) for f in _functions_of(tf)]),
    }


def _functions_of(tf):
    return (
        tf.math.sin, tf.math.sigmoid, tf.nn.gelu, tf.nn.silu, tf.math.rint, tf.zeros_like, tf.math.special.expint,
        tf.math.square, tf.math.log1p, tf.math.round, tf.debugging.check_numerics, tf.math.erf,
    )  # fmt: skip


def _handled(tf, decorator, handler, call):
    decorator(handler)
    try:
        return call()
    finally:
        tf.experimental.unregister_dispatch_for(handler)
