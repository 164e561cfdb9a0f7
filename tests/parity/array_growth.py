"""TensorArrays of dynamic size written in loops, at indices beyond the loop's counter."""


def programs(tf):
    made = {}
    for name, body in _bodies(tf).items():
        made[name] = lambda body=body: [tf.function(body)(tf.constant(2.0), tf.constant(n)) for n in (3, 12)]
        made[f"{name}: gradient"] = lambda body=body: tf.function(_gradient(tf, body))(tf.constant(2.0), tf.constant(9))
        made[f"{name}: gradient outside"] = lambda body=body: _gradient(tf, tf.function(body))(
            tf.constant(2.0), tf.constant(9)
        )
    return made


def in_sweep(label):
    """Each body is differentiated in one of the two ways by default."""
    name, _, form = label.partition(": ")
    outside = ("beyond", "of the outside", "sizes", "counted", "read")
    return form == ("gradient" if name in outside else "gradient outside")


def _gradient(tf, body):
    def gradient(x, n):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(body(x, n) ** 2)
        return tape.gradient(loss, x)

    return gradient


def _bodies(tf):
    def array(size=0):
        return tf.TensorArray(tf.float32, size=size, dynamic_size=True, element_shape=[])

    def number(i):
        return tf.cast(i, tf.float32)

    def twice(x, n):
        rows = array()
        for i in tf.range(n):
            rows = rows.write(i * 2, x * number(i))
        return rows.stack()

    def beyond(x, n):
        rows = array()
        for i in tf.range(n):
            rows = rows.write(i + 20, x * number(i))
        return rows.stack()

    def backwards(x, n):
        rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in tf.range(n):
            rows = rows.write(n * 2 - i, tf.stack([x, x * number(i)]))
        return rows.concat()

    def of_the_outside(x, n):
        rows, i = array(1), 0
        while i < n:
            rows = rows.write(n + 30, x * number(i))
            rows = rows.write(17, x)
            i += 1
        return rows.stack()

    def branches(x, n):
        rows = array()
        for i in tf.range(n):
            if i % 2 == 0:
                rows = rows.write(i * 3, x)
            else:
                rows = rows.write(i, x * 2.0)
        return rows.stack()

    def sizes(x, n):
        rows = array()
        for i in tf.range(n):
            rows = rows.write(rows.size(), x)
            rows = rows.write(rows.size(), x * number(i))
            rows = rows.write(rows.size() + 2, x * 3.0)
        return rows.stack()

    def deeper(x, n):
        rows = array()
        for i in tf.range(n):
            for j in tf.range(i + 1):
                rows = rows.write(i * 2 + j, x * number(j))
        return rows.stack()

    def squares(x, n):
        def body(i, rows):
            return i + 1, rows.write(i * i + 5, x * number(i))

        return tf.while_loop(lambda i, rows: i < n, body, (0, array()))[1].stack()

    def counted(x, n):
        rows, k = array(), 10
        for i in tf.range(n):
            rows = rows.write(k, x * number(i))
            k += 3
        return rows.stack()

    def read(x, n):
        rows = array().write(0, x)
        for i in tf.range(n):
            rows = rows.write(i * 2 + 1, rows.read(i) * 0.5 + x)
            rows = rows.write(i * 2 + 2, x)
        return rows.stack()

    return {
        "twice": twice,
        "beyond": beyond,
        "backwards": backwards,
        "of the outside": of_the_outside,
        "branches": branches,
        "sizes": sizes,
        "deeper": deeper,
        "squares": squares,
        "counted": counted,
        "read": read,
    }
