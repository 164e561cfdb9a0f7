"""Input pipelines: what TensorFlow's answers (tests/parity/data.py) don't cover."""

import gzip
import itertools
import os
import threading

import numpy as np
import pytest

import tvtf as tf
from tvtf.fileio.tfrecord import framed
from tvtf.public import tensorflow_view

Dataset = tf.data.Dataset


def plain(dataset):
    return [x.tolist() for x in dataset.as_numpy_iterator()]


def test_a_checkpoint_keeps_where_a_shuffled_iterator_is(tmp_path):
    def iterator():
        return iter(Dataset.range(10).shuffle(10).repeat(3).batch(4))

    first = iterator()
    for _ in range(3):
        next(first)
    path = tf.train.Checkpoint(iterator=first).save(str(tmp_path / "it"))
    rest = [x.numpy().tolist() for x in first]
    second = iterator()
    tf.train.Checkpoint(iterator=second).restore(path)
    assert [x.numpy().tolist() for x in second] == rest
    assert len(rest) == 5


def test_batches_of_rows_are_views_where_rows_follow_each_other():
    array = np.arange(6.0)
    (batch,) = Dataset.from_tensor_slices(array).batch(6)
    assert batch.numpy().tolist() == array.tolist()


def test_a_function_that_can_not_be_compiled_runs_as_python_with_a_warning(caplog):
    lengths = Dataset.range(1, 4).map(lambda n: np.full(int(n), int(n)))
    assert "as Python for each element: it can't be compiled" in caplog.text
    assert lengths.element_spec == tf.TensorSpec([None], tf.int64)
    assert plain(lengths) == [[1], [2, 2], [3, 3, 3]]
    names = Dataset.from_tensor_slices(["a", "b"]).map(lambda name: (name, 1))
    assert plain_bytes(names) == [(b"a", 1), (b"b", 1)]


def test_in_debug_mode_functions_see_each_element(monkeypatch):
    from tvtf.data import parallel

    monkeypatch.setattr(parallel.debug, "on", False)
    tf.data.experimental.enable_debug_mode()
    seen = []
    assert plain(Dataset.range(3).map(lambda x: seen.append(x.numpy()) or x * 2)) == [0, 2, 4]
    assert seen[-3:] == [0, 1, 2]
    with pytest.raises(ValueError, match="only supported in eager mode"):
        tf.function(lambda: tf.data.experimental.enable_debug_mode() or 0)()


def test_a_dataset_without_elements_is_mapped_though_its_spec_has_no_blank_element():
    spec = tf.data.DatasetSpec(tf.TensorSpec([])), tf.TensorSpec(None)
    empty = Dataset.from_generator(lambda: iter(()), output_signature=spec)
    assert list(empty.map(lambda *_: 1)) == []


def test_what_the_users_function_raises_is_reported():
    with pytest.raises(ZeroDivisionError):
        Dataset.range(3).map(lambda x: x / 0 if isinstance(x, int) else 1 // 0)


def test_prefetch_ends_with_its_iterator():
    before = threading.active_count()
    iterator = iter(Dataset.range(1_000_000).map(lambda x: x + 1).prefetch(2))
    assert next(iterator).numpy() == 1
    del iterator
    for _ in range(100):
        if threading.active_count() == before:
            break
        threading.Event().wait(0.05)
    assert threading.active_count() == before


def test_prefetch_hands_on_what_fails():
    failing = Dataset.from_generator(lambda: iter([1, "two"]), tf.int32).prefetch(1)
    iterator = iter(failing)
    assert next(iterator).numpy() == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="could not be converted"):
        next(iterator)


def test_cache_computes_each_element_once(tmp_path):
    calls = []

    def numbers():
        calls.append(1)
        yield from range(3)

    for cached in (
        Dataset.from_generator(numbers, tf.int32).cache(),
        Dataset.from_generator(numbers, tf.int32).cache(str(tmp_path / "kept")),
    ):
        calls.clear()
        assert plain(cached) == plain(cached) == [0, 1, 2]
        assert len(calls) == 1
    assert plain(Dataset.from_generator(numbers, tf.int32).cache(str(tmp_path / "kept"))) == [0, 1, 2]
    assert len(calls) == 1


def test_save_and_load(tmp_path):
    made = Dataset.from_tensor_slices({"a": [1, 2], "b": (["x", "y"], [[1.0], [2.0]])})
    made.save(str(tmp_path / "saved"))
    loaded = Dataset.load(str(tmp_path / "saved"))
    assert loaded.element_spec == made.element_spec
    assert repr(list(loaded)) == repr(list(made))
    with pytest.raises(tf.errors.NotFoundError):
        Dataset.load(str(tmp_path / "nothing"))


def test_damaged_datasets_are_rejected_by_the_name_of_the_file(tmp_path):
    Dataset.from_tensor_slices({"a": [1, 2], "b": (["x", "y"], [[1.0], [2.0]])}).save(str(tmp_path))
    whole = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(path.name for path in whole) == ["dataset.elements", "dataset.json"]
    for path, content in whole.items():
        for damaged in (b"", content[:-1], content[:20], content + b"x", b"{}", b"[" * 100_000, b'{"told": "?"}'):
            path.write_bytes(damaged)
            with pytest.raises((tf.errors.DataLossError, ValueError), match="dataset|element_spec"):
                Dataset.load(str(tmp_path))
        path.write_bytes(content)
    path = tmp_path / "dataset.json"
    path.write_bytes(whole[path].replace(b'"a"', b'"c"'))
    with pytest.raises(tf.errors.DataLossError, match=str(path)):
        Dataset.load(str(tmp_path))
    path.write_bytes(whole[path])
    (tmp_path / "dataset.elements").unlink()
    with pytest.raises(tf.errors.NotFoundError, match=r"dataset\.elements"):
        Dataset.load(str(tmp_path))


def test_an_emptied_cache_is_damaged(tmp_path):
    Dataset.range(3).cache(str(tmp_path / "kept")).reduce(0, lambda s, _: s)
    list(Dataset.range(3).cache(str(tmp_path / "kept")))
    file = tmp_path / "kept.elements"
    whole = file.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole + whole):
        file.write_bytes(damaged)
        with pytest.raises(tf.errors.DataLossError, match=str(file)):
            list(Dataset.range(3).cache(str(tmp_path / "kept")))


def test_saving_over_a_dataset_is_one_step(tmp_path, monkeypatch):
    folder, real = str(tmp_path), os.replace
    for count in (1, 2, 3):
        Dataset.range(count).save(folder)
        assert plain(Dataset.load(folder)) == list(range(count)) and len(os.listdir(folder)) == 2

        def killed(old, new):
            if new.endswith(".json"):
                raise KeyboardInterrupt
            real(old, new)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(os, "replace", killed)
            Dataset.range(9).save(folder)
        assert plain(Dataset.load(folder)) == list(range(count))


def test_datasets_without_digests_load(tmp_path):
    """As they were written before: three records, no last one."""
    parts = [part for n in range(3) for part in (b'{"dtype": "int64", "shape": []}', np.int64(n).tobytes())]
    (tmp_path / "dataset.elements").write_bytes(b"".join(map(framed, parts)))
    (tmp_path / "dataset.json").write_bytes(b'{"specs": [[[], "int64"]], "form": 0}')
    assert plain(Dataset.load(str(tmp_path))) == [0, 1, 2]
    (tmp_path / "dataset.elements").write_bytes(
        b"".join(map(framed, [b'{"dtype": "string", "shape": [%d]}' % (1 << 60), b""]))
    )
    with pytest.raises(tf.errors.DataLossError, match="has 0 elements"):
        Dataset.load(str(tmp_path))


def test_compressed_lines_and_records(tmp_path):
    path = str(tmp_path / "lines.gz")
    with gzip.open(path, "wb") as file:
        file.write(b"one\ntwo\n")
    assert plain_bytes(tf.data.TextLineDataset(path, compression_type="GZIP")) == [b"one", b"two"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unsupported compression type: LZ4"):
        list(tf.data.TextLineDataset(path, compression_type="LZ4"))


def plain_bytes(dataset):
    return list(dataset.as_numpy_iterator())


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
def test_records_come_back(tmp_path, kind):
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path, kind) as writer:
        for record in (b"one", b"", b"three" * 1000):
            writer.write(record)
    found = tf.data.TFRecordDataset(path, compression_type=kind)
    assert plain_bytes(found) == [b"one", b"", b"three" * 1000]


def test_a_damaged_record_is_reported(tmp_path):
    path = tmp_path / "records"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"one")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(tf.errors.DataLossError, match="truncated record"):
        list(tf.data.TFRecordDataset(str(path)))


def test_loops_that_fail_let_their_iterators_go():
    from tvtf.data.traced_iteration import _running

    def inner(n):
        with pytest.raises(tf.errors.InvalidArgumentError):
            total(Dataset.range(3), n)
        return n

    @tf.function
    def total(numbers, limit):
        found = tf.constant(0, tf.int64)
        for x in numbers:
            tf.debugging.assert_less(x, limit)
            found += x
        return found

    @tf.function
    def outer(numbers):
        found = tf.constant(0, tf.int64)
        for x in numbers:
            found += tf.numpy_function(inner, [x], tf.TensorSpec([], tf.int64))
        return found

    before = dict(_running)
    with pytest.raises(tf.errors.InvalidArgumentError):
        total(Dataset.range(5), tf.constant(3, tf.int64))
    assert _running == before
    assert int(outer(Dataset.range(3))) == 3
    assert _running == before


@pytest.mark.parametrize("again", [False, True])
def test_random_numbers_differ_for_each_iteration_if_requested(again):
    ways = [Dataset.range(100), Dataset.range(100, 200)]
    for drawn in (
        Dataset.random(seed=3, rerandomize_each_iteration=again).take(9),
        Dataset.sample_from_datasets(ways, seed=3, rerandomize_each_iteration=again),
    ):
        assert (plain(drawn) != plain(drawn)) == again


def test_a_traced_loop_trains_on_batches():
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    data = Dataset.from_tensor_slices((x, 3 * x + 1)).shuffle(64, seed=0).batch(10)
    w, b = tf.Variable(0.0), tf.Variable(0.0)

    @tf.function
    def epoch(pairs):
        count = 0
        for xs, ys in pairs:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((w * xs + b - ys) ** 2)
            for v, g in zip((w, b), tape.gradient(loss, [w, b])):
                v.assign_sub(0.3 * g)
            count += 1
        return count

    for _ in range(30):
        assert epoch(data) == 7
    np.testing.assert_allclose([w.numpy(), b.numpy()], [3, 1], atol=1e-2)


def test_a_traced_function_takes_from_an_iterator():
    iterator = iter(Dataset.range(5))

    @tf.function
    def two():
        return next(iterator) + iterator.get_next()

    assert [two().numpy(), two().numpy()] == [1, 5]
    with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
        two()


def test_nested_loops_and_breaks_in_a_traced_function():
    @tf.function
    def pairs(outer, inner):
        total = tf.constant(0, tf.int64)
        for a in outer:
            for b in inner:
                if b > a:
                    break
                total += a * b
        return total

    expected = sum(a * b for a, b in itertools.product(range(4), range(10)) if b <= a)
    assert pairs(Dataset.range(4), Dataset.range(10)).numpy() == expected
    from tvtf.data import traced_iteration

    assert not traced_iteration._running


def test_older_functions_do_what_the_methods_do():
    numbers = Dataset.range(6)
    buckets = lambda x: x, [3], [2, 3]
    windows = lambda x: x % 2, lambda key, group: group.batch(3), 3
    older = tf.data.experimental.bucket_by_sequence_length(*buckets)
    assert plain(numbers.apply(older)) == plain(numbers.bucket_by_sequence_length(*buckets))
    older = tf.data.experimental.group_by_window(*windows)
    assert plain(numbers.apply(older)) == plain(numbers.group_by_window(*windows)) == [[0, 2, 4], [1, 3, 5]]
    assert plain(numbers.apply(tf.data.experimental.ignore_errors())) == plain(numbers)


@pytest.mark.parametrize(
    "raised, message", [(KeyError, tf.errors.UnknownError), (ValueError, tf.errors.InvalidArgumentError)]
)
def test_what_a_generator_raises_becomes_tensorflows_error(raised, message):
    def values():
        yield 1
        raise raised("lost")

    iterator = iter(tf.data.Dataset.from_generator(values, output_signature=tf.TensorSpec([], tf.int32)))
    assert next(iterator).numpy() == 1
    with pytest.raises(message, match="lost"):
        next(iterator)


def test_datasets_of_traced_tensors_without_known_elements_are_rejected():
    made = []
    make = tf.function(lambda x: made.append(Dataset.from_tensor_slices(x)) or x)
    make(tf.ones([2]))
    with pytest.raises(NotImplementedError, match="has elements only when that runs"):
        list(made[0])
    with pytest.raises(NotImplementedError, match="set the rank in the input_signature"):
        make.get_concrete_function(tf.TensorSpec(None, tf.float32))


def test_what_would_compare_pipelines_is_rejected():
    with pytest.raises(NotImplementedError, match="can't tell whether two pipelines"):
        Dataset.range(3).fingerprint()


@pytest.mark.parametrize("field", ["1_0", "0x1", "1 2", "\u0663", "9" * 5000, str(1 << 31)])
def test_numbers_of_csv_are_those_of_tensorflows_grammar(field, tmp_path):
    """Python's int takes underscores and digits of other scripts."""
    path = tmp_path / "table"
    path.write_text(field + "\n")
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not a valid int32"):
        tf.io.decode_csv(field, [0])
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"is not a valid int32.*{path}"):
        list(tf.data.experimental.CsvDataset(str(path), [tf.int32]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"is not a valid int32.*{path}"):
        pairs = tf.lookup.TextFileInitializer(str(path), tf.string, -2, tf.int32, 0)
        tf.lookup.StaticHashTable(pairs, -1)


def test_a_function_may_take_items_out_of_its_elements_and_is_compiled():
    dataset = tf.data.Dataset.from_tensor_slices({"a": [1, 2], "label": [3, 4]}).batch(2)
    mapped = dataset.map(lambda element: (element, element.pop("label")))
    assert mapped.function._traced is not None
    ((features, label),) = mapped
    assert sorted(features) == ["a"] and label.numpy().tolist() == [3, 4]


def test_elements_with_what_is_never_there():
    """Keras hands on inputs that are None so."""

    def elements():
        for number in range(3):
            yield tf.fill([2], float(number)), tf.experimental.Optional.empty(None)

    data = tf.data.Dataset.from_generator(elements, output_signature=(tf.TensorSpec([2]), tf.OptionalSpec(None)))

    @tf.function
    def step(iterator):
        x, nothing = next(iterator)
        return tf.reduce_sum(x), nothing.has_value()

    iterator = iter(data)
    found = [step(iterator) for _ in range(3)]
    assert [(float(x), bool(there)) for x, there in found] == [(0.0, False), (2.0, False), (4.0, False)]

    @tf.function
    def total(data):
        found = tf.zeros([2])
        for x, _ in data:
            found += x
        return found

    assert total(data).numpy().tolist() == [3.0, 3.0]


BATCHES = tf.data.Dataset.range(10).batch(4)
# What TensorFlow's ComputeBatchSize tells, 2.21.
SIZES_OF_BATCHES = {
    "batch": (lambda d: d, 4),
    "batch again": (lambda d: d.batch(2), 2),
    "padded": (lambda d: tf.data.Dataset.range(10).padded_batch(5), 5),
    "choice": (lambda d: d.filter(lambda y: True).take(3).skip(1).shard(2, 0), 4),
    "order": (lambda d: d.shuffle(3).repeat(2).prefetch(1).cache().with_options(tf.data.Options()), 4),
    "zip": (lambda d: tf.data.Dataset.zip((d, d)), 4),
    "zip of several": (lambda d: tf.data.Dataset.zip((d, tf.data.Dataset.range(9).batch(3))), -1),
    "concatenate": (lambda d: d.concatenate(d), 4),
    "concatenate of several": (lambda d: d.concatenate(tf.data.Dataset.range(9).batch(3)), -1),
    "map": (lambda d: d.map(lambda y: y + 1), -1),
    "take_while": (lambda d: d.take_while(lambda y: True), -1),
    "static": (lambda d: tf.data.Dataset.from_tensors(tf.zeros([7, 2])), 7),
}


@pytest.mark.parametrize("name", SIZES_OF_BATCHES)
def test_sizes_of_batches(name):
    compute = tensorflow_view.find("tensorflow.python.data.experimental.ops.distribute").compute_batch_size
    make, expected = SIZES_OF_BATCHES[name]
    assert compute(make(BATCHES)).numpy() == expected


@pytest.mark.parametrize("initial", [[0.95, 0.05], None])
def test_resampling_pairs_each_element_with_its_own_class(initial):
    """Also if the dataset has another order each time it is iterated."""
    numbers = Dataset.range(4000).shuffle(4000, reshuffle_each_iteration=True)
    elements = numbers.map(lambda n: ({"number": n}, tf.cast(n % 20 == 0, tf.int32)))

    def class_of(features, label):
        return 1 if label > 0 else 0

    pairs = list(elements.rejection_resample(class_of, [0.5, 0.5], initial, seed=1).as_numpy_iterator())
    assert all(kind == label == (features["number"] % 20 == 0) for kind, (features, label) in pairs)
    assert 0.4 < np.mean([kind for kind, _ in pairs]) < 0.6
    batch = next(iter(elements.rejection_resample(class_of, [0.5, 0.5], initial).batch(4)))
    np.testing.assert_array_equal(batch[0], batch[1][1])


def test_functions_that_capture_equal_numbers_of_two_types_have_two_specs():
    def of_number(number):
        return lambda _: tf.data.Dataset.from_tensors(tf.constant(number))

    def of_element(x):
        number = 1.0 if int(x) else 1
        return tf.data.Dataset.range(1).flat_map(of_number(number)).map(lambda y: tf.cast(y * 2, tf.float32))

    assert [float(x) for x in tf.data.Dataset.range(2).flat_map(of_element)] == [2.0, 2.0]
