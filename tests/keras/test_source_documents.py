"""The source documents' programs that use Keras, unchanged, and the outputs that the documents show.

What Keras 3 names or prints differently is as Keras 3 has it: names of variables, lines of summaries.
"""

import numpy as np
import pytest

import tvtf as tf
from tvtf import keras  # noqa: F401  # as the documents import them
from tvtf.keras import Model, layers, losses, metrics, models  # noqa: F401

# -- "tf.Module and tf.keras.Model, tf.keras.layers.Layer"


def test_layers_and_models_are_modules():
    assert issubclass(tf.keras.Model, tf.Module)
    assert issubclass(tf.keras.layers.Layer, tf.Module)
    assert issubclass(tf.keras.Model, tf.keras.layers.Layer)


@pytest.fixture
def sequential():
    tf.keras.backend.clear_session()
    model = models.Sequential()
    model.add(layers.Dense(4, input_shape=(10,)))
    model.add(layers.Dense(2))
    model.add(layers.Dense(1))
    return model


def test_a_summary_counts_parameters(sequential, capsys):
    sequential.summary()
    message = capsys.readouterr().out
    assert 'Model: "sequential"' in message and "Total params: 57" in message and "Trainable params: 57" in message
    assert "Non-trainable params: 0" in message
    rows = [line.split("│")[1:4] for line in message.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["dense (Dense)", "(None, 4)", "44"],
        ["dense_1 (Dense)", "(None, 2)", "10"],
        ["dense_2 (Dense)", "(None, 1)", "3"],
    ]


def test_variables_of_a_sequential_model(sequential):
    assert [v.path for v in sequential.variables] == [
        f"sequential/{layer}/{name}" for layer in ("dense", "dense_1", "dense_2") for name in ("kernel", "bias")
    ]
    assert [tuple(v.shape) for v in sequential.variables] == [(10, 4), (4,), (4, 2), (2,), (2, 1), (1,)]
    np.testing.assert_array_equal(sequential.variables[1].numpy(), np.zeros(4, np.float32))
    first = list(sequential.variables[0].numpy())[0].tolist()
    assert len(first) == 4 and all(isinstance(number, float) for number in first)


def test_a_frozen_layer_has_no_trainable_variables(sequential):
    sequential.layers[0].trainable = False
    assert [tuple(v.shape) for v in sequential.trainable_variables] == [(4, 2), (2,), (2, 1), (1,)]
    assert sequential.layers[0].trainable is False


def test_submodules_layers_and_names(sequential):
    assert [type(m).__name__ for m in sequential.submodules] == ["InputLayer", "Dense", "Dense", "Dense"]
    assert [type(layer).__name__ for layer in sequential.layers] == ["Dense", "Dense", "Dense"]
    assert list(sequential.submodules[1:]) == sequential.layers
    assert sequential.name == "sequential"
    assert sequential.name_scope() == "sequential"


# -- "gradients with respect to a model"


def test_gradients_by_the_variables_of_a_layer():
    layer = tf.keras.layers.Dense(2, activation="relu")
    x = tf.constant([[1.0, 2.0, 3.0]])
    with tf.GradientTape() as tape:
        y = layer(x)
        loss = tf.reduce_mean(y**2)
    grad = tape.gradient(loss, layer.trainable_variables)
    message = [f"{var.name}, shape: {g.shape}" for var, g in zip(layer.trainable_variables, grad)]
    assert message == ["kernel, shape: (3, 2)", "bias, shape: (2,)"]


# -- "Keras layers", "the build step"


class MyDense(tf.keras.layers.Layer):
    def __init__(self, in_features, out_features, **kwargs):
        super().__init__(**kwargs)
        self.w = tf.Variable(tf.random.normal([in_features, out_features]), name="w")
        self.b = tf.Variable(tf.zeros([out_features]), name="b")

    def call(self, x):
        y = tf.matmul(x, self.w) + self.b
        return tf.nn.relu(y)


class FlexibleDense(tf.keras.layers.Layer):
    def __init__(self, out_features, **kwargs):
        super().__init__(**kwargs)
        self.out_features = out_features

    def build(self, input_shape):
        self.w = tf.Variable(tf.random.normal([input_shape[-1], self.out_features]), name="w")
        self.b = tf.Variable(tf.zeros([self.out_features]), name="b")

    def call(self, inputs):
        return tf.matmul(inputs, self.w) + self.b


def test_a_layer_of_variables_is_called_on_a_list():
    simple_layer = MyDense(name="simple", in_features=3, out_features=3)
    found = simple_layer([[2.0, 2.0, 2.0]])
    np.testing.assert_allclose(found, np.maximum(2.0 * simple_layer.w.numpy().sum(0, keepdims=True), 0.0), rtol=1e-5)
    assert len(simple_layer.trainable_variables) == 2


def test_a_layer_is_built_by_its_first_call():
    flexible_dense = FlexibleDense(out_features=3)
    assert flexible_dense.variables == []
    found = flexible_dense(tf.constant([[2.0, 2.0, 2.0], [3.0, 3.0, 3.0]]))
    np.testing.assert_allclose(found[1], 1.5 * found[0], rtol=1e-5)
    assert [v.path for v in flexible_dense.variables] == [f"{flexible_dense.name}/w", f"{flexible_dense.name}/b"]
    assert [tuple(v.shape) for v in flexible_dense.variables] == [(3, 3), (3,)]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"In\[0\]: \[1,4\], In\[1\]: \[3,3\]"):
        flexible_dense(tf.constant([[2.0, 2.0, 2.0, 2.0]]))


# -- "Keras models", and saving them


class MySequentialModel(tf.keras.Model):
    def __init__(self, name=None, **kwargs):
        super().__init__(**kwargs)
        self.dense_1 = FlexibleDense(out_features=3)
        self.dense_2 = FlexibleDense(out_features=2)

    def call(self, x):
        x = self.dense_1(x)
        return self.dense_2(x)


X = tf.constant([[2.0, 2.0, 2.0]])


def test_a_model_of_layers():
    my_sequential_model = MySequentialModel(name="the_model")
    assert my_sequential_model(X).shape == (1, 2)
    assert [tuple(v.shape) for v in my_sequential_model.variables] == [(3, 3), (3,), (3, 2), (2,)]
    assert my_sequential_model.submodules == (my_sequential_model.dense_1, my_sequential_model.dense_2)


def test_the_functional_model_counts_the_variables_of_its_layers(capsys):
    inputs = tf.keras.Input(shape=[3])
    x = FlexibleDense(3)(inputs)
    x = FlexibleDense(2)(x)
    my_functional_model = tf.keras.Model(inputs=inputs, outputs=x)
    my_functional_model.summary()
    message = capsys.readouterr().out
    assert "Total params: 20" in message and "Trainable params: 20" in message and "Non-trainable params: 0" in message
    counts = [line.split("│")[3].split() for line in message.splitlines() if line.startswith("│")]
    assert sum(counts, []) == ["0", "12", "8"]
    assert my_functional_model(X).shape == (1, 2)


def test_a_model_is_saved_to_a_folder_and_loaded_again():
    my_sequential_model = MySequentialModel(name="the_model")
    expected = my_sequential_model(X)
    my_sequential_model.save("exname_of_file")
    reconstructed_model = tf.keras.models.load_model("exname_of_file")
    np.testing.assert_allclose(reconstructed_model(X), expected, rtol=1e-6)
    tf.saved_model.save(my_sequential_model, "another")
    np.testing.assert_allclose(tf.saved_model.load("another")(X), expected, rtol=1e-6)


def test_a_checkpoint_of_a_model_is_like_that_of_a_module():
    model, optimizer = MySequentialModel(), tf.keras.optimizers.Adam()
    model(X)
    checkpoint = tf.train.Checkpoint(myAwesomeModel=model, myAwesomeOptimizer=optimizer)
    checkpoint.save("save/model.ckpt")
    model_to_be_restored = MySequentialModel()
    checkpoint = tf.train.Checkpoint(myAwesomeModel=model_to_be_restored)
    assert tf.train.latest_checkpoint("save") == "save/model.ckpt-1"
    checkpoint.restore("save/model.ckpt-1").expect_partial()
    np.testing.assert_array_equal(model_to_be_restored(X), model(X))
    names = [name for name, _ in tf.train.list_variables("save/model.ckpt-1")]
    assert "myAwesomeModel/dense_1/w/.ATTRIBUTES/VARIABLE_VALUE" in names


# -- "training loops": "the same solution, but with Keras"


class MyModel(tf.Module):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.w = tf.Variable(5.0)
        self.b = tf.Variable(0.0)

    def __call__(self, x):
        return self.w * x + self.b


class MyModelKeras(tf.keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.w = tf.Variable(5.0)
        self.b = tf.Variable(0.0)

    def call(self, x):
        return self.w * x + self.b


def data():
    tf.random.set_seed(1)
    x = tf.cast(tf.linspace(-2, 2, 201), tf.float32)
    return x, x * 3.0 + 2.0 + tf.random.normal(shape=[201])


def loss(target_y, predicted_y):
    return tf.reduce_mean(tf.square(target_y - predicted_y))


def train(model, x, y, learning_rate):
    with tf.GradientTape() as t:
        current_loss = loss(y, model(x))
    dw, db = t.gradient(current_loss, [model.w, model.b])
    model.w.assign_sub(learning_rate * dw)
    model.b.assign_sub(learning_rate * db)


def training_loop(model, x, y):
    message = []
    for _epoch in range(10):
        train(model, x, y, learning_rate=0.1)
        message.append(f"W = {model.w.numpy():1.2f}, b = {model.b.numpy():1.2f}, loss={loss(y, model(x)):2.5f}")
    return message


def test_a_model_of_keras_in_the_loop_for_modules():
    x, y = data()
    keras_model = MyModelKeras()
    assert training_loop(keras_model, x, y) == training_loop(MyModel(), x, y)
    assert 2.8 < keras_model.w.numpy() < 3.3 and 1.6 < keras_model.b.numpy() < 2.1
    keras_model.save_weights("my_checkpoint")
    assert tf.train.latest_checkpoint(".") == "./my_checkpoint"
    names = dict(tf.train.list_variables("my_checkpoint"))
    assert {"w/.ATTRIBUTES/VARIABLE_VALUE", "b/.ATTRIBUTES/VARIABLE_VALUE"} <= names.keys()
    other = MyModelKeras()
    other.load_weights("my_checkpoint")
    assert (other.w.numpy(), other.b.numpy()) == (keras_model.w.numpy(), keras_model.b.numpy())


def test_fit_does_what_the_loop_does():
    x, y = data()
    keras_model = MyModelKeras()
    keras_model.compile(
        run_eagerly=False,
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.1),
        loss=tf.keras.losses.mean_squared_error,
    )
    assert x.shape[0] == 201
    found = keras_model.fit(x, y, epochs=10, batch_size=1000, verbose=0)
    model, before = MyModel(), []
    for _ in range(10):
        before.append(float(loss(y, model(x))))
        train(model, x, y, 0.1)
    np.testing.assert_allclose(found.history["loss"], before, rtol=1e-4)
    np.testing.assert_allclose([keras_model.w, keras_model.b], [model.w, model.b], rtol=1e-4)
    assert keras_model.count_params() == 2
