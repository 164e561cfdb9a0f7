"""String ops: results and errors, eagerly and in a function."""

import os
import tempfile

import numpy as np
from parity_calls import result_or_kind, value_or_kind

WORDS = ["Hello", "", "wörld  ", "\tTF 2.x\n", "🙂a"]


def programs(tf):
    eager = {
        **_elements(tf),
        **_joined(tf),
        **_numbers(tf),
        **_patterns(tf),
        **_unicode(tf),
        **_bytes(tf),
        **_hashes(tf),
    }
    return eager | _traced(tf) | _errors(tf) | _files(tf) | _tensors(tf)


def _elements(tf):
    s = tf.strings
    words = tf.constant(WORDS)
    return {
        "lower": lambda: s.lower(words),
        "lower utf-8": lambda: s.lower(["ÄÖ Straße", "ΣΑΣ"], encoding="utf-8"),
        "upper": lambda: s.upper(words),
        "upper utf-8": lambda: s.upper(["äö straße"], encoding="utf-8"),
        "strip": lambda: s.strip(words),
        "length": lambda: s.length(words),
        "length chars": lambda: s.length(words, unit="UTF8_CHAR"),
        "scalar": lambda: repr(s.upper("abc")),
        "matrix": lambda: s.upper([["a", "b"], ["c", "d"]]),
        "substr": lambda: s.substr(["Hello", "World"], 1, 3),
        "substr negative": lambda: s.substr(["Hello", "World"], -3, 2),
        "substr each": lambda: s.substr(["Hello", "World"], [0, 4], [2, 9]),
        "substr one text": lambda: s.substr("Hello", [0, 1, 5], [1, 2, 3]),
        "substr chars": lambda: s.substr(["wörld", "🙂ab"], 1, 2, unit="UTF8_CHAR"),
        "substr chars negative": lambda: s.substr(["wörld", "🙂ab"], -2, 1, unit="UTF8_CHAR"),
        "empty": lambda: s.lower(tf.constant([], tf.string)),
    }


def _joined(tf):
    s = tf.strings
    return {
        "join": lambda: s.join(["abc", "def"]),
        "join separator": lambda: s.join([tf.constant("hello"), tf.constant("world")], separator=" "),
        "join vectors": lambda: s.join([["a", "b"], ["c", "d"]], "-"),
        "join scalar": lambda: s.join([["a", "b"], "x", ["c", "d"]], "-"),
        "join one": lambda: s.join([["a", "b"]]),
        "reduce_join": lambda: s.reduce_join([["abc", "123"], ["def", "456"]]),
        "reduce_join axis": lambda: s.reduce_join([["abc", "123"], ["def", "456"]], axis=0, separator=" "),
        "reduce_join last": lambda: s.reduce_join([["abc", "123"], ["def", "456"]], axis=-1, keepdims=True),
        "reduce_join order": lambda: s.reduce_join([["a", "b"], ["c", "d"]], axis=[1, 0]),
        "reduce_join other order": lambda: s.reduce_join([["a", "b"], ["c", "d"]], axis=[0, 1]),
        "reduce_join scalar": lambda: s.reduce_join("abc"),
        "reduce_join none": lambda: s.reduce_join(tf.constant([], tf.string)),
        "unsorted_segment_join": lambda: s.unsorted_segment_join(["this", "a", "is", "x"], [0, 1, 0, 2], 4, ":"),
        "unsorted_segment_join negative": lambda: s.unsorted_segment_join(["a"], [-1], 1),
        "unsorted_segment_join rows": lambda: s.unsorted_segment_join([["a", "b"], ["c", "d"]], [1, 1], 2),
        "format": lambda: s.format("x: {}, y: {}", (tf.range(10), tf.constant([[1.5]]))),
        "format one": lambda: s.format("tensor {}", tf.constant([1, 2])),
        "format text": lambda: s.format("%t and %t", ("a", ["b", "c"]), placeholder="%t"),
        "format all": lambda: s.format("{}", tf.range(10), summarize=-1),
        "add": lambda: tf.constant("a") + tf.constant("b"),
        "equal": lambda: tf.constant(["a", "b"]) == tf.constant(["a", "c"]),
        "not equal": lambda: tf.not_equal(tf.constant(["a", "b"]), "b"),
        "gather": lambda: tf.gather(tf.constant(["a", "b", "c"]), [2, 0]),
        "concat": lambda: tf.concat([["a"], ["b", "c"]], 0),
        "stack": lambda: tf.stack(["a", "b"]),
        "where": lambda: tf.where([True, False], ["a", "b"], ["c", "d"]),
        "reshape": lambda: tf.reshape(["a", "b", "c", "d"], [2, 2]),
        "slice": lambda: tf.constant(["a", "b", "c"])[1:],
        "tile": lambda: tf.tile(["a", "b"], [2]),
        "fill": lambda: tf.fill([2], "a"),
        "zeros_like": lambda: tf.zeros_like(tf.constant(["a", "b"])),
        "unique": lambda: tf.unique(["b", "a", "b"]),
    }


def _numbers(tf):
    s = tf.strings
    return {
        "to_number": lambda: s.to_number(["1.5", "-3e2", " 7 ", "inf", "nan"]),
        "to_number int": lambda: s.to_number(["1", "-2", "+3"], tf.int32),
        "to_number int64": lambda: s.to_number("9223372036854775807", tf.int64),
        "to_number double": lambda: s.to_number("0.1", tf.float64),
        "as_string": lambda: tf.as_string([3.1415926, 2.72]),
        "as_string precision": lambda: tf.as_string([3.1415926, 2.72], precision=2),
        "as_string scientific": lambda: tf.as_string(1234.5, scientific=True),
        "as_string shortest": lambda: tf.as_string([0.1, 1e10, 1e-9], shortest=True),
        "as_string width": lambda: tf.as_string([1, 22, -3], width=5, fill="0"),
        "as_string left": lambda: tf.as_string([1, 22], width=4, fill="-"),
        "as_string plus": lambda: tf.as_string([1.5, -1.5], fill="+", precision=1),
        "as_string ints": lambda: [tf.as_string(tf.constant(7, t)) for t in (tf.int8, tf.uint8, tf.int64, tf.uint64)],
        "as_string bool": lambda: tf.as_string([True, False]),
        "as_string bool width": lambda: tf.as_string(True, width=7),
        "as_string complex": lambda: tf.as_string(tf.constant(1 + 2j), precision=2),
        "as_string double": lambda: tf.as_string(tf.constant(1 / 3, tf.float64), precision=12),
        "as_string half": lambda: tf.as_string(tf.constant(1.5, tf.float16)),
        "as_string text": lambda: tf.as_string(["a", "b"]),
        "as_string same": lambda: tf.strings.as_string is tf.as_string,
        "as_string special": lambda: tf.as_string([float("inf"), float("-inf"), float("nan")]),
    }


def _patterns(tf):
    replace, match = tf.strings.regex_replace, tf.strings.regex_full_match
    return {
        "regex_replace": lambda: replace("Text with tags.<br /><b>contains html</b>", "<[^>]+>", " "),
        "regex_replace groups": lambda: replace(["ab-cd", "x"], r"(\w+)-(\w+)", r"\2_\1[\0]\\"),
        "regex_replace first": lambda: replace("aaa", "a", "b", replace_global=False),
        "regex_replace empty": lambda: replace("abxd", "x*", "-"),
        "regex_replace unicode": lambda: replace("wörld", "ö.", "?"),
        "regex_replace classes": lambda: replace("a1 b2", "[[:digit:][:space:]]", "."),
        "regex_replace flags": lambda: replace("aAbB", "(?i)a", "x"),
        "regex_replace bytes": lambda: replace(b"\xff\xfea", "a", "b"),
        "regex_full_match": lambda: match(["TF lib", "lib TF"], ".*lib$"),
        "regex_full_match part": lambda: match("abc", "ab"),
        "regex_full_match newline": lambda: match(["a\n", "a"], "a$"),
        "regex_full_match digits": lambda: match(["12", "١٢"], r"\d+"),
        "regex_full_match end": lambda: match("ab", r"ab\z"),
        "regex_full_match quoted": lambda: match("a.b", r"\Qa.b\E"),
    }


def _unicode(tf):
    s = tf.strings
    return {
        "unicode_transcode": lambda: s.unicode_transcode(["Hé", "🙂"], "UTF-8", "UTF-16-BE"),
        "unicode_transcode back": lambda: s.unicode_transcode(b"\x00H\x00\xe9", "UTF-16-BE", "UTF-8"),
        "unicode_transcode latin": lambda: s.unicode_transcode(b"caf\xe9", "ISO-8859-1", "UTF-8"),
        "unicode_transcode replace": lambda: s.unicode_transcode([b"a\xffb", b"\xe2\x82"], "UTF-8", "UTF-8"),
        "unicode_transcode ignore": lambda: s.unicode_transcode(b"a\xffb", "UTF-8", "UTF-8", errors="ignore"),
        "unicode_transcode char": lambda: s.unicode_transcode(b"a\xffb", "UTF-8", "UTF-8", replacement_char=63),
        "unicode_transcode controls": lambda: s.unicode_transcode(
            "a\x00b\x9f", "UTF-8", "UTF-8", replacement_char=32, replace_control_characters=True
        ),
        "unicode_script": lambda: s.unicode_script([1, 65, 0x3042, 0x4E2D, 0x1F642, 0x44F, -5, 0x110000]),
    }


def _bytes(tf):
    io = tf.io
    raw = tf.constant([b"\x01\x00\x02\x00", b"\x03\x00\x04\x01"])
    return {
        "decode_raw": lambda: io.decode_raw("Duck", tf.uint8),
        "decode_raw int16": lambda: io.decode_raw(raw, tf.int16),
        "decode_raw big": lambda: io.decode_raw(raw, tf.int16, little_endian=False),
        "decode_raw fixed": lambda: io.decode_raw(["abc", "d"], tf.uint8, fixed_length=2),
        "decode_raw bool": lambda: io.decode_raw(b"\x00\x01", tf.bool),
        "encode_base64": lambda: io.encode_base64(["a?>", "ab", "abc", ""]),
        "encode_base64 pad": lambda: io.encode_base64(["a", "ab", "abc"], pad=True),
        "decode_base64": lambda: io.decode_base64(["YT8-", "YQ", "YQ=="]),
        "fingerprint": lambda: tf.fingerprint(["abc", "", "x" * 100]),
        "fingerprint rows": lambda: tf.fingerprint(tf.constant([[1, 2], [3, 4]])),
    }


def _hashes(tf):
    s = tf.strings
    texts = [
        "".join(chr(97 + (i * j) % 26) for j in range(i)) for i in (0, 1, 3, 4, 7, 8, 12, 16, 17, 31, 32, 33, 64, 65)
    ]
    texts += ["x" * 128, "y" * 200, "z" * 1000]
    big = 1 << 62
    return {
        "to_hash_bucket_fast": lambda: s.to_hash_bucket_fast(texts, big).numpy().tolist(),
        "to_hash_bucket": lambda: s.to_hash_bucket(texts, big).numpy().tolist(),
        "to_hash_bucket_strong": lambda: s.to_hash_bucket_strong(texts, big, [1, 1 << 40]).numpy().tolist(),
        "buckets": lambda: s.to_hash_bucket_fast([["Hello", "TensorFlow"], ["2.x", ""]], 3),
    }


def _traced(tf):
    s = tf.strings

    def run(function, *args):
        return tf.function(function)(*args)

    def count():
        f = tf.function(lambda x: s.upper(x))
        return f(tf.constant("a")), f(tf.constant("bc")), f(tf.constant(["a"])), f.experimental_get_tracing_count()

    def branches():
        @tf.function
        def f(x):
            if x == "yes":
                y = s.join([x, "!"])
            else:
                y = tf.constant("no")
            return y

        return f(tf.constant("yes")), f(tf.constant("other"))

    def loop():
        @tf.function
        def f(x, n):
            found = tf.constant("")
            for i in tf.range(n):
                found = s.join([found, x, tf.as_string(i)])
            return found

        return f(tf.constant("a"), tf.constant(3))

    def variable():
        v = tf.Variable("a")

        @tf.function
        def f(x):
            v.assign(s.join([v, x]))
            return v

        f(tf.constant("b"))
        return f(tf.constant("c")), v

    def signature():
        f = tf.function(lambda x: s.length(x), input_signature=[tf.TensorSpec([None], tf.string)])
        return f(["a", "bcd"]), f(tf.constant([], tf.string))

    def words():
        f = tf.function(lambda x: tf.constant(["a", "b", "c"])[x])
        return f(tf.constant(1)), f(tf.constant(2))

    def gradient():
        x = tf.constant([1.5, 2.5])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = s.to_number(tf.as_string(x))
        return y, tape.gradient(y, x)

    def saved():
        module = tf.Module()
        module.f = tf.function(lambda x: s.join([x, "!"]), input_signature=[tf.TensorSpec([], tf.string)])
        folder = tempfile.mkdtemp()
        tf.saved_model.save(module, folder)
        return tf.saved_model.load(folder).f("hi")

    return {
        "traced join": lambda: run(
            lambda a, b: s.join([a, b], separator=" "), tf.constant("hello"), tf.constant("world")
        ),
        "traced count": count,
        "traced branches": branches,
        "traced loop": loop,
        "traced variable": variable,
        "traced signature": signature,
        "traced constants": words,
        "traced gradient": gradient,
        "traced saved": saved,
        "traced to_number": lambda: run(lambda x: s.to_number(x) * 2.0, tf.constant(["1.5", "2"])),
        "traced decode_raw": lambda: run(
            lambda x: tf.cast(tf.io.decode_raw(x, tf.uint8), tf.int32) + 1, tf.constant("Duck")
        ),
        "traced replace": lambda: run(lambda x: s.regex_replace(x, "l+", "L"), tf.constant("hello")),
        "traced nothing": lambda: run(lambda x: x, tf.constant("as it is")),
        "traced pair": lambda: run(lambda x: {"a": x, "b": (x, s.upper(x))}, tf.constant("q")),
        "traced gather": lambda: run(lambda x, i: tf.gather(x, i), tf.constant(["a", "b", "c"]), tf.constant([2, 0])),
        "traced equal": lambda: run(lambda x: tf.reduce_any(x == "b"), tf.constant(["a", "b"])),
        "traced python text": lambda: run(lambda x, how: s.join([x, how]), tf.constant("a"), "b"),
    }


def _errors(tf):
    s = tf.strings

    def kind(call):
        def run():
            try:
                return call()
            except Exception as error:
                return f"{type(error).__name__}: {str(error).partition('[Op:')[0].partition('; NodeDef')[0]}".strip()

        return run

    return {
        "refuse number": kind(lambda: s.to_number("a1")),
        "refuse number range": kind(lambda: s.to_number("3000000000", tf.int32)),
        "refuse number type": value_or_kind(lambda: s.to_number("1", tf.int8)),
        "refuse pattern": value_or_kind(lambda: s.regex_replace("a", "(", "b")),
        "refuse look ahead": value_or_kind(lambda: s.regex_replace("a", "(?=a)", "b")),
        "refuse rewrite": value_or_kind(lambda: s.regex_replace("a", "a", r"\3")),
        "refuse buckets": value_or_kind(lambda: s.to_hash_bucket_fast("a", 0)),
        "refuse base64": kind(lambda: tf.io.decode_base64("a+b")),
        "refuse raw sizes": value_or_kind(lambda: tf.io.decode_raw(["a", "bc"], tf.uint8)),
        "refuse raw multiple": value_or_kind(lambda: tf.io.decode_raw("abc", tf.int16)),
        "refuse substr": value_or_kind(lambda: s.substr("abc", 4, 1)),
        "refuse join shapes": value_or_kind(lambda: s.join([["a"], ["b", "c"]])),
        "refuse format": kind(lambda: s.format("{} {}", [1])),
        "refuse lower of int": value_or_kind(lambda: s.lower(1)),
        "refuse strict": kind(lambda: s.unicode_transcode(b"\xff", "UTF-8", "UTF-8", errors="strict")),
        "refuse as_string precision": kind(lambda: tf.as_string(1, precision=2)),
        "refuse as_string both": kind(lambda: tf.as_string(1.0, scientific=True, shortest=True)),
        "refuse as_string fill": kind(lambda: tf.as_string(1.0, fill="x")),
        "refuse traced number": value_or_kind(lambda: tf.function(lambda x: s.to_number(x))(tf.constant("a1"))),
        "refuse add": value_or_kind(lambda: tf.constant("a") * tf.constant("b")),
    }


def _files(tf):
    folder = tempfile.mkdtemp()
    path = folder + "/a.txt"

    def written():
        tf.io.write_file(path, "some text")
        return tf.io.read_file(path), tf.function(lambda p: tf.io.read_file(p))(tf.constant(path))

    def names():
        for name in ("b.x", "a.x", "c.y"):
            tf.io.write_file(f"{folder}/{name}", "")
        return [os.path.basename(p) for p in tf.io.matching_files(folder + "/*.x").numpy()]

    def lines():
        with tf.io.gfile.GFile(path, "w") as file:
            file.write("one\ntwo\n")
        with tf.io.gfile.GFile(path) as file:
            return file.readline(), file.read(), file.size()

    def moves():
        gfile, base = tf.io.gfile, tempfile.mkdtemp()
        gfile.makedirs(base + "/x/y")
        gfile.rename(base + "/x/y", base + "/x/z")
        found = gfile.exists(base + "/x/z"), gfile.isdir(base + "/x"), gfile.listdir(base + "/x")
        gfile.rmtree(base + "/x")
        return found, gfile.exists(base + "/x")

    return {
        "write and read": written,
        "matching": names,
        "gfile lines": lines,
        "gfile moves": moves,
        "read nothing": lambda: result_or_kind(lambda: tf.io.read_file("/nowhere/file")),
        "gfile missing": lambda: tf.io.gfile.GFile("/nowhere/file").read(),
    }


def _tensors(tf):
    tensors = {
        "float": tf.constant([[1.5, 2.5]]),
        "int": tf.constant(3),
        "text": tf.constant(["a", "bc"]),
        "bool": tf.constant([True, False]),
        "complex": tf.constant(1 + 2j),
        "half": tf.constant([1.5], tf.float16),
        "empty": tf.zeros([0, 3], tf.int64),
    }
    programs = {f"serialize {n}": (lambda t=t: tf.io.serialize_tensor(t).numpy()) for n, t in tensors.items()}
    back = {
        f"parse {n}": (lambda t=t: tf.io.parse_tensor(tf.io.serialize_tensor(t), t.dtype)) for n, t in tensors.items()
    }
    proto = np.float32([1, 2]).tobytes()
    rejected = {
        "parse other": lambda: result_or_kind(lambda: tf.io.parse_tensor(tf.io.serialize_tensor(1), tf.float32)),
        "parse nothing": lambda: result_or_kind(lambda: tf.io.parse_tensor(proto, tf.float32)),
    }
    return programs | back | rejected
