"""``tf.TensorArray``: eagerly, traced, in loops, with gradients, and its errors."""


def programs(tf):
    return _both(tf) | _eager(tf) | _loops(tf) | _gradients(tf) | _specs(tf) | _of_python(tf)


def _both(tf):
    c = tf.constant

    def array(size=3, **kwargs):
        return tf.TensorArray(tf.float32, size, clear_after_read=False, **kwargs)

    bodies = {
        "write and stack": lambda x: array().write(0, x).write(1, 2 * x).write(2, 3 * x).stack(),
        "a gap": lambda x: array(element_shape=[2]).write(2, x).stack(),
        "overwritten": lambda x: array(1).write(0, x).write(0, 2 * x).stack(),
        "unstack and read": lambda x: array(2).unstack(x).read(1),
        "gather": lambda x: array(2).unstack(x).gather([1, 0, 1]),
        "scatter": lambda x: array(2).scatter([1, 0], x).stack(),
        "split": lambda x: array(2).split(x, [1, 1]).stack(),
        "concat": lambda x: array(2).write(0, x).write(1, 2 * x).concat(),
        "size": lambda x: array().size() + 0,
        "dynamic": lambda x: array(0, dynamic_size=True).write(0, x).write(2, x).stack(),
        "dynamic size": lambda x: array(0, dynamic_size=True).write(3, x).size() + 0,
        "dynamic unstack": lambda x: array(0, dynamic_size=True).unstack(x).write(2, x[0]).stack(),
        "identity": lambda x: array(1).write(0, x).identity().read(0),
        "empty": lambda x: array(2, element_shape=[2]).stack(),
        "numbers": lambda x: array(2).write(0, 1).write(1, 2.5).stack(),
        "integers": lambda x: tf.TensorArray(tf.int64, 1).write(0, 3).stack(),
    }
    x = c([1.0, 2.0])
    eager = {name: lambda body=body: body(x) for name, body in bodies.items()}
    return eager | {f"{name}, traced": lambda body=body: tf.function(body)(x) for name, body in bodies.items()}


def _eager(tf):
    c = tf.constant

    def array(size=3, **kwargs):
        return tf.TensorArray(tf.float32, size, **kwargs)

    def changed():
        ta = array()
        ta.write(0, 1.0)
        return ta.read(0)

    def document():
        x = tf.TensorArray(dtype=tf.float32, size=3, infer_shape=False, clear_after_read=False)
        a = tf.reshape(tf.range(12.0), [3, 2, 2])
        x.unstack(a)
        found = [x.read(0), x.stack().shape, x.gather([1, 2])]
        y = x.scatter([2, 1, 0], a)
        found.append(y.read(0))
        x.split(tf.reshape(tf.range(30.0), [5, 6]), [1, 2, 2])
        return [*found, x.read(0), x.read(1)]

    programs = {
        "changed in place": changed,
        "as the document has it": document,
        "read twice": lambda: (lambda ta: (ta.read(0), ta.read(0)))(array().write(0, 1.0)),
        "read beyond": lambda: array().read(3),
        "read a negative index": lambda: array().read(-1),
        "read nothing": lambda: array(element_shape=[2]).read(1),
        "write beyond": lambda: array().write(3, 1.0),
        "write a negative index": lambda: array().write(-1, 1.0),
        "write another dtype": lambda: array().write(0, c(1)),
        "write another shape": lambda: array().write(0, [1.0]).write(1, 2.0),
        "write another shape than told": lambda: array(element_shape=[2]).write(0, [1.0]),
        "unstack too many": lambda: array(1).unstack([1.0, 2.0]),
        "split of other lengths": lambda: array(2).split([1.0, 2.0], [1, 2]),
        "split of other number": lambda: array(3).split([1.0, 2.0], [1, 1]),
        "split by a scalar": lambda: array(1).split([1.0], 1),
        "split a scalar": lambda: array(1).split(1.0, [1]),
        "concat of scalars": lambda: array(2).unstack([1.0, 2.0]).concat(),
        "closed": lambda: (lambda ta: (ta.close(), ta.size())[1])(array()),
        "no size": lambda: tf.TensorArray(tf.float32),
        "properties": lambda: (
            array().dtype,
            array(element_shape=[None, 2]).element_shape,
            array().dynamic_size,
            array().handle,
        ),
        "grad": lambda: array().grad("x"),
        "in an eager loop": lambda: tf.while_loop(
            lambda i, ta: i < 3, lambda i, ta: (i + 1, ta.write(i, 1.0)), [c(0), array()]
        )[1].stack(),
    }
    return {f"eager: {name}": run for name, run in programs.items()}


def _loops(tf):
    c = tf.constant

    @tf.function
    def squares(n):
        ta = tf.TensorArray(tf.int32, size=n)
        for i in tf.range(n):
            ta = ta.write(i, i * i)
        return ta.stack()

    @tf.function
    def growing(x):
        ta = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for v in x:
            ta = ta.write(ta.size(), v * 2.0)
        return ta.stack(), ta.size()

    @tf.function
    def counted(n, v):
        ta = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in tf.range(n):
            ta = ta.write(i, v + tf.cast(i, tf.float32))
        return ta.stack()

    @tf.function
    def chosen(x):
        ta = tf.TensorArray(tf.float32, size=3)
        for i in tf.range(3):
            if x[i] > 1.0:
                ta = ta.write(i, x[i])
        return ta.stack()

    @tf.function
    def fibonacci(n):
        ta = tf.TensorArray(tf.float32, size=n, clear_after_read=False)
        ta = ta.write(0, 0.0).write(1, 1.0)
        for i in tf.range(2, n):
            ta = ta.write(i, ta.read(i - 1) + ta.read(i - 2))
        return ta.stack()

    @tf.function
    def while_loop(x):
        ta = tf.TensorArray(tf.float32, size=3)

        def step(i, ta):
            return i + 1, ta.write(i, x * tf.cast(i, tf.float32))

        i, ta = tf.while_loop(lambda i, ta: i < 3, step, [0, ta])
        return i, ta.stack(), ta.concat(), ta.gather([2, 0])

    @tf.function
    def beyond(i):
        return tf.TensorArray(tf.float32, 3).write(i, 1.0).stack()

    def rejected(run):
        try:
            return run()
        except tf.errors.InvalidArgumentError as error:
            return "Trying to modify" in error.message

    return {
        "loop": lambda: [squares(c(n)) for n in (4, 1)],
        "loop, growing": lambda: growing(c([1.0, 2.0, 3.0])),
        "loop, counted": lambda: counted(c(3), c([1.0, 2.0])),
        "loop with a branch": lambda: chosen(c([1.0, 2.0, 3.0])),
        "loop that reads": lambda: fibonacci(c(8)),
        "while_loop": lambda: while_loop(c([1.0, 2.0])),
        "beyond, when run": lambda: [beyond(c(2)), rejected(lambda: beyond(c(3))), rejected(lambda: beyond(c(-1)))],
    }


def _gradients(tf):
    c = tf.constant
    x = c([1.0, 2.0])

    def of(body):
        def run(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = body(x)
            return y, tape.gradient(y, x)

        return run

    def straight(x):
        ta = tf.TensorArray(tf.float32, 3, clear_after_read=False).write(0, x).write(1, x * x).write(1, x * x * x)
        return tf.reduce_sum(ta.write(2, ta.read(0) * ta.read(1)).stack() * tf.reshape(tf.range(6.0), [3, 2]))

    def loop(x):
        ta = tf.TensorArray(tf.float32, size=3)
        h = x
        for i in tf.range(3):
            h = h * x
            ta = ta.write(i, h)
        return tf.reduce_sum(ta.stack())

    def reading(x):
        ta = tf.TensorArray(tf.float32, size=4, clear_after_read=False).write(0, x)
        for i in tf.range(1, 4):
            ta = ta.write(i, ta.read(i - 1) * x)
        return tf.reduce_sum(ta.stack())

    return {
        "gradient": lambda: of(straight)(x),
        "gradient, traced": lambda: tf.function(of(straight))(x),
        "gradient of a loop": lambda: tf.function(of(loop))(x),
        "gradient around a loop": lambda: of(tf.function(loop))(x),
        "gradient of a loop that reads": lambda: tf.function(of(reading))(x),
    }


def _specs(tf):
    return {
        "spec": lambda: tf.TensorArraySpec([2], tf.int32, True, False),
        "default spec": lambda: tf.TensorArraySpec(),
        "spec of an array": lambda: tf.type_spec_from_value(tf.TensorArray(tf.float32, 3, element_shape=[None, 2])),
        "equal specs": lambda: tf.TensorArraySpec([2]) == tf.TensorArraySpec([2]),
        "other specs": lambda: tf.TensorArraySpec([2]) == tf.TensorArraySpec([3]),
    }


def _of_python(tf):
    """Elements that Python returns without saying their rank: scalars, as the rewards of reinforcement learning."""
    c = tf.constant

    def doubled(x):
        return x * 2

    def step(state):
        return state + 1, state.sum(), (state.sum() > 5).astype("int32")

    def of_call(call):
        @tf.function
        def run(n):
            found = tf.TensorArray(tf.float32, 0, dynamic_size=True)
            for i in tf.range(n):
                found = found.write(i, call(doubled, [tf.cast(i, tf.float32)], tf.float32))
            return found.stack()

        return lambda: [run(c(n)) for n in (4, 2)]

    def episode():
        @tf.function
        def run(n):
            rewards = tf.TensorArray(tf.float32, 0, dynamic_size=True)
            firsts = tf.TensorArray(tf.float32, 0, dynamic_size=True)
            state = tf.zeros([3])
            shape = state.shape
            for t in tf.range(n):
                state, reward, done = tf.numpy_function(step, [state], [tf.float32, tf.float32, tf.int32])
                state.set_shape(shape)
                firsts = firsts.write(t, state[0])
                rewards = rewards.write(t, reward)
                if tf.cast(done, tf.bool):
                    break
            return rewards.stack(), firsts.stack()

        return run(c(10))

    def gradient():
        @tf.function
        def run(w):
            with tf.GradientTape() as tape:
                tape.watch(w)
                outcomes = tf.TensorArray(tf.float32, 0, dynamic_size=True)
                probabilities = tf.TensorArray(tf.float32, 0, dynamic_size=True)
                for i in tf.range(4):
                    probability = w * tf.cast(i, tf.float32)
                    outcomes = outcomes.write(i, tf.numpy_function(doubled, [probability], tf.float32))
                    probabilities = probabilities.write(i, probability)
                loss = tf.reduce_sum(outcomes.stack() * probabilities.stack())
            return loss, tape.gradient(loss, w)

        return run(c(2.0))

    def in_while_loop():
        @tf.function
        def run(n):
            def body(i, found):
                return i + 1, found.write(i, tf.numpy_function(doubled, [tf.cast(i, tf.float32)], tf.float32))

            start = tf.TensorArray(tf.float32, 0, dynamic_size=True)
            return tf.while_loop(lambda i, _: i < n, body, [0, start])[1].stack()

        return run(c(3))

    def of_declared_shape(shape):
        @tf.function
        def run():
            found = tf.TensorArray(tf.float32, 3, element_shape=shape)
            for i in tf.range(3):
                row = tf.cast(tf.stack([i, i + 1]), tf.float32)
                found = found.write(i, tf.numpy_function(doubled, [row], tf.float32))
            return found.stack()

        return run

    return {
        "results of numpy_function of a declared shape": of_declared_shape([2]),
        "results of numpy_function": of_call(tf.numpy_function),
        "results of py_function": of_call(tf.py_function),
        "rewards of an episode": episode,
        "results of numpy_function, gradient": gradient,
        "results of numpy_function in while_loop": in_while_loop,
    }
