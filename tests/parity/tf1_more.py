"""More programs of TensorFlow 1, with functions that tutorials rarely use."""

import os
import tempfile

import numpy as np
from tf1_support import raised, rounded, scripts


def programs(tf):
    tf = tf.compat.v1

    def autoencoder(print):
        rng = np.random.RandomState(0)
        X = tf.placeholder("float", [None, 12])
        shapes = {"encoder_h1": (12, 6), "encoder_h2": (6, 3), "decoder_h1": (3, 6), "decoder_h2": (6, 12)}
        weights = {k: tf.Variable(tf.constant(rng.randn(*s) * 0.4, tf.float32)) for k, s in shapes.items()}
        biases = {k: tf.Variable(tf.zeros([s[1]])) for k, s in shapes.items()}

        def layer(x, key):
            return tf.nn.sigmoid(tf.add(tf.matmul(x, weights[key]), biases[key]))

        code = layer(layer(X, "encoder_h1"), "encoder_h2")
        y_pred = layer(layer(code, "decoder_h1"), "decoder_h2")
        loss = tf.reduce_mean(tf.pow(X - y_pred, 2))
        optimizer = tf.train.RMSPropOptimizer(0.01).minimize(loss)
        init = tf.global_variables_initializer()
        with tf.Session() as sess:
            sess.run(init)
            for step in range(1, 6):
                _, value = sess.run([optimizer, loss], feed_dict={X: rng.rand(8, 12)})
                if step % 2 == 0:
                    print(f"Step {step}: Minibatch Loss: {value:.4f}")

    def logistic(print):
        rng = np.random.RandomState(1)
        with tf.name_scope("Model"):
            x = tf.placeholder(tf.float32, [None, 4], name="InputData")
            W = tf.Variable(tf.zeros([4, 1]), name="Weights")
            b = tf.Variable(tf.zeros([1]), name="Bias")
            pred = tf.sigmoid(tf.matmul(x, W) + b, name="Prediction")
        y = tf.placeholder(tf.float32, [None, 1], name="LabelData")
        with tf.name_scope("Loss"):
            cost = tf.reduce_mean(-y * tf.log(pred) - (1 - y) * tf.log(1 - pred))
        with tf.name_scope("SGD"):
            train = tf.train.GradientDescentOptimizer(0.5).minimize(cost)
        xs = rng.randn(20, 4)
        ys = (xs.sum(1, keepdims=True) > 0).astype("f")
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(10):
                sess.run(train, {x: xs, y: ys})
            print(f"{cost.eval({x: xs, y: ys}):.4f}", W.name, pred.name, cost.op.name.startswith("Loss/"), train.name)

    def sampled(print):
        logits = tf.constant([[0.5, 0.2, 0.3], [1.0, 2.0, 3.0]])
        temperature = tf.placeholder_with_default(1.0, [])
        probabilities = tf.nn.softmax(logits / temperature)
        top = tf.nn.top_k(probabilities, k=2)
        values, indices = top
        with tf.Session() as sess:
            print(
                rounded(sess.run(probabilities, {temperature: 0.5}), 3),
                rounded(sess.run(values), 3),
                sess.run(indices),
                sess.run(top).indices,
            )

    def sequences(print):
        lengths = tf.placeholder(tf.int32, [None])
        mask = tf.sequence_mask(lengths, maxlen=4, dtype=tf.float32)
        scores = tf.constant([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
        mean = tf.reduce_sum(scores * mask, 1) / tf.cast(lengths, tf.float32)
        last = tf.gather_nd(scores, tf.stack([tf.range(2), lengths - 1], axis=1))
        reversed_ = tf.reverse_sequence(scores, lengths, seq_dim=1, batch_dim=0)
        padded = tf.pad(scores, [[0, 0], [1, 0]], "CONSTANT", constant_values=9)
        with tf.Session() as sess:
            for each in (mask, mean, last, reversed_, padded, tf.boolean_mask(scores, mask > 0)):
                print(rounded(sess.run(each, {lengths: [1, 3]})))

    def moving_rates(print):
        step = tf.Variable(0, trainable=False)
        rates = {
            "exponential": tf.train.exponential_decay(0.1, step, 10, 0.5),
            "natural": tf.train.natural_exp_decay(0.1, step, 10, 0.5),
            "inverse": tf.train.inverse_time_decay(0.1, step, 10, 0.5, staircase=True),
            "polynomial": tf.train.polynomial_decay(0.1, step, 10, 0.01, power=0.5),
            "cycle": tf.train.polynomial_decay(0.1, step, 4, 0.01, cycle=True),
            "cosine": tf.train.cosine_decay(0.1, step, 20),
            "piecewise": tf.train.piecewise_constant(step, [5, 15], [1.0, 0.5, 0.1]),
        }
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for n in (0, 5, 15, 20):
                sess.run(step.assign(n))
                print(n, rounded(sess.run(rates), 5))

    def eager_by_choice(print):
        layer = tf.get_variable("a/b", [2], initializer=tf.ones_initializer())
        print(tf.executing_eagerly(), layer.name, tf.get_default_graph().get_name_scope() == "")
        with tf.name_scope("x"), tf.name_scope("y"):
            print(tf.get_default_graph().get_name_scope(), tf.constant(1).op.name)

    def fed_constants(print):
        x, count = tf.constant([1.0, 2.0]), tf.constant(3)
        large, complex_ = tf.constant(np.arange(5000.0)), tf.constant(1.0 + 2.0j)
        total = tf.add(2, 5)
        chosen = tf.cond(x[0] > 0, lambda: x * 2, lambda: x * 3)
        looped = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1]
        of_function = tf.function(lambda y: y * x)(tf.constant(2.0))
        fetches = {
            "itself": x, "product": x * tf.constant([3.0, 4.0]) + x, "power": tf.pow(tf.constant(3.0), x), "cond": chosen,
            "loop": looped, "function": of_function, "gradient": tf.gradients(x * x, x)[0], "size": tf.shape(x) + 0,
            "mask": tf.boolean_mask(tf.range(2), x > 0),
        }  # fmt: skip
        text = tf.strings.length(tf.constant("ab", name="text"))
        with tf.Session() as sess:
            print(rounded(sess.run(fetches, {x: [-5.0, 6.0]})))
            print(rounded(sess.run(fetches)))
            print(sess.run(count * 2, {count: 7}), sess.run(count * total, {total: 15}), sess.run(total * 3))
            print(sess.run(tf.reduce_sum(large), {large: np.ones(5000)}), sess.run(complex_ * 2, {complex_: 3j}))
            print(sess.run(text, {"text:0": "abcd"}), tf.get_default_graph().is_feedable(x))

    def consumers(print):
        x, c = tf.placeholder(tf.float32, [4, 4]), tf.constant(1.0)
        y, v = tf.exp(x), tf.Variable(1.0)
        z = tf.nn.softmax(x) + c
        parts = tf.split(x, 2, 1)
        chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: z, lambda: z * 2)
        v.assign_add(tf.reduce_sum(y), use_locking=True)
        for each in (x, y, c, chosen, parts[1]):
            print([op.type.lower().removesuffix("v") for op in each.consumers()])
        found = []

        @tf.function
        def traced(x):
            y = tf.exp(x)
            z = tf.matmul(x, y)
            found.extend([op.type for op in each.consumers()] for each in (x, y, z))
            return z

        traced(x)
        print(found)

    def jacobians(print):
        def show(pair):
            print(rounded(pair, 2), [each.dtype.name for each in pair])

        x, w, point = tf.constant([0.5, 1.0, 2.0]), tf.constant([1.0, 2.0, 3.0]), np.array([1, 2, 4], np.float32)
        y = tf.reduce_sum(x * w) * x + w
        z, table = tf.constant([1 + 2j, 3j], tf.complex64), tf.constant(np.arange(6.0).reshape(3, 2))
        one, others = tf.placeholder(tf.float64, []), tf.placeholder(tf.float64, [None])
        variable, empty = tf.Variable([2.0]), tf.zeros([0, 2])
        compute = tf.test.compute_gradient
        with tf.Session():
            show(compute(x, [3], y, [3], point))
            for pair in compute([x, w], [[3], [3]], y, [3], [point, point + 4]):
                show(pair)
            show(compute(table, [3, 2], tf.gather(table, [0, 2, 0]), [3, 2]))
            show(compute(z, [2], z * z, [2], np.array([1 + 1j, 2 - 1j], np.complex64)))
            show(compute(one, [], one * others, [2], np.array(3.0), extra_feed_dict={others: [1.0, 2.0]}))
            show(compute(x, x.shape, variable * x, [3], init_targets=[variable.initializer]))
            show(compute(empty, [0, 2], empty * 2, [0, 2]))
            print(tf.test.compute_gradient_error(empty, [0, 2], empty * 2, [0, 2]) == 0)
            print(tf.test.compute_gradient_error([x, w], [[3], [3]], y, [3]) < 1e-2)
            print(tf.test.compute_gradient_error(x, [3], tf.sin(x), [3], point, delta=0.5) > 1e-2)

    def constants_of_graph(print):
        a = tf.constant([1, 2, 3, 4, 5, 6], shape=[2, 3], name="a")
        filled = tf.constant(-1.0, shape=[2, 3])
        line, steps = tf.linspace(10.0, 13.0, 4), tf.range(3, 18, delta=3)
        diag = tf.eye(2)
        print(a.name, filled.name, steps.name, a.dtype, tf.zeros([2]).name, tf.ones([2]).name)
        with tf.Session() as sess:
            for each in (
                a,
                filled,
                line,
                steps,
                diag,
                tf.zeros_like(a),
                tf.ones_like(a),
                tf.fill([2], 8),
                tf.one_hot([0, 2], 3),
            ):
                print(sess.run(each).tolist())

    def grouped_and_counted(print):
        step = tf.train.create_global_step()
        total = tf.Variable(0.0, name="total")
        x = tf.placeholder(tf.float32, [])
        with tf.control_dependencies([tf.assign_add(total, x)]):
            count = tf.assign_add(step, 1)
        both = tf.group(count, name="both")
        print(raised(tf.train.create_global_step), tf.train.get_global_step().name, both.name)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for n in (1.0, 2.0, 3.0):
                sess.run(both, {x: n})
            print(sess.run([total, step]), tf.train.global_step(sess, step))

    def restored_parts(print):
        folder = tempfile.mkdtemp()
        with tf.variable_scope("base"):
            tf.get_variable("w", initializer=[1.0, 2.0])
        head = tf.get_variable("head", initializer=[3.0])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            tf.train.Saver(tf.global_variables("base")).save(sess, os.path.join(folder, "part"), write_meta_graph=False)
        print(sorted(os.listdir(folder)), tf.train.list_variables(folder), tf.train.load_variable(folder, "base/w"))
        with tf.Graph().as_default(), tf.Session() as sess:
            with tf.variable_scope("new"):
                other = tf.get_variable("w", [2])
            head = tf.get_variable("head", initializer=[5.0])
            sess.run(tf.global_variables_initializer())
            tf.train.Saver({"base/w": other}).restore(sess, os.path.join(folder, "part"))
            print(sess.run([other, head]))
            print(raised(lambda: tf.train.Saver().restore(sess, os.path.join(folder, "part"))))
            print(raised(lambda: tf.train.Saver().restore(sess, os.path.join(folder, "nothing")))[:60])
            print(raised(lambda: tf.train.Saver().save(sess, "/nowhere/at/all/x"))[:60])
        with tf.Graph().as_default():
            print(raised(tf.train.Saver))

    def unset(print):
        with tf.variable_scope("s"):
            v = tf.get_variable("v", [2])
        w = tf.get_variable("w", [])
        with tf.Session() as sess:
            print(sess.run(tf.report_uninitialized_variables()))
            missing = [n.decode() for n in sess.run(tf.report_uninitialized_variables([v, w]))]
            sess.run(tf.variables_initializer([x for x in tf.global_variables() if x.op.name in missing]))
            print(sess.run(tf.report_uninitialized_variables()), v.initializer.name, w.initial_value.shape)

    def custom_getter(print):
        def doubled(getter, name, *args, **kwargs):
            return getter(name, *args, **kwargs) * 2.0

        with tf.variable_scope("a", custom_getter=doubled):
            v = tf.get_variable("v", initializer=2.0)
        with tf.variable_scope("b", dtype=tf.float64):
            w = tf.get_variable("w", [1], initializer=tf.ones_initializer())
        with tf.variable_scope("c", regularizer=lambda x: tf.reduce_sum(x) * 0.5) as scope:
            tf.get_variable("r", initializer=[4.0])
            print(scope.name, [x.name for x in scope.global_variables()])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            print(sess.run([v, w]), sess.run(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)))

    def scopes_again(print):
        with tf.variable_scope("a"):
            x = tf.identity(1.0, name="x")
        with tf.variable_scope("a"):
            y = tf.identity(1.0, name="x")
        with tf.variable_scope("a", auxiliary_name_scope=False):
            z = tf.identity(1.0, name="x")
        with tf.variable_scope("a") as a:
            pass
        with tf.variable_scope("b"), tf.variable_scope(a):
            v = tf.get_variable("v", [])
            w = tf.identity(1.0, name="x")
        with tf.name_scope("n"):
            u = tf.get_variable("u", [])
            t = tf.Variable(0.0, name="t")
        print(x.name, y.name, z.name, v.name, w.name, u.name, t.name)
        for _ in range(2):
            with tf.variable_scope(None, default_name="layer"):
                print(tf.get_variable("k", []).name)

    def bounded(print):
        x = tf.placeholder(tf.float32, [None])
        checks = [
            tf.assert_positive(x),
            tf.assert_less(tf.reduce_max(x), 10.0, message="too large"),
            tf.assert_rank(x, 1),
        ]
        with tf.control_dependencies(checks):
            y = tf.identity(x)
        with tf.Session() as sess:
            print(
                sess.run(y, {x: [1.0]}),
                raised(lambda: sess.run(y, {x: [-1.0]})),
                raised(lambda: sess.run(y, {x: [11.0]})),
            )

    def sparse_updates(print):
        embeddings = tf.get_variable("e", [4, 2], initializer=tf.ones_initializer())
        ids = tf.placeholder(tf.int32, [None])
        loss = tf.reduce_sum(tf.nn.embedding_lookup(embeddings, ids) ** 2)
        for optimizer in (
            tf.train.GradientDescentOptimizer(0.1),
            tf.train.AdagradOptimizer(0.1),
            tf.train.MomentumOptimizer(0.1, 0.9),
        ):
            step = optimizer.minimize(loss)
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                for _ in range(2):
                    sess.run(step, {ids: [1, 1, 3]})
                print(rounded(sess.run(embeddings), 3))

    def confusion(print):
        labels, predictions = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
        scores = tf.placeholder(tf.float32, [None])
        found = {
            "iou": tf.metrics.mean_iou(labels, predictions, 2),
            "class": tf.metrics.mean_per_class_accuracy(labels, predictions, 2),
            "auc": tf.metrics.auc(labels, scores),
            "mae": tf.metrics.mean_absolute_error(tf.to_float(labels), scores),
            "rmse": tf.metrics.root_mean_squared_error(tf.to_float(labels), scores),
            "fp": tf.metrics.false_positives(labels, predictions),
        }
        matrix = tf.confusion_matrix(labels, predictions, 2)
        with tf.Session() as sess:
            sess.run(tf.local_variables_initializer())
            feeds = {labels: [0, 1, 1, 0], predictions: [0, 1, 0, 1], scores: [0.1, 0.8, 0.4, 0.6]}
            sess.run([pair[1] for pair in found.values()], feeds)
            print(rounded(sess.run({k: pair[0] for k, pair in found.items()}), 4), sess.run(matrix, feeds).tolist())

    def weights_of_rows(print):
        labels, predictions = tf.placeholder(tf.float32, [2, 2]), tf.placeholder(tf.float32, [2, 2])
        row_weights, last_dim = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2, 2, 1])
        found = {
            "mean": tf.metrics.mean(predictions, row_weights),
            "mean_tensor": tf.metrics.mean_tensor(predictions, row_weights),
            "mean_absolute_error": tf.metrics.mean_absolute_error(labels, predictions, row_weights),
            "mean_relative_error": tf.metrics.mean_relative_error(labels, predictions, last_dim, row_weights),
            "percentage_below": tf.metrics.percentage_below(predictions, 0.5, row_weights),
            "accuracy": tf.metrics.accuracy(labels, tf.round(predictions), row_weights),
            "recall": tf.metrics.recall(labels, tf.round(predictions), row_weights),
            "false_positives": tf.metrics.false_positives(labels, tf.round(predictions), row_weights),
            "auc": tf.metrics.auc(labels, predictions, row_weights, num_thresholds=5),
            "weights with one dim more": tf.metrics.mean(predictions, last_dim),
        }
        print(raised(lambda: tf.metrics.mean(tf.zeros([2, 3]), tf.zeros([3]))).partition(".")[0])
        with tf.Session() as sess:
            sess.run(tf.local_variables_initializer())
            feeds = {labels: [[0, 1], [1, 0]], predictions: [[0.1, 0.8], [0.4, 0.9]], row_weights: [1, 3]}
            feeds[last_dim] = [[[1], [2]], [[3], [4]]]
            sess.run([pair[1] for pair in found.values()], feeds)
            print(rounded(sess.run({k: pair[0] for k, pair in found.items()}), 4))

    def weights_of_any_rank(print):
        for shapes in ((None, None), (None, [None]), ([2, 2], None)):
            with tf.Graph().as_default():
                values, weights = (tf.placeholder(tf.float32, shape) for shape in shapes)
                labels = tf.cast(values > 0.3, tf.int32)
                means = [tf.metrics.mean(values, weights), tf.metrics.accuracy(labels, labels, weights)]
                means.append(tf.metrics.auc(labels, values, weights, num_thresholds=5))
                with tf.Session() as sess:
                    sess.run(tf.local_variables_initializer())
                    feeds = {values: [[0.1, 0.8], [0.4, 0.9]], weights: [1, 3]}
                    print(rounded(sess.run([update for _, update in means], feeds), 4))

    def padded_queue(print):
        q = tf.PaddingFIFOQueue(10, tf.int32, shapes=[[None]])
        x = tf.placeholder(tf.int32, [None])
        put, close = q.enqueue(x), q.close()
        taken = q.dequeue_up_to(2)
        with tf.Session() as sess:
            for row in ([1], [2, 3], [4]):
                sess.run(put, {x: row})
            sess.run(close)
            print(
                sess.run(taken).tolist(), sess.run(taken).tolist(), raised(lambda: sess.run(taken)), put.name, put.type
            )

    def csv_lines(print):
        path = tempfile.mktemp()
        with open(path, "w") as file:
            file.write("x,y,label\n1,2.5,a\n3,,b\n")
        dataset = tf.data.TextLineDataset(path).skip(1).map(lambda line: tf.decode_csv(line, [[0], [0.5], [""]]))
        dataset = dataset.map(lambda x, y, z: ({"x": x, "y": y}, z)).batch(2)
        features, label = dataset.make_one_shot_iterator().get_next()
        names = tf.placeholder(tf.string, [None])
        fed = tf.data.TextLineDataset(names).skip(1).make_initializable_iterator()
        line = fed.get_next()
        with tf.Session() as sess:
            print(sess.run([features, label]))
            sess.run(fed.initializer, {names: [path]})
            print(sess.run(line), sess.run(line), raised(lambda: sess.run(line)))

    def counted_up(print):
        v = tf.Variable(0)
        x = tf.placeholder(tf.int32, [])
        total = tf.while_loop(
            lambda i, s: i < x, lambda i, s: (i + 1, s + tf.cond(i % 2 > 0, lambda: i, lambda: 0)), [0, 0]
        )[1]
        nested = tf.map_fn(lambda n: tf.while_loop(lambda i: i * i < n, lambda i: i + 1, [0]), tf.constant([4, 10, 17]))
        updated = tf.while_loop(lambda i: i < 3, lambda i: (tf.group(v.assign_add(1)), i + 1)[1], [0])
        with tf.Session() as sess:
            sess.run(v.initializer)
            print(sess.run(total, {x: 6}), sess.run(nested), sess.run(updated))

    return scripts(tf, locals())
