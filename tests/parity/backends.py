"""What libraries with a backend for TensorFlow ask of it, found by running their tests."""


def programs(tf):
    return {**_operators(tf)}


def _operators(tf):
    """Classes that borrow a tensor's operators."""
    values = {"int": [7, -7], "float": [7.0, -7.0], "complex": [1 + 2j], "bool": [True]}

    def divided(value):
        x = tf.constant(value)
        return [x.__div__(2), x.__rdiv__(2), tf.Variable(x).__div__(2)]

    return {
        "operators": lambda: sorted(tf.Tensor.OVERLOADABLE_OPERATORS),
        "operators of each kind": lambda: [
            all(hasattr(kind, name) for name in tf.Tensor.OVERLOADABLE_OPERATORS)
            for kind in (tf.Tensor, type(tf.constant(1)), tf.Variable)
        ],
        "nonzero": lambda: [tf.constant(value).__nonzero__() for value in (0, 2.0)],
        **{f"divided, {kind}": lambda value=value: divided(value) for kind, value in values.items()},
    }
