"""Queues between threads, eager and from traces, as TensorFlow's."""


def programs(tf):
    return _taken(tf) | _rejected(tf) | _traced(tf)


def _taken(tf):
    def in_order():
        q = tf.queue.FIFOQueue(5, [tf.float32, tf.int32], shapes=[[2], []])
        q.enqueue(([1.0, 2.0], 3))
        q.enqueue_many(([[3.0, 4.0], [5.0, 6.0]], [7, 8]))
        return int(q.size()), q.dequeue(), q.dequeue_many(2), int(q.size())

    def by_name():
        q = tf.queue.FIFOQueue(2, [tf.float32, tf.int32], shapes=[[], []], names=["a", "b"])
        q.enqueue({"a": 1.0, "b": 2})
        return sorted(q.dequeue().items()), q.names, q.dtypes, q.shapes

    def up_to():
        q = tf.queue.FIFOQueue(5, tf.int32, shapes=[[]])
        q.enqueue_many([[1, 2, 3]])
        q.close()
        return q.dequeue_up_to(2), q.dequeue_up_to(2), q.is_closed()

    def padded():
        q = tf.queue.PaddingFIFOQueue(3, tf.int32, [[None]])
        q.enqueue([[1]])
        q.enqueue([[2, 3]])
        return q.dequeue_many(2)

    def by_priority():
        q = tf.queue.PriorityQueue(8, tf.string, [[]])
        for number, text in ((5, "late"), (1, "soon"), (3, "then"), (1, "too")):
            q.enqueue((tf.constant(number, tf.int64), text))
        return [[t.numpy() for t in q.dequeue()] for _ in range(4)]

    def at_random():
        q = tf.queue.RandomShuffleQueue(8, 1, tf.int32, [[]], seed=1)
        q.enqueue_many([[1, 2, 3]])
        first = [int(q.dequeue()) for _ in range(2)]
        q.close()
        return sorted([*first, int(q.dequeue())])

    return {
        "in order": in_order,
        "by name": by_name,
        "up to so many": up_to,
        "padded": padded,
        "by priority": by_priority,
        "at random": at_random,
    }


def _rejected(tf):
    def closed(act):
        def program():
            q = tf.queue.FIFOQueue(5, tf.int32, shapes=[[]])
            q.close()
            try:
                act(q)
            except tf.errors.OpError as error:
                return type(error).__name__

        return program

    return {
        "put into a closed one": closed(lambda q: q.enqueue(1)),
        "take from a closed one": closed(lambda q: q.dequeue()),
        "take many from a closed one": closed(lambda q: q.dequeue_many(2)),
        "another shape": lambda: tf.queue.FIFOQueue(5, tf.int32, shapes=[[2]]).enqueue([[1, 2, 3]]),
    }


def _traced(tf):
    def program():
        q = tf.queue.FIFOQueue(5, tf.float32, shapes=[[]])

        @tf.function
        def put(x):
            q.enqueue(x)
            q.enqueue(x * 2.0)

        @tf.function
        def take():
            return q.dequeue() - q.dequeue(), q.size()

        put(tf.constant(3.0))
        return take()

    return {"traced": program}
