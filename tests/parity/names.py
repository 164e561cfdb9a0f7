"""Rarely used methods of shapes, tensors and Variables, and moving averages."""


def programs(tf):
    return _shapes(tf) | _tensors(tf) | _averages(tf)


def _shapes(tf):
    shape = tf.TensorShape
    return {
        "assert_is_fully_defined": lambda: shape([2, 3]).assert_is_fully_defined(),
        "assert_is_fully_defined, refused": lambda: shape([2, None]).assert_is_fully_defined(),
        "assert_same_rank": lambda: shape([2]).assert_same_rank([3]),
        "assert_same_rank, refused": lambda: shape([2]).assert_same_rank([2, 3]),
        "assert_has_rank, refused": lambda: shape([2]).assert_has_rank(2),
        "most_specific_compatible_shape": lambda: (
            shape([2, 3]).most_specific_compatible_shape([2, 4]),
            shape([2, 3]).most_specific_compatible_shape([2]),
        ),
        "with_rank, refused": lambda: shape([2]).with_rank(2),
        "with_rank_at_least": lambda: (shape([2]).with_rank_at_least(1), shape(None).with_rank_at_least(1)),
        "with_rank_at_least, refused": lambda: shape([2]).with_rank_at_least(2),
        "with_rank_at_most, refused": lambda: shape([2, 3]).with_rank_at_most(1),
    }


def _tensors(tf):
    x, v = tf.constant([1.0]), tf.Variable(1.0)
    return {
        "name": lambda: x.name,
        "graph": lambda: x.graph,
        "op": lambda: x.op,
        "value_index": lambda: x.value_index,
        "eval": lambda: x.eval(),
        "consumers": lambda: x.consumers(),
        "set_shape, refused": lambda: x.set_shape([2]),
        "a Variable's eval": lambda: v.eval(),
        "a Variable's initial_value": lambda: v.initial_value,
        "a Variable's initializer": lambda: v.initializer,
        "a Variable's to_proto": lambda: v.to_proto(),
    }


def _averages(tf):
    def followed(**options):
        average = tf.train.ExponentialMovingAverage(0.9, **options)
        a, b = tf.Variable(1.0, name="a"), tf.Variable([1.0, 2.0], name="b")
        average.apply([a, b])
        a.assign(2.0)
        b.assign([3.0, 4.0])
        average.apply([a, b])
        return average.average(a).numpy(), average.average(b).numpy()

    def traced():
        average, v = tf.train.ExponentialMovingAverage(0.5), tf.Variable([2.0, 4.0])
        average.apply([v])

        @tf.function
        def step():
            v.assign_add([1.0, 1.0])
            average.apply([v])
            return average.average(v).read_value()

        return step(), step()

    return {
        "moving average": followed,
        "moving average, young": lambda: followed(num_updates=3),
        "moving average without bias": lambda: followed(zero_debias=True),
        "moving average, traced": traced,
        "no average": lambda: tf.train.ExponentialMovingAverage(0.9).average(tf.Variable(0.0)),
        "moving average's name": lambda: tf.train.ExponentialMovingAverage(0.9).name,
        "moving average of integers": lambda: tf.train.ExponentialMovingAverage(0.9).apply([tf.Variable(1)]),
        "moving average of a tensor": lambda: tf.train.ExponentialMovingAverage(0.9).apply([tf.constant(1.0)]),
    }
