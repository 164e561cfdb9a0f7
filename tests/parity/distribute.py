"""Scripts of tf.distribute on one device."""

import numpy as np


def programs(tf):
    made = {}
    for label, make in {
        "one device": lambda: tf.distribute.OneDeviceStrategy("/cpu:0"),
        "mirrored": lambda: tf.distribute.MirroredStrategy(["/cpu:0"]),
        "default": tf.distribute.get_strategy,
    }.items():
        made[label] = _used(tf, make)
        made[f"{label}, a step"] = _step(tf, make)
        made[f"{label}, what Keras 2 reads"] = lambda make=make: _extended(make())
    return made | _contexts(tf) | _input(tf)


def _used(tf, make):
    def program():
        strategy = make()
        with strategy.scope():
            v = tf.Variable(2.0)
        doubled = strategy.run(lambda x: v * x, args=(tf.constant(3.0),))
        several = strategy.run(lambda: tf.constant([1.0, 2.0, 3.0]))
        return (
            strategy.num_replicas_in_sync,
            float(strategy.reduce("SUM", doubled, axis=None)),
            float(strategy.reduce(tf.distribute.ReduceOp.MEAN, several, axis=0)),
            [float(x) for x in strategy.experimental_local_results(doubled)],
            [float(x) for x in strategy.unwrap(doubled)],
            strategy.gather(several, axis=0).numpy().tolist(),
        )

    return program


def _extended(strategy):
    extended = strategy.extended
    written = extended.should_checkpoint, extended.should_save_summary
    return written, extended._global_batch_size, extended.experimental_require_static_shapes


def _step(tf, make):
    def program():
        strategy = make()
        with strategy.scope():
            v = tf.Variable([1.0, 2.0])
        data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(np.eye(2, dtype="f")))

        def replica(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(v * v * x)
            gradient = tape.gradient(loss, v)
            gradient = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
            if loss > 0.0:
                v.assign_sub(0.1 * gradient)
            return loss

        @tf.function
        def step(x):
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica, (x,)), axis=None)

        return [float(step(x)) for x in data], v.numpy().tolist()

    return program


def _contexts(tf):
    d = tf.distribute

    def where():
        return d.has_strategy(), d.in_cross_replica_context(), d.get_replica_context() is None

    def program():
        strategy = d.OneDeviceStrategy("/cpu:0")
        found = [where()]
        with strategy.scope():
            found += [where(), d.get_strategy() is strategy]
            strategy.run(lambda: found.append(where()))
        strategy.run(lambda: found.append((*where(), int(d.get_replica_context().replica_id_in_sync_group))))
        strategy.run(lambda: d.get_replica_context().merge_call(lambda s, x: found.append((where(), x)), (5,)))
        return found, where()

    def rejected():
        return d.MirroredStrategy(["/cpu:0"]).run(lambda: 0, args=3)

    def kinds():
        options = tf.distribute.NcclAllReduce(), tf.distribute.HierarchicalCopyAllReduce()
        replica = tf.distribute.get_replica_context()
        return (
            [isinstance(o, tf.distribute.CrossDeviceOps) for o in options],
            isinstance(replica, tf.distribute.ReplicaContext),
        )

    def reduced():
        values = 1.0, 3, tf.constant(2.0), [1, 2], {"a": tf.constant([1.0])}
        strategies = d.get_strategy(), d.OneDeviceStrategy("/cpu:0"), d.MirroredStrategy(["/cpu:0"])
        return [repr(s.reduce(op, v, axis=None)) for s in strategies for op in ("SUM", "MEAN") for v in values]

    return {
        "values reduced across one replica": reduced,
        "kinds": kinds,
        "contexts": program,
        "arguments that are none": rejected,
        "an op of another name": lambda: d.get_strategy().reduce("MOST", tf.constant(1.0), axis=None),
    }


def _input(tf):
    context = tf.distribute.InputContext(2, 1, 4)

    def from_function():
        strategy = tf.distribute.MirroredStrategy(["/cpu:0"])

        def dataset(context):
            return tf.data.Dataset.range(4).batch(context.get_per_replica_batch_size(2))

        return [x.numpy().tolist() for x in strategy.distribute_datasets_from_function(dataset)]

    return {
        "a context of input": lambda: (str(context), context.get_per_replica_batch_size(8)),
        "a batch that can't be shared": lambda: context.get_per_replica_batch_size(6),
        "a dataset from a function": from_function,
    }
