"""Layers are modules, and have the Variables and modules that they hold among their weights."""

import numpy as np
import pytest

import tvtf as tf

X = np.sin(np.arange(32 * 3, dtype=np.float32)).reshape(32, 3)
Y = X.sum(1, keepdims=True)


class Linear(tf.Module):
    """Makes its Variables in the first call."""

    def __init__(self, units):
        super().__init__()
        self.units, self.is_built = units, False

    def __call__(self, x):
        if not self.is_built:
            self.w = tf.Variable(tf.random.normal([x.shape[-1], self.units]), name="w")
            self.b = tf.Variable(tf.zeros([self.units]), name="b")
            self.is_built = True
        return tf.matmul(x, self.w) + self.b


class Ready(tf.Module):
    """Has its Variables from the start."""

    def __init__(self, inputs, units):
        super().__init__()
        self.w = tf.Variable(tf.random.normal([inputs, units]), name="w")
        self.steps = tf.Variable(0.0, trainable=False, name="steps")

    def __call__(self, x):
        return tf.matmul(x, self.w)


class OfVariables(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.random.normal([3, 1], seed=1))
        self.b = tf.Variable([0.0])

    def call(self, x):
        return tf.matmul(x, self.w) + self.b


class OfModule(tf.keras.Model):
    def __init__(self, module):
        super().__init__()
        self.part = module

    def call(self, x):
        return self.part(x)


class OfLists(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.all = [Ready(3, 4), tf.Variable(2.0)]
        self.named = {"last": Ready(4, 1), "bias": tf.Variable([0.0])}

    def call(self, x):
        return self.named["last"](self.all[0](x)) * self.all[1] + self.named["bias"]


class LayerInModule(tf.Module):
    def __init__(self):
        super().__init__()
        self.scale = tf.Variable(1.0, name="scale")
        self.dense = tf.keras.layers.Dense(1, kernel_regularizer="l2")

    def __call__(self, x):
        return self.dense(x) * self.scale


MODELS = {
    "Variables": (OfVariables, 2),
    "a module": (lambda: OfModule(Ready(3, 1)), 1),
    "a module built by its call": (lambda: OfModule(Linear(1)), 2),
    "lists and dicts": (OfLists, 4),
    "a layer in a module": (lambda: OfModule(LayerInModule()), 3),
    "a module in a module": (lambda: _nested(), 1),
}


def _nested():
    outer = LayerInModule()
    outer.dense = OfModule(Ready(3, 1))
    outer.scale = tf.Variable(1.0, trainable=False)
    return OfModule(outer)


@pytest.mark.parametrize("name", MODELS)
def test_fit_trains_what_a_model_holds(name):
    make, count = MODELS[name]
    tf.random.set_seed(1)
    model = make()
    model(X[:1])
    assert len(model.trainable_variables) == len(model.trainable_weights) == count
    model.compile(tf.keras.optimizers.SGD(0.05), "mse")
    before = [v.numpy() for v in model.trainable_variables]
    losses = model.fit(X, Y, epochs=6, batch_size=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert all(np.any(v.numpy() != old) for v, old in zip(model.trainable_variables, before, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_fit_trains_what_was_never_called(name):
    make, count = MODELS[name]
    tf.random.set_seed(1)
    model = make()
    model.compile(tf.keras.optimizers.SGD(0.05), "mse")
    losses = model.fit(X, Y, epochs=6, batch_size=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0] and len(model.trainable_variables) == count


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_saved_and_loaded(name):
    make, _ = MODELS[name]
    model, other = make(), make()
    model(X), other(X)
    model.save_weights("a.weights.h5")
    other.load_weights("a.weights.h5")
    np.testing.assert_array_equal(model(X), other(X))
    tf.train.Checkpoint(model=model).write("b")
    another = make()
    another(X)
    tf.train.Checkpoint(model=another).read("b").assert_consumed()
    np.testing.assert_array_equal(model(X), another(X))


def test_they_are_counted(capsys):
    model = OfModule(Ready(3, 2))
    model(X)
    model.summary()
    assert model.count_params() == 7
    assert "Trainable params: 6" in capsys.readouterr().out


def test_a_tape_and_an_optimizer_take_them():
    model, optimizer = OfLists(), tf.keras.optimizers.Adam(0.1)
    model(X)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.mean_squared_error(Y, model(X)))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    losses = [float(step()) for _ in range(8)]
    assert losses[-1] < losses[0]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(X))
    own = tf.optimizers.SGD(0.1)
    before = model.all[1].numpy()
    own.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    assert model.all[1].numpy() != before


def test_frozen_parts_stay_what_they_are():
    model = OfModule(Linear(1))
    model.trainable = False
    model(X)
    assert model.trainable_variables == [] and len(model.non_trainable_variables) == 2
    model.trainable = True
    assert len(model.trainable_variables) == 2
    outer = tf.keras.Sequential([tf.keras.layers.Input((3,)), OfVariables(), tf.keras.layers.Dense(1)])
    outer.layers[0].trainable = False
    outer.compile("sgd", "mse")
    before = outer.layers[0].w.numpy()
    outer.fit(X, Y, verbose=0)
    np.testing.assert_array_equal(outer.layers[0].w, before)
    assert len(outer.trainable_variables) == 2


def test_a_built_layer_takes_further_variables_and_modules():
    class Late(tf.keras.layers.Layer):
        def call(self, x):
            if not hasattr(self, "w"):
                self.w = tf.Variable(tf.ones([3, 1]))
            return tf.matmul(x, self.w)

    late = Late()
    late(X)
    late.more = Ready(3, 1)
    assert len(late.trainable_variables) == 2
    with pytest.raises(ValueError, match="You cannot add new elements of state"):
        late.dense = tf.keras.layers.Dense(1)


def test_what_is_replaced_or_deleted_is_tracked_no_more():
    model = OfVariables()
    model.w = tf.Variable(tf.ones([3, 1]))
    assert len(model.variables) == 2 and float(model(tf.ones([1, 3]))[0, 0]) == 3.0
    del model.b
    model.part = Ready(3, 1)
    assert len(model.variables) == 3
    model.part = Ready(3, 2)
    assert [v.shape for v in model.trainable_variables] == [(3, 1), (3, 2)]


def test_one_variable_in_two_places_is_one():
    shared = tf.Variable(tf.ones([3, 1]))
    model = OfVariables()
    model.b = model.w = shared
    model.part = Ready(3, 1)
    model.part.w = shared
    assert [v.handle is shared for v in model.trainable_variables] == [True]


def test_a_module_that_knows_who_holds_it():
    module = Ready(3, 1)
    model = OfModule(module)
    module.parent = model
    module.itself = module
    model(X)
    assert len(model.trainable_variables) == 1 and len(module.variables) == 2


def test_layers_are_modules():
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((10,)), layers.Dense(4), layers.Dense(2)], name="some")
    assert isinstance(model, tf.Module) and issubclass(layers.Layer, tf.Module)
    assert model.submodules[-2:] == tuple(model.layers)
    assert model.name_scope() == "some"
    with model.name_scope:
        assert tf.Variable(1.0, name="v").name == "some/v:0"

    class Scoped(layers.Layer):
        @tf.Module.with_name_scope
        def variable(self):
            return tf.Variable(1.0, name="v").name

    assert Scoped(name="mine").variable() == "mine/v:0"


def test_modules_find_the_variables_of_their_layers():
    module = LayerInModule()
    module(X)
    assert [v.name.split("/")[-1] for v in module.trainable_variables] == ["scale:0", "kernel", "bias"]
    model = OfModule(module)
    holder = tf.Module()
    holder.model = model
    assert [id(getattr(v, "handle", v)) for v in holder.trainable_variables] == [
        id(v.handle) for v in model.trainable_variables
    ]
    assert module.dense in holder.submodules and module in model.submodules
    module.dense.trainable = False
    assert len(module.trainable_variables) == 1 and len(module.non_trainable_variables) == 2


def test_losses_of_layers_in_modules_are_the_models():
    model = OfModule(LayerInModule())
    model(X)
    assert len(model.losses) == 1


def test_lists_of_numbers_are_tensors():
    dense = tf.keras.layers.Dense(2)
    assert dense([[1.0, 2.0, 3.0]]).shape == (1, 2)
    assert OfVariables()([[2.0, 2.0, 2.0]]).shape == (1, 1)
    assert tf.keras.layers.Add()([tf.ones([2]), tf.ones([2])]).numpy().tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="Only input tensors may be passed"):
        dense("a")


class Column:
    """A column of a table, as pandas has them: its dtype is of a class that NumPy and TensorFlow don't know."""

    def __init__(self, *values):
        self.values = np.array(values, object if isinstance(values[0], str) else None)
        self.shape, self.dtype = self.values.shape, object()

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype) if dtype else self.values


def test_columns_of_tables_are_inputs():
    inputs = {"word": tf.keras.Input((), name="word", dtype="string"), "number": tf.keras.Input((), name="number")}
    outputs = [tf.keras.layers.StringLookup(vocabulary=["a", "b"])(inputs["word"]), inputs["number"]]
    words, numbers = tf.keras.Model(inputs, outputs)({"word": Column("b", "c"), "number": Column(1, 2)})
    assert (words.numpy().tolist(), numbers.numpy().tolist()) == ([2, 0], [1.0, 2.0])


def test_variables_are_made_outside_of_what_is_traced():
    class Built(tf.keras.layers.Layer):
        def build(self, input_shape):
            self.w = tf.Variable(tf.random.normal([input_shape[-1], 2]), name="w")

        def call(self, x):
            return tf.matmul(x, self.w)

    layer = Built()
    outputs = tf.keras.layers.Dense(1)(layer(tf.keras.Input((3,))))
    assert outputs.shape == (None, 1) and len(layer.trainable_variables) == 1
    inner = OfModule(Built())
    outer = tf.keras.Model(inputs := tf.keras.Input((3,)), inner(inputs))
    assert [v.name for v in outer.trainable_variables] == ["w"]


@pytest.mark.parametrize("call", ["eagerly", "in a function"])
def test_a_sequential_model_is_restored_before_it_is_built(tmp_path, call):
    # Each layer fits the values of every other one, and the layers' places in the list change when the model is built.
    def make():
        return tf.keras.Sequential([tf.keras.layers.Dense(3, bias_initializer="ones") for _ in range(3)])

    model, restored = make(), make()
    expected = model(X)
    path = tf.train.Checkpoint(model=model).save(tmp_path / "model")
    keys = {name.rpartition("/.ATTRIBUTES")[0] for name, _ in tf.train.list_variables(path)}
    # As in TensorFlow.
    assert {f"model/_functional/_operations/{n}/{w}" for n in (1, 2, 3) for w in ("_kernel", "bias")} <= keys

    tf.train.Checkpoint(model=restored).restore(path)
    found = restored(X) if call == "eagerly" else tf.function(restored)(X)

    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_numpy_functions_take_variables_of_layers():
    dense = tf.keras.layers.Dense(2)
    x = tf.ones([4, 3])
    dense.build(x.shape)
    tnp, kernel = tf.experimental.numpy, dense.kernel
    assert tnp.result_type(kernel, dense.bias) is tf.float32
    for each in (tnp.matmul(x, kernel), tnp.dot(x, kernel) + dense.bias, tf.function(tnp.matmul)(x, kernel)):
        np.testing.assert_allclose(each, x.numpy() @ kernel.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(tnp.concatenate([kernel, kernel]), np.concatenate([kernel.numpy()] * 2))


def test_modules_hold_layers_with_random_numbers():
    class Holder(tf.Module):
        def __init__(self):
            super().__init__()
            self.dropout = tf.keras.layers.Dropout(0.5)

    holder = Holder()
    assert [part is holder.dropout for part in holder.submodules] == [True]
    assert len(holder.variables) == len(holder.dropout.variables) == 1
