"""Functions of TensorFlow that Keras uses besides those of the guides: raw ops, internals, wrapped tensors."""

from typing import Any, NamedTuple

import numpy as np


class NamedPair(NamedTuple):
    first: Any
    second: Any


def programs(tf):
    return {
        **_unique(tf),
        **_projected(tf),
        **_buckets(tf),
        **_internal(tf),
        **_encoded(tf),
        **_stand_ins(tf),
        **_mapped(tf),
        **_framed(tf),
    }


def _unique(tf):
    table, texts = [[1, 2, 1], [0, 0, 0], [1, 2, 1]], [["a", "b"], ["c", "d"], ["a", "b"]]
    cases = {"rows": (table, [0]), "columns": (table, [1]), "the last axis": (table, [-1]), "texts": (texts, [0])}
    cases |= {"a vector": ([3, 1, 3], [0]), "a vector, no axis": ([3, 1, 3], []), "nothing": ([[], []], [1])}
    wrong = {"two axes": [0, 1], "no axis of a matrix": [], "an axis that isn't there": [2]}
    return {
        **{
            f"unique, {n}": lambda x=x, axis=axis: tuple(tf.raw_ops.UniqueV2(x=x, axis=axis))
            for n, (x, axis) in cases.items()
        },
        **{
            f"unique with counts, {n}, traced": lambda x=x, axis=axis: tuple(
                tf.function(lambda: tf.raw_ops.UniqueWithCountsV2(x=tf.constant(x), axis=axis, out_idx=tf.int64))()
            )
            for n, (x, axis) in cases.items()
        },
        **{f"unique, {n}": lambda axis=axis: tf.raw_ops.UniqueV2(x=table, axis=axis) for n, axis in wrong.items()},
        "unique, numbers that are none": lambda: tuple(
            tf.raw_ops.UniqueV2(x=[float("nan"), 1.0, float("nan")], axis=[0])
        ),
        "unique, zeros of both signs": lambda: tuple(tf.raw_ops.UniqueV2(x=[0.0, -0.0], axis=[0])),
    }


def _projected(tf):
    images = tf.reshape(tf.range(2.0 * 4 * 5 * 2), [2, 4, 5, 2])
    turned = [0.8, -0.6, 1.25, 0.6, 0.8, -0.75, 0.0, 0.0]
    leaned = [1.0, 0.25, -3.5, 0.125, 0.9, -2.0, 0.01, -0.02]
    far = [1.0, 0.0, -21.25, 0.0, 1.0, 13.5, 0.0, 0.0]
    vanishing = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, -0.5, 0.0]

    def seen(transform, interpolation, mode, images=images, size=(3, 6)):
        found = tf.raw_ops.ImageProjectiveTransformV3(
            images=images, transforms=[transform], output_shape=list(size), fill_value=-1.0,
            interpolation=interpolation, fill_mode=mode,
        )  # fmt: skip
        return tf.round(tf.cast(found, tf.float32) * 256.0)

    transforms = {"turned": turned, "leaned": leaned, "far": far, "vanishing": vanishing}
    modes = [(i, m) for i in ("NEAREST", "BILINEAR") for m in ("CONSTANT", "NEAREST", "REFLECT", "WRAP")]
    unknown = tf.TensorSpec([None, None, None, 2])
    return {
        **{
            f"{name}, {interpolation}, {mode}": lambda t=t, i=interpolation, m=mode: seen(t, i, m)
            for name, t in transforms.items()
            for interpolation, mode in modes
        },
        "projected bytes": lambda: seen(turned, "NEAREST", "CONSTANT", tf.cast(images, tf.int32)),
        "projected, one row": lambda: seen(far, "NEAREST", "REFLECT", images[:, :1]),
        "projected, sizes that running tells": lambda: tf.function(
            lambda x: seen(leaned, "BILINEAR", "REFLECT", x), input_signature=[unknown]
        )(images),
        "a transform for each image": lambda: tf.raw_ops.ImageProjectiveTransformV3(
            images=images, transforms=[far, turned], output_shape=[2, 2], fill_value=0.0, interpolation="NEAREST"
        ),
    }


def _buckets(tf):
    def found(x, bounds=(0.0, 10.0, 100.0)):
        return tf.raw_ops.Bucketize(input=x, boundaries=list(bounds))

    values = [[-5.0, 0.0, 10.0], [float("nan"), 99.999, float("inf")]]
    return {
        "buckets": lambda: found(values),
        **{
            f"places of numbers that are none, {side}, {kind}": lambda side=side, wrap=wrap: wrap(
                lambda x: tf.searchsorted([[0.0, 10.0, 100.0]], x, side=side)
            )(tf.constant([values[1]]))
            for side in ("left", "right")
            for kind, wrap in (("eager", lambda f: f), ("traced", tf.function))
        },
        "buckets of ints": lambda: found([-5, 10, 150]),
        "buckets of float64": lambda: found(tf.constant([0.1], tf.float64), [0.1]),
        "buckets, traced": lambda: tf.function(found)(tf.constant(values)),
        "no bounds": lambda: found([1.0], []),
        "bounds that fall": lambda: type(_error(lambda: found([1.0], [2.0, 1.0]))).__name__,
    }


def _error(run):
    try:
        run()
    except Exception as error:  # it is what is asked for
        return error
    return None


def _internal(tf):
    smart = tf.__internal__.smart_cond.smart_cond

    def shapes():
        with tf.__internal__.FuncGraph("scratch").as_default():
            x = tf.compat.v1.placeholder(tf.float32, [None, 3])
            rows = tf.compat.v1.sparse_placeholder(tf.float32, [None, 3])
            found = [tf.matmul(x, tf.ones([3, 2])), tf.reduce_sum(x, 1), rows]
            return [(t.shape, t.dtype) for t in found]

    def of_another_graph():
        with tf.__internal__.FuncGraph("first").as_default():
            x = tf.compat.v1.placeholder(tf.float32, [None, 3])
        with tf.__internal__.FuncGraph("second").as_default():
            return tf.reduce_sum(x, 1).shape

    def of_an_inner_graph():
        with tf.__internal__.FuncGraph("outer").as_default():
            with tf.__internal__.FuncGraph("inner").as_default():
                x = tf.compat.v1.placeholder(tf.float32, [None, 3])
            return _error(lambda: tf.reduce_sum(x, 1)) is not None

    class Tracked(tf.__internal__.tracking.AutoTrackable):
        @tf.__internal__.tracking.no_automatic_dependency_tracking
        def hide(self, value):
            self.hidden = value

    def tracked():
        owner = Tracked()
        owner.seen = tf.Variable(1.0)
        owner.hide(tf.Variable(2.0))
        return sorted(owner._trackable_children()), isinstance(owner, tf.__internal__.tracking.Trackable)

    def tracked_and_not():
        owner = tf.__internal__.tracking.AutoTrackable()
        flags = [owner._setattr_tracking]
        owner.seen, owner.gone = tf.Variable(1.0), tf.Variable(2.0)
        owner._setattr_tracking = False
        owner.hidden = tf.Variable(3.0)
        flags.append(owner._setattr_tracking)
        owner._delete_tracking("gone")
        references = [(reference.name, reference.ref) for reference in owner._unconditional_checkpoint_dependencies]
        return flags, sorted(owner._trackable_children()), owner.gone, references

    def eager():
        with tf.__internal__.eager_context.eager_mode():
            return tf.executing_eagerly(), isinstance(tf.constant(1), tf.__internal__.EagerTensor)

    merged = tf.__internal__.distribute.interim.maybe_merge_call
    return {
        "a graph for shapes": shapes,
        "a graph for shapes, of tensors of another": of_another_graph,
        "a graph for shapes, of tensors of one inside": of_an_inner_graph,
        "not tracked": tracked,
        "not tracked for a while": tracked_and_not,
        "eager mode while tracing": lambda: [tf.function(lambda: tf.constant(all(eager())))(), eager()],
        "smart cond": lambda: [smart(c, lambda: 1, lambda: 2) for c in (True, 0, tf.constant(False))],
        "smart cond, traced": lambda: tf.function(lambda c: smart(c, lambda: 1, lambda: 2))(tf.constant(False)),
        "smart cond of a float": lambda: smart(1.5, lambda: 1, lambda: 2),
        "merged": lambda: merged(lambda strategy, x: x + 1, tf.distribute.get_strategy(), 1),
        "no merge call": tf.__internal__.distribute.strategy_supports_no_merge_call,
        "TensorFlow 2": tf.__internal__.tf2.enabled,
    }


def _encoded(tf):
    class Named(tf.experimental.ExtensionType):
        __name__ = "under_keras.Named"
        x: tf.Tensor
        count: int = 3

    class Nameless(tf.experimental.ExtensionType):
        x: tf.Tensor

    encode, decode = tf.__internal__.saved_model.encode_structure, tf.__internal__.saved_model.decode_proto

    def both_ways(value):
        message = encode(value)
        return message.SerializeToString(deterministic=True), decode(message)

    values = {
        "plain values": [None, True, -5, 2.5, "text"],
        "containers": ((1, [2]), {"a": ({},)}, NamedPair(1, [2])),
        "shapes": [tf.TensorShape([1, None]), tf.TensorShape(None), tf.TensorShape([])],
        "dtypes": (tf.float32, tf.string, tf.bool, tf.complex128),
        "specs": [tf.TensorSpec([None, 2], tf.int32, "x"), tf.TensorSpec(None)],
        "ragged and sparse specs": (tf.RaggedTensorSpec([None, None], tf.int32), tf.SparseTensorSpec([3, None])),
        "slices": tf.IndexedSlicesSpec([2]),
        "a dataset's spec": tf.data.DatasetSpec(tf.TensorSpec([])),
        "a registered type": Named(x=tf.constant(1.0))._type_spec,
        "a type without a name": Nameless(x=tf.constant(1.0))._type_spec,
        "tensors": [tf.constant([1.0, 2.0]), tf.constant(["a", "bc"]), np.array([[1, 2]])],
        "bytes": b"text",
        "an array's number": np.float32(2.0),
    }
    return {f"encoded {label}": lambda value=value: both_ways(value) for label, value in values.items()}


def _stand_ins(tf):
    class Pair(tf.__internal__.types.Tensor):
        def __init__(self):
            self.variable = tf.Variable([1.0, 2.0])

        _should_act_as_resource_variable = True
        shape = property(lambda self: self.variable.shape)
        dtype = property(lambda self: self.variable.dtype)
        handle = property(lambda self: self.variable.handle)

        def __tf_tensor__(self, dtype=None, name=None):
            return tf.convert_to_tensor(self.variable, dtype)

    pair = Pair()

    def watched():
        with tf.GradientTape() as tape:
            tape.watch(pair)

    class Other:
        def __tf_tensor__(self, dtype=None, name=None):
            return tf.constant([3.0, 4.0], dtype)

    def slope():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(pair))
        return tape.gradient(loss, [pair])

    def marked(x):
        x._keras_mask = tf.constant([True])
        return x._keras_mask

    rows = tf.IndexedSlices(tf.constant([[1.5, 2.0]]), tf.constant([1]), tf.constant([3, 2]))
    return {
        "a stand-in": lambda: [tf.constant(1.0) + Pair(), tf.is_tensor(Pair()), tf.square(Pair())],
        "what can be a tensor": lambda: [tf.constant(1.0) + Other(), tf.is_tensor(Other()), tf.reduce_sum(Other())],
        "a stand-in watched": watched,
        "a stand-in's slope": slope,
        "a stand-in's slope, traced": lambda: tf.function(slope)(),
        "tensors with attributes": lambda: [marked(tf.constant(1.0)), tf.function(marked)(tf.constant(1.0))],
        "rows cast": lambda: [tf.cast(rows, tf.int32).values, type(tf.cast(rows, tf.float64)).__name__],
        "kinds": lambda: [isinstance(x, tf.__internal__.types.Tensor) for x in (tf.constant(1), tf.Variable(1), 1)],
        "every trace": lambda: len(_traced(tf)._list_all_concrete_functions_for_serialization()),
        "colocated": lambda: _colocated(tf),
    }


def _traced(tf):
    made = tf.function(lambda x: x + 1)
    made(tf.constant(1))
    made(tf.constant(1.0))
    return made


def _colocated(tf):
    extended, v = tf.distribute.get_strategy().extended, tf.Variable(1.0)
    with extended.colocate_vars_with(v):
        extended.update(v, lambda v, x: v.assign_add(x), args=(2.0,))
    return v.numpy()


def _mapped(tf):
    sparse, dense = tf.sparse.from_dense([[[1.0, 0.0], [0.0, 2.0]], [[0.0, 3.0], [0.0, 0.0]]]), tf.ones([2, 2, 3])
    return {
        "flags scattered": lambda: tf.function(tf.scatter_nd)(
            tf.constant([[1], [1], [2]]), tf.constant([True, True, False]), [4]
        ),
        "sparse rows mapped to tensors": lambda: tf.map_fn(
            lambda x: tf.sparse.sparse_dense_matmul(*x), (sparse, dense), fn_output_signature=tf.float32
        ),
    }


def _framed(tf):
    x = tf.reshape(tf.range(20.0), [2, 10])
    any_size = tf.TensorSpec([None, None])

    def framed(x, **options):
        return tf.signal.frame(x, 4, 3, **options)

    return {
        "frames of a size that running tells": lambda: tf.function(framed, input_signature=[any_size])(x),
        "frames to the end": lambda: tf.function(
            lambda x: framed(x, pad_end=True, pad_value=-1.0), input_signature=[any_size]
        )(x),
    }
