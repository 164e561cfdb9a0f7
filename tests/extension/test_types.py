"""Extension types: error messages that differ from TensorFlow's, and what no golden covers."""

import copy
import typing

import pytest

import tvtf as tf
from tvtf.composites.extension.anonymous import AnonymousExtensionType, AnonymousExtensionTypeSpec
from tvtf.core.composite import registered


class Masked(tf.experimental.ExtensionType):
    values: tf.Tensor
    mask: tf.Tensor


class Named(tf.experimental.ExtensionType):
    __name__ = "tests.extension.Named"
    values: tf.Tensor
    tags: typing.Mapping[str, int]
    scale: int = 2


def test_what_is_not_batchable_is_rejected_where_it_would_be_stacked_or_sliced():
    for make in (
        lambda: tf.data.Dataset.from_tensor_slices(Masked([1], [True])),
        lambda: tf.data.Dataset.from_tensors(Masked([1], [True])).batch(2),
        lambda: tf.map_fn(lambda x: x.values, Masked([1], [True])),
        lambda: tf.vectorized_map(lambda x: x.values, Masked([1], [True])),
    ):
        with pytest.raises((TypeError, ValueError), match="Masked"):
            make()


def test_a_signature_says_the_type_that_it_wants():
    spec = Masked.Spec(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.bool))
    function = tf.function(lambda x: x.values, input_signature=[spec])
    with pytest.raises(TypeError, match=r"Can not cast Named.Spec\(.*to Masked.Spec\("):
        function(Named([1], {}))


def test_a_function_of_a_type_that_is_gone_takes_anonymous_values(tmp_path, monkeypatch):
    module = tf.Module()
    module.scaled = tf.function(lambda x: Named(x.values * x.scale, x.tags, 1))
    module.scaled(Named([1, 2], {"a": 1}))
    tf.saved_model.save(module, str(tmp_path))
    monkeypatch.delitem(registered, "tests.extension.Named.Spec")
    with pytest.warns(UserWarning, match="'tests.extension.Named.Spec' has not been registered"):
        loaded = tf.saved_model.load(str(tmp_path))
        found = loaded.scaled(AnonymousExtensionType(values=tf.constant([1, 2]), tags={"a": 1}, scale=2))
    assert isinstance(found, AnonymousExtensionType)
    assert found.values.numpy().tolist() == [2, 4]
    assert (found.tags["a"], found.scale) == (1, 1)


def test_anonymous_values_do_not_change_and_know_their_type():
    value = AnonymousExtensionType(values=tf.constant([1]), name="a")
    spec = AnonymousExtensionTypeSpec(values=tf.TensorSpec([1], tf.int32), name="a")
    assert value._type_spec == spec
    assert (
        repr(spec) == "AnonymousExtensionTypeSpec(values=TensorSpec(shape=(1,), dtype=tf.int32, name=None), name='a')"
    )
    for act in (lambda: setattr(value, "name", "b"), lambda: delattr(value, "name")):
        with pytest.raises(AttributeError, match="AnonymousExtensionType instances are immutable"):
            act()
    with pytest.raises(AttributeError, match="AnonymousExtensionTypeSpec instances are immutable"):
        spec.name = "b"
    with pytest.raises(ValueError, match="Reserved field name Spec"):
        AnonymousExtensionType(Spec=1)
    with pytest.raises(ValueError, match="Cannot convert anonymous fields"):
        AnonymousExtensionType(x=object())


def test_specs_are_copied_as_what_they_are():
    spec = Named.Spec(tf.TensorSpec([2]), {"a": 1}, 3)
    assert copy.deepcopy(spec) == spec


def test_a_function_without_annotated_name_is_taken_as_it_is():
    @tf.experimental.dispatch_for_api(tf.math.cumsum, {"x": Masked})
    def summed(*args, **kwargs):
        return args[1:], kwargs

    assert tf.cumsum(Masked([1], [True]), 0, reverse=True) == ((0,), {"reverse": True})
    tf.experimental.unregister_dispatch_for(summed)
    with pytest.raises(ValueError, match="unsupported type"):
        tf.cumsum(Masked([1], [True]))


def test_unregistering_leaves_the_rules_of_others():
    """NumPy's promotion and Keras 2 have rules among a function's overrides, too."""
    tf.cumsum.overrides.append(lambda args, kwargs: "another rule" if args == ("other",) else NotImplemented)
    try:
        tf.experimental.dispatch_for_api(tf.math.cumsum, {"x": Masked})(summed := lambda *args, **kwargs: args[1:])
        tf.experimental.unregister_dispatch_for(summed)
        assert tf.cumsum("other") == "another rule"
    finally:
        del tf.cumsum.overrides[:]


def test_what_takes_any_number_of_arguments_is_not_replaced():
    for function in (tf.einsum, tf.meshgrid, tf.Variable, len):
        with pytest.raises(ValueError, match="does not support dispatch"):
            tf.experimental.dispatch_for_api(function)


def test_a_dataset_of_them_is_saved_and_loaded_with_its_spec(tmp_path):
    made = tf.data.Dataset.from_tensors(Masked([1, 2], [True, False]))
    made.save(str(tmp_path))
    (found,) = tf.data.Dataset.load(str(tmp_path), made.element_spec)
    assert found == Masked([1, 2], [True, False])
    with pytest.raises(ValueError, match=r"need an element_spec; they were saved with Masked.Spec\("):
        tf.data.Dataset.load(str(tmp_path))
