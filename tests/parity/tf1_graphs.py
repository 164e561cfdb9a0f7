"""Graphs of TensorFlow 1: names, collections, scopes, sessions, feeds, errors, control flow."""

import os
import tempfile

import numpy as np
from tf1_support import raised, rounded, scripts


def programs(tf):
    tf = tf.compat.v1

    def hello(print):
        hello = tf.constant("Hello, TensorFlow!")
        sess = tf.Session()
        print(sess.run(hello), hello)
        a, b = tf.constant(2), tf.constant(3)
        with tf.Session() as sess:
            print(f"a: {sess.run(a):d}", f"b: {sess.run(b):d}")
            print(f"Addition with constants: {sess.run(a + b):d}", f"{sess.run(a * b):d}")
        a, b = tf.placeholder(tf.int16), tf.placeholder(tf.int16)
        add, mul = tf.add(a, b), tf.multiply(a, b)
        with tf.Session() as sess:
            print(sess.run(add, feed_dict={a: 2, b: 3}), sess.run(mul, feed_dict={a: 2, b: 3}))
        print(add, mul, a)
        matrix1, matrix2 = tf.constant([[3.0, 3.0]]), tf.constant([[2.0], [2.0]])
        product = tf.matmul(matrix1, matrix2)
        with tf.Session() as sess:
            print(sess.run(product), product)

    def nodes(print):
        node1, node2 = tf.constant(3.0, dtype=tf.float32), tf.constant(4.0)
        print(node1, node2)
        node3 = tf.add(node1, node2)
        print("node3:", node3)
        a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        adder_node = a + b
        add_and_triple = adder_node * 3.0
        sess = tf.Session()
        print(sess.run(adder_node, {a: 3, b: 4.5}), sess.run(adder_node, {a: [1, 3], b: [2, 4]}))
        print(sess.run(add_and_triple, {a: 3, b: 4.5}))
        print(adder_node.op.name, add_and_triple.op.type, adder_node.name, add_and_triple.op.inputs[0].name)
        print(-a, a - b, a / b, a < b, tf.square(a), a[0])

    def names(print):
        g = tf.get_default_graph()
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        w = tf.Variable(tf.zeros([3, 2]), name="w")
        with tf.name_scope("layer") as scope:
            h = tf.matmul(x, w, name="h")
            r = tf.nn.relu(h)
            with tf.name_scope("inner"):
                c = tf.constant(1.0, name="c")
        with tf.name_scope("layer"):
            again = tf.identity(r, name="again")
        print(x.name, x.op.name, w.name, w.op.name, scope, h.name, r.name, c.name, again.name)
        print(g.get_tensor_by_name("x:0") is x, g.get_tensor_by_name("layer/h:0") is h)
        print(g.get_operation_by_name("layer/inner/c").type, g.get_operation_by_name("x").outputs[0] is x)
        print(
            h.op.type, r.op.type, [i.name for i in r.op.inputs], h.graph is g, r.op.graph is g, again.op.outputs[0].name
        )
        print(raised(lambda: g.get_tensor_by_name("nothing:0")))
        print(raised(lambda: g.get_tensor_by_name("x")))
        print(raised(lambda: g.get_operation_by_name("nothing")))
        print(g.as_graph_element("x") is x.op, g.as_graph_element("x:0"), x.op.name)
        print(x.shape, x.get_shape().as_list(), h.get_shape(), x.dtype, x.op.get_attr("dtype"))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            print(sess.run("layer/h:0", {"x:0": np.ones((2, 3))}), sess.run(x.op.name + ":0", {x: [[1, 2, 3]]}))

    def operations(print):
        a = tf.constant(1.0, name="a")
        b = tf.placeholder(tf.float32, [], name="b")
        tf.add(a, b, name="sum")
        tf.multiply(a, b, name="product")
        tf.no_op(name="nothing")
        tf.group(a, name="all")
        print([op.name for op in tf.get_default_graph().get_operations()])
        print([op.type for op in tf.get_default_graph().get_operations()])
        print([n.name for n in tf.get_default_graph().as_graph_def().node])

    def repeated(print):
        print([tf.constant(1.0).name for _ in range(3)], [tf.constant(1.0, name="c").name for _ in range(2)])
        print([tf.placeholder(tf.float32).op.name for _ in range(2)], [tf.Variable(0.0).name for _ in range(2)])
        for _ in range(2):
            with tf.name_scope("s") as s:
                print(s, tf.constant(0, name="k").name, tf.Variable(0, name="v").name)
        with tf.name_scope("s/"):
            print(tf.constant(0, name="k").name)
        with tf.name_scope(None):
            print(tf.constant(0, name="root").name)
        with tf.name_scope("given", values=[tf.constant(1)]), tf.name_scope(None, "default") as d:
            print(d)

    def scopes(print):
        with tf.variable_scope("foo"):
            v = tf.get_variable("v", [1])
            with tf.variable_scope("bar") as bar:
                w = tf.get_variable("w", [2], dtype=tf.float64, trainable=False)
                x = tf.add(1.0, v)
        print(v.name, w.name, w.dtype, bar.name, bar.original_name_scope, x.op.name, bar.reuse)
        with tf.variable_scope("foo", reuse=True):
            print(tf.get_variable("v", [1]) is v, tf.get_variable_scope().name, tf.get_variable_scope().reuse)
        with tf.variable_scope("foo", reuse=tf.AUTO_REUSE):
            print(tf.get_variable("v", [1]) is v, tf.get_variable("new", [1]).name)
        with tf.variable_scope("foo") as scope:
            scope.reuse_variables()
            print(tf.get_variable("v", [1]) is v)
        with tf.variable_scope(bar, reuse=True):
            print(tf.get_variable("w", [2], dtype=tf.float64) is w)
        with tf.variable_scope("foo"):
            print(raised(lambda: tf.get_variable("v", [1])))
        with tf.variable_scope("foo", reuse=True):
            print(raised(lambda: tf.get_variable("absent", [1])))
            print(raised(lambda: tf.get_variable("v", [3])))
        with tf.variable_scope("init", initializer=tf.constant_initializer(0.4)) as scope:
            a = tf.get_variable("a", [1])
            b = tf.get_variable("b", [1], initializer=tf.constant_initializer(0.3))
            scope.set_initializer(tf.constant_initializer(0.5))
            c = tf.get_variable("c", [1])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            print(rounded(sess.run([a, b, c])))
        print([v.name for v in tf.global_variables()], [v.name for v in tf.trainable_variables("init")])
        print(raised(lambda: tf.get_variable("shapeless")))

    def shared_template(print):
        def layer(x):
            w = tf.get_variable("w", [2, 2], initializer=tf.ones_initializer())
            return tf.matmul(x, w)

        shared = tf.make_template("layer", layer)
        a, b = shared(tf.ones([1, 2])), shared(2 * tf.ones([1, 2]))
        with tf.variable_scope(None, default_name="unit") as one, tf.variable_scope("in"):
            v = tf.get_variable("v", [])
        with tf.variable_scope(None, "unit"):
            w = tf.get_variable("v", [])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            print(sess.run([a, b]), [v.name for v in tf.global_variables()], v.name, w.name, one.name)

    def collections(print):
        a, b = tf.constant(1.0), tf.constant(2.0)
        tf.add_to_collection("mine", a)
        tf.get_default_graph().add_to_collection("mine", b)
        tf.add_to_collections(["one", "two"], b)
        print(tf.get_collection("mine") == [a, b] or len(tf.get_collection("mine")), tf.get_collection("none"))
        tf.get_collection_ref("mine").append(a)
        print(len(tf.get_collection("mine")), sorted(tf.get_default_graph().get_all_collection_keys()))
        tf.Variable(1.0, name="x/v")
        tf.Variable(1.0, name="y/v", trainable=False)
        tf.Variable(1.0, name="z/v", collections=[tf.GraphKeys.LOCAL_VARIABLES])
        print(
            [v.name for v in tf.global_variables()],
            [v.name for v in tf.trainable_variables()],
            [v.name for v in tf.local_variables()],
        )
        print(
            [v.name for v in tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, "x")],
            [v.name for v in tf.all_variables()],
        )
        print(
            tf.GraphKeys.TRAINABLE_VARIABLES, tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.SUMMARIES, tf.GraphKeys.GLOBAL_STEP
        )

    def several_graphs(print):
        g1, g2 = tf.Graph(), tf.Graph()
        with g1.as_default():
            tf.get_variable("v", shape=[1], initializer=tf.zeros_initializer())
            c1 = tf.constant(4.0)
        with g2.as_default():
            tf.get_variable("v", shape=[1], initializer=tf.ones_initializer())
            c2 = tf.constant(20.0)
        for g in (g1, g2):
            with tf.Session(graph=g) as sess:
                tf.global_variables_initializer().run()
                with tf.variable_scope("", reuse=True):
                    print(sess.run(tf.get_variable("v")))
        print(c1.graph is g1, c2.graph is g1, c1.graph is tf.get_default_graph())
        with tf.Session(graph=g1) as sess:
            print(raised(lambda: sess.run(c2)).split(" (")[0])
        print(raised(lambda: c1 + c2).split(" (")[0][:60])
        tf.constant(1)
        g3 = tf.Graph()
        with g3.as_default():
            print(len(g3.get_operations()), tf.get_default_graph() is g3)

    def fetches(print):
        a, b = tf.constant([10, 20]), tf.constant([1.0, 2.0])
        sess = tf.Session()
        import collections

        Pair = collections.namedtuple("Pair", ["a", "b"])
        print(sess.run(a), sess.run([a, b]), sess.run((a, [b])), sess.run({"k1": Pair(a, b), "k2": [b, a]}))
        print(sess.run([]), sess.run({}), sess.run(tf.no_op()), sess.run([a, tf.no_op()]), sess.run(Pair(a, b)).a)
        print(type(sess.run(a[0])).__name__, type(sess.run(a)).__name__, sess.run("Const:0"), sess.run(["Const:0"]))
        print(raised(lambda: sess.run(3)))
        print(raised(lambda: sess.run(None)))
        print(raised(lambda: sess.run("absent:0")))
        print(raised(lambda: sess.run([a, "bad"])))
        with tf.Session() as sess:
            print(a.eval(), tf.reduce_sum(b).eval(), tf.get_default_session() is sess)
        print(raised(lambda: a.eval()))
        print(raised(lambda: sess.run(a)))
        made = tf.Session().make_callable([a, b])
        print(made())

    def feeds(print):
        x = tf.placeholder(tf.float32, shape=(2, None), name="x")
        y = x + 1.0
        z = y * 2.0
        d = tf.placeholder_with_default(tf.constant([1.0, 2.0]), shape=[None], name="d")
        text = tf.placeholder(tf.string, [None])
        flag = tf.placeholder(tf.bool)
        sess = tf.Session()
        print(
            sess.run(z, {x: [[1, 2], [3, 4]]}),
            sess.run(z, {y: np.ones((2, 1))}),
            sess.run(d + 1),
            sess.run(d, {d: [5]}),
        )
        print(sess.run(tf.string_join([text, text]), {text: ["a", "b"]}), sess.run(tf.logical_not(flag), {flag: True}))
        print(sess.run(tf.cond(flag, lambda: 1, lambda: 2), {flag: False}), d.shape, x.shape)
        print(raised(lambda: sess.run(z)))
        print(raised(lambda: sess.run(z, {x: [1, 2]})))
        print(raised(lambda: sess.run(z, {x: "text"}))[:10])
        print(raised(lambda: sess.run(z, {"absent:0": 1})))
        print(raised(lambda: sess.run(z, {x: tf.constant(1.0)})))
        print(raised(lambda: sess.run(z, {3: 1})))
        print(raised(lambda: sess.run(tf.Variable(1.0, name="v") + 1)))
        print(raised(lambda: x[0] and 1)[:70])
        print(raised(lambda: list(x[0]))[:70])
        print(raised(lambda: tf.placeholder(tf.float32, [2]) + tf.placeholder(tf.float32, [3])).split(":")[0])
        print(raised(lambda: tf.constant(1) + tf.constant(1.0)).split(":")[0])

    def variables(print):
        W = tf.Variable(10, name="W")
        assign_op = W.assign(100)
        with tf.Session() as sess:
            print(raised(lambda: sess.run(W)).split(":")[0], sess.run(W.is_initialized()))
            sess.run(W.initializer)
            print(W.eval(), sess.run(assign_op), W.eval(), sess.run(W.assign_add(10)), sess.run(W.assign_sub(2)))
            W.load(7, sess)
            print(sess.run(W), sess.run(tf.report_uninitialized_variables()))
        a = tf.Variable(2, name="scalar")
        a_times_two = a.assign(a * 2)
        b = tf.Variable(a.initial_value + 1)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            print(sess.run(a_times_two), sess.run(a_times_two), sess.run(b), W, a.dtype, a.shape, a.op.name)
            print(sess.run(tf.report_uninitialized_variables()))
        with tf.Session() as one, tf.Session() as two:
            one.run(W.initializer)
            two.run(W.initializer)
            print(one.run(W.assign_add(10)), two.run(W.assign_sub(2)), one.run(W), two.run(W))
        with tf.Session() as sess:
            print(sess.run(tf.report_uninitialized_variables([a, b])))
            sess.run(tf.variables_initializer([a]))
            print(sess.run(tf.report_uninitialized_variables([a, b])), sess.run(b.is_initialized()))

    def scattered(print):
        v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        updates = [
            tf.scatter_update(v, [0], [[9.0, 9.0]]),
            tf.scatter_add(v, [1, 1], [[1.0, 1.0], [1.0, 1.0]]),
            tf.scatter_sub(v, [2], [[1.0, 0.0]]),
            tf.scatter_mul(v, [0], [[2.0, 2.0]]),
            tf.scatter_nd_update(v, [[1, 1]], [0.5]),
            tf.scatter_nd_add(v, [[2, 0]], [10.0]),
        ]
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for update in updates:
                print(rounded(sess.run(update)))
            print(rounded(sess.run(v[1:].assign([[0.0, 0.0], [7.0, 7.0]]))) if hasattr(v[1:], "assign") else None)

    def dependencies(print):
        x = tf.Variable(0, name="x")
        with tf.control_dependencies([tf.assign(x, 5)]):
            y = tf.identity(x)
        model = tf.global_variables_initializer()
        count = tf.Variable(0)
        step = tf.assign_add(count, 1)
        with tf.control_dependencies([step]):
            done = tf.no_op(name="done")
        tuple_ = tf.tuple([x + 1], control_inputs=[done])
        with tf.Session() as sess:
            sess.run([model, count.initializer])
            print(sess.run(y), sess.run(x))
            for _ in range(3):
                sess.run(done)
            print(sess.run(count), done.name, done.type, sess.run(tuple_))
            with tf.control_dependencies(None):
                print(sess.run(tf.identity(count)))

    def conditions(print):
        a, b = tf.constant(5), tf.placeholder(tf.int32, [])
        larger = tf.cond(a > b, lambda: tf.add(a, b), lambda: tf.square(b))
        case = tf.case(
            {tf.less(b, 3): lambda: tf.constant(1), tf.greater(b, 7): lambda: tf.constant(2)},
            default=lambda: tf.constant(3),
            exclusive=True,
        )
        ordered = tf.case(
            [(b > 7, lambda: tf.constant("large")), (b > 3, lambda: tf.constant("medium"))],
            default=lambda: tf.constant("small"),
        )
        pair = tf.cond(tf.less(b, 2), true_fn=lambda: (a, b), false_fn=lambda: (b, a), name="pair")
        where = tf.where(tf.constant([True, False]), tf.stack([a, b]), tf.stack([b, a]))
        with tf.Session() as sess:
            for n in (1, 5, 9):
                print(sess.run([larger, case, ordered, pair, where], {b: n}))

    def loops(print):
        i, total = tf.while_loop(lambda i, s: tf.less(i, 10), lambda i, s: [tf.add(i, 1), s + i], [tf.constant(0), 0])
        one = tf.while_loop(lambda i: i < 10, lambda i: i * 2, [tf.constant(1)])
        n = tf.placeholder(tf.int32, [])
        grown = tf.while_loop(
            lambda k, m: k < n,
            lambda k, m: [k + 1, tf.concat([m, m], axis=0)],
            loop_vars=[tf.constant(0), tf.ones([1, 2])],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])],
        )[1]
        x = tf.placeholder(tf.float32, [])
        power = tf.while_loop(lambda k, p: k < 3, lambda k, p: (k + 1, p * x), [0, tf.constant(1.0)])[1]
        grad = tf.gradients(power, x)[0]
        with tf.Session() as sess:
            print(sess.run([i, total, one]), sess.run(tf.shape(grown), {n: 3}), sess.run([power, grad], {x: 2.0}))

    def printed(print):
        x = tf.constant([1.0, 2.0])
        shown = tf.Print(x, [x, tf.shape(x)], message="x: ")
        checked = tf.check_numerics(x, "bad")
        verified = tf.verify_tensor_all_finite(x, "not finite")
        with tf.control_dependencies([tf.Assert(tf.reduce_all(x > 0), [x]), tf.assert_equal(tf.shape(x)[0], 2)]):
            y = tf.identity(x)
        bad = tf.check_numerics(tf.log(x - 2.0), "bad value")
        with tf.Session() as sess:
            print(sess.run([shown * 2, checked, verified, y]))
            try:
                sess.run(bad)
            except tf.errors.InvalidArgumentError as error:
                print(type(error).__name__)

    def called_python(print):
        def mine(a, b):
            return np.sinh(a) + b

        x = tf.placeholder(tf.float32, [2])
        y = tf.py_func(mine, [x, 1.0], tf.float32)
        pair = tf.py_func(lambda a: (a + 1, np.array(b"t")), [x], [tf.float32, tf.string])
        z = tf.py_func(lambda: np.int64(3), [], tf.int64, stateful=False)
        with tf.Session() as sess:
            print(rounded(sess.run(y, {x: [0.0, 1.0]})), sess.run(pair, {x: [1, 2]}), sess.run(z), y.shape)

    def differentiated(print):
        x = tf.placeholder(tf.float32, [2])
        w = tf.Variable([3.0, 4.0])
        y = tf.reduce_sum(w * x * x)
        u = tf.constant(1.0)
        print(tf.gradients(y, [u]), tf.gradients(y, u, unconnected_gradients="zero")[0].shape)
        g = tf.gradients([y, 2 * y], [x, w], grad_ys=[tf.constant(1.0), tf.constant(2.0)], name="gg")
        stopped = tf.gradients(x * tf.stop_gradient(x), x)
        cut = tf.gradients(w * x, [w, x], stop_gradients=[w])
        emb = tf.Variable(tf.ones([4, 2]))
        sparse = tf.gradients(tf.reduce_sum(tf.gather(emb, [1, 1, 3])), emb)[0]
        print(type(sparse).__name__)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            print(rounded(sess.run([g, stopped, cut], {x: [1.0, 2.0]})), sess.run(tf.convert_to_tensor(sparse)))

        @tf.custom_gradient
        def clipped(v):
            return tf.identity(v), lambda dy: tf.clip_by_value(dy, -0.1, 0.1)

        with tf.Session() as sess:
            print(rounded(sess.run(tf.gradients(clipped(x) * 5.0, x), {x: [1.0, 2.0]})))

    def reductions(print):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        with tf.Session() as sess:
            found = [
                tf.reduce_sum(x, reduction_indices=0),
                tf.reduce_mean(x, 1, keep_dims=True),
                tf.reduce_max(x, axis=[0, 1]),
                tf.argmax(x, dimension=1),
                tf.arg_max(x, 0),
                tf.squeeze(x[:, :1], squeeze_dims=[1]),
                tf.expand_dims(x, dim=0),
                tf.split(x, 2, 1),
                tf.concat([x, x], 1),
                tf.stack([x, x])[0],
                tf.tile(x, [1, 2]),
                tf.reverse(x, axis=[0]),
                tf.div(7, 2),
                tf.div(7.0, 2.0),
                tf.floordiv(-7, 2),
                tf.truediv(7, 2),
                tf.mod(-7, 3),
                tf.truncatediv(-7, 2),
                tf.to_float(3),
                tf.to_int32(3.7),
                tf.cast(x, tf.int32),
                tf.count_nonzero(x),
                tf.norm(x),
                tf.matrix_inverse(x),
                tf.diag([1, 2]),
                tf.trace(x),
                tf.cumsum(x, 1),
                tf.segment_sum(x, [0, 0]),
                tf.unsorted_segment_sum(x, [1, 0], 2),
                tf.sparse_to_dense([1, 3], [5], [7, 8]),
                tf.invert_permutation([1, 0]),
                tf.setdiff1d([1, 2, 3], [2]),
                tf.unique([1, 1, 2]),
                tf.is_nan(x),
                tf.is_finite(x),
                tf.rsqrt(x),
                tf.lgamma(x),
                tf.log1p(x),
                tf.space_to_batch_nd,
            ][:-1]
            for each in found:
                value = sess.run(each)
                print(rounded(list(value) if isinstance(value, (list, tuple)) else value, 3))

    def layers_of_nn(print):
        x = tf.constant(np.arange(32.0).reshape(1, 4, 4, 2).astype("f") / 32)
        k = tf.constant(np.linspace(-1, 1, 36).reshape(3, 3, 2, 2).astype("f"))
        found = [
            tf.nn.conv2d(x, k, [1, 2, 2, 1], "SAME"),
            tf.nn.conv2d(x, filter=k, strides=[1, 1, 1, 1], padding="VALID"),
            tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"),
            tf.nn.avg_pool(value=x, ksize=2, strides=2, padding="SAME"),
            tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "VALID"),
            tf.nn.softmax(x, dim=-1)[0, 0],
            tf.nn.log_softmax(x, axis=-1)[0, 0],
            tf.nn.l2_normalize(x, dim=3)[0, 0],
            tf.nn.xw_plus_b(x[0, 0], tf.ones([2, 3]), tf.ones([3])),
            tf.nn.relu6(x * 20)[0, 0],
            tf.nn.bias_add(x, [1.0, 2.0])[0, 0],
            tf.nn.lrn(x, 1)[0, 0],
            tf.nn.in_top_k([[0.1, 0.9]], [1], 1),
            tf.nn.top_k([1, 5, 3], 2),
            tf.nn.moments(x, axes=[0, 1, 2]),
            tf.nn.conv2d_transpose(x, k, [1, 8, 8, 2], [1, 2, 2, 1])[0, 0, :2],
            tf.nn.weighted_cross_entropy_with_logits(labels=[1.0], logits=[0.5], pos_weight=2.0),
            tf.nn.zero_fraction(x),
            tf.nn.embedding_lookup(tf.constant([[1.0], [2.0]]), [1]),
            tf.nn.dropout(x, keep_prob=1.0)[0, 0],
            tf.nn.dropout(x, rate=0.0)[0, 0],
            tf.nn.batch_normalization(x, 0.0, 1.0, 0.0, 1.0, 0.0)[0, 0],
            tf.nn.crelu([1.0, -1.0]),
        ]
        with tf.Session() as sess:
            for each in found:
                value = sess.run(each)
                print(rounded(list(value) if isinstance(value, (list, tuple)) else value, 3))

    def saved(print):
        folder = tempfile.mkdtemp()
        v1 = tf.get_variable("v1", shape=[3], initializer=tf.zeros_initializer)
        v2 = tf.get_variable("v2", shape=[5], initializer=tf.zeros_initializer)
        inc_v1, dec_v2 = v1.assign(v1 + 1), v2.assign(v2 - 1)
        saver = tf.train.Saver()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            inc_v1.op.run()
            dec_v2.op.run()
            path = saver.save(sess, os.path.join(folder, "model.ckpt"))
            print("saved in", os.path.basename(path), sorted(n for n in os.listdir(folder)))
        tf.reset_default_graph() if False else None
        with tf.Graph().as_default():
            v1 = tf.get_variable("v1", shape=[3])
            only = tf.get_variable("other", shape=[5])
            saver = tf.train.Saver({"v1": v1, "v2": only})
            with tf.Session() as sess:
                saver.restore(sess, path)
                print(v1.eval(), only.eval())
            missing = tf.get_variable("missing", [1])
            with tf.Session() as sess:
                print(raised(lambda: tf.train.Saver([missing]).restore(sess, path))[:60])
        print(tf.train.latest_checkpoint(folder) == path, tf.train.list_variables(path))
        reader = tf.train.NewCheckpointReader(path)
        print(reader.get_tensor("v1"), sorted(reader.get_variable_to_shape_map().items()), reader.has_tensor("v3"))
        print(tf.train.get_checkpoint_state(folder).model_checkpoint_path == path, tf.train.checkpoint_exists(path))

    def saved_steps(print):
        folder = tempfile.mkdtemp()
        v = tf.Variable(0.0, name="v")
        step = tf.train.get_or_create_global_step()
        more = tf.group(v.assign_add(0.5), step.assign_add(1))
        saver = tf.train.Saver(max_to_keep=2)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(4):
                sess.run(more)
                print(os.path.basename(saver.save(sess, os.path.join(folder, "m"), global_step=step)))
            print([os.path.basename(p) for p in saver.last_checkpoints], tf.train.global_step(sess, step))
        print(sorted(n for n in os.listdir(folder) if n.endswith(".index")), step.name)
        with tf.Session() as sess:
            saver.restore(sess, tf.train.latest_checkpoint(folder))
            print(sess.run([v, step]))

    def restored_meta(print):
        folder = tempfile.mkdtemp()
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None], name="x")
            w = tf.Variable(3.0, name="w")
            y = tf.multiply(x, w, name="y")
            tf.add_to_collection("y", y)
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                path = tf.train.Saver().save(sess, folder + "/m")
        with tf.Graph().as_default(), tf.Session() as sess:
            saver = tf.train.import_meta_graph(path + ".meta")
            saver.restore(sess, path)
            graph = tf.get_default_graph()
            print(
                sess.run("y:0", {"x:0": [1.0, 2.0]}),
                sess.run(tf.get_collection("y")[0], {graph.get_tensor_by_name("x:0"): [4.0]}),
            )

    def timed_session(print):
        config = tf.ConfigProto(allow_soft_placement=True, log_device_placement=False)
        config.gpu_options.allow_growth = True
        config.gpu_options.per_process_gpu_memory_fraction = 0.5
        gpu = tf.ConfigProto(gpu_options=tf.GPUOptions(allow_growth=True), intra_op_parallelism_threads=1)
        with tf.Session(config=config) as sess, tf.device("/cpu:0"):
            print(sess.run(tf.constant(1) + 1), gpu.gpu_options.allow_growth)
            options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
            print(sess.run(tf.constant(2), options=options, run_metadata=metadata))

    def shapes(print):
        x = tf.placeholder(tf.float32, [None, 4])
        print(
            x.get_shape()[1],
            x.shape[1],
            x.get_shape().as_list(),
            int(x.get_shape()[1]),
            x.shape.ndims,
            tf.Dimension(3) * 2,
        )
        print(
            x.get_shape()[1].value if hasattr(x.get_shape()[1], "value") else "v2", tf.shape(x), tf.rank(x), tf.size(x)
        )
        y = tf.reshape(x, [-1, 2, 2])
        y.set_shape([5, 2, 2])
        print(
            y.get_shape(),
            tf.transpose(y).shape,
            tf.placeholder(tf.int32).shape,
            tf.placeholder(tf.int32).get_shape().ndims,
        )
        with tf.Session() as sess:
            print(sess.run([tf.shape(y), tf.size(x)], {x: np.zeros((5, 4))}))

    def seeded(print):
        tf.set_random_seed(7)
        with tf.Session() as sess:
            print(
                rounded(sess.run(tf.random_normal([3], seed=1))),
                rounded(sess.run(tf.random_uniform([2], 0, 10, seed=2))),
            )
            print(
                rounded(sess.run(tf.truncated_normal([2], stddev=0.1, seed=3))),
                sess.run(tf.random_shuffle([1, 2, 3, 4], seed=5)),
            )
            draw = tf.random_uniform([2], maxval=5, dtype=tf.int32, seed=2)
            print(sess.run(draw), sess.run(draw), sess.run(tf.multinomial([[0.0, 0.0, 1.0]], 4, seed=3)))
        a = tf.random_uniform([1], seed=1)
        with tf.Session() as one:
            first = one.run(a), one.run(a)
        with tf.Session() as two:
            second = two.run(a), two.run(a)
        print(first[0] == second[0], first[1] == second[1], first[0] == first[1])
        init = tf.get_variable("g", [2, 2], initializer=tf.glorot_uniform_initializer(seed=4))
        more = tf.get_variable("t", [2], initializer=tf.truncated_normal_initializer(stddev=0.1, seed=1))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            print(rounded(sess.run([init, more])))

    def initializers(print):
        made = {
            "zeros": tf.zeros_initializer(),
            "ones": tf.ones_initializer(),
            "constant": tf.constant_initializer([1.0, 2.0, 3.0, 4.0]),
            "identity": tf.initializers.identity(gain=2.0),
            "orthogonal": tf.orthogonal_initializer(),
            "uniform": tf.random_uniform_initializer(-1, 1),
            "normal": tf.random_normal_initializer(),
            "unit": tf.uniform_unit_scaling_initializer(),
            "glorot": tf.glorot_normal_initializer(),
            "scaling": tf.variance_scaling_initializer(scale=2.0, mode="fan_in"),
            "he": tf.initializers.he_normal(),
            "lecun": tf.initializers.lecun_uniform(),
        }
        found = {name: tf.get_variable(name, [2, 2], initializer=initializer) for name, initializer in made.items()}
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for name in ("zeros", "ones", "constant", "identity"):
                print(name, sess.run(found[name]).tolist())
            orthogonal = sess.run(found["orthogonal"])
            print(rounded(orthogonal @ orthogonal.T + 0.0, 3))

    def partial(print):
        sess = tf.Session()
        a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        r1 = a + b
        r2 = r1 * 2
        h = sess.partial_run_setup([r1, r2], [a, b])
        res = sess.partial_run(h, r1, feed_dict={a: 1, b: 2})
        print(res, sess.partial_run(h, r2))

    def handles(print):
        g = tf.Graph()
        with g.as_default(), g.name_scope("n"), g.device("/cpu:0"):
            a = tf.constant(1, name="a")
        g.finalize()
        print(a.name, g.finalized, g.building_function, g.version > 0, g.is_feedable(a), g.is_fetchable(a))
        with g.as_default():
            print(raised(lambda: tf.constant(2)))
        print(g.unique_name("fresh"), g.seed, tf.Graph().seed)

    def counted_before_a_loop(print):
        count = tf.get_variable("count", initializer=0, use_resource=True)

        def counted(x):
            with tf.control_dependencies([count.assign_add(1)]):
                return tf.identity(x) * 2.0

        first = counted(tf.constant(1.0))
        _, last = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, counted(y)), [0, first])
        with tf.control_dependencies([last]):
            total = count.read_value()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            print(sess.run([last, total]), sess.run(count))
            print(sess.run(last), sess.run(count), sess.run(total))

    def assigned_before_what_depends_on_it(print):
        v, p = tf.get_variable("v", initializer=1.0, use_resource=True), tf.placeholder(tf.float32, [])
        with tf.control_dependencies([v.assign_add(1.0)]):
            a = tf.identity(p)
        b = a * 2.0
        with tf.control_dependencies([b]):
            read, updated = v.read_value(), v.assign_add(10.0)

        def assigned():
            with tf.control_dependencies([v.assign(v * 100.0)]):
                return tf.identity(b)

        chosen = tf.cond(b > 0.0, lambda: b + v, lambda: b - v)
        large = tf.cond(b > 0.0, assigned, lambda: b)
        with tf.control_dependencies([large]):
            after = v.read_value()
        with tf.Session() as sess:
            for fetched in (read, updated, chosen, [large, after], after):
                sess.run(tf.global_variables_initializer())
                print(sess.run(fetched, {p: 1.0}), sess.run(v))

    def placeholders_of_which_only_the_sizes_are_used(print):
        x, y = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None, 2])
        empty = tf.placeholder(tf.float32, [None, 0])
        total = tf.get_variable("total", initializer=0.0, use_resource=True)
        zeros = tf.zeros(tf.concat([tf.shape(x)[:-1], [2]], 0))
        _, summed = tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z + y), [0, zeros])
        counted = total.assign_add(tf.reduce_sum(tf.ones_like(x[:, 0])))
        ones = np.ones((3, 2))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            print(sess.run(tf.zeros(tf.shape(empty)[:1]), {empty: np.ones((3, 0))}))
            print(sess.run(zeros, {x: ones}), sess.run(y - zeros, {x: ones, y: ones}))
            print(sess.run(y - zeros, {x: ones[:1], y: ones}), sess.run(summed, {x: ones, y: ones}))
            print(sess.run(tf.gradients(tf.reduce_sum((y - zeros) * total), total), {x: ones, y: ones}))
            print(sess.run([counted, counted], {x: ones}), sess.run(total))
            print(raised(lambda: sess.run(y - zeros, {y: ones})))

    def fed_results_of_which_only_the_sizes_are_used(print):
        x = tf.placeholder(tf.float32, [None, 2])
        doubled = x * 2.0
        zeros = tf.zeros(tf.shape(doubled)[:1])
        kept = tf.boolean_mask(x, x[:, 0] > 1.0)
        with tf.Session() as sess:
            print(sess.run(zeros, {doubled: np.ones((3, 2))}))
            print(sess.run(zeros + doubled[:, 0], {doubled: np.ones((3, 2))}))
            print(sess.run([zeros, tf.zeros(tf.shape(x)[:1])], {x: np.ones((3, 2)), doubled: np.ones((3, 2))}))
            print(sess.run(tf.zeros(tf.shape(kept)[:1]), {x: [[1.0, 2.0], [3.0, 4.0]]}))

    def the_graphs_of_branches_and_bodies(print):
        g, x = tf.get_default_graph(), tf.constant([1.0, 2.0])
        tf.add_to_collection("kept", 1)
        v = tf.get_variable("v", initializer=0.0, use_resource=True)

        def branch():
            inner = tf.get_default_graph()
            print(inner is g, inner.outer_graph is g, inner.building_function, isinstance(inner, tf.Graph))
            print(tf.get_default_graph() is inner, (x * 2.0).graph is inner, inner.get_collection("kept"))
            inner.add_to_collection("kept", 2)
            with inner.as_default() as entered, tf.control_dependencies([v.assign_add(1.0)]):
                print(entered is inner, tf.get_default_graph() is inner)
                return x * 2.0

        def body(y):
            outer = tf.get_default_graph()

            def nested():
                inner = tf.get_default_graph()
                with outer.as_default():
                    z = y * 5.0
                with inner.as_default():
                    print(inner is outer, inner.outer_graph is outer, z.shape)
                    return z + 1.0

            with outer.as_default():
                return tf.cond(y[0] > 0.0, nested, lambda: y)

        def element(e):
            with tf.get_default_graph().as_default():
                return e * 3.0 + x[0]

        taken, left = tf.cond(x[0] > 0.0, branch, lambda: x), tf.cond(x[0] > 5.0, branch, lambda: x)
        looped = tf.while_loop(lambda y: y[0] < 100.0, body, [x])
        print(g.get_collection("kept"), tf.get_default_graph() is g)
        with tf.Session() as sess:
            for fetched in (left, taken, looped, tf.map_fn(element, x)):
                sess.run(tf.global_variables_initializer())
                print(sess.run(fetched), sess.run(v))

    return scripts(tf, locals())
