"""Export of whole functions: signatures, training steps, control flow, files and errors."""

import numpy as np
import onnx
import onnxruntime
import pytest

import tvtf as tf
from tvtf.core.primitive import Primitive, table
from tvtf.errors import NotFoundError, UnimplementedError
from tvtf.onnx import export


def run(model, **feeds):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in model.graph.output], session.run(None, feeds)))


def dims_of(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


# -- signatures


def test_versions_are_pinned():
    model = export(tf.negative, tf.TensorSpec([2]))
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 20)]
    assert model.ir_version == 9
    assert (model.producer_name, model.graph.name) == ("tvtf", "negative")


def test_unknown_dims_keep_their_names_and_any_size_runs():
    @tf.function(input_signature=[tf.TensorSpec(["batch", 3]), tf.TensorSpec([None])])
    def scaled(x, w):
        return tf.add(tf.reduce_sum(x, axis=1), 1.0), tf.multiply(w, 2.0)

    model = export(scaled)
    assert [(i.name, dims_of(i)) for i in model.graph.input] == [("x", ["batch", 3]), ("w", ["w_0"])]
    assert [(o.name, dims_of(o)) for o in model.graph.output] == [("output_0", ["batch"]), ("output_1", ["w_0"])]
    for size in (0, 1, 5):
        found = run(model, x=np.ones((size, 3), np.float32), w=np.ones(2, np.float32))
        np.testing.assert_array_equal(found["output_0"], np.full(size, 4, np.float32))


def test_expressions_of_unknown_dims_are_computed_from_the_inputs():
    @tf.function(input_signature=[tf.TensorSpec(["n", "m", 2])])
    def flat(x):
        return tf.reshape(x, [-1])

    model = export(flat)
    assert dims_of(model.graph.output[0]) == ["n * m * 2"]
    assert run(model, x=np.zeros((3, 5, 2), np.float32))["output"].shape == (30,)


def test_two_unknown_dims_of_one_name_are_one():
    specs = [tf.TensorSpec(["n"]), tf.TensorSpec(["n"])]
    model = export(lambda a, b: tf.add(a, b), *specs)
    assert [dims_of(i) for i in model.graph.input] == [["n"], ["n"]]


BROADCASTS = {
    "one op": (lambda x, y: x * y, 1),
    "sizes of the operands": (lambda x, y: (x + y, tf.shape(x), tf.shape(y)), 1),
    "an operand elsewhere": (lambda x, y: (tf.where(x > y, x, y), tf.tile(x, [2]), tf.concat([x, y], 0)), 1),
    "of a broadcast": (lambda x, y: tf.tanh(x + y) * x + y, 2),
    "to another's shape": (lambda x, y: tf.broadcast_to(x * 2.0, tf.shape(x + y)), 2),
    "to a number": (lambda x, y: (tf.broadcast_to(x, [3]), tf.broadcast_to(y, [3]) + tf.broadcast_to(x, [3])), 1),
    "with a constant": (lambda x, y: (x + [1.0, 2.0, 3.0], tf.reshape(x, [-1]), tf.matmul(y[:, None], x[None])), 1),
    "batches": (lambda x, y: tf.matmul(x, y, transpose_b=True), 3),
    "in a loop": (lambda x, y: tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * y), [0, x + y])[1], 1),
    "in a branch": (lambda x, y: tf.cond(tf.reduce_sum(x) > 0.0, lambda: x * y, lambda: x - y), 1),
    "gradient": (lambda x, y: tf.gradients(tf.reduce_sum(tf.tanh(x * y) * y), [x, y]), 2),
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_sizes_of_1_broadcast_when_the_model_runs(name):
    """Whether two unknown sizes are equal or one of them is 1 is known to the running model only."""
    function, rank = BROADCASTS[name]
    traced = tf.function(function, input_signature=[tf.TensorSpec([None] * rank)] * 2, autograph=False)
    model = export(traced)
    for sizes in ((3, 3), (1, 3), (3, 1), (1, 1)):
        x, y = (np.linspace(-1, 1, size**rank, dtype=np.float32).reshape([size] * rank) for size in sizes)
        if rank == 3:  # the matrices have one size
            x, y = (np.resize(np.linspace(-1, 1, 12), (size, 2, 2)).astype(np.float32) for size in sizes)
        found = run(model, x=x, y=y).values()
        for result, want in zip(found, tf.nest.flatten(traced(x, y)), strict=True):
            np.testing.assert_allclose(result, want, 1e-5, err_msg=f"{name} for {sizes}", strict=True)


def test_dict_results_give_the_names_of_the_outputs():
    model = export(lambda x: {"twice": tf.add(x, x), "same": x}, tf.TensorSpec([2]))
    assert [o.name for o in model.graph.output] == ["same", "twice"]
    found = run(model, x=np.array([1, 2], np.float32))
    np.testing.assert_array_equal(found["same"], [1, 2])
    np.testing.assert_array_equal(found["twice"], [2, 4])


def test_captured_tensors_and_read_variables_are_stored():
    table_ = tf.constant(np.arange(32, dtype=np.float32))
    weight = tf.Variable(2.0, name="weight")
    model = export(lambda x: tf.multiply(tf.add(x, table_), weight), tf.TensorSpec([32]))
    assert [i.name for i in model.graph.input] == ["x"]
    assert {"weight", "constant"} <= {i.name for i in model.graph.initializer}
    found = run(model, x=np.ones(32, np.float32))["output"]
    np.testing.assert_array_equal(found, (np.arange(32) + 1) * 2)


def test_what_no_output_needs_is_left_out():
    model = export(lambda x: (tf.sin(x), tf.negative(x))[1], tf.TensorSpec([2]))
    assert [n.op_type for n in model.graph.node] == ["Neg", "Identity"]


# -- training


def test_a_training_step_takes_and_gives_its_variables():
    weight = tf.Variable([1.0, -2.0, 0.5], name="weight")

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            error = tf.subtract(tf.reduce_sum(tf.multiply(x, weight), axis=1), y)
            loss = tf.reduce_sum(tf.multiply(error, error))
        gradient = tape.gradient(loss, weight)
        weight.assign(tf.subtract(weight, tf.multiply(gradient, 0.01)))
        return loss

    model = export(step, tf.TensorSpec(["batch", 3]), tf.TensorSpec(["batch"]))
    assert [i.name for i in model.graph.input] == ["x", "y", "weight"]
    assert [o.name for o in model.graph.output] == ["output", "weight_new"]
    trained = weight.numpy()
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3) / 8, np.ones(4, np.float32)
    for _ in range(5):
        found = run(model, x=x, y=y, weight=trained)
        trained = found["weight_new"]
        loss = step(tf.constant(x), tf.constant(y))
        np.testing.assert_allclose(found["output"], loss.numpy(), rtol=1e-5)
    np.testing.assert_allclose(trained, weight.numpy(), rtol=1e-5)


# -- control flow


def test_cond_becomes_if():
    def flip(x, up):
        return tf.cond(up, lambda: tf.multiply(x, 2.0), lambda: tf.negative(x))

    model = export(flip, tf.TensorSpec(["n"]), tf.TensorSpec([], tf.bool))
    assert "If" in [n.op_type for n in model.graph.node]
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(run(model, x=x, up=np.array(True))["output"], x * 2)
    np.testing.assert_array_equal(run(model, x=x, up=np.array(False))["output"], -x)


def test_while_becomes_loop():
    def power(x, times):
        values = tf.while_loop(
            lambda i, y: tf.less(i, times), lambda i, y: [tf.add(i, 1), tf.multiply(y, x)], [tf.constant(0), x]
        )
        return values[1]

    model = export(power, tf.TensorSpec(["n"]), tf.TensorSpec([], tf.int32))
    assert "Loop" in [n.op_type for n in model.graph.node]
    x = np.array([1, 2, 3], np.float32)
    for times in (0, 1, 4):
        found = run(model, x=x, times=np.array(times, np.int32))["output"]
        np.testing.assert_array_equal(found, x ** (times + 1))


def test_the_gradient_of_a_loop_is_exported_too():
    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda i, y: tf.less(i, 3), lambda i, y: [tf.add(i, 1), tf.multiply(y, x)], [0, x])[1]
        return tape.gradient(y, x)

    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_allclose(run(export(slope, tf.TensorSpec([3])), x=x)["output"], 4 * x**3, rtol=1e-6)


# -- files


def test_a_model_is_written_whole(tmp_path):
    path = tmp_path / "model.onnx"
    model = export(tf.negative, tf.TensorSpec([2]), path=path)
    assert onnx.load(path) == model
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_a_file_in_the_way_is_reported_and_nothing_is_left(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(Exception) as caught:
        export(tf.negative, tf.TensorSpec([2]), path=blocked / "model.onnx")
    assert not isinstance(caught.value, NotFoundError) and str(blocked) in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


# -- errors


@pytest.fixture
def host_only(monkeypatch):
    """A primitive without an ``onnx`` column."""
    columns = {"type": lambda x: x, "numpy": lambda x: x, "why_not": {"onnx": "ONNX has no such operator"}}

    def mirror(x):
        """Nothing but a test."""
        return (tf.convert_to_tensor(x),), {}

    prim = Primitive(mirror, "mirror", columns)
    monkeypatch.setitem(table, "mirror", prim)
    return prim


def test_an_op_without_a_counterpart_is_named_with_its_reason_and_line(host_only):
    def use(x):
        return host_only(x)

    with pytest.raises(UnimplementedError) as caught:
        export(use, tf.TensorSpec([2]))
    line = use.__code__.co_firstlineno + 1
    expected = f"ONNX export: mirror can't be exported: ONNX has no such operator ({__file__}:{line})"
    assert str(caught.value) == expected


def test_a_traced_function_takes_no_more_examples():
    concrete = tf.function(tf.negative).get_concrete_function(tf.TensorSpec([2]))
    with pytest.raises(TypeError) as caught:
        export(concrete, tf.TensorSpec([3]))
    assert str(caught.value) == "negative is traced already: export it without example arguments or input_signature"


def test_what_can_not_be_called_is_rejected():
    with pytest.raises(TypeError) as caught:
        export(3)
    assert str(caught.value) == "export takes a tf.function, a concrete function or a Python function, but got 3"


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import tvtf.onnx

    with pytest.raises(AttributeError) as caught:
        _ = tvtf.onnx.no_such
    assert str(caught.value) == "module 'tvtf.onnx' has no attribute 'no_such'"
