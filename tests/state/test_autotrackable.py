import collections
import copy
import json
import pickle

import numpy as np
import pytest

import tvtf as tf
from tvtf.state.autotrackable import AutoTrackable, ListWrapper, NoDependency, Trackable, _DictWrapper, _TupleWrapper

Point = collections.namedtuple("Point", ["x", "y"])


class Leaf(Trackable):
    """A value of its own, as a Variable has."""

    def __init__(self, value=0.0):
        self.value = np.asarray(value)

    def _serialize_to_tensors(self):
        return {"VARIABLE_VALUE": self.value}

    def _restore_from_tensors(self, tensors):
        self.value = tensors["VARIABLE_VALUE"]


@pytest.fixture
def root():
    return AutoTrackable()


def edges(trackable):
    return list(trackable._trackable_children())


def rejected(trackable):
    with pytest.raises(ValueError) as caught:
        trackable._trackable_children()
    return str(caught.value)


class TestAttributes:
    def test_edges_keep_the_order_of_first_assignment(self, root):
        root.b, root.a, root.n = Leaf(), Leaf(), 3
        root.b = Leaf()
        assert edges(root) == ["b", "a"]
        assert root._trackable_children()["b"] is root.b

    def test_a_deleted_attribute_is_no_edge(self, root):
        root.a = Leaf()
        del root.a
        assert edges(root) == []
        assert not hasattr(root, "a")

    def test_no_dependency_leaves_the_bare_value(self, root):
        leaf, items = Leaf(), [Leaf()]
        root.leaf, root.items = NoDependency(leaf), NoDependency(items)
        assert root.leaf is leaf
        assert root.items is items
        assert edges(root) == []

    def test_tracking_can_be_switched_off(self, root):
        root._self_setattr_tracking = False
        root.a = [Leaf()]
        assert type(root.a) is list
        assert edges(root) == []

    def test_manual_edges(self, root):
        leaf = root._track(Leaf(), "leaf")
        assert root._track(leaf, "leaf") is leaf
        assert root._lookup_dependency("leaf") is leaf
        assert root._lookup_dependency("other") is None
        with pytest.raises(ValueError) as caught:
            root._track(Leaf(), "leaf")
        assert str(caught.value) == (
            "AutoTrackable._track: 'leaf' already names another object; choose another name or pass overwrite=True."
        )
        with pytest.raises(TypeError) as caught:
            root._track(3, "number")
        assert str(caught.value) == "AutoTrackable._track: expected a Trackable for 'number', got int."

    def test_restoring_what_cannot_be_restored(self, root):
        with pytest.raises(NotImplementedError) as caught:
            root._restore_from_tensors({"a": np.zeros(1)})
        assert str(caught.value) == (
            "AutoTrackable received ['a'] from a checkpoint but has no _restore_from_tensors; implement it next to "
            "_serialize_to_tensors."
        )


class TestDeferredRestores:
    class Waiting:
        def __init__(self, uid, log):
            self.restore_uid, self.log = uid, log

        def restore(self, trackable):
            self.log.append((self.restore_uid, trackable))

    def test_they_run_newest_first_when_the_edge_is_made(self, root):
        log = []
        root._deferred_dependencies["a"] = [self.Waiting(1, log), self.Waiting(2, log)]
        root.b = Leaf()
        assert log == []
        root.a = Leaf()
        assert log == [(2, root.a), (1, root.a)]
        root.a = Leaf()
        assert len(log) == 2


class TestLists:
    def test_it_is_a_list(self, root):
        root.items = [1, 2]
        items = root.items
        assert isinstance(items, list)
        assert isinstance(items, ListWrapper)
        assert repr(items) == "ListWrapper([1, 2])"
        assert items == [1, 2]
        assert items != [1]
        assert items < [3]
        assert items + [3] == [1, 2, 3]
        assert [0] + items == [0, 1, 2]
        assert items * 2 == 2 * items == [1, 2, 1, 2]
        assert (items[0], items[-1], items[:1], len(items), 2 in items) == (1, 2, [1], 2, True)
        assert json.dumps(items) == "[1, 2]"
        assert np.array(items).tolist() == list(items) == [*items] == [1, 2]
        with pytest.raises(TypeError, match="unhashable"):
            hash(items)

    def test_elements_are_edges_by_index(self, root):
        root.items = [Leaf(), 3, [Leaf()]]
        assert edges(root.items) == ["0", "2"]
        root.items.append(Leaf())
        root.items.extend([4, Leaf()])
        root.items += [Leaf()]
        assert edges(root.items) == ["0", "2", "3", "5", "6"]
        assert isinstance(root.items[2], ListWrapper)
        assert edges(root.items[2]) == ["0"]

    def test_the_users_list_is_the_storage(self, root):
        mine = [1]
        root.items = mine
        root.items.append(2)
        assert mine == [1, 2]

    @pytest.mark.parametrize(
        "change",
        [
            lambda items: items.__setitem__(0, Leaf()),
            lambda items: items.__setitem__(slice(0, 1), [Leaf()]),
            lambda items: items.__delitem__(0),
            lambda items: items.insert(0, Leaf()),
            lambda items: items.pop(),
            lambda items: items.clear(),
            lambda items: items.reverse(),
            lambda items: items.sort(key=id),
            lambda items: items.remove(items[0]),
            lambda items: items.__imul__(0),
        ],
    )
    def test_moving_a_tracked_element_makes_saving_fail(self, root, change):
        root.items = [Leaf(), Leaf()]
        change(root.items)
        assert rejected(root.items) == (
            f"Unable to save the object {root.items!r} (a list wrapper constructed to track trackable objects). A list "
            "element was replaced, deleted or moved. In order to support restoration on object creation, tracking is "
            "exclusively for append-only data structures.\n\nIf you don't need this list checkpointed, wrap it in a "
            "NoDependency object; it will be subsequently ignored."
        )

    def test_moving_other_elements_is_fine(self, root):
        root.items = [3, 1, 2]
        root.items.sort()
        root.items[0] = 9
        root.items.insert(99, 4)
        root.items[4:] = [5]
        del root.items[1:]
        root.items *= 3
        assert root.items == [9, 9, 9]
        with pytest.raises(TypeError):
            root.items *= -1.5
        assert root.items == [9, 9, 9]
        root.items *= 0
        assert root.items == []
        assert edges(root.items) == []

    def test_a_change_behind_the_wrapper_makes_saving_fail(self, root):
        mine = [1]
        root.items = mine
        mine.append(2)
        assert rejected(root.items) == (
            "Unable to save the object ListWrapper([1, 2]) (a list wrapper constructed to track trackable objects). "
            "The wrapped list was modified outside the wrapper (its final value was [1, 2], its value when a "
            "checkpoint dependency was added was [1]), which breaks restoration on object creation."
            "\n\nIf you don't need this list checkpointed, wrap it in a NoDependency object; it will be subsequently "
            "ignored."
        )

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_copies_are_wrappers_of_their_own(self, root, duplicate):
        root.items = [1, [2]]
        other = duplicate(root.items)
        other.append(3)
        assert isinstance(other, ListWrapper)
        assert (other, root.items) == ([1, [2], 3], [1, [2]])


class TestDicts:
    def test_it_is_a_dict(self, root):
        root.items = {"b": 1, "a": 2}
        items = root.items
        assert isinstance(items, dict)
        assert isinstance(items, _DictWrapper)
        assert repr(items) == "DictWrapper({'b': 1, 'a': 2})"
        assert items == {"a": 2, "b": 1}
        assert dict(items) == dict(**items) == {**items} == items
        assert items | {"c": 3} == {"b": 1, "a": 2, "c": 3} == {"c": 3} | items
        assert (list(items), list(reversed(items)), len(items), "a" in items) == (["b", "a"], ["a", "b"], 2, True)
        assert json.loads(json.dumps(items)) == items
        assert items.get("z", 5) == 5
        assert items.pop("a") == 2
        assert items.setdefault("c", 7) == 7
        items |= {"d": 8}
        items.update(e=9)
        assert items == {"b": 1, "c": 7, "d": 8, "e": 9}
        with pytest.raises(TypeError, match="unhashable"):
            hash(items)

    def test_values_are_edges_by_key(self, root):
        root.items = collections.OrderedDict([("b", Leaf()), ("n", 3), ("a", [Leaf()])])
        root.items["c"] = {}
        assert edges(root.items) == ["b", "a", "c"]
        del root.items["b"]
        assert edges(root.items) == ["a", "c"]

    def test_other_keys_may_not_hold_trackables(self, root):
        root.items = {1: "text", 2: NoDependency(Leaf())}
        assert edges(root.items) == []
        root.items[3] = Leaf()
        assert rejected(root.items) == (
            f"Unable to save the object {root.items!r} (a dictionary wrapper constructed automatically on attribute "
            "assignment). The wrapped dictionary contains a non-string key which maps to a trackable object or mutable "
            "data structure.\n\nIf you don't need this dictionary checkpointed, wrap it in a NoDependency object; it "
            "will be subsequently ignored."
        )

    def test_a_change_behind_the_wrapper_makes_saving_fail(self, root):
        mine = {"a": 1}
        root.items = mine
        mine["b"] = 2
        assert rejected(root.items).startswith(
            "Unable to save the object DictWrapper({'a': 1, 'b': 2}) (a dictionary wrapper constructed to track "
            "trackable objects). The wrapped dictionary was modified outside the wrapper (its final value was "
            "{'a': 1, 'b': 2}, its value when a checkpoint dependency was added was {'a': 1})"
        )

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_copies_are_wrappers_of_their_own(self, root, duplicate):
        root.items = {"a": [1]}
        other = duplicate(root.items)
        other["b"] = 3
        assert isinstance(other, _DictWrapper)
        assert (other, root.items) == ({"a": [1], "b": 3}, {"a": [1]})


class TestTuples:
    def test_one_of_plain_values_stays_itself(self, root):
        plain = (1, ("a", None))
        root.items = plain
        assert root.items is plain

    def test_elements_are_edges_by_index(self, root):
        root.items = (Leaf(), 2, (NoDependency(Leaf()), [Leaf()]))
        assert edges(root.items) == ["0", "2"]
        assert edges(root.items[2]) == ["1"]
        assert isinstance(root.items, tuple)
        assert repr(root.items).startswith("_TupleWrapper((<")

    def test_equality_and_hash_are_the_tuples(self, root):
        leaf = Leaf()
        root.items = (leaf, 2)
        assert root.items == (leaf, 2)
        assert hash(root.items) == hash((leaf, 2))

    def test_named_tuples_have_edges_by_field_and_index(self, root):
        root.point = Point(Leaf(), [Leaf()])
        assert isinstance(root.point, Point)
        assert isinstance(root.point, _TupleWrapper)
        assert edges(root.point) == ["x", "y", "0", "1"]
        assert root.point.x is root.point[0]
        assert repr(root.point).startswith("_TupleWrapper(Point(x=<")

    @pytest.mark.parametrize("values", [([1], 2), Point([1], 2)])
    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_copies_are_wrappers_of_their_own(self, root, duplicate, values):
        root.items = values
        other = duplicate(root.items)
        assert isinstance(other, _TupleWrapper)
        assert other == values
        assert other[0] is not root.items[0]
        assert edges(other) == edges(root.items)


class Affine(tf.Module):
    def __init__(self, name):
        super().__init__()
        self.kernel = tf.Variable([1.0], name=f"{name}_kernel")
        self.mean = tf.Variable([0.0], name=f"{name}_mean", trainable=False)


def names(variables):
    return [variable.name.partition(":")[0] for variable in variables]


class TestWeightsOfContainers:
    """A layer of Keras 2 trains the weights that it finds in the containers among its attributes."""

    def test_of_a_list_that_grows(self):
        root = tf.__internal__.tracking.AutoTrackable()
        root.parts = []
        assert (root.parts.weights, root.parts.layers, root.parts.losses, root.parts.updates) == ([], [], [], [])
        root.parts.append(tf.Variable(2.0, name="own"))
        root.parts.append(Affine("first"))
        root.parts.append({"z": [Affine("second")], "a": (tf.Variable(3.0, name="frozen", trainable=False),)})
        root.parts.append("a text")
        assert names(root.parts.trainable_weights) == ["first_kernel", "second_kernel", "own"]
        assert names(root.parts.non_trainable_weights) == ["first_mean", "frozen", "second_mean"]
        assert names(root.parts.variables) == [
            *names(root.parts.trainable_weights),
            "first_mean",
            "frozen",
            "second_mean",
        ]
        root.parts.trainable = False
        assert root.parts.trainable_variables == []
        assert names(root.parts.non_trainable_variables) == [
            *("first_kernel", "second_kernel", "own"),
            *("first_mean", "frozen", "second_mean"),
        ]

    def test_of_dicts_in_the_order_of_their_keys(self):
        root = tf.Module()
        root.parts = {"b": Affine("b"), "a": Affine("a")}
        assert names(root.parts.trainable_weights) == ["a_kernel", "b_kernel"]

    def test_layers_are_in_containers_of_any_depth_once(self):
        class Layer(tf.Module):
            _is_layer = True

            def __init__(self, loss):
                super().__init__()
                self.losses = [loss]

        first, second = Layer(1.0), Layer(2.0)
        root = tf.Module()
        root.parts = [first, {"x": (second, first)}, tf.Module()]
        assert [layer is each for layer, each in zip(root.parts.layers, (first, second), strict=True)] == [True, True]
        assert root.parts.losses == [1.0, 2.0]

    def test_fields_of_named_tuples_keep_their_names(self):
        pair = collections.namedtuple("pair", "losses layers")
        root = tf.Module()
        root.pair = pair(tf.Variable(1.0), 2)
        assert (float(root.pair.losses), root.pair.layers) == (1.0, 2)


class TestNestsOfContainers:
    """A container in an attribute has the structure of the one that was assigned."""

    def test_named_tuples(self):
        point = collections.namedtuple("point", "x y")
        root = tf.Module()
        root.point = point({"a": tf.constant(1.0)}, [2.0])
        assert type(root.point) is not point
        tf.nest.assert_same_structure(root.point, point({"a": 3.0}, [4.0]))
        tf.nest.assert_same_structure(point({"a": 3.0}, [4.0]), root.point)
        total = tf.nest.map_structure(lambda x, y: float(x) + y, root.point, point({"a": 3.0}, [4.0]))
        assert (type(total), total) == (point, point({"a": 4.0}, [6.0]))
        assert type(root.point._replace(y=1)) is point
        with pytest.raises(TypeError, match="don't have the same sequence type"):
            tf.nest.assert_same_structure(root.point, ({"a": 1.0}, [2.0]))

    def test_tuples(self):
        root = tf.Module()
        root.pair = (1, [2])
        tf.nest.assert_same_structure(root.pair, (1, [2]))
        with pytest.raises(TypeError, match="don't have the same sequence type"):
            tf.nest.assert_same_structure(root.pair, [1, [2]])

    def test_text(self):
        point = collections.namedtuple("point", "x y")
        root = tf.Module()
        root.point, root.dict, root.pair = point(1, [2]), {"a": [1]}, (1, {"b": 2})
        assert str(root.point) == "point(x=1, y=ListWrapper([2]))"
        assert f"{root.dict} {root.pair}" == "{'a': ListWrapper([1])} (1, DictWrapper({'b': 2}))"
