"""Training programs as tutorials of TensorFlow 1 wrote them, on made-up data."""

import numpy as np
from tf1_support import rounded, scripts


def programs(tf):
    tf = tf.compat.v1

    def linear_regression(print):
        X, Y = tf.placeholder("float"), tf.placeholder("float")
        W, b = tf.Variable(0.3, name="weight"), tf.Variable(-0.2, name="bias")
        pred = tf.add(tf.multiply(X, W), b)
        cost = tf.reduce_sum(tf.pow(pred - Y, 2)) / (2 * 17)
        optimizer = tf.train.GradientDescentOptimizer(0.01).minimize(cost)
        init = tf.global_variables_initializer()
        train_x = np.linspace(1.0, 9.0, 17)
        train_y = train_x * 0.25 + 0.8
        with tf.Session() as sess:
            sess.run(init)
            for epoch in range(20):
                for x, y in zip(train_x, train_y):
                    sess.run(optimizer, feed_dict={X: x, Y: y})
                if (epoch + 1) % 5 == 0:
                    c = sess.run(cost, feed_dict={X: train_x, Y: train_y})
                    print(
                        "Epoch:",
                        f"{epoch + 1:04d}",
                        "cost=",
                        f"{c:.5f}",
                        f"W={sess.run(W):.4f}",
                        f"b={sess.run(b):.4f}",
                    )

    def house(print):
        W = tf.Variable([0.3], dtype=tf.float32)
        b = tf.Variable([-0.3], dtype=tf.float32)
        x = tf.placeholder(tf.float32)
        linear_model = W * x + b
        y = tf.placeholder(tf.float32)
        loss = tf.reduce_sum(tf.square(linear_model - y))
        sess = tf.Session()
        sess.run(tf.global_variables_initializer())
        print(sess.run(linear_model, {x: [1, 2, 3, 4]}))
        print(sess.run(loss, {x: [1, 2, 3, 4], y: [0, -1, -2, -3]}))
        fixW, fixb = tf.assign(W, [-1.0]), tf.assign(b, [1.0])
        sess.run([fixW, fixb])
        print(sess.run(loss, {x: [1, 2, 3, 4], y: [0, -1, -2, -3]}))
        train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        sess.run(tf.global_variables_initializer())
        for _ in range(300):
            sess.run(train, {x: [1, 2, 3, 4], y: [0, -1, -2, -3]})
        print(rounded(sess.run([W, b]), 3))

    def digits(seed=0, n=60):
        rng = np.random.RandomState(seed)
        centers = rng.rand(10, 64)
        label = rng.randint(0, 10, n)
        return (centers[label] + 0.1 * rng.rand(n, 64)).astype("float32"), np.eye(10, dtype="float32")[label]

    def softmax(print):
        xs, ys = digits()
        x = tf.placeholder(tf.float32, [None, 64])
        W = tf.Variable(tf.zeros([64, 10]))
        b = tf.Variable(tf.zeros([10]))
        y = tf.nn.softmax(tf.matmul(x, W) + b)
        y_ = tf.placeholder(tf.float32, [None, 10])
        cross_entropy = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y), reduction_indices=[1]))
        train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)
        sess = tf.InteractiveSession()
        tf.global_variables_initializer().run()
        for i in range(30):
            batch = slice((i % 3) * 20, (i % 3 + 1) * 20)
            sess.run(train_step, feed_dict={x: xs[batch], y_: ys[batch]})
        correct_prediction = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
        accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))
        print(sess.run(accuracy, feed_dict={x: xs, y_: ys}), f"{cross_entropy.eval({x: xs, y_: ys}):.4f}")
        sess.close()

    def convolutional(print):
        rng = np.random.RandomState(1)

        def weight_variable(shape):
            return tf.Variable(tf.constant(rng.randn(*shape) * 0.1, tf.float32))

        def bias_variable(shape):
            return tf.Variable(tf.constant(0.1, shape=shape))

        def conv2d(x, W):
            return tf.nn.conv2d(x, W, strides=[1, 1, 1, 1], padding="SAME")

        def max_pool_2x2(x):
            return tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")

        x = tf.placeholder(tf.float32, shape=[None, 64])
        y_ = tf.placeholder(tf.float32, shape=[None, 10])
        x_image = tf.reshape(x, [-1, 8, 8, 1])
        h_pool1 = max_pool_2x2(tf.nn.relu(conv2d(x_image, weight_variable([3, 3, 1, 4])) + bias_variable([4])))
        flat = tf.reshape(h_pool1, [-1, 4 * 4 * 4])
        h_fc1 = tf.nn.relu(tf.matmul(flat, weight_variable([64, 16])) + bias_variable([16]))
        keep_prob = tf.placeholder(tf.float32)
        h_drop = tf.nn.dropout(h_fc1, keep_prob)
        y = tf.matmul(h_drop, weight_variable([16, 10])) + bias_variable([10])
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y))
        train_step = tf.train.AdamOptimizer(1e-2).minimize(loss)
        xs, ys = digits(2, 30)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _i in range(5):
                train_step.run(feed_dict={x: xs, y_: ys, keep_prob: 1.0})
            print(f"{loss.eval(feed_dict={x: xs, y_: ys, keep_prob: 1.0}):.3f}")

    def perceptron_with_step(print):
        xs, ys = digits(3)
        x, y = tf.placeholder("float", [None, 64]), tf.placeholder("float", [None, 10])
        rng = np.random.RandomState(0)
        weights = {
            "h1": tf.Variable(rng.randn(64, 12).astype("f") * 0.2),
            "out": tf.Variable(rng.randn(12, 10).astype("f") * 0.2),
        }
        biases = {"b1": tf.Variable(tf.zeros([12])), "out": tf.Variable(tf.zeros([10]))}
        layer_1 = tf.nn.sigmoid(tf.add(tf.matmul(x, weights["h1"]), biases["b1"]))
        logits = tf.matmul(layer_1, weights["out"]) + biases["out"]
        loss_op = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=y))
        global_step = tf.Variable(0, trainable=False, name="global_step")
        rate = tf.train.exponential_decay(0.5, global_step, 10, 0.9, staircase=True)
        train_op = tf.train.MomentumOptimizer(rate, 0.9).minimize(loss_op, global_step=global_step)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for step in range(25):
                _, c, lr = sess.run([train_op, loss_op, rate], {x: xs, y: ys})
                if step % 8 == 0:
                    print("step", step, f"loss {c:.3f} rate {lr:.4f}")
            print(sess.run(global_step), [v.name for v in tf.trainable_variables()])

    def clipped(print):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        w = tf.get_variable("w", initializer=tf.constant([[1.0], [2.0]]))
        loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
        opt = tf.train.GradientDescentOptimizer(0.1)
        grads_and_vars = opt.compute_gradients(loss)
        print([v.name for _, v in grads_and_vars])
        grads, norm = tf.clip_by_global_norm([g for g, _ in grads_and_vars], 1.0)
        capped = [(tf.clip_by_value(g, -0.5, 0.5), v) for g, v in zip(grads, [v for _, v in grads_and_vars])]
        train = opt.apply_gradients(capped)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            print(rounded(sess.run(norm)))
            sess.run(train)
            print(rounded(sess.run(w)))

    def optimizers(print):
        made = {
            "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
            "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
            "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
            "adam": lambda: tf.train.AdamOptimizer(0.1),
            "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
            "adadelta": lambda: tf.train.AdadeltaOptimizer(1.0),
            "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
            "rmsprop centered": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
            "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
            "proximal": lambda: tf.train.ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=0.01),
            "proximal adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1, l2_regularization_strength=0.01),
        }
        for name, make in made.items():
            with tf.Graph().as_default():
                w = tf.Variable([1.0, -2.0, 0.5], name="w")
                loss = tf.reduce_sum(tf.square(w) * tf.constant([1.0, 0.5, 2.0]))
                opt = make()
                step = opt.minimize(loss)
                with tf.Session() as sess:
                    sess.run(tf.global_variables_initializer())
                    for _ in range(4):
                        sess.run(step)
                    print(name, rounded(sess.run(w), 3), [v.name for v in tf.global_variables()], opt.get_slot_names())

    def skipgram(print):
        rng = np.random.RandomState(0)
        vocabulary, size, batch = 20, 8, 6
        train_inputs = tf.placeholder(tf.int32, shape=[batch])
        train_labels = tf.placeholder(tf.int32, shape=[batch, 1])
        with tf.device("/cpu:0"), tf.name_scope("embeddings"):
            embeddings = tf.Variable(tf.constant(rng.uniform(-1, 1, (vocabulary, size)), tf.float32))
            embed = tf.nn.embedding_lookup(embeddings, train_inputs)
        with tf.name_scope("weights"):
            nce_weights = tf.Variable(tf.constant(rng.randn(vocabulary, size) / 3, tf.float32))
        with tf.name_scope("biases"):
            nce_biases = tf.Variable(tf.zeros([vocabulary]))
        sampled = (tf.constant([1, 5, 7], tf.int64), tf.fill([batch, 1], 0.2), tf.fill([3], 0.3))
        loss = tf.reduce_mean(
            tf.nn.nce_loss(
                weights=nce_weights,
                biases=nce_biases,
                labels=train_labels,
                inputs=embed,
                num_sampled=3,
                num_classes=vocabulary,
                sampled_values=sampled,
            )
        )
        optimizer = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keepdims=True))
        normalized = embeddings / norm
        valid = tf.nn.embedding_lookup(normalized, tf.constant([0, 1]))
        similarity = tf.matmul(valid, normalized, transpose_b=True)
        init = tf.global_variables_initializer()
        with tf.Session() as session:
            init.run()
            average = 0
            for step in range(5):
                feeds = {
                    train_inputs: (np.arange(6) + step) % 20,
                    train_labels: ((np.arange(6) * 3 + step) % 20)[:, None],
                }
                _, value = session.run([optimizer, loss], feed_dict=feeds)
                average += value
            print(
                f"{average / 5:.4f}",
                rounded(similarity.eval()[:, :4], 3),
                [v.op.name for v in tf.trainable_variables()],
            )

    def unrolled(print):
        rng = np.random.RandomState(0)
        steps, batch, hidden = 4, 3, 5
        x = tf.placeholder(tf.int32, [batch, steps], name="input")
        y = tf.placeholder(tf.int32, [batch, steps], name="labels")
        inputs = tf.unstack(tf.one_hot(x, 2), axis=1)
        with tf.variable_scope("rnn_cell"):
            W = tf.get_variable("W", [2 + hidden, hidden], initializer=tf.constant_initializer(0.1))
            b = tf.get_variable("b", [hidden], initializer=tf.constant_initializer(0.0))

        def cell(given, state):
            with tf.variable_scope("rnn_cell", reuse=True):
                W = tf.get_variable("W", [2 + hidden, hidden])
                b = tf.get_variable("b", [hidden], initializer=tf.constant_initializer(0.0))
            return tf.tanh(tf.matmul(tf.concat([given, state], 1), W) + b)

        state = tf.zeros([batch, hidden])
        outputs = []
        for each in inputs:
            state = cell(each, state)
            outputs.append(state)
        with tf.variable_scope("softmax"):
            V = tf.get_variable("W", initializer=rng.randn(hidden, 2).astype("f"))
        logits = [tf.matmul(o, V) for o in outputs]
        losses = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logit)
            for logit, label in zip(logits, tf.unstack(y, num=steps, axis=1))
        ]
        total = tf.reduce_mean(losses)
        train = tf.train.AdagradOptimizer(0.3).minimize(total)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(4):
                feeds = {x: rng.randint(0, 2, (batch, steps)), y: rng.randint(0, 2, (batch, steps))}
                value, _, last = sess.run([total, train, state], feeds)
            print(f"{value:.4f}", rounded(last[0], 3), W.name, b.name, V.name)

    def looped_rnn(print):
        rng = np.random.RandomState(0)
        x = tf.placeholder(tf.float32, [None, 2, 3])
        w = tf.Variable(rng.randn(3, 4).astype("f") * 0.5)
        u = tf.Variable(rng.randn(4, 4).astype("f") * 0.5)
        array = tf.TensorArray(tf.float32, size=tf.shape(x)[0]).unstack(x)
        out = tf.TensorArray(tf.float32, size=tf.shape(x)[0])

        def body(t, h, out):
            h = tf.tanh(tf.matmul(array.read(t), w) + tf.matmul(h, u))
            return t + 1, h, out.write(t, h)

        _, last, out = tf.while_loop(lambda t, *_: t < tf.shape(x)[0], body, (0, tf.zeros([2, 4]), out))
        outputs = out.stack()
        loss = tf.reduce_mean(tf.square(outputs))
        grads = tf.gradients(loss, [w, u])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for n in (2, 5):
                found = sess.run([tf.shape(outputs), loss, *grads], {x: rng.randn(n, 2, 3)})
                print(found[0], f"{found[1]:.4f}", [f"{np.abs(g).sum():.3f}" for g in found[2:]])

    def scanned(print):
        elems = np.array([1, 2, 3, 4, 5, 6], np.int64)
        total = tf.scan(lambda a, x: a + x, elems)
        fib = tf.scan(lambda a, _: (a[1], a[0] + a[1]), elems, initializer=(tf.constant(0), tf.constant(1)))
        mapped = tf.map_fn(lambda x: x * x, elems)
        folded = tf.foldl(lambda a, x: a * x, elems)
        with tf.Session() as sess:
            print(sess.run([total, fib, mapped, folded]))

    def variational(print):
        rng = np.random.RandomState(0)
        x = tf.placeholder(tf.float32, [None, 6])
        eps = tf.placeholder(tf.float32, [None, 2])
        with tf.variable_scope("encoder"):
            w = tf.get_variable("w", initializer=rng.randn(6, 4).astype("f") * 0.3)
            mean, log_var = tf.split(tf.matmul(x, w), 2, axis=1)
        z = mean + tf.exp(log_var / 2) * eps
        with tf.variable_scope("decoder"):
            v = tf.get_variable("w", initializer=rng.randn(2, 6).astype("f") * 0.3)
            out = tf.matmul(z, v)
        rec = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=out), axis=1)
        kl = -0.5 * tf.reduce_sum(1 + log_var - tf.square(mean) - tf.exp(log_var), axis=1)
        loss = tf.reduce_mean(rec + kl)
        train = tf.train.RMSPropOptimizer(0.05).minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _i in range(3):
                _, value = sess.run((train, loss), {x: rng.rand(5, 6), eps: rng.randn(5, 2)})
                print(f"{value:.3f}")

    def adversarial(print):
        rng = np.random.RandomState(0)

        def dense(x, name, rows, columns, reuse=False):
            with tf.variable_scope(name, reuse=reuse):
                w = tf.get_variable("w", [rows, columns], initializer=tf.constant_initializer(0.2))
                b = tf.get_variable("b", [columns], initializer=tf.zeros_initializer())
                return tf.matmul(x, w) + b

        def generator(z):
            return dense(tf.nn.relu(dense(z, "generator/one", 2, 3)), "generator/two", 3, 2)

        def discriminator(x, reuse=None):
            with tf.variable_scope("discriminator", reuse=reuse):
                return dense(tf.nn.leaky_relu(dense(x, "one", 2, 3, reuse)), "two", 3, 1, reuse)

        real, z = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None, 2])
        fake = generator(z)
        on_real, on_fake = discriminator(real), discriminator(fake, reuse=True)

        def bce(x, y):
            return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=x, labels=y * tf.ones_like(x)))

        d_loss, g_loss = bce(on_real, 1.0) + bce(on_fake, 0.0), bce(on_fake, 1.0)
        t_vars = tf.trainable_variables()
        d_vars = [v for v in t_vars if v.name.startswith("discriminator")]
        g_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="generator")
        print([v.name for v in d_vars], [v.name for v in g_vars])
        d_step = tf.train.AdamOptimizer(0.01, beta1=0.5).minimize(d_loss, var_list=d_vars)
        g_step = tf.train.AdamOptimizer(0.01, beta1=0.5).minimize(g_loss, var_list=g_vars)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(3):
                feeds = {real: rng.rand(4, 2), z: rng.rand(4, 2)}
                _, d = sess.run([d_step, d_loss], feeds)
                _, g = sess.run([g_step, g_loss], feeds)
            print(f"{d:.3f} {g:.3f}")

    def q_network(print):
        observation = tf.placeholder(tf.float32, [None, 4])
        action = tf.placeholder(tf.int32, [None])
        target = tf.placeholder(tf.float32, [None])

        def network(name):
            with tf.variable_scope(name):
                w = tf.get_variable("w", [4, 2], initializer=tf.ones_initializer())
                return tf.matmul(observation, w)

        q, frozen = network("online"), network("target")
        chosen = tf.reduce_sum(q * tf.one_hot(action, 2), axis=1)
        error = tf.stop_gradient(target + 0.9 * tf.reduce_max(frozen, axis=1)) - chosen
        huber = tf.where(tf.abs(error) < 1.0, 0.5 * tf.square(error), tf.abs(error) - 0.5)
        online = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="online")
        step = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_mean(huber), var_list=online)
        pairs = zip(tf.trainable_variables("target"), tf.trainable_variables("online"))
        update = tf.group(*[t.assign(o) for t, o in pairs])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            feeds = {observation: np.eye(4), action: [0, 1, 0, 1], target: [1.0, 0.0, -1.0, 2.0]}
            sess.run(step, feeds)
            print(rounded(sess.run([q, frozen], feeds), 3))
            sess.run(update)
            print(rounded(sess.run(frozen, feeds), 3), [v.name for v in online])

    def kmeans(print):
        points = tf.constant([[0.0, 0.1], [0.2, 0.0], [5.0, 5.1], [5.2, 4.9], [0.1, 0.2]])
        centroids = tf.Variable(tf.slice(points, [1, 0], [2, -1]))
        distances = tf.reduce_sum(tf.square(tf.subtract(tf.expand_dims(points, 0), tf.expand_dims(centroids, 1))), 2)
        assignments = tf.argmin(distances, 0)
        means = [
            tf.reduce_mean(
                tf.gather(points, tf.reshape(tf.where(tf.equal(assignments, c)), [1, -1])), reduction_indices=[1]
            )
            for c in range(2)
        ]
        update = tf.assign(centroids, tf.concat(means, 0))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(3):
                _, c, a = sess.run([update, centroids, assignments])
            print(rounded(c, 3), a)

    def neighbours(print):
        xtr, xte = tf.placeholder("float", [None, 3]), tf.placeholder("float", [3])
        distance = tf.reduce_sum(tf.abs(tf.add(xtr, tf.negative(xte))), reduction_indices=1)
        pred = tf.arg_min(distance, 0)
        with tf.Session() as sess:
            train = np.arange(12).reshape(4, 3)
            print([sess.run(pred, {xtr: train, xte: row}) for row in ([0, 1, 1], [9, 9, 9])])

    def newton(print):
        x = tf.Variable(5.0)
        y = x * x * x - 2.0 * x
        (dy,) = tf.gradients(y, x)
        (ddy,) = tf.gradients(dy, x)
        (h,) = tf.hessians(y, x)
        step = tf.assign_sub(x, dy / ddy)
        with tf.Session() as sess:
            sess.run(x.initializer)
            for _ in range(6):
                sess.run(step)
            print(f"{sess.run(x):.5f}", rounded(sess.run([dy, ddy, h]), 3))

    def averaged(print):
        v = tf.Variable(0.0, name="v")
        average = tf.train.ExponentialMovingAverage(decay=0.9)
        maintain = average.apply([v])
        shadow = average.average(v)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for n in range(3):
                sess.run(v.assign(float(n + 1)))
                sess.run(maintain)
            print(rounded(sess.run([v, shadow]), 4), shadow.name, average.average_name(v))

    def normalized(print):
        x = tf.placeholder(tf.float32, [None, 3])
        training = tf.placeholder_with_default(False, [])
        mean, variance = tf.nn.moments(x, [0])
        moving = tf.get_variable("moving_mean", [3], initializer=tf.zeros_initializer(), trainable=False)
        update = tf.assign(moving, moving * 0.9 + mean * 0.1)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)

        def trained():
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
                return tf.identity(mean), tf.identity(variance)

        m, v = tf.cond(training, trained, lambda: (tf.identity(moving), tf.ones([3])))
        y = tf.nn.batch_normalization(x, m, v, None, None, 1e-3)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            given = np.arange(6.0).reshape(2, 3)
            print(rounded(sess.run(y, {x: given, training: True}), 3))
            print(rounded(sess.run([y, moving], {x: given}), 3))

    def losses(print):
        labels = tf.constant([[1.0, 0.0], [0.0, 1.0]])
        logits = tf.constant([[2.0, -1.0], [0.5, 0.3]])
        found = {
            "mse": tf.losses.mean_squared_error(labels, logits),
            "mse weighted": tf.losses.mean_squared_error(labels, logits, weights=[[1.0], [0.0]]),
            "absolute": tf.losses.absolute_difference(labels, logits),
            "softmax": tf.losses.softmax_cross_entropy(labels, logits, label_smoothing=0.1),
            "sparse": tf.losses.sparse_softmax_cross_entropy([0, 1], logits),
            "sigmoid": tf.losses.sigmoid_cross_entropy(labels, logits),
            "hinge": tf.losses.hinge_loss(labels, logits),
            "huber": tf.losses.huber_loss(labels, logits, delta=0.7),
            "log": tf.losses.log_loss(labels, tf.sigmoid(logits)),
            "cosine": tf.losses.cosine_distance(labels, logits, axis=1),
            "pairwise": tf.losses.mean_pairwise_squared_error(labels, logits),
            "none": tf.losses.mean_squared_error(
                labels, logits, reduction=tf.losses.Reduction.NONE, loss_collection=None
            ),
            "sum": tf.losses.mean_squared_error(labels, logits, reduction=tf.losses.Reduction.SUM),
        }
        total = tf.losses.get_total_loss()
        print(len(tf.losses.get_losses()), len(tf.get_collection(tf.GraphKeys.LOSSES)))
        with tf.Session() as sess:
            for name, value in found.items():
                print(name, rounded(sess.run(value), 4))
            print(f"{sess.run(total):.4f}")

    def metrics(print):
        labels, predictions = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
        accuracy, update = tf.metrics.accuracy(labels=labels, predictions=predictions, name="acc")
        mean, update_mean = tf.metrics.mean(tf.cast(predictions, tf.float32))
        precision, update_precision = tf.metrics.precision(labels, predictions)
        recall, update_recall = tf.metrics.recall(labels, predictions)
        print([v.name for v in tf.local_variables()][:4])
        with tf.Session() as sess:
            sess.run(tf.local_variables_initializer())
            for y, p in (([1, 0, 1], [1, 1, 1]), ([0, 0, 1], [0, 1, 0])):
                feeds = {labels: y, predictions: p}
                print(rounded(sess.run([update, update_mean, update_precision, update_recall], feeds), 4))
            print(rounded(sess.run([accuracy, mean, precision, recall]), 4))

    def regularized(print):
        def l2(w):
            return 0.01 * tf.nn.l2_loss(w)

        with tf.variable_scope("layer", regularizer=l2):
            w = tf.get_variable("w", [2, 2], initializer=tf.constant_initializer(3.0))
        with tf.variable_scope("plain"):
            tf.get_variable("v", [2], initializer=tf.ones_initializer, regularizer=l2)
        kept = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        loss = tf.reduce_sum(w) + tf.add_n(kept)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            print(
                len(kept),
                rounded(sess.run([loss, *kept]), 4),
                rounded(sess.run(tf.losses.get_regularization_loss()), 4),
            )

    return scripts(tf, locals())


def in_sweep(label):
    """Other networks that classify digits, and others that are trained on what a network makes, run by default."""
    return label in ("softmax", "variational", "skipgram", "q network")
