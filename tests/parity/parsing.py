"""Examples as protocol buffers, and parsed."""

import os
import tempfile

from parity_calls import result_or_kind


def programs(tf):
    return _messages(tf) | _parsed(tf) | _sequences(tf) | _rejected(tf) | _inputs(tf)


def _feature(tf, *values):
    t = tf.train
    if values and isinstance(values[0], bytes):
        return t.Feature(bytes_list=t.BytesList(value=values))
    if values and isinstance(values[0], float):
        return t.Feature(float_list=tf.train.FloatList(value=values))
    return t.Feature(int64_list=t.Int64List(value=values))


def _example(tf, **features):
    given = {k: _feature(tf, *(v if isinstance(v, (list, tuple)) else [v])) for k, v in features.items() if v != []}
    return tf.train.Example(features=tf.train.Features(feature=given))


def _messages(tf):
    one = _example(tf, name=b"goat", age=[3], size=[1.5, 2.5])

    def copied():
        found = tf.train.Example()
        found.ParseFromString(one.SerializeToString())
        return found == one, found.features.feature["age"].int64_list.value[0]

    def filled():
        found = tf.train.Example()
        found.features.feature["a"].int64_list.value.extend([1, 2])
        return found, found.features.feature["a"].WhichOneof("kind"), sorted(found.features.feature)

    def sequence():
        rows = tf.train.FeatureList(feature=[_feature(tf, 1, 2), _feature(tf, 3)])
        return tf.train.SequenceExample(
            context=tf.train.Features(feature={"n": _feature(tf, 2)}),
            feature_lists=tf.train.FeatureLists(feature_list={"rows": rows}),
        )

    return {
        "feature": lambda: [_feature(tf, v) for v in (b"text", 1.5, 7)],
        "feature of none": lambda: repr(tf.train.Feature()),
        "example": lambda: _example(tf, name=b"goat"),
        "example's bytes": lambda: _example(tf, name=b"goat", age=[3, -1, 300]).SerializeToString(deterministic=True),
        "example copied": copied,
        "example filled": filled,
        "example from bytes": lambda: tf.train.Example.FromString(one.SerializeToString()) == one,
        "sequence": lambda: sequence().SerializeToString(deterministic=True),
        "sequence shown": sequence,
        "names": lambda: (tf.train.Example.__name__, tf.train.Features.DESCRIPTOR.full_name),
        "wrong value": lambda: result_or_kind(lambda: tf.train.Int64List(value=["a"])),
        "wrong field": lambda: result_or_kind(lambda: tf.train.Feature(text=b"a")),
    }


def _texts(tf):
    return [
        _example(tf, a=[1], b=[1.0, 2.0], c=[b"x", b"y"], s=[0, 2, 2]).SerializeToString(),
        _example(tf, a=[2], b=[3.0, 4.0], c=[], s=[0, 0]).SerializeToString(),
        _example(tf, a=[3], b=[5.0, 6.0], c=[b"z"], s=[0, 1]).SerializeToString(),
    ]


def _parsed(tf):
    io, texts = tf.io, _texts(tf)
    fixed = {"a": io.FixedLenFeature([], tf.int64), "b": io.FixedLenFeature([2], tf.float32)}
    points = [
        _example(tf, ix=[5, 1], iy=[0, 2], v=[1.5, 2.5]).SerializeToString(),
        _example(tf, ix=[3], iy=[1], v=[7.5]).SerializeToString(),
    ]
    nested = [
        _example(tf, v=[3, 1, 4, 1, 5, 9], s1=[0, 2, 3, 3, 6], s2=[0, 2, 3, 4], n=[2, 1, 3]).SerializeToString(),
        _example(tf, v=[2, 7, 1, 8, 2, 8, 1], s1=[0, 3, 4, 5, 7], s2=[0, 1, 1, 4], n=[7]).SerializeToString(),
    ]
    F = io.RaggedFeature
    return {
        "fixed": lambda: io.parse_example(texts, fixed),
        "fixed single": lambda: io.parse_single_example(texts[1], fixed),
        "fixed of a scalar": lambda: io.parse_example(texts[1], fixed),
        "fixed default": lambda: io.parse_example(
            texts, {"d": io.FixedLenFeature([2], tf.int64, [7, 8]), "e": io.FixedLenFeature([], tf.string, "?")}
        ),
        "fixed shape": lambda: io.parse_single_example(texts[0], {"b": io.FixedLenFeature([2, 1], tf.float32)}),
        "fixed sequence": lambda: io.parse_example(texts, {"c": io.FixedLenSequenceFeature([], tf.string, True)}),
        "fixed sequence default": lambda: io.parse_example(
            texts, {"s": io.FixedLenSequenceFeature([], tf.int64, True, default_value=-1)}
        ),
        "fixed sequence of pairs": lambda: io.parse_example(
            texts, {"b": io.FixedLenSequenceFeature([2], tf.float32, True)}
        ),
        "fixed sequence single": lambda: io.parse_single_example(
            texts[0], {"c": io.FixedLenSequenceFeature([], tf.string, True)}
        ),
        "varlen": lambda: io.parse_example(texts, {"c": io.VarLenFeature(tf.string)})["c"],
        "varlen single": lambda: io.parse_single_example(texts[0], {"c": io.VarLenFeature(tf.string)})["c"],
        "varlen missing": lambda: io.parse_example(texts, {"zz": io.VarLenFeature(tf.int64)})["zz"],
        "varlen dense": lambda: tf.sparse.to_dense(io.parse_example(texts, {"s": io.VarLenFeature(tf.int64)})["s"]),
        "sparse": lambda: io.parse_example(points, {"p": io.SparseFeature("ix", "v", tf.float32, 10)})["p"],
        "sparse of two": lambda: io.parse_example(
            points, {"p": io.SparseFeature(["ix", "iy"], "v", tf.float32, [10, 4])}
        )["p"],
        "sparse single": lambda: io.parse_single_example(points[0], {"p": io.SparseFeature("ix", "v", tf.float32, 10)})[
            "p"
        ],
        "ragged": lambda: io.parse_example(texts, {"c": F(tf.string)}),
        "ragged single": lambda: io.parse_single_example(texts[0], {"c": F(tf.string)}),
        "ragged int32": lambda: io.parse_example(texts, {"q": F(tf.int64, "s")})["q"].row_splits,
        "ragged int64": lambda: (
            io.parse_example(texts, {"q": F(tf.int64, "s", row_splits_dtype=tf.int64)})["q"].row_splits
        ),
        "ragged splits": lambda: io.parse_example(nested, {"f": F(tf.int64, "v", [F.RowSplits("s1")])}),
        "ragged splits single": lambda: io.parse_single_example(
            nested[0], {"f": F(tf.int64, "v", [F.RowSplits("s1")])}
        ),
        "ragged of two": lambda: io.parse_example(
            nested, {"f": F(tf.int64, "v", [F.RowSplits("s2"), F.RowSplits("s1")])}
        ),
        "ragged of two single": lambda: io.parse_single_example(
            nested[1], {"f": F(tf.int64, "v", [F.RowSplits("s2"), F.RowSplits("s1")])}
        ),
        "ragged lengths": lambda: io.parse_example(nested, {"f": F(tf.int64, "v", [F.RowLengths("n")])}),
        "ragged uniform": lambda: io.parse_example(nested[:1], {"f": F(tf.int64, "v", [F.UniformRowLength(2)])}),
        "ragged uniform single": lambda: io.parse_single_example(
            nested[0], {"f": F(tf.int64, "v", [F.UniformRowLength(2)])}
        ),
        "several": lambda: sorted(
            io.parse_example(texts, {**fixed, "c": io.VarLenFeature(tf.string), "s": F(tf.int64)})
        ),
        "traced": lambda: tf.function(lambda x: io.parse_example(x, fixed))(tf.constant(texts)),
        "traced single": lambda: tf.function(lambda x: io.parse_single_example(x, fixed)["b"] * 2.0)(
            tf.constant(texts[2])
        ),
        "traced varlen": lambda: tf.function(
            lambda x: tf.sparse.to_dense(io.parse_example(x, {"s": io.VarLenFeature(tf.int64)})["s"])
        )(tf.constant(texts)),
        "traced ragged": lambda: tf.function(lambda x: io.parse_example(x, {"s": F(tf.int64)})["s"] + 1)(
            tf.constant(texts)
        ),
    }


def _sequences(tf):
    io, t = tf.io, tf.train

    def text(n, *rows):
        lists = t.FeatureLists(feature_list={"rows": t.FeatureList(feature=[_feature(tf, *r) for r in rows])})
        return t.SequenceExample(
            context=t.Features(feature={"n": _feature(tf, n)}), feature_lists=lists
        ).SerializeToString()

    texts = [text(2, [1, 2], [3, 4]), text(1, [5, 6])]
    uneven = [text(2, [1, 2], [3]), text(1, [], [4, 5, 6])]
    floats = [text(2, [1.5, 2.5], [3.5]), text(1, [4.5])]
    words = [text(2, [b"a"], [b"b", b"cd"])]
    context = {"n": io.FixedLenFeature([], tf.int64)}
    return {
        "sequences varlen of floats": lambda: io.parse_sequence_example(
            floats, context, {"rows": io.VarLenFeature(tf.float32)}
        )[1]["rows"],
        "sequences varlen of strings": lambda: io.parse_sequence_example(
            words, context, {"rows": io.VarLenFeature(tf.string)}
        )[1]["rows"],
        "sequences ragged of floats": lambda: io.parse_sequence_example(
            floats, None, {"rows": io.RaggedFeature(tf.float32)}
        )[1],
        "single sequence": lambda: io.parse_single_sequence_example(
            texts[0], context, {"rows": io.FixedLenSequenceFeature([2], tf.int64)}
        ),
        "single sequence varlen": lambda: io.parse_single_sequence_example(
            uneven[0], context, {"rows": io.VarLenFeature(tf.int64)}
        )[1]["rows"],
        "single sequence ragged": lambda: io.parse_single_sequence_example(
            uneven[1], None, {"rows": io.RaggedFeature(tf.int64)}
        )[1],
        "sequences": lambda: io.parse_sequence_example(
            texts, context, {"rows": io.FixedLenSequenceFeature([2], tf.int64)}
        ),
        "sequences varlen": lambda: io.parse_sequence_example(uneven, context, {"rows": io.VarLenFeature(tf.int64)})[1][
            "rows"
        ],
        "sequences ragged": lambda: io.parse_sequence_example(uneven, None, {"rows": io.RaggedFeature(tf.int64)})[1],
        "sequences missing": lambda: io.parse_sequence_example(
            texts, context, {"zz": io.FixedLenSequenceFeature([2], tf.int64, allow_missing=True)}
        )[1:],
        "sequence missing": lambda: io.parse_single_sequence_example(
            texts[0], context, {"zz": io.FixedLenSequenceFeature([2], tf.int64)}
        ),
        "sequence of nothing": lambda: io.parse_single_sequence_example(texts[0]),
        "sequence of other rows": lambda: io.parse_single_sequence_example(
            uneven[0], context, {"rows": io.FixedLenSequenceFeature([2], tf.int64)}
        ),
    }


def _rejected(tf):
    io, texts = tf.io, _texts(tf)
    F = io.RaggedFeature
    return {
        "no features": lambda: io.parse_example(texts, {}),
        "no features single": lambda: io.parse_single_example(texts[0], None),
        "missing": lambda: io.parse_example(texts, {"zz": io.FixedLenFeature([], tf.int64)}),
        "missing single": lambda: io.parse_single_example(texts[0], {"zz": io.FixedLenFeature([], tf.int64)}),
        "other type": lambda: io.parse_example(texts, {"a": io.FixedLenFeature([], tf.float32)}),
        "other type single": lambda: io.parse_single_example(texts[0], {"a": io.FixedLenFeature([], tf.float32)}),
        "other type varlen": lambda: io.parse_example(texts, {"a": io.VarLenFeature(tf.string)}),
        "other size": lambda: io.parse_example(texts, {"b": io.FixedLenFeature([3], tf.float32)}),
        "other size single": lambda: result_or_kind(
            lambda: io.parse_single_example(texts[0], {"b": io.FixedLenFeature([3], tf.float32)})
        ),
        "other size sequence": lambda: io.parse_example(
            texts, {"b": io.FixedLenSequenceFeature([3], tf.float32, True)}
        ),
        "no example": lambda: io.parse_example([b"no example"], {"a": io.FixedLenFeature([], tf.int64)}),
        "no example single": lambda: io.parse_single_example(b"no example", {"a": io.FixedLenFeature([], tf.int64)}),
        "may not be missing": lambda: io.parse_example(texts, {"a": io.FixedLenSequenceFeature([], tf.int64)}),
        "no shape": lambda: io.parse_example(texts, {"a": io.FixedLenFeature(None, tf.int64)}),
        "unknown dim": lambda: io.parse_example(texts, {"a": io.FixedLenFeature([None], tf.int64)}),
        "unknown inner dim": lambda: io.parse_example(texts, {"a": io.FixedLenFeature([1, None], tf.int64)}),
        "no type": lambda: io.parse_example(texts, {"a": io.VarLenFeature(None)}),
        "no feature": lambda: io.parse_example(texts, {"a": 3}),
        "ragged dtype": lambda: F(tf.int32),
        "ragged splits dtype": lambda: F(tf.int64, row_splits_dtype=tf.float32),
        "ragged partitions": lambda: F(tf.int64, partitions="s"),
        "ragged partition": lambda: result_or_kind(lambda: F(tf.int64, partitions=[3.0])),
        "ragged key": lambda: F(tf.int64, value_key=""),
        "vector for single": lambda: io.parse_single_example(texts, {"a": io.FixedLenFeature([], tf.int64)}),
        "feature's text": lambda: (io.FixedLenFeature([], tf.int64), io.VarLenFeature(tf.string), F(tf.int64)),
    }


def _inputs(tf):
    def records():
        path = os.path.join(tempfile.mkdtemp(), "animals.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for n in range(4):
                writer.write(_example(tf, n=[n], x=[n * 0.5, n * 2.0]).SerializeToString())
        spec = {"n": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([2], tf.float32)}
        data = tf.data.TFRecordDataset(path).map(lambda text: tf.io.parse_single_example(text, spec))
        return data.element_spec, [(e["n"].numpy(), e["x"].numpy().tolist()) for e in data]

    def batched():
        spec = {"a": tf.io.FixedLenFeature([], tf.int64, 0)}
        data = tf.data.Dataset.from_tensor_slices(_texts(tf)).batch(2).map(lambda text: tf.io.parse_example(text, spec))
        return [e["a"].numpy().tolist() for e in data]

    def raw():
        path = os.path.join(tempfile.mkdtemp(), "one.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            writer.write(_example(tf, n=[1]).SerializeToString())
        return [tf.train.Example.FromString(text.numpy()) for text in tf.data.TFRecordDataset([path])]

    def serialized():
        def one(a, b):
            return _example(tf, a=[int(a)], b=[b.numpy()]).SerializeToString(deterministic=True)

        data = tf.data.Dataset.from_tensor_slices(([1, 2], [b"x", b"y"]))
        data = data.map(lambda a, b: tf.reshape(tf.py_function(one, (a, b), tf.string), ()))
        return list(data.as_numpy_iterator())

    return {"records": records, "batched": batched, "raw": raw, "serialized": serialized}
