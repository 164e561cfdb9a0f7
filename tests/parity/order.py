"""Control dependencies, and the devices and names that a program sets."""


def programs(tf):
    return _order(tf) | _prints(tf) | _scopes(tf) | _constants(tf)


def _traced(tf, run, *args):
    return lambda: tf.function(run)(*args)


def _prints(tf):
    def after_print(x):
        printed = tf.print("x is", x)
        with tf.control_dependencies([printed]):
            return type(printed).__name__, tf.group(printed).type, x + 1.0

    def branches(x):
        tf.cond(x > 0.0, lambda: tf.print("above"), lambda: tf.no_op())
        tf.cond(x > 1.0, lambda: tf.print("above 1"), lambda: tf.print("not above 1"))
        return x

    def returned(call):
        def run():
            try:
                return tf.function(call, autograph=False)(tf.constant(1.0))
            except TypeError as error:
                return f"TypeError: {str(error)[-60:]}"

        return run

    def named(x):
        name, kind, y = after_print(x)
        return y if (name, kind) == ("Operation", "NoOp") else None

    return {
        "a print is an operation": _traced(tf, named, 1.0),
        "prints in branches": _traced(tf, branches, tf.constant(1.0)),
        "an eager print": lambda: tf.print("now"),
        "a print returned": returned(lambda x: tf.print(x)),
        "a print among results": returned(lambda x: [x, tf.print(x)]),
    }


def _order(tf):
    c = tf.constant
    v = tf.Variable(0.0)

    def in_order():
        v.assign(0.0)
        with tf.control_dependencies([v.assign_add(1.0), tf.no_op()]):
            result = v * 2.0
        return result

    def operations(x):
        made = [tf.no_op(), tf.group(x, [x]), tf.group(), tf.Assert(x > 0, [x])]
        return [type(m).__name__ == "Operation" for m in made]

    def rejected(*args, **kwargs):
        def run(x):
            tf.group(*args, **kwargs)
            return x

        return _traced(tf, run, c(1))

    def depends_on(value):
        def run(x):
            with tf.control_dependencies(value):
                return x + 1

        return run

    return {
        "control_dependencies": in_order,
        "control_dependencies, traced": _traced(tf, in_order),
        "control_dependencies on nothing": _traced(tf, depends_on([]), c(1)),
        "control_dependencies on None": _traced(tf, depends_on(None), c(1)),
        "control_dependencies on a function": lambda: depends_on(lambda: None)(c(1)),
        "group": lambda: tf.group(c(1), [c(2)]),
        "group of a keyword": rejected(c(1), wrong=3),
        "group of a number": rejected(3),
        "operations": _traced(tf, operations, c(1)),
        "tuple": lambda: tf.tuple([c(1), c(2.0)]),
        "tuple, traced": _traced(tf, lambda x: tf.tuple([x, None, x + 1])[2], c(1)),
        "tuple of nothing, traced": _traced(tf, lambda x: tf.tuple([None]), c(1)),
        "identity_n": lambda: tf.identity_n([c(1), c([2.0])]),
        "identity_n, traced": _traced(tf, lambda x: tf.identity_n([x, 2 * x]), c(1)),
        "no_op": lambda: tf.no_op(),
    }


def _scopes(tf):
    held = []

    def lifted(x):
        with tf.init_scope():
            eager = tf.executing_eagerly(), tf.inside_function()
            if not held:
                held.append(tf.Variable(3.0))
        return x + held[0], eager[0], tf.inside_function()

    def named():
        with tf.name_scope("a"), tf.name_scope("b"):
            return tf.get_current_name_scope()

    return {
        "init_scope": _traced(tf, lifted, tf.constant(1.0)),
        "init_scope, eager": lambda: lifted(tf.constant(1.0))[1:],
        "inside_function": lambda: tf.inside_function(),
        "current name scope": lambda: tf.get_current_name_scope(),
        "nested name scopes": named,
        "nested name scopes, traced": _traced(tf, lambda: tf.constant(named())),
        "symbolic": _traced(tf, lambda x: tf.is_symbolic_tensor(x), tf.constant(1)),
        "not symbolic": lambda: [tf.is_symbolic_tensor(v) for v in (tf.constant(1), held, tf.Variable(1), 3)],
    }


def _constants(tf):
    def static(x):
        known = [tf.get_static_value(v) for v in (x, tf.constant([1, 2]), tf.shape(x), 3)]
        return tf.constant(str([type(k).__name__ for k in known]))

    return {
        "static value": lambda: [
            tf.get_static_value(v) for v in (tf.constant(1), tf.constant([1.0]), tf.Variable(2), 3)
        ],
        "static value, traced": lambda: tf.function(static)(tf.constant(1.0)).numpy(),
    }
