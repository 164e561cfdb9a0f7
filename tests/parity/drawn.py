"""Random numbers drawn by rejection sampling, and in functions, which equal TensorFlow's."""

from parity_numbers import calls


def programs(tf):
    random = tf.random
    drawn = {
        "gamma": (lambda a: random.stateless_gamma([4, 3], [1, 2], a), [0.3, 1.0, 4.0]),
        "gamma of double": (lambda: random.stateless_gamma([5], [3, -4], 2.5, 2.0, tf.float64),),
        "gamma of a scalar": (lambda a: random.stateless_gamma([2, 3], [7, 8], a), 0.7),
        "gamma with rates": (lambda: random.stateless_gamma([2, 2, 3], [1, 2], [[0.5], [2.0]], [1.0, 2.0, 3.0]),),
        "poisson": (lambda: random.stateless_poisson([6, 3], [1, 2], [0.5, 4.0, 30.0]),),
        "poisson of long": (lambda: random.stateless_poisson([8], [5, 6], 100.0, tf.int64),),
        "poisson of floats": (lambda: random.stateless_poisson([8], [5, 6], 12.5, tf.float32),),
    }
    return calls(tf, drawn) | _seeded(tf) | _in_functions(tf) | _errors(tf)


def _seeded(tf):
    """Stateful ones after a seed, and the shapes of those that are drawn otherwise."""

    def gamma():
        tf.random.set_seed(5)
        return [str(tf.random.gamma([3], [0.5, 2.0], seed=s).numpy().round(3).tolist()) for s in (None, 3)]

    def poisson():
        tf.random.set_seed(5)
        return [str(tf.random.poisson([3], [0.5, 20.0], seed=s).numpy().tolist()) for s in (None, 3)]

    shapes = {
        "binomial": lambda: tf.random.stateless_binomial([4, 2], [1, 2], [10.0, 20.0], 0.5).shape,
        "truncated normal": lambda: (
            tf.random.stateless_parameterized_truncated_normal([4, 2], [1, 2], [0.0, 1.0]).dtype
        ),
    }
    states = {
        f"state of {seed}": lambda seed=seed: tf.random.create_rng_state(seed, tf.random.Algorithm.PHILOX)
        for seed in (7, 1 << 70, (1, 2, 3))
    }
    return states | {"seeded gamma": gamma, "seeded poisson": poisson} | shapes


def _in_functions(tf):
    def seeded_after_tracing():
        draw = tf.function(lambda: tf.random.uniform([2]))
        seeded = tf.function(lambda: tf.random.uniform([2], seed=3))
        numbers = []
        for seed in (1, 2, 1):  # the functions keep the seed 1, with which they are traced
            tf.random.set_seed(seed)
            numbers.append([_rounded(x) for x in (draw(), seeded(), draw(), seeded())])
        return numbers

    return {"a seed set after tracing": seeded_after_tracing}


def _rounded(x):
    return str(x.numpy().round(5).tolist())


def _errors(tf):
    return {"gamma of no shape": lambda: tf.random.stateless_gamma([4, 2], [1, 2], [1.0, 2.0, 3.0]).shape}
