import copy
import threading

import pytest

from tvtf.state.module import Module, camel_to_snake, current_scope, name_scope
from tvtf.state.variable import Variable


class Dense(Module):
    def __init__(self, name=None):
        super().__init__(name=name)
        self.w = Variable([1.0], name="w")
        self.b = Variable([0.0], name="b", trainable=False)


class Net(Module):
    def __init__(self):
        super().__init__()
        self.z = Dense(name="z")
        self.own = Variable(1.0, name="own")
        self.blocks = [Dense(name="first"), {"b": Dense(name="late"), "a": Dense(name="early")}]
        self.same = self.z
        self.nothing, self.number = None, 3


def names(items):
    return [item.name for item in items]


def test_variables_come_by_attribute_name_own_ones_first():
    net = Net()
    assert names(net.variables) == ["own:0"] + ["b:0", "w:0"] * 4
    assert names(net.trainable_variables) == ["own:0"] + ["w:0"] * 4
    assert names(net.non_trainable_variables) == ["b:0"] * 4


def test_submodules_come_once_breadth_first():
    assert names(Net().submodules) == ["first", "early", "late", "z"]


def test_cycles_end():
    parent, child = Module(name="parent"), Module(name="child")
    parent.child, child.parent = child, parent
    assert parent.submodules == (child,)
    assert child.submodules == (parent,)
    assert [path for path, _ in parent._flatten(predicate=lambda x: x is child, with_path=True)][0] == ("child",)


def test_flatten_says_paths():
    net = Net()
    found = {"/".join(map(str, path)) for path, _ in net._flatten(predicate=lambda x: x is net.z.w, with_path=True)}
    assert found == {"z/w", "same/w"}
    direct = net._flatten(recursive=False, predicate=lambda x: isinstance(x, Variable))
    assert names(direct) == ["own:0"]


def test_flatten_in_another_order():
    net = Dense()
    found = net._flatten(predicate=lambda x: isinstance(x, Variable), attribute_traversal_key=lambda n: -ord(n[0]))
    assert names(found) == ["w:0", "b:0"]


def test_keys_that_cannot_be_sorted():
    net = Module()
    net.table = {1: 2, "a": 3}
    with pytest.raises(ValueError) as caught:
        _ = net.variables
    assert str(caught.value) == (
        "Error processing property 'table' of DictWrapper({1: 2, 'a': 3}): its keys can't be sorted; use keys of "
        "one type."
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [("Net", "net"), ("MyLayer", "my_layer"), ("HTTPServer2X", "http_server2_x"), ("LSTM", "lstm"), ("aB", "a_b")],
)
def test_class_names_become_snakes(given, expected):
    assert camel_to_snake(given) == expected
    assert type(given, (Module,), {})().name == expected


@pytest.mark.parametrize("name", ["1x", "a-b", "", "a/b"])
def test_names_are_identifiers(name):
    with pytest.raises(ValueError) as caught:
        Module(name=name)
    assert str(caught.value) == (
        f"{name!r} is not a valid module name. Module names must be valid Python identifiers (e.g. a valid class name)."
    )


def test_a_deep_copy_is_a_module_of_its_own():
    net = Net()
    net._deferred_dependencies["later"] = [threading.Lock()]
    copied = copy.deepcopy(net)
    assert names(copied.variables) == names(net.variables)
    assert list(copied._trackable_children()) == list(net._trackable_children())
    assert copied._trackable_children()["z"] is copied.z is copied.same
    assert copied._deferred_dependencies == {}
    copied.z.w.assign([9.0])
    assert net.z.w.numpy().tolist() == [1.0]


class TestNameScope:
    def test_variables_are_named_inside(self):
        with name_scope("a") as outer, name_scope("b") as inner:
            variable = Variable(1.0, name="v")
        assert (outer, inner, variable.name) == ("a/", "a/b/", "a/b/v:0")
        assert Variable(1.0, name="v").name == "v:0"

    def test_a_closing_slash_starts_at_the_root_and_nothing_leaves_all(self):
        with name_scope("a"):
            with name_scope("b/c/") as absolute:
                assert absolute == current_scope() == "b/c/"
            with name_scope("") as none:
                assert none == current_scope() == ""
            assert current_scope() == "a/"

    def test_a_module_has_one_below_where_it_was_made(self):
        with name_scope("outer"):
            module = Module(name="m")
        assert (module.name, module.name_scope.name) == ("m", "outer/m/")
        with module.name_scope, module.name_scope:
            assert Variable(1.0).name == "outer/m/Variable:0"

    def test_decorated_methods_run_inside(self):
        class Lazy(Module):
            @Module.with_name_scope
            def build(self):
                """Makes it."""
                self.w = Variable(1.0, name="w")

        lazy = Lazy()
        lazy.build()
        assert lazy.w.name == "lazy/w:0"
        assert lazy.build.__doc__ == "Makes it."

    def test_it_ends_with_an_exception(self):
        with pytest.raises(KeyError), name_scope("a"):
            raise KeyError
        assert current_scope() == ""

    def test_each_thread_has_its_own(self):
        module, seen = Module(name="m"), []
        with module.name_scope:
            thread = threading.Thread(target=lambda: seen.append(current_scope()))
            thread.start()
            thread.join()
        assert seen == [""]

    def test_the_name_is_a_string(self):
        with pytest.raises(ValueError, match=r"^name_scope: expected a string for `name`, got int\.$"):
            name_scope(3)


class Assigned(Module):
    """Has what Variables have, and is none."""

    trainable = True

    def __init__(self):
        super().__init__()
        self.inner = Variable(1.0)

    def assign(self, value):
        self.inner.assign(value)


class Unlike:
    """Can't be compared, hashed or asked for an attribute."""

    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("not to be compared")

    def __getattr__(self, name):
        raise RuntimeError(f"not to be asked for {name}")


def test_what_can_be_assigned_is_no_variable_by_that():
    module = Module()
    module.own, module.odd, module.kind = Assigned(), [Unlike()], Assigned
    module.many = {"a": Variable(2.0), "b": (Variable(3.0, trainable=False),)}
    own, (first, second) = module.own.inner, (module.many["a"], module.many["b"][0])
    for found, expected in (
        (module.variables, [first, second, own]),
        (module.trainable_variables, [first, own]),
        (module.non_trainable_variables, [second]),
    ):
        assert list(map(id, found)) == list(map(id, expected))
