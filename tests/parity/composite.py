"""Tensors made of tensors: their specs, nests, functions, branches and loops; IndexedSlices is the first."""


def programs(tf):
    return _specs(tf) | _conversions(tf) | _nests(tf) | _functions(tf)


def _slices(tf, values=(1.0, 2.0), indices=(0, 2), shape=(4,)):
    dense_shape = None if shape is None else tf.constant(shape)
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), dense_shape)


def _specs(tf):
    wide, narrow = tf.IndexedSlicesSpec([None, 3]), tf.IndexedSlicesSpec([2, 3])
    other = tf.IndexedSlicesSpec([2, 3], tf.int32)
    return {
        "spec of a value": lambda: _slices(tf)._type_spec,
        "spec of a value without a shape": lambda: _slices(tf, shape=None)._type_spec,
        "spec of a matrix": lambda: tf.type_spec_from_value(_slices(tf, [[1.0, 2.0]], [1], [3, 2])),
        "spec printed": lambda: (wide, other),
        "specs equal": lambda: (wide == tf.IndexedSlicesSpec([None, 3]), wide == narrow, narrow == other),
        "specs hashed": lambda: hash(narrow) == hash(tf.IndexedSlicesSpec([2, 3])),
        "specs compatible": lambda: (wide.is_compatible_with(narrow), narrow.is_compatible_with(other)),
        "spec compatible with a value": lambda: (
            tf.IndexedSlicesSpec([None], tf.float32, tf.int32, tf.int32).is_compatible_with(_slices(tf)),
            wide.is_compatible_with(_slices(tf)),
        ),
        "subtypes": lambda: (narrow.is_subtype_of(wide), wide.is_subtype_of(narrow), narrow.is_subtype_of(other)),
        "most specific type": lambda: wide.most_specific_compatible_type(narrow),
        "no common type": lambda: wide.most_specific_compatible_type(other),
        "common supertype of nothing common": lambda: wide.most_specific_common_supertype([other]),
        "value type": lambda: wide.value_type.__name__,
        "tensor spec is one": lambda: isinstance(tf.TensorSpec([1]), tf.TypeSpec),
        "tensor specs": lambda: (
            tf.TensorSpec([None, 3]).most_specific_compatible_type(tf.TensorSpec([2, 3])),
            tf.TensorSpec([2, 3]).is_subtype_of(tf.TensorSpec([None, 3])),
            tf.TensorSpec([2]).most_specific_common_supertype([tf.TensorSpec([2, 3])]),
        ),
        "tensor specs without a common type": lambda: tf.TensorSpec([2]).most_specific_compatible_type(
            tf.TensorSpec([2], tf.int32)
        ),
        "spec of a list": lambda: tf.type_spec_from_value([1, 2]),
        "spec of a type": lambda: tf.type_spec_from_value(object),
        "shapes": lambda: (
            tf.TensorShape([2, 3]).is_subtype_of(tf.TensorShape([None, 3])),
            tf.TensorShape([2, 3]).is_subtype_of(tf.TensorShape(None)),
            tf.TensorShape(None).is_subtype_of(tf.TensorShape([2])),
            tf.TensorShape([2, 3]).most_specific_common_supertype([tf.TensorShape([2, 4])]),
            tf.TensorShape([2, 3]).most_specific_common_supertype([tf.TensorShape([2])]),
        ),
    }


def _conversions(tf):
    return {
        "printed": lambda: _slices(tf),
        "printed without a shape": lambda: _slices(tf, shape=None),
        "negated": lambda: -_slices(tf),
        "properties": lambda: (_slices(tf).shape, _slices(tf).dtype, _slices(tf, shape=None).shape),
        "dense": lambda: tf.convert_to_tensor(_slices(tf)),
        "dense, rows summed": lambda: tf.convert_to_tensor(_slices(tf, [[1.0], [2.0]], [1, 1], [3, 1])),
        "dense without a shape": lambda: tf.convert_to_tensor(_slices(tf, shape=None)),
        "dense of another dtype": lambda: tf.convert_to_tensor(_slices(tf), tf.int32),
        "in an op": lambda: _slices(tf) * tf.constant(2.0),
        "is_tensor": lambda: (tf.is_tensor(_slices(tf)), tf.is_tensor([1.0])),
    }


def _nests(tf):
    nest = tf.nest

    def names(flat):
        return [type(x).__name__ for x in flat]

    return {
        "flatten": lambda: names(nest.flatten([_slices(tf), tf.constant(1)])),
        "flatten, expanded": lambda: nest.flatten([_slices(tf), tf.constant(1)], expand_composites=True),
        "flatten a spec": lambda: nest.flatten(tf.IndexedSlicesSpec([2]), expand_composites=True),
        "map, expanded": lambda: nest.map_structure(lambda t: t * 2, _slices(tf), expand_composites=True),
        "pack": lambda: nest.pack_sequence_as(
            {"a": _slices(tf, shape=None)}, [tf.constant([5.0]), tf.constant([1])], expand_composites=True
        )["a"],
        "pack into a spec": lambda: nest.pack_sequence_as(
            tf.IndexedSlicesSpec([2]), [tf.constant([5.0]), tf.constant([1])], expand_composites=True
        ),
        "pack too few": lambda: nest.pack_sequence_as(_slices(tf), [1], expand_composites=True),
        "same structure": lambda: nest.assert_same_structure(
            _slices(tf), _slices(tf, [1.0], [3]), expand_composites=True
        ),
        "is_nested": lambda: nest.is_nested(_slices(tf)),
    }


def _functions(tf):
    @tf.function
    def negated(s):
        return -s, s.values * 2.0

    @tf.function(input_signature=[tf.IndexedSlicesSpec([None], tf.float32, tf.int32, tf.int32, [None])])
    def doubled(s):
        return tf.IndexedSlices(s.values * 2.0, s.indices, s.dense_shape)

    @tf.function
    def branched(s, flag):
        return tf.cond(flag, lambda: s, lambda: -s)

    @tf.function
    def converted_branch(s, flag):
        if flag:
            result = s
        else:
            result = -s
        return result

    @tf.function
    def looped(s):
        _, found = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, -s), (0, s))
        return found

    @tf.function
    def converted_loop(s):
        for _ in tf.range(3):
            s = tf.IndexedSlices(s.values * 2.0, s.indices, s.dense_shape)
        return s

    @tf.function
    def switched(s, i):
        return tf.switch_case(i, [lambda: s, lambda: -s])

    def counted():
        count = []

        @tf.function
        def seen(s):
            count.append(1)
            return s

        for s in (_slices(tf), _slices(tf, [3.0, 4.0], [1, 1]), _slices(tf, [1.0], [1]), _slices(tf, shape=None)):
            seen(s)
        return len(count)

    def inner():
        return tf.function(lambda s: negated(s)[0])(_slices(tf))

    def through_components():
        s = _slices(tf)
        with tf.GradientTape() as tape:
            tape.watch(s.values)
            y = doubled(s).values * s.values
        return tape.gradient(y, s.values)

    true, false = tf.constant(True), tf.constant(False)
    return {
        "through a function": lambda: negated(_slices(tf))[0],
        "with a tensor beside it": lambda: negated(_slices(tf))[1],
        "without a shape through a function": lambda: negated(_slices(tf, shape=None))[0],
        "input_signature": lambda: doubled(_slices(tf)),
        "input_signature, other size": lambda: doubled(_slices(tf, [3.0], [0])),
        "cond": lambda: (str(branched(_slices(tf), true)), str(branched(_slices(tf), false))),
        "converted if": lambda: (str(converted_branch(_slices(tf), true)), str(converted_branch(_slices(tf), false))),
        "while_loop": lambda: looped(_slices(tf)),
        "converted for": lambda: converted_loop(_slices(tf)),
        "switch_case": lambda: switched(_slices(tf), tf.constant(1)),
        "eager cond": lambda: tf.cond(false, lambda: _slices(tf), lambda: -_slices(tf)),
        "eager while": lambda: tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, -s), (0, _slices(tf)))[1],
        "traces": counted,
        "function in a function": inner,
        "gradient through components": through_components,
    }
