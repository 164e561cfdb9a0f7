"""Programs around models of TensorFlow 1: queues, datasets, tables, summaries, hooks, files, flags, logs."""

import os
import tempfile

import numpy as np
from tf1_support import raised, rounded, scripts


def programs(tf):
    tf = tf.compat.v1

    def one_shot(print):
        dataset = tf.data.Dataset.range(5).map(lambda x: x * 2).batch(2)
        iterator = tf.data.make_one_shot_iterator(dataset)
        next_element = iterator.get_next()
        print(
            tf.data.get_output_types(dataset),
            tf.data.get_output_shapes(dataset),
            tf.data.get_output_classes(dataset).__name__,
        )
        print(next_element.shape, next_element.dtype, iterator.output_types, iterator.output_shapes)
        with tf.Session() as sess:
            while True:
                try:
                    print(sess.run(next_element))
                except tf.errors.OutOfRangeError:
                    print("end")
                    break

    def one_shot_method(print):
        features = {"a": np.arange(4), "b": np.ones((4, 2), "f")}
        dataset = tf.data.Dataset.from_tensor_slices((features, [0, 1, 0, 1])).repeat(2).batch(3)
        batch, label = dataset.make_one_shot_iterator().get_next()
        total = tf.reduce_sum(batch["b"]) + tf.cast(tf.reduce_sum(batch["a"]), tf.float32)
        with tf.Session() as sess:
            for _ in range(3):
                print(sess.run([batch["a"], label, total]))

    def initializable(print):
        max_value = tf.placeholder(tf.int64, shape=[])
        dataset = tf.data.Dataset.range(max_value)
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
        with tf.Session() as sess:
            print(raised(lambda: sess.run(element)).split(":")[0])
            for n in (3, 2):
                sess.run(iterator.initializer, feed_dict={max_value: n})
                print([sess.run(element) for _ in range(n)])
            print(raised(lambda: sess.run(element)))

    def fed_arrays(print):
        x, y = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [None])
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(10, seed=1).batch(2).repeat()
        iterator = dataset.make_initializable_iterator()
        bx, by = iterator.get_next()
        with tf.Session() as sess:
            sess.run(iterator.initializer, {x: np.arange(8).reshape(4, 2), y: np.arange(4)})
            print(sum(sess.run(by).sum() for _ in range(4)), sess.run(tf.shape(bx)))

    def reinitializable(print):
        training = tf.data.Dataset.range(4).map(lambda x: x + 10)
        validation = tf.data.Dataset.range(2)
        iterator = tf.data.Iterator.from_structure(
            tf.data.get_output_types(training), tf.data.get_output_shapes(training)
        )
        element = iterator.get_next()
        train_init, validation_init = iterator.make_initializer(training), iterator.make_initializer(validation)
        with tf.Session() as sess:
            for _ in range(2):
                sess.run(train_init)
                print([int(sess.run(element)) for _ in range(4)])
                sess.run(validation_init)
                print([int(sess.run(element)) for _ in range(2)])

    def feedable(print):
        training, validation = tf.data.Dataset.range(10).repeat(), tf.data.Dataset.range(100, 103)
        handle = tf.placeholder(tf.string, shape=[])
        iterator = tf.data.Iterator.from_string_handle(
            handle, tf.data.get_output_types(training), tf.data.get_output_shapes(training)
        )
        element = iterator.get_next()
        a, b = tf.data.make_one_shot_iterator(training), tf.data.make_initializable_iterator(validation)
        with tf.Session() as sess:
            ah, bh = sess.run([a.string_handle(), b.string_handle()])
            print([int(sess.run(element, {handle: ah})) for _ in range(2)])
            sess.run(b.initializer)
            print([int(sess.run(element, {handle: bh})) for _ in range(3)], int(sess.run(element, {handle: ah})))

    def trained_from_dataset(print):
        x = np.linspace(-1, 1, 16).astype("f").reshape(16, 1)
        dataset = tf.data.Dataset.from_tensor_slices((x, 3 * x + 1)).batch(4).repeat(10).prefetch(1)
        bx, by = tf.data.make_one_shot_iterator(dataset).get_next()
        w, b = (
            tf.get_variable("w", [1, 1], initializer=tf.zeros_initializer()),
            tf.get_variable("b", [1], initializer=tf.zeros_initializer()),
        )
        loss = tf.reduce_mean(tf.squared_difference(tf.matmul(bx, w) + b, by))
        step = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
        n = 0
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            try:
                while True:
                    _, value = sess.run([step, loss])
                    n += 1
            except tf.errors.OutOfRangeError:
                pass
            print(n, f"{value:.4f}", rounded(sess.run([w, b]), 3))

    def generated(print):
        def rows():
            for i in range(3):
                yield i, [i] * i

        dataset = tf.data.Dataset.from_generator(
            rows, (tf.int64, tf.int64), (tf.TensorShape([]), tf.TensorShape([None]))
        )
        a, b = tf.data.make_one_shot_iterator(dataset.padded_batch(2, ([], [None]))).get_next()
        with tf.Session() as sess:
            print(sess.run([a, b]), sess.run([a, b]))

    def records(print):
        path = tempfile.mktemp()
        with tf.python_io.TFRecordWriter(path) as writer:
            for i in range(3):
                features = {
                    "x": tf.train.Feature(int64_list=tf.train.Int64List(value=[i, i + 1])),
                    "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"n%d" % i])),
                    "v": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5] * i)),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
        print(len(list(tf.python_io.tf_record_iterator(path))))

        def parse(text):
            spec = {
                "x": tf.FixedLenFeature([2], tf.int64),
                "s": tf.FixedLenFeature([], tf.string),
                "v": tf.VarLenFeature(tf.float32),
            }
            found = tf.parse_single_example(text, spec)
            return found["x"], found["s"], tf.sparse_tensor_to_dense(found["v"])

        element = tf.data.TFRecordDataset(path).map(parse).make_one_shot_iterator().get_next()
        with tf.Session() as sess:
            for _ in range(3):
                print(sess.run(element))

    def fifo(print):
        q = tf.FIFOQueue(3, "float")
        init = q.enqueue_many(([0.0, 0.0, 0.0],))
        x = q.dequeue()
        q_inc = q.enqueue([x + 1])
        with tf.Session() as sess:
            init.run()
            for _ in range(4):
                q_inc.run()
            print(sess.run(q.size()), [sess.run(q.dequeue()) for _ in range(3)])
            sess.run(q.close())
            print(raised(lambda: sess.run(q.dequeue())).split(" (")[0])

    def queue_runners(print):
        queue = tf.RandomShuffleQueue(10, 0, [tf.int32], shapes=[[]])
        counter = tf.Variable(0)
        with tf.control_dependencies([tf.assign_add(counter, 1)]):
            enqueue = queue.enqueue(counter)
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue] * 1))
        dequeued = queue.dequeue_many(4)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess=sess, coord=coord)
            found = sess.run(dequeued)
            coord.request_stop()
            sess.run(queue.close(cancel_pending_enqueues=True))
            coord.join(threads)
            print(sorted(set(found)) == sorted(found), len(found), coord.should_stop(), len(threads))

    def input_producer(print):
        folder = tempfile.mkdtemp()
        for i in range(2):
            with open(f"{folder}/{i}.csv", "w") as file:
                file.write(f"{i},1.5,a\n{i + 10},2.5,b\n")
        names = tf.train.string_input_producer(
            sorted(f"{folder}/{i}.csv" for i in range(2)), shuffle=False, num_epochs=1
        )
        reader = tf.TextLineReader()
        key, value = reader.read(names)
        a, b, c = tf.decode_csv(value, record_defaults=[[0], [0.0], [""]])
        ab, bb = tf.train.batch([a, b], batch_size=2)
        with tf.Session() as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(coord=coord)
            try:
                while not coord.should_stop():
                    print(sess.run([ab, bb]))
            except tf.errors.OutOfRangeError:
                print("Done")
            finally:
                coord.request_stop()
            coord.join(threads)

    def sliced_inputs(print):
        x = np.arange(6).astype("f")
        one, label = tf.train.slice_input_producer([tf.constant(x), tf.constant(x * 10)], shuffle=False)
        bx, by = tf.train.batch([one, label], 4)
        sx = tf.train.shuffle_batch([one], 2, capacity=10, min_after_dequeue=2)
        with tf.Session() as sess:
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess, coord)
            found = sess.run([bx, by])
            print(bool((found[0] * 10 == found[1]).all()), found[0].shape, sess.run(sx).shape)
            coord.request_stop()
            coord.join(threads)

    def tables(print):
        keys, values = tf.constant(["a", "b", "c"]), tf.constant([1, 2, 3], tf.int64)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
        found = table.lookup(tf.constant(["a", "x", "c"]))
        vocabulary = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(keys, values), 2)
        other = vocabulary.lookup(tf.constant(["b", "c"]))
        with tf.Session() as sess:
            sess.run(tf.tables_initializer())
            print(sess.run(found), sess.run(table.size()), sess.run(other), sess.run(table.lookup(tf.constant("b"))))

    def table_in_dataset(print):
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([5, 6], tf.int64)), 0
        )
        dataset = tf.data.Dataset.from_tensor_slices(["a", "b", "z"]).map(table.lookup)
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
        with tf.Session() as sess:
            sess.run(tf.tables_initializer())
            sess.run(iterator.initializer)
            print([int(sess.run(element)) for _ in range(3)])

    def summaries(print):
        folder = tempfile.mkdtemp()
        x = tf.placeholder(tf.float32, [None], name="x")
        with tf.name_scope("stats"):
            tf.summary.scalar("mean", tf.reduce_mean(x))
            tf.summary.histogram("all", x)
        tf.summary.text("note", tf.constant("hello"))
        tf.summary.image("pixels", tf.zeros([1, 2, 2, 3]))
        merged = tf.summary.merge_all()
        only = tf.summary.merge([tf.summary.scalar("alone", tf.constant(2.0))])
        with tf.Session() as sess:
            writer = tf.summary.FileWriter(folder, sess.graph)
            for step in range(2):
                summary = sess.run(merged, {x: [1.0, 2.0 + step]})
                writer.add_summary(summary, step)
            writer.add_summary(sess.run(only), 5)
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="by_hand", simple_value=0.25)]), 7)
            writer.close()
        (name,) = os.listdir(folder)
        for event in tf.train.summary_iterator(f"{folder}/{name}"):
            for value in event.summary.value:
                kind = value.WhichOneof("value")
                print(event.step, value.tag, kind, value.simple_value if kind == "simple_value" else "")
        parsed = tf.Summary.FromString(summary)
        print([v.tag for v in parsed.value], parsed.value[1].histo.num)

    def monitored(print):
        x = tf.Variable(0.0)
        step = tf.train.get_or_create_global_step()
        more = tf.group(x.assign_add(1.0), step.assign_add(1))
        hooks = [tf.train.StopAtStepHook(last_step=3)]

        class Logged(tf.train.SessionRunHook):
            def begin(self):
                print("begin")

            def after_create_session(self, session, coord):
                print("created")

            def before_run(self, run_context):
                return tf.train.SessionRunArgs(x)

            def after_run(self, run_context, run_values):
                print("ran", run_values.results >= 0)

            def end(self, session):
                print("end", session.run(step))

        with tf.train.MonitoredTrainingSession(hooks=[*hooks, Logged()]) as sess:
            while not sess.should_stop():
                sess.run(more)

    def logged(print):
        value = tf.get_variable("v", initializer=0.0)
        update = tf.assign_add(value, 1.0)
        tf.train.get_or_create_global_step()
        for options in ({"at_end": True}, {"every_n_iter": 2, "at_end": True}, {"every_n_iter": 2}):
            seen = []

            def formatted(values, seen=seen):
                seen.append(float(values["v"]))
                return ""

            hook = tf.train.LoggingTensorHook({"v": value}, formatter=formatted, **options)
            with tf.train.MonitoredSession(hooks=[hook]) as session:
                for _ in range(4):
                    session.run(update)
            print(options, seen)

    def supervised(print):
        folder = tempfile.mkdtemp()
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", initializer=1.0)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(w * w, global_step=step)
        for _ in range(2):
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=folder, save_summaries_steps=None, save_summaries_secs=None
            ) as sess:
                for _ in range(2):
                    sess.run(train)
                print(sess.run(step), f"{sess.run(w):.3f}")
        print(os.path.basename(tf.train.latest_checkpoint(folder)))

    def restored_from_a_file(print):
        folder = tempfile.mkdtemp()
        w = tf.get_variable("w", initializer=1.0)
        saver = tf.train.Saver()
        with tf.Session() as sess:
            for step, value in ((1, 3.0), (2, 4.0)):
                w.load(value, sess)
                saver.save(sess, os.path.join(folder, "model"), global_step=step)
        older = os.path.join(folder, "model-1")
        for options in ({}, {"checkpoint_filename_with_path": older}, {"checkpoint_dir": folder}):
            with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(**options)) as sess:
                print(sess.run(w))
        creator = tf.train.ChiefSessionCreator(checkpoint_dir=folder, checkpoint_filename_with_path=older)
        print(raised(lambda: tf.train.MonitoredSession(creator)))
        with tf.train.SingularMonitoredSession(
            [tf.train.FinalOpsHook(w)], checkpoint_filename_with_path=older
        ) as singular:
            print(singular.raw_session().run(w))

    def files(print):
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "a.txt")
        with tf.gfile.GFile(path, "w") as file:
            file.write("one\ntwo\n")
        print(
            tf.gfile.Exists(path),
            tf.gfile.ListDirectory(folder),
            [os.path.basename(p) for p in tf.gfile.Glob(folder + "/*")],
        )
        print(tf.gfile.Open(path).read(), tf.gfile.FastGFile(path, "rb").readlines(), tf.gfile.IsDirectory(folder))
        tf.gfile.MakeDirs(folder + "/x/y")
        tf.gfile.Copy(path, folder + "/x/b.txt")
        tf.gfile.Rename(path, folder + "/c.txt")
        tf.gfile.Remove(folder + "/c.txt")
        print(
            [os.path.basename(each[0]) for each in tf.gfile.Walk(folder + "/x")],
            tf.gfile.Stat(folder + "/x/b.txt").length,
        )
        tf.gfile.DeleteRecursively(folder)
        print(tf.gfile.Exists(folder))
        content = tf.read_file(__file__)
        with tf.Session() as sess:
            print(sess.run(content)[:10])

    def flagged(print):
        flags = tf.app.flags
        flags.DEFINE_string("parity_name", "fred", "A name.")
        flags.DEFINE_integer("parity_steps", 3, "Steps.")
        flags.DEFINE_float("parity_rate", 0.5, "Rate.")
        flags.DEFINE_boolean("parity_flag", True, "Flag.")
        FLAGS = flags.FLAGS
        FLAGS(["program", "--parity_steps=5", "--noparity_flag"])
        print(FLAGS.parity_name, FLAGS.parity_steps, FLAGS.parity_rate, FLAGS.parity_flag)
        for name in ("name", "steps", "rate", "flag"):
            delattr(FLAGS, "parity_" + name)
        before = tf.logging.get_verbosity()
        tf.logging.set_verbosity(tf.logging.ERROR)
        tf.logging.info("not shown %d", 3)
        print(tf.logging.get_verbosity() == tf.logging.ERROR, tf.logging.INFO, tf.logging.WARN)
        tf.logging.set_verbosity(before)

    def running_app(print):
        def main(argv):
            print("main", len(argv))

        try:
            tf.app.run(main=main, argv=["program"])
        except SystemExit as stop:
            print("exit", stop.code)

    def texts(print):
        words = tf.placeholder(tf.string, [None])
        found = [
            tf.string_split(words).values,
            tf.strings.length(words),
            tf.substr(words, 0, 2),
            tf.string_to_number(tf.constant(["1.5"])),
            tf.regex_replace(words, "a", "b"),
            tf.string_to_hash_bucket_fast(words, 10),
            tf.as_string(tf.constant([1, 2])),
            tf.reduce_join(words, 0),
            tf.strings.lower(words),
            tf.decode_raw(tf.constant(["ab"]), tf.uint8),
            tf.encode_base64(words),
            tf.string_strip(words),
        ]
        with tf.Session() as sess:
            for each in found:
                print(sess.run(each, {words: ["Hello a", "World"]}))

    def sparse(print):
        sp = tf.sparse_placeholder(tf.float32, shape=[2, 3])
        y = tf.sparse_reduce_sum(sp)
        product = tf.sparse_tensor_dense_matmul(sp, tf.ones([3, 1]))
        made = tf.SparseTensor(indices=[[0, 0], [1, 2]], values=[1, 2], dense_shape=[3, 4])
        value = tf.SparseTensorValue(np.array([[0, 1], [1, 2]]), np.array([5.0, 6.0], "f"), [2, 3])
        with tf.Session() as sess:
            print(sess.run([y, product], {sp: value}), sess.run(made))
            print(
                sess.run(tf.sparse_tensor_to_dense(made)),
                sess.run(sp, {sp: (value.indices, value.values, value.dense_shape)}),
            )
            print(sess.run(tf.sparse_add(made, made)).values, sess.run(tf.sparse_retain(made, [True, False])).indices)
            print(
                sess.run(tf.nn.embedding_lookup_sparse(tf.ones([5, 2]), tf.sparse_reorder(made), None, combiner="sum"))
            )

    def ragged(print):
        x = tf.ragged.constant([[1, 2], [], [3]])
        p = tf.ragged.placeholder(tf.float32, 1, [])
        with tf.Session() as sess:
            found = sess.run(x)
            print(type(found).__name__, found.to_list(), sess.run(x.row_lengths()), sess.run(tf.reduce_sum(x, axis=1)))
            print(sess.run(p + 1.0, {p: tf.ragged.constant_value([[1.0], [2.0, 3.0]], dtype=np.float32)}).to_list())

    def images(print):
        picture = tf.placeholder(tf.uint8, [4, 4, 3])
        given = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
        encoded = tf.image.encode_png(picture)
        found = [
            tf.image.resize_images(picture, [2, 2]),
            tf.image.resize_images(picture, [3, 8], preserve_aspect_ratio=True),
            tf.image.resize_images(picture, [5, 3], align_corners=True, preserve_aspect_ratio=True),
            tf.image.resize_bilinear(picture[None], [2, 2]),
            tf.image.flip_left_right(picture),
            tf.image.resize_nearest_neighbor(picture[None], [2, 2]),
            tf.image.per_image_standardization(tf.cast(picture, tf.float32)),
            tf.image.resize_image_with_crop_or_pad(picture, 2, 2),
            tf.image.rgb_to_grayscale(picture),
            tf.image.decode_png(encoded),
            tf.image.convert_image_dtype(picture, tf.float32),
            tf.image.central_crop(picture, 0.5),
            tf.image.transpose_image(picture),
        ]
        with tf.Session() as sess:
            for each in found:
                value = sess.run(each, {picture: given})
                print(value.shape, value.dtype, f"{np.asarray(value, float).sum():.2f}")

    return scripts(tf, locals())
