"""Optionals: from iterators, in functions, branches, loops and datasets."""


def programs(tf):
    return {**_made(tf), **_of_iterators(tf), **_in_control_flow(tf), **_typed(tf), **_typed_later(tf)}


def _shown(optional):
    return bool(optional.has_value()), optional.get_value()


def _made(tf):
    optional = tf.experimental.Optional
    nothing = optional.empty(tf.TensorSpec([], tf.float32))

    @tf.function
    def held(value):
        found = optional.from_value(value)
        return found.has_value(), found.get_value() + 1.0

    @tf.function
    def given_back(x):
        return optional.from_value({"a": x, "b": (x + 1.0, tf.constant("text"))})

    @tf.function
    def one_more(taken):
        return taken.get_value() + 1.0

    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = optional.from_value(x * x).get_value() * 3.0
        return tape.gradient(y, x)

    def counted():
        one_more(optional.from_value(1.0))
        one_more(optional.from_value(2.0))
        one_more(optional.from_value([3.0]))
        return one_more.experimental_get_tracing_count()

    def ragged():
        found = given_back_ragged(tf.ragged.constant([[1], [2, 3]]))
        return found.get_value()

    @tf.function
    def given_back_ragged(x):
        return optional.from_value(x)

    def empty_of(*specs):
        return [bool(optional.empty(spec).has_value()) for spec in specs]

    return {
        "held": lambda: held(tf.constant(2.0)),
        "given back": lambda: given_back(tf.constant(1.0)).get_value(),
        "given back, its spec": lambda: given_back(tf.constant(1.0)).element_spec,
        "taken": lambda: one_more(optional.from_value(2.0)),
        "taken, but empty": lambda: one_more(nothing),
        "empty": lambda: nothing.get_value(),
        "a gradient through it": lambda: slope(tf.constant(2.0)),
        "traces": counted,
        "ragged": ragged,
        "empty ones": lambda: empty_of(
            tf.TensorSpec(None, tf.string),
            tf.TensorSpec([None, 3], tf.bool),
            {"a": tf.TensorSpec([2], tf.int8), "b": tf.SparseTensorSpec([None, 4], tf.float32)},
            tf.RaggedTensorSpec([None, None], tf.int32),
        ),
    }


def _of_iterators(tf):
    @tf.function
    def first(iterator):
        found = iterator.get_next_as_optional()
        return found.has_value(), found.get_value()

    @tf.function
    def total(iterator):
        found, most = tf.constant(0, tf.int64), iterator.get_next_as_optional()
        while most.has_value():
            found += most.get_value()
            most = iterator.get_next_as_optional()
        return found

    @tf.function
    def total_until(iterator):
        found = tf.constant(0, tf.int64)
        for _ in tf.range(10):
            most = iterator.get_next_as_optional()
            if not most.has_value():
                break
            found += most.get_value()
        return found

    @tf.function
    def passed_over(iterator):
        found = iterator.get_next_as_optional()
        return tf.cond(found.has_value(), found.get_value, lambda: tf.constant([-1, -1]))

    def all_of(size):
        iterator = iter(tf.data.Dataset.range(size))
        return [
            int(o.get_value()) if o.has_value() else None for o in (iterator.get_next_as_optional() for _ in range(3))
        ]

    rows = tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]])

    def rows_passed_over():
        iterator = iter(rows)
        return [passed_over(iterator) for _ in range(3)]

    return {
        "the first": lambda: first(iter(tf.data.Dataset.range(3))),
        "the first of none": lambda: first(iter(tf.data.Dataset.range(0))),
        "a total": lambda: total(iter(tf.data.Dataset.range(5))),
        "a total, left early": lambda: total_until(iter(tf.data.Dataset.range(5))),
        "eagerly": lambda: (all_of(2), all_of(0)),
        "rows, and none": rows_passed_over,
        "by function": lambda: _shown(tf.data.experimental.get_next_as_optional(iter(rows))),
    }


def _in_control_flow(tf):
    optional = tf.experimental.Optional

    @tf.function
    def root(x):
        if x >= 0.0:
            found = optional.from_value(tf.sqrt(x))
        else:
            found = optional.empty(tf.TensorSpec([], tf.float32))
        return found.has_value(), tf.cond(found.has_value(), found.get_value, lambda: -1.0)

    def mapped():
        made = tf.data.Dataset.range(3).map(optional.from_value)
        return [_shown(o) for o in made], made.element_spec

    def of_both():
        made = tf.data.Dataset.range(3).map(
            lambda n: tf.cond(
                n > 0,
                lambda: optional.from_value(n * 10),
                lambda: optional.empty(tf.TensorSpec([], tf.int64)),
            )
        )
        return [int(o.get_value()) if o.has_value() else None for o in made]

    return {
        "of two branches": lambda: (root(tf.constant(4.0)), root(tf.constant(-4.0))),
        "elements": mapped,
        "elements of both": of_both,
    }


def _typed(tf):
    optional, spec = tf.experimental.Optional, tf.OptionalSpec(tf.TensorSpec([None], tf.float32))

    @tf.function(input_signature=[spec])
    def requested(taken):
        return taken.has_value()

    return {
        "by signature": lambda: (
            requested(optional.from_value([1.0])),
            requested(optional.empty(tf.TensorSpec([None]))),
        ),
        "the spec": lambda: (spec, spec == tf.OptionalSpec(tf.TensorSpec([None])), spec == tf.OptionalSpec(3)),
        "of a value": lambda: tf.OptionalSpec.from_value(optional.from_value((1, 2.0))),
        "compatible": lambda: [spec.is_compatible_with(optional.from_value(v)) for v in ([1.0], 1.0, [1], [[1.0]])],
        "of a type": lambda: isinstance(optional.from_value(1), tf.experimental.Optional),
    }


def _typed_later(tf):
    """An optional that holds nothing, of a type that a loop's body tells: so Keras runs several steps in a call."""
    optional = tf.experimental.Optional

    def steps(count):
        def run(elements):
            nothing = optional.empty(None)

            def body(step, found, following):
                def some():
                    made = optional.from_value({"a": following.get_value() * 2})
                    nothing._element_spec = made.element_spec
                    return made

                def none():
                    found._element_spec = nothing._element_spec
                    return found

                made = tf.cond(tf.logical_and(step < count, following.has_value()), some, none)
                more = tf.cond(step + 1 < count, elements.get_next_as_optional, lambda: following)
                return step + 1, made, more

            def goes_on(step, found, following):
                return tf.logical_and(step < count, following.has_value())

            start = [tf.constant(0), nothing, elements.get_next_as_optional()]
            found = tf.while_loop(goes_on, body, start)[1]
            found._element_spec = nothing.element_spec
            return found

        return run

    def values(run):
        elements, found = iter(tf.data.Dataset.range(5)), []
        for _ in range(3):
            made = run(elements)
            found.append(int(made.get_value()["a"]) if made.has_value() else None)
        return found

    return {
        **{f"{count} steps in a call": lambda count=count: values(steps(count)) for count in (2, 3, 7)},
        **{
            f"{count} steps in a call, traced": lambda count=count: values(tf.function(steps(count), autograph=False))
            for count in (2, 3, 7)
        },
        "of no type, holding nothing": lambda: bool(optional.empty(None).has_value()),
    }
