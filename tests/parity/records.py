"""Lines of CSV, compressed bytes, examples as JSON, sparse tensors as strings, names of files."""

import gzip
import os
import tempfile
import zlib


def programs(tf):
    io = tf.io
    lines = tf.constant(['1,2.5,"a, ""b"""', " 2 ,,c", "3,1e3,"])
    defaults = [[0], [7.0], ["?"]]
    sparse = tf.sparse.SparseTensor([[0, 1], [1, 0], [1, 2]], [5.0, 6.0, 7.0], [2, 3])
    json = '{"features": {"feature": {"a": {"int64List": {"value": ["3", "4"]}}, "b": {"bytesList": {"value": ["YQ=="]}}}}}'

    def files():
        found = io.match_filenames_once("/nowhere/at/all/*")
        return found.shape, found.dtype

    def final_slashes():
        with tempfile.TemporaryDirectory() as folder:
            with io.TFRecordWriter(f"{folder}/records/") as writer:
                writer.write(b"one")
            with io.gfile.GFile(f"{folder}/text//", "w") as file:
                file.write("line\n")
            io.gfile.rename(f"{folder}/text/", f"{folder}/lines/")
            records, texts = (
                tf.data.TFRecordDataset(f"{folder}/records/"),
                tf.data.TextLineDataset([f"{folder}/lines/"]),
            )
            found = [list(each.as_numpy_iterator()) for each in (records, texts)]
            found.append((io.gfile.GFile(f"{folder}/lines/").read(), io.gfile.stat(f"{folder}/lines/").length))
            io.gfile.remove(f"{folder}/lines/")
            return found, sorted(os.listdir(folder))

    def found_with_final_slashes():
        with tempfile.TemporaryDirectory() as folder:
            io.gfile.makedirs(f"{folder}/in/")
            for name in ("a.txt", "in/b.txt"):
                io.write_file(f"{folder}/{name}", name)
            io.gfile.copy(f"{folder}/a.txt/", f"{folder}/c.txt//")
            exist = [io.gfile.exists(f"{folder}/{path}") for path in ("a.txt/", "a.txt//", "in/", "none/", "a.txt/b")]
            patterns = [f"{folder}/{path}" for path in ("*", "*/", "a.txt/", "in/", "in/*/", "*.txt/", "none/")]
            found = [io.gfile.glob(pattern) for pattern in patterns]
            found += [io.matching_files(pattern).numpy().tolist() for pattern in patterns]
            listed = tf.data.Dataset.list_files(f"{folder}/*.txt/", shuffle=False)
            found.append(list(listed.as_numpy_iterator()))
            text = io.read_file(f"{folder}/c.txt/")
            copied = tf.function(lambda: io.read_file(f"{folder}/c.txt/"))()
            return exist, str([sorted(each) for each in found]).replace(folder, "folder"), text, copied

    return {
        "files named with final slashes": final_slashes,
        "files found with final slashes": found_with_final_slashes,
        "csv": lambda: io.decode_csv(lines, defaults),
        "csv scalar": lambda: io.decode_csv("5;6", [[1], [1]], field_delim=";"),
        "csv dtypes": lambda: io.decode_csv(
            ["1,2,3"], [tf.constant([], tf.int64), tf.constant(0.0, tf.float64), tf.constant([""], tf.string)]
        ),
        "csv columns": lambda: io.decode_csv(["1,2,3,4"], [[0], [0]], select_cols=[1, 3]),
        "csv without quotes": lambda: io.decode_csv(['"a",1'], [[""], [0]], use_quote_delim=False),
        "csv missing": lambda: io.decode_csv(["1,NA", "NA,2"], [[-1], [-2]], na_value="NA"),
        "csv required": lambda: io.decode_csv([",1"], [tf.constant([], tf.int32), [0]]),
        "csv other count": lambda: io.decode_csv(["1,2,3"], [[0], [0]]),
        "csv no number": lambda: io.decode_csv(["x"], [[0]]),
        "csv no float": lambda: io.decode_csv(["x"], [[0.0]]),
        "csv open quote": lambda: io.decode_csv(['"a'], [[""]]),
        "csv quote inside": lambda: io.decode_csv(['a"b'], [[""]]),
        "csv columns out of order": lambda: io.decode_csv(["1,2"], [[0], [0]], select_cols=[1, 0]),
        "csv column below": lambda: io.decode_csv(["1,2"], [[0]], select_cols=[-1]),
        "csv too many columns": lambda: io.decode_csv(["1,2"], [[0]], select_cols=[0, 1]),
        "csv traced": lambda: tf.function(lambda x: io.decode_csv(x, defaults)[1] * 2.0)(lines),
        "csv in a dataset": lambda: [
            (a.numpy(), b.numpy())
            for a, b in tf.data.Dataset.from_tensor_slices(["1,x", "2,y"]).map(lambda t: io.decode_csv(t, [[0], [""]]))
        ],
        "zlib": lambda: io.decode_compressed([zlib.compress(b"abc"), zlib.compress(b"")], "ZLIB"),
        "gzip": lambda: io.decode_compressed(gzip.compress(b"abc"), "GZIP"),
        "not compressed": lambda: io.decode_compressed(["abc"]),
        "json": lambda: io.parse_single_example(
            io.decode_json_example(json),
            {"a": io.FixedLenFeature([2], tf.int64), "b": io.FixedLenFeature([], tf.string)},
        ),
        "sparse": lambda: [
            io.parse_tensor(t, kind) for t, kind in zip(io.serialize_sparse(sparse), (tf.int64, tf.float32, tf.int64))
        ],
        "sparse rows": lambda: io.serialize_many_sparse(sparse).shape,
        "sparse again": lambda: io.deserialize_many_sparse(io.serialize_many_sparse(sparse), tf.float32),
        "sparse of two widths": lambda: io.deserialize_many_sparse(
            tf.stack([io.serialize_sparse(tf.sparse.from_dense(t)) for t in ([0, 5], [6, 0, 7])]), tf.int32
        ),
        "files": files,
        "writer": lambda: callable(io.TFRecordWriter),
    }
