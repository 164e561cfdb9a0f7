"""Gradients where functions have none, or an infinite one: with a cotangent of 0 and of 1, eagerly and while traced."""

POINTS = [[0.0, 1.0, -1.0], [4.0, float("inf"), float("nan")]]


def programs(tf):
    m = tf.math
    functions = {
        "sqrt": m.sqrt,
        "rsqrt": m.rsqrt,
        "reciprocal": m.reciprocal,
        "log": m.log,
        "one by x": lambda x: 1.0 / x,
        "divide_no_nan": lambda x: m.divide_no_nan(x, x),
        "multiply_no_nan": lambda x: m.multiply_no_nan(x, x),
        "xlogy": lambda x: m.xlogy(x, x),
        "xdivy": lambda x: m.xdivy(x, x),
        "square root of squares": lambda x: m.sqrt(x * x + x * x),
        "norm": lambda x: tf.norm(x, axis=-1),
        "norm of nothing": lambda x: tf.norm(0.0 * x, axis=-1),
        "deviation": lambda x: m.reduce_std(x, axis=-1),
        "deviation of equals": lambda x: m.reduce_std(tf.ones_like(x) * x[:, :1], axis=-1),
        "unit of nothing": lambda x: m.l2_normalize(tf.where(x > 9.0, x, 0.0) * x, axis=-1, epsilon=0.0),
        "betainc": lambda x: m.betainc(abs(x) + 1.0, abs(x) + 1.0, abs(x) / 4.0),
        "asin": m.asin,
        "acosh": m.acosh,
        "atanh": m.atanh,
    }

    def slope(f, seed):
        def run(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            return tape.gradient(y, x, output_gradients=tf.zeros_like(y) + seed)

        def both():
            x = tf.constant(POINTS)
            found = [(each(x) * 1e4).numpy().round(1) + 0.0 for each in (run, tf.function(run, autograph=False))]
            return [array.tolist() for array in found]

        return both

    return {f"{name}, cotangent {seed}": slope(f, seed) for name, f in functions.items() for seed in (0.0, 1.0)}
