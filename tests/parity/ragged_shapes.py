"""Row partitions, ragged shapes, and public functions on ragged tensors."""


def programs(tf):
    return _partitions(tf) | _shapes(tf) | _broadcast(tf) | _gathered(tf) | _arranged(tf) | _computed(tf) | _traced(tf)


def _partitions(tf):
    P = tf.experimental.RowPartition
    rows, same = P.from_row_lengths([4, 0, 3]), P.from_uniform_row_length(3, 12)

    def seen(p):
        return [
            p, p.row_splits(), p.row_lengths(), p.row_starts(), p.row_limits(), p.value_rowids(), p.nrows(), p.nvals(),
            p.offsets_in_rows(), p.is_uniform(), p.uniform_row_length(), p.static_nrows,
            p.dtype,
        ]  # fmt: skip

    return {
        "lengths": lambda: seen(rows),
        "splits": lambda: seen(P.from_row_splits([0, 2, 2, 5])),
        "starts": lambda: seen(P.from_row_starts([0, 2, 2], 5)),
        "limits": lambda: seen(P.from_row_limits([2, 2, 5])),
        "rowids": lambda: seen(P.from_value_rowids([0, 0, 2, 2, 2], 4)),
        "rowids counted": lambda: seen(P.from_value_rowids([0, 0, 2, 2, 2])),
        "no rowids": lambda: seen(P.from_value_rowids(tf.zeros([0], tf.int64))),
        "uniform": lambda: seen(same),
        "uniform of rows": lambda: seen(P.from_uniform_row_length(2, nrows=3)),
        "uniform of none": lambda: seen(P.from_uniform_row_length(0, nvals=0, nrows=3)),
        "int32": lambda: seen(P.from_row_lengths([1, 2], dtype=tf.int32)),
        "with_dtype": lambda: rows.with_dtype(tf.int32).row_splits(),
        "spec": lambda: (tf.type_spec_from_value(rows), tf.type_spec_from_value(same)),
        "flattened": lambda: tf.nest.flatten(rows, expand_composites=True),
        "splits decrease": lambda: P.from_row_splits([0, 3, 2]),
        "splits begin": lambda: P.from_row_splits([1, 3]),
        "splits empty": lambda: P.from_row_splits([]),
        "lengths negative": lambda: P.from_row_lengths([1, -1]),
        "rowids decrease": lambda: P.from_value_rowids([1, 0]),
        "rowids beyond": lambda: P.from_value_rowids([0, 3], nrows=2),
        "uniform odd": lambda: P.from_uniform_row_length(5, 12),
        "uniform unknown": lambda: P.from_uniform_row_length(5),
        "limits negative": lambda: P.from_row_limits([-1, 2]),
        "starts beyond": lambda: P.from_row_starts([0, 9], 4),
        "not validated": lambda: P.from_row_splits([0, 3, 2], validate=False).row_splits(),
        "validate": lambda: P.from_row_splits([0, 3], validate=1),
        "floats": lambda: P.from_row_splits([0.0, 3.0]),
        "values beyond": lambda: tf.RaggedTensor.from_row_splits([1, 2], [0, 3]),
    }


def _shapes(tf):
    S, P = tf.experimental.DynamicRaggedShape, tf.experimental.RowPartition
    rows = tf.ragged.constant([[1, 2], [3], []])
    deep = tf.ragged.constant([[[1, 2], []], [[3]]])
    wide = tf.RaggedTensor.from_row_splits(tf.zeros([5, 2]), [0, 2, 5])
    shape = S.from_lengths([2, (2, 1), 2])
    return {
        "of rows": lambda: (tf.shape(rows), tf.shape(deep), tf.shape(wide), tf.shape(rows, out_type=tf.int64).dtype),
        "from_tensor": lambda: (S.from_tensor(rows), S.from_tensor(tf.zeros([2, 3])), S.from_tensor(rows).dtype),
        "from_lengths": lambda: [
            S.from_lengths(x) for x in ([], [2, (3, 2)], [2, 2], [2, (3, 2), 7], [2, (2, 1), (2, 0, 3)], [2, (2, 2), 3])
        ],
        "from_lengths partitions": lambda: [
            S.from_lengths([2, 2], num_row_partitions=1),
            S.from_lengths([2, (3, 2), 7], num_row_partitions=2),
        ],  # fmt: skip
        "from_row_partitions": lambda: S.from_row_partitions(
            [P.from_row_lengths([2, 1]), P.from_row_lengths([1, 0, 2])]
        ),
        "made": lambda: S([P.from_row_lengths([2, 1])], [3, 4]),
        "properties": lambda: (
            shape.rank,
            shape.inner_rank,
            shape.num_row_partitions,
            shape.inner_shape,
            shape.row_partitions,
            shape.dtype,
        ),  # fmt: skip
        "static_lengths": lambda: (shape.static_lengths(), shape.static_lengths(ragged_lengths=False)),
        "is_uniform": lambda: [shape.is_uniform(i) for i in range(3)],
        "dims": lambda: (shape[0], shape[2], shape[-1]),
        "slices": lambda: (shape[:2], shape[:1], shape[2:], S.from_lengths([2, 3, 4])[1:], shape[:0], shape[:]),
        "with_dtype": lambda: shape.with_dtype(tf.int32).inner_shape,
        "spec": lambda: tf.type_spec_from_value(shape),
        "spec class": lambda: (tf.type_spec_from_value(shape).rank, tf.type_spec_from_value(shape).num_row_partitions),
        "zeros": lambda: (tf.zeros(shape), tf.ones(tf.shape(rows), tf.int32), tf.fill(tf.shape(deep), "x")),
        "zeros dense": lambda: tf.zeros(S.from_lengths([2, 3])),
        "reshape": lambda: tf.reshape([1, 2, 3, 4, 5, 6], shape),
        "reshape rows": lambda: tf.reshape(rows, [3, 1]),
        "ragged dim": lambda: shape[1],
        "beyond": lambda: shape[3],
        "slice of ragged": lambda: shape[1:],
        "stride": lambda: shape[::2],
        "not partitions": lambda: S([1], [4]),
        "not lengths": lambda: S.from_lengths([2, "a"]),
        "not consistent": lambda: S.from_lengths([2, (1, 2, 3)]),
        "none": lambda: S.from_row_partitions([]),
        "axis beyond": lambda: shape.is_uniform(5),
    }


def _broadcast(tf):
    S, r = tf.experimental.DynamicRaggedShape, tf.ragged
    rows = r.constant([[1, 2], [3]])
    deep = r.constant([[[1, 2], [3]], [[4]]])
    wide = r.constant([[[1, 2], [3, 4]], [[5, 6]]], ragged_rank=1)
    uniform = tf.RaggedTensor.from_uniform_row_length([1, 2], 1)
    return {
        "scalar to": lambda: tf.broadcast_to(7, tf.shape(rows)),
        "column to": lambda: tf.broadcast_to([[1], [2]], tf.shape(rows)),
        "row to": lambda: tf.broadcast_to([9], tf.shape(rows)),
        "rows to more": lambda: tf.broadcast_to(rows, S.from_lengths([2, 2, (2, 1, 2, 1)])),
        "rows to themselves": lambda: tf.broadcast_to(rows, tf.shape(rows, out_type=tf.int64)),
        "inner to": lambda: tf.broadcast_to([[[1], [2]]], S.from_lengths([2, 2, 3])),
        "inner": lambda: tf.broadcast_to([5, 6], S.from_lengths([2, (2, 1), 2])),
        "dense to dense": lambda: tf.broadcast_to([[1], [2]], S.from_lengths([2, 3])),
        "too many dims": lambda: tf.broadcast_to(deep, tf.shape(rows, out_type=tf.int64)),
        "shapes": lambda: [
            tf.broadcast_dynamic_shape(tf.shape(rows), [2, 1]),
            tf.broadcast_dynamic_shape(tf.shape(rows), tf.shape(rows)),
            tf.broadcast_dynamic_shape(S.from_lengths([2, 1]), S.from_lengths([1, 3])),
            tf.broadcast_dynamic_shape(S.from_lengths([3]), S.from_lengths([2, (2, 1), 3])),
        ],
        "shapes that don't": lambda: tf.broadcast_dynamic_shape(S.from_lengths([2, 2]), S.from_lengths([3, 2])),
        "column": lambda: rows + [[10], [20]],
        "column left": lambda: [[10], [20]] - rows,
        "one row": lambda: rows + [[10]],
        "vector": lambda: rows + [10],
        "uniform": lambda: rows + uniform,
        "uniform deep": lambda: deep * tf.RaggedTensor.from_uniform_row_length(uniform, 1),
        "deep by rows": lambda: deep + [[[10]], [[20]]],
        "deep by matrix": lambda: deep + [[10]],
        "rank 3 and ragged rank 1": lambda: wide + [[[10, 20]], [[30, 40]]],
        "inner dims": lambda: wide * [100, 1000],
        "ragged of fewer dims": lambda: tf.RaggedTensor.from_uniform_row_length(deep, 2)[..., :] + rows[tf.newaxis],
        "dense of more dims": lambda: tf.constant([[[1], [2]], [[3], [4]]]) + rows,
        "rows differ": lambda: rows + r.constant([[1], [2, 3]]),
        "dense differs": lambda: rows + [[1, 2], [3, 4]],
        "count differs": lambda: rows + [[1], [2], [3]],
        "compare": lambda: (rows < [[2], [9]], rows == [[1], [3]]),
        "where": lambda: tf.where(rows > 1, rows, -1),
        "where columns": lambda: tf.where([[True], [False]], rows, [[0], [9]]),
        "where places": lambda: (tf.where(rows > 1), tf.where(deep > 1)),
        "where half": lambda: tf.where(rows > 1, rows),
        "assert": lambda: tf.debugging.assert_equal(rows, rows),
        "assert fails": lambda: tf.debugging.assert_less(rows, 3),
    }


def _gathered(tf):
    r = tf.ragged
    rows = r.constant([["a", "b"], ["c", "d", "e"], [], ["f"]])
    deep = r.constant([[[1, 2], [3]], [], [[4, 5, 6]]])
    return {
        "gather": lambda: (tf.gather(rows, [3, 1, 1]), tf.gather(rows, 1)),
        "gather matrix": lambda: tf.gather(rows, [[3, 1], [0, 2]]),
        "gather matrix shape": lambda: tf.gather(rows, [[3, 1], [0, 2]]).shape,
        "gather by ragged": lambda: tf.gather(rows, r.constant([[3, 1], [0]])),
        "gather dense": lambda: tf.gather(["x", "y", "z"], r.constant([[2, 1], [], [0]])),
        "gather axis": lambda: tf.gather(deep[:1], [0], axis=1),
        "gather deep axis": lambda: tf.gather(r.constant([[[1, 2], [3, 4]], [[5, 6]]]), [1, 0, 1], axis=2),
        "gather_nd of vectors of each size": lambda: [
            (x if isinstance(x, tf.Tensor) else x.to_list(), x.shape)
            for params in (rows, r.constant([[[1, 2], [3]], [[4], [5]]]))
            for indices in ([0], [0, 1], [[0], [1]], [[0, 1], [1, 0]], [[[0], [1]]], [[[0, 1]], [[1, 0]]])
            for x in [tf.gather_nd(params, indices)]
        ],
        "gather_nd of empty vectors": lambda: [
            (x.to_list(), x.shape)
            for shape in ([0], [2, 0], [1, 2, 0])
            for x in [tf.gather_nd(rows, tf.zeros(shape, tf.int32))]
        ],
        "gather_nd of a scalar": lambda: tf.gather_nd(rows, 0),
        "gather_nd of ragged vectors": lambda: tf.gather_nd(rows, r.constant([[0], [0, 1]])),
        "gather batch": lambda: tf.gather(rows, r.constant([[1], [0, 2], [], [0]]), batch_dims=1),
        "gather batch dense": lambda: tf.gather(
            tf.constant([[1, 2, 3], [4, 5, 6]]), r.constant([[2], [0, 1]]), batch_dims=1
        ),
        "gather batch of two": lambda: tf.gather(deep, r.constant([[[1], [0]], [], [[2, 1]]]), batch_dims=2),
        "gather batch axis": lambda: tf.gather(
            r.constant([[[1, 2], [3, 4]], [[5, 6]]]), [[1], [0]], batch_dims=1, axis=2
        ),
        "gather batch differs": lambda: tf.gather(rows, r.constant([[1], [2]]), batch_dims=1),
        "gather_nd": lambda: tf.gather_nd(deep, [[0, 1, 0], [2, 0, 2]]),
        "gather_nd rows": lambda: tf.gather_nd(deep, [[0, 1], [2, 0]]),
        "gather_nd row": lambda: tf.gather_nd(deep, [[2], [0]]),
        "gather_nd single": lambda: tf.gather_nd(deep, [0, 0]),
        "gather_nd by ragged": lambda: tf.gather_nd(
            tf.constant([[1, 2], [3, 4]]), tf.RaggedTensor.from_row_splits([[0, 1], [1, 1], [1, 0]], [0, 2, 3])
        ),
        "cross": lambda: r.cross([r.constant([["a"], ["b", "c"]]), r.constant([["d"], ["e"]]), [["f"], ["g"]]]),
        "cross numbers": lambda: r.cross([r.constant([[1], [2, 3]]), [["x", "y"], ["z", "w"]]]),
        "cross_hashed": lambda: r.cross_hashed([r.constant([["a"], ["b", "c"]]), r.constant([["d"], ["e"]])], 100),
        "cross_hashed free": lambda: r.cross_hashed([r.constant([[1], [-2, 3]]), r.constant([["d"], ["e"]])]),
        "cross_hashed key": lambda: r.cross_hashed([r.constant([[1], [2, 3]]), [["d"], ["e"]]], 1000, hash_key=7),
        "cross floats": lambda: r.cross([r.constant([[1.0]])]),
        "cross deep": lambda: r.cross([deep]),
        "stack_dynamic_partitions": lambda: r.stack_dynamic_partitions(["a", "b", "c", "d", "e"], [3, 0, 2, 2, 3], 5),
        "stack_dynamic_partitions rows": lambda: r.stack_dynamic_partitions(rows, [1, 0, 1, 0], 2),
        "stack_dynamic_partitions ragged": lambda: r.stack_dynamic_partitions(
            rows, r.constant([[0, 1], [0, 1, 2], [], [2]]), 4
        ),
        "stack_dynamic_partitions one": lambda: r.stack_dynamic_partitions([1, 2], 1, 3),
        "stack_dynamic_partitions beyond": lambda: r.stack_dynamic_partitions([1, 2], [0, 5], 3),
        "dynamic_partition": lambda: tf.dynamic_partition(rows, [1, 0, 1, 0], 2),
    }


def _arranged(tf):
    r = tf.ragged
    rows = r.constant([[1, 2], [3], []])
    deep = r.constant([[[1, 2], [3]], [[4]]])
    return {
        "tile": lambda: (tf.tile(rows, [2, 1]), tf.tile(rows, [1, 2]), tf.tile(deep, [2, 1, 2]), tf.tile(rows, [1, 0])),
        "tile of computed multiples": lambda: [
            tf.function(lambda n, x=x: tf.tile(x, n), input_signature=[tf.TensorSpec([None], tf.int32)])(n)
            for x, n in ((rows, [2, 1]), (rows, [1, 2]), (deep, [2, 3, 2]), (deep, [1, 0, 1]))
        ],
        "tile keeps the splits' dtype": lambda: tf.tile(rows.with_row_splits_dtype(tf.int32), [1, 2]).row_splits,
        "tile by fractions": lambda: tf.tile(rows, [1.0, 2.0]),
        "shapes of whole rows": lambda: [
            (x.shape, x.uniform_row_length, x.nested_row_splits)
            for x in (tf.RaggedTensor.from_tensor(tf.zeros([2, 3, 2]), ragged_rank=rank) for rank in (1, 2))
        ],
        "whole rows of any size": lambda: [
            tf.function(
                lambda x, rank=rank: tf.RaggedTensor.from_tensor(x, ragged_rank=rank),
                input_signature=[tf.TensorSpec([None] * 3)],
            )(tf.ones([2, 1, 2]))
            for rank in (1, 2)
        ],
        "split": lambda: tf.split(rows, 3),
        "split sizes": lambda: tf.split(rows, [1, 2]),
        "split ragged axis": lambda: tf.split(rows, 2, axis=1),
        "split odd": lambda: tf.split(rows, [1, 1]),
        "split inner": lambda: tf.split(r.constant([[[1, 2]], [[3, 4], [5, 6]]], ragged_rank=1), 2, axis=2),
        "squeeze": lambda: tf.squeeze(r.constant([[[1, 2, 3]], [[4]]]), axis=1),
        "squeeze first": lambda: tf.squeeze(r.constant([[[1, 2, 3], [4]]]), axis=0),
        "squeeze last": lambda: tf.squeeze(r.constant([[[1], [2]], [[3]]]), axis=[2]),
        "squeeze none": lambda: tf.squeeze(rows),
        "squeeze not one": lambda: tf.squeeze(rows, axis=0),
        "one_hot": lambda: tf.one_hot(rows, 4),
        "one_hot axis": lambda: tf.one_hot(rows, 4, axis=0),
        "expand_dims": lambda: [tf.expand_dims(rows, a) for a in (0, 1, 2, -1)],
        "reverse": lambda: (tf.reverse(rows, axis=[0, 1]), tf.reverse(deep, axis=[1])),
        "size": lambda: (tf.size(rows), tf.size(deep), tf.size(rows, out_type=tf.int64), tf.rank(deep)),
        "bitcast": lambda: tf.bitcast(rows, tf.uint32),
        "map_fn": lambda: tf.map_fn(lambda x: tf.reduce_sum(x), rows, fn_output_signature=tf.int32),
        "map_fn rows": lambda: tf.map_fn(tf.square, rows),
        "map_fn to rows": lambda: tf.map_fn(
            tf.range, tf.constant([3, 0, 2]), fn_output_signature=tf.RaggedTensorSpec([None], tf.int32)
        ),
        "concat columns": lambda: tf.concat([deep, [[[9]], [[8]]]], axis=1),
        "uniform": lambda: tf.RaggedTensor.from_uniform_row_length(deep, 1).shape,
        "iterate": lambda: list(deep),
    }


def _computed(tf):
    r = tf.ragged
    rows = r.constant([[1.0, 2.0], [4.0], []])
    deep = r.constant([[[1.0, 2.0], [3.0]], [[4.0]]])

    def gradient(compute):
        values = tf.constant([1.0, 2.0, 4.0])

        def run():
            with tf.GradientTape() as tape:
                tape.watch(values)
                y = compute(tf.RaggedTensor.from_row_splits(values, [0, 2, 3, 3]))
                y = y.flat_values if isinstance(y, tf.RaggedTensor) else y
            return tf.convert_to_tensor(tape.gradient(y, values))

        return run

    return {
        "cumsum": lambda: (tf.cumsum(rows, axis=1), tf.cumsum(deep, axis=2)),
        "cumsum reverse": lambda: tf.cumsum(rows, axis=1, reverse=True),
        "cumsum exclusive": lambda: tf.cumsum(rows, axis=-1, exclusive=True),
        "cumsum outer": lambda: tf.cumsum(rows, axis=0),
        "softmax": lambda: tf.round(tf.nn.softmax(rows) * 1000),
        "variance": lambda: (tf.math.reduce_variance(rows[:2], axis=1), tf.math.reduce_std(rows[:2], axis=1)),
        "matmul": lambda: tf.matmul(r.constant([[1.0, 2.0], [3.0, 4.0]]), tf.eye(2)),
        "matmul batch": lambda: tf.matmul(
            tf.RaggedTensor.from_row_splits(tf.ones([3, 2]), [0, 1, 3]), tf.reshape(tf.range(12.0), [2, 2, 3])
        ),
        "matmul ragged": lambda: tf.matmul(r.constant([[1.0, 2.0], [3.0]]), tf.eye(2)),
        "embedding_lookup": lambda: tf.nn.embedding_lookup(tf.eye(4), r.constant([[1, 2], [3]])),
        "dropout": lambda: tf.nn.dropout(rows, 0.0),
        "gelu": lambda: (tf.nn.relu6(rows * 3.0), tf.math.lgamma(rows), tf.acosh(rows), tf.math.xdivy(rows, 2.0)),
        "gradient column": gradient(lambda x: x * [[1.0], [2.0], [3.0]]),
        "gradient gather": gradient(lambda x: tf.gather(x, [1, 0, 0]) * 2.0),
        "gradient tile": gradient(lambda x: tf.tile(x, [1, 2]) ** 2),
        "gradient softmax": gradient(lambda x: tf.nn.softmax(x * 0.0) * x.with_values([1.0, 0.0, 1.0])),
        "gradient cumsum": gradient(lambda x: tf.cumsum(x, axis=1)),
        "gradient broadcast": gradient(lambda x: tf.broadcast_to(tf.reduce_sum(x), tf.shape(x, out_type=tf.int64)) * x),
    }


def _traced(tf):
    rows = tf.ragged.constant([[1.0, 2.0], [4.0], []])
    spec = tf.RaggedTensorSpec([None, None], tf.float32)

    def run(function, *args):
        return tf.function(function, input_signature=[spec, *[tf.TensorSpec(None, a.dtype) for a in args]])(rows, *args)

    def loop(x):
        total = tf.constant(0.0)
        for row in x.with_row_splits_dtype(tf.int32):
            total = total * 2.0 + tf.reduce_sum(row)
        return total

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x.flat_values)
            y = x * tf.reduce_sum(x, axis=1, keepdims=True)
        return tape.gradient(y.flat_values, x.flat_values)

    def merged(outer, inner, *inner_shape):
        values = tf.reshape(tf.range(24.0), [-1, *(3 if size is None else size for size in inner_shape)])
        splits = tf.constant([0, 1, values.shape[0]])
        merge = lambda v, s: tf.RaggedTensor.from_row_splits(v, s).merge_dims(outer, inner)  # noqa: E731
        specs = [tf.TensorSpec([None, *inner_shape]), tf.TensorSpec([None], tf.int32)]
        return lambda: tf.function(merge, input_signature=specs)(values, splits)

    return {
        "traced merge": merged(0, 2, 4),
        "traced merge of unknown sizes": merged(0, 2, None),
        "traced merge of rows": merged(0, 1, 4),
        "traced merge in rows": merged(1, 2, None, 2),
        "traced column": lambda: tf.function(lambda x, c: x + c)(rows, tf.constant([[1.0], [2.0], [3.0]])),
        "traced keepdims": lambda: run(lambda x: x / tf.reduce_sum(x, axis=1, keepdims=True)),
        "traced softmax": lambda: tf.round(run(tf.nn.softmax) * 1000),
        "traced shape": lambda: run(lambda x: tf.zeros(tf.shape(x))),
        "traced tile": lambda: run(lambda x: tf.tile(x, [1, 2])),
        "traced gather": lambda: tf.function(lambda x, i: tf.gather(x, i))(rows, tf.constant([1, 0])),
        "traced partition": lambda: tf.function(
            lambda n: tf.experimental.RowPartition.from_row_lengths(n).value_rowids()
        )(tf.constant([2, 0, 3])),
        "traced partition given": lambda: tf.function(lambda p: p.row_lengths())(
            tf.experimental.RowPartition.from_row_lengths([2, 0, 3])
        ),
        "traced shape given": lambda: tf.function(lambda s: tf.ones(s))(tf.shape(rows)),
        "traced loop": lambda: tf.function(loop)(rows),
        "traced gradient": lambda: run(gradient),
        "traced where": lambda: run(lambda x: tf.where(x > 1.0, x, 0.0)),
        "traced cross": lambda: tf.function(lambda x: tf.ragged.cross([x, [["u"], ["v"]]]))(
            tf.ragged.constant([["a"], ["b", "c"]])
        ),
    }
