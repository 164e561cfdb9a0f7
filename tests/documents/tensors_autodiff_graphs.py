# %% dtypes
import numpy as np
import tensorflow as tf

i = tf.constant(1)
l = tf.constant(1, dtype=tf.int64)
f = tf.constant(1.23)
d = tf.constant(3.14, dtype=tf.double)
s = tf.constant("hello world")
b = tf.constant(True)

print(tf.int64 == np.int64)
print(tf.double == np.double)
print(tf.string == np.str_)
print(tf.bool == np.bool_)

# %% scalar
scalar = tf.constant(True)
print(tf.rank(scalar))
print(scalar.numpy().ndim)

# %% vector
vector = tf.constant([1.0, 2.0, 3.0, 4.0])
print(tf.rank(vector))
print(np.ndim(vector.numpy()))

# %% matrix
matrix = tf.constant([[1.0, 2.0], [3.0, 4.0]])
print(tf.rank(matrix).numpy())
print(np.ndim(matrix))

# %% rank 3
tensor3 = tf.constant([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
print(tensor3)
print(tf.rank(tensor3))

# %% rank 4
tensor4 = tf.constant(
    [[[[1.0, 1.0], [2.0, 2.0]], [[3.0, 3.0], [4.0, 4.0]]], [[[5.0, 5.0], [6.0, 6.0]], [[7.0, 7.0], [8.0, 8.0]]]],
)
print(tensor4)
print(tf.rank(tensor4))

# %% cast
h = tf.constant([123, 456], dtype=tf.int32)
f = tf.cast(h, tf.float32)
print(h.dtype)
print(f.dtype)

# %% numpy and shape
y = tf.constant([[1.0, 2.0], [3.0, 4.0]])
print(y.numpy())
print(y.shape)

# %% decode
u = tf.constant("你好，世界")
print(u.numpy())
print(u.numpy().decode("utf-8"))

# %% constants do not change
c = tf.constant([1.0, 2.0])
print(c)
before = c
c = c + tf.constant([1.0, 1.0])
print(c)
print(before is c)

# %% variables change
v = tf.Variable([1.0, 2.0], name="v")
print(v)
before = id(v)
v.assign_add([1.0, 1.0])
print(v)
print(before == id(v))

# %% creation
a = tf.constant([1, 2, 3], dtype=tf.float32)
tf.print(a)
b = tf.range(1, 10, delta=2)
tf.print(b)
c = tf.linspace(0.0, 2 * 3.14, 100)
tf.print(c)
d = tf.zeros([3, 3])
tf.print(d)
a = tf.ones([3, 3])
b = tf.zeros_like(a, dtype=tf.float32)
tf.print(a)
tf.print(b)
b = tf.fill([3, 2], 5)
tf.print(b)

# %% uniform
tf.random.set_seed(1.0)
a = tf.random.uniform([5], minval=0, maxval=10)
tf.print(a)

# %% normal
tf.random.set_seed(1.0)
b = tf.random.normal([3, 3], mean=0.0, stddev=1.0)
tf.print(b)

# %% truncated normal
tf.random.set_seed(1.0)
c = tf.random.truncated_normal((5, 5), mean=0.0, stddev=1.0, dtype=tf.float32)
tf.print(c)

# %% identity matrix
I = tf.eye(3, 3)
tf.print(I)

# %% diagonal matrix
t = tf.linalg.diag([1, 2, 3])
tf.print(t)

# %% slices
tf.random.set_seed(3)
t = tf.random.uniform([5, 5], minval=0, maxval=10, dtype=tf.int32)
a = tf.random.uniform([3, 3, 3], minval=0, maxval=10, dtype=tf.int32)
tf.print(t)
tf.print(a)
tf.print(t[0])
tf.print(t[-1])
tf.print(t[1, 3])
tf.print(t[1][3])
tf.print(t[1:4, :])
tf.print(tf.slice(t, [1, 0], [3, 5]))
tf.print(t[1:4, :4:2])

# %% a slice is assigned
x = tf.Variable([[1, 2], [3, 4]], dtype=tf.float32)
x[1, :].assign(tf.constant([0.0, 0.0]))
tf.print(x)
tf.print(a[..., 1])

# %% scores
tf.random.set_seed(4)
scores = tf.random.uniform((4, 10, 7), minval=0, maxval=100, dtype=tf.int32)
tf.print(scores)
p = tf.gather(scores, [0, 5, 9], axis=1)
tf.print(p)
p = tf.boolean_mask(scores, [True, False, False, False, False, True, False, False, False, True], axis=1)
tf.print(p)
q = tf.gather(tf.gather(scores, [0, 5, 9], axis=1), [1, 3, 6], axis=2)
tf.print(q)

# %% gather_nd
s = tf.gather_nd(scores, indices=[(0, 0), (2, 4), (3, 6)])
s

# %% boolean_mask
s = tf.boolean_mask(
    scores,
    [
        [True, False, False, False, False, False, False, False, False, False],
        [False, False, False, False, False, False, False, False, False, False],
        [False, False, False, False, True, False, False, False, False, False],
        [False, False, False, False, False, False, True, False, False, False],
    ],
)
tf.print(s)

# %% boolean index
c = tf.constant([[-1, 1, -1], [2, 2, -2], [3, -3, 3]], dtype=tf.float32)
tf.print(c, "\n")
tf.print(tf.boolean_mask(c, c < 0), "\n")
tf.print(c[c < 0])

# %% reshape
a = tf.random.uniform(shape=[1, 3, 3, 2], minval=0, maxval=255, dtype=tf.int32)
tf.print(a.shape)
tf.print(a)
b = tf.reshape(a, [3, 6])
tf.print(b.shape)
tf.print(b)
c = tf.reshape(b, [1, 3, 3, 2])
tf.print(c)

# %% squeeze
s = tf.squeeze(a)
tf.print(s.shape)
tf.print(s)

# %% expand_dims
d = tf.expand_dims(s, axis=0)
d

# %% transpose
a = tf.random.uniform(shape=[10, 60, 60, 4], minval=0, maxval=255, dtype=tf.int32)
tf.print(a.shape)
s = tf.transpose(a, perm=[3, 1, 2, 0])
tf.print(s.shape)

# %% three matrices
a = tf.constant([[1.0, 2.0], [3.0, 4.0]])
tf.print(a.shape)
b = tf.constant([[5.0, 6.0], [7.0, 8.0]])
tf.print(b.shape)
c = tf.constant([[9.0, 10.0], [11.0, 12.0]])
tf.print(c.shape)

# %% concat
tf.concat([a, b, c], axis=0)

# %% concat along axis 1
tf.concat([a, b, c], axis=1)

# %% stack
tf.stack([a, b, c])

# %% stack along axis 1
tf.stack([a, b, c], axis=1)

# %% split evenly
d = tf.concat([a, b, c], axis=0)
tf.print(d)
tf.split(d, 3, axis=0)

# %% split by sizes
tf.split(d, [2, 2, 2], axis=0)

# %% operators
a = tf.constant([[1.0, 2], [-3, 4.0]])
b = tf.constant([[5.0, 6], [7.0, 8.0]])
tf.print(a + b)
tf.print(a - b)
tf.print(a * b)
tf.print(a / b)
tf.print(a**2)
tf.print(a ** (0.5))
tf.print(a % 3)
tf.print(a // 3)
tf.print(a >= 2)
tf.print((a >= 2) & (a <= 3))
tf.print((a >= 2) | (a <= 3))
tf.print(a == 5)
tf.print(tf.sqrt(a))

# %% elementwise functions
a = tf.constant([2.6, -2.7])
b = tf.constant([5.0, 6.0])
c = tf.constant([6.0, 7.0])
tf.print(tf.add_n([a, b, c]))
tf.print(tf.maximum(a, b))
tf.print(tf.minimum(a, b))
tf.print(tf.math.round(a))
tf.print(tf.math.floor(a))
tf.print(tf.math.ceil(a))

# %% clip
x = tf.constant([0.9, -0.8, 100.0, -20.0, 0.7])
y = tf.clip_by_value(x, clip_value_min=-1, clip_value_max=1)
z = tf.clip_by_norm(x, clip_norm=3)
tf.print(y)
tf.print(z)

# %% reductions
a = tf.range(1, 10)
tf.print(tf.reduce_sum(a))
tf.print(tf.reduce_mean(a))
tf.print(tf.reduce_max(a))
tf.print(tf.reduce_min(a))
tf.print(tf.reduce_prod(a))
b = tf.reshape(a, (3, 3))
tf.print(tf.reduce_sum(b, axis=1, keepdims=True))
tf.print(tf.reduce_sum(b, axis=0, keepdims=True))

# %% logical reductions
p = tf.constant([True, False, False])
q = tf.constant([False, False, True])
tf.print(tf.reduce_all(p))
tf.print(tf.reduce_any(q))

# %% foldr
s = tf.foldr(lambda a, b: a + b, tf.range(10))
tf.print(s)

# %% scans
a = tf.range(1, 10)
tf.print(tf.math.cumsum(a))
tf.print(tf.math.cumprod(a))

# %% argmax
a = tf.range(1, 10)
tf.print(tf.argmax(a))
tf.print(tf.argmin(a))

# %% top_k
a = tf.constant([1, 3, 7, 5, 4, 8])
values, indices = tf.math.top_k(a, 3, sorted=True)
tf.print(values)
tf.print(indices)

# %% matmul
a = tf.constant([[1, 2], [3, 4]])
b = tf.constant([[2, 0], [0, 2]])
print(a @ b)
tf.matmul(a, b)

# %% matrix transpose
a = tf.constant([[1, 2], [3, 4]])
tf.transpose(a)

# %% inv
a = tf.constant([[1.0, 2], [3, 4]], dtype=tf.float32)
tf.print(tf.round(2 * tf.linalg.inv(a)))

# %% trace
a = tf.constant([[1.0, 2], [3, 4]], dtype=tf.float32)
tf.linalg.trace(a)

# %% norm
a = tf.constant([[1.0, 2], [3, 4]])
tf.linalg.norm(a)

# %% det
a = tf.constant([[1.0, 2], [3, 4]])
tf.linalg.det(a)

# %% eigvals
a = tf.constant([[1.0, 2], [-5, 4]])
tf.linalg.eigvals(a)

# %% qr
a = tf.constant([[1.0, 2.0], [3.0, 4.0]], dtype=tf.float32)
q, r = tf.linalg.qr(a)
tf.print(q)
tf.print(r)
tf.print(tf.round(q @ r))

# %% svd
a = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=tf.float32)
s, u, v = tf.linalg.svd(a)
print(u.shape, v.shape)
tf.print(s, "\n")
tf.print(tf.round(u @ tf.linalg.diag(s) @ tf.transpose(v)))

# %% broadcast_to
a = tf.constant([1, 2, 3])
b = tf.constant([[0, 0, 0], [1, 1, 1], [2, 2, 2]])
print(b + a)
b + tf.broadcast_to(a, b.shape)

# %% broadcast_static_shape
tf.broadcast_static_shape(a.shape, b.shape)

# %% broadcast_dynamic_shape
c = tf.constant([1, 2, 3])
d = tf.constant([[1], [2], [3]])
tf.broadcast_dynamic_shape(tf.shape(c), tf.shape(d))

# %% broadcasting
print(c + d)
tf.broadcast_to(c, [3, 3]) + tf.broadcast_to(d, [3, 3])

# %% gradient of a variable
x = tf.Variable(0.0, name="x", dtype=tf.float32)
a = tf.constant(1.0)
b = tf.constant(-2.0)
c = tf.constant(1.0)
with tf.GradientTape() as tape:
    y = a * tf.pow(x, 2) + b * x + c
dy_dx = tape.gradient(y, x)
print(dy_dx)

# %% gradient of constants
with tf.GradientTape() as tape:
    tape.watch([a, b, c])
    y = a * tf.pow(x, 2) + b * x + c
dy_dx, dy_da, dy_db, dy_dc = tape.gradient(y, [x, a, b, c])
print(dy_da)
print(dy_db)
print(dy_dc)

# %% second derivative
with tf.GradientTape() as tape2:
    with tf.GradientTape() as tape1:
        y = a * tf.pow(x, 2) + b * x + c
    dy_dx = tape1.gradient(y, x)
dy2_dx2 = tape2.gradient(dy_dx, x)
print(dy2_dx2)


# %% gradient in a function
@tf.function
def f(x):
    a = tf.constant(1.0)
    b = tf.constant(-2.0)
    c = tf.constant(1.0)
    x = tf.cast(x, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = a * tf.pow(x, 2) + b * x + c
    dy_dx = tape.gradient(y, x)
    return (dy_dx, y)


tf.print(f(tf.constant(0.0)))
tf.print(f(tf.constant(1.0)))

# %% static graph
graph = tf.compat.v1.Graph()
with graph.as_default():
    x = tf.compat.v1.placeholder(name="x", shape=[], dtype=tf.string)
    y = tf.compat.v1.placeholder(name="y", shape=[], dtype=tf.string)
    z = tf.strings.join([x, y], name="join", separator=" ")
with tf.compat.v1.Session(graph=graph) as sess:
    result = sess.run(fetches=z, feed_dict={x: "hello", y: "world"})
    print(result)

# %% TensorFlow 1's names
tf1 = tf.compat.v1
graph = tf1.Graph()
with graph.as_default():
    x = tf1.placeholder(name="x", shape=[], dtype=tf1.string)
    y = tf1.placeholder(name="y", shape=[], dtype=tf1.string)
    z = tf1.string_join([x, y], name="join", separator=" ")
with tf1.Session(graph=graph) as sess:
    print(sess.run(fetches=z, feed_dict={x: "hello", y: "world"}))

# %% join
x = tf.constant("hello")
y = tf.constant("world")
z = tf.strings.join([x, y], separator=" ")
tf.print(z)


# %% strjoin
def strjoin(x, y):
    z = tf.strings.join([x, y], separator=" ")
    tf.print(z)
    return z


result = strjoin(x=tf.constant("hello"), y=tf.constant("world"))
print(result)


# %% strjoin as a graph
@tf.function
def strjoin(x, y):
    z = tf.strings.join([x, y], separator=" ")
    tf.print(z)
    return z


result = strjoin(x=tf.constant("hello"), y=tf.constant("world"))
print(result)

# %% trace_export
import tempfile

logdir = tempfile.mkdtemp()
writer = tf.summary.create_file_writer(logdir)
tf.summary.trace_on(graph=True, profiler=False)
result = strjoin(x="hello", y="world")
with writer.as_default():
    tf.summary.trace_export(name="autograph", step=0)


# %% NumPy in a trace
@tf.function
def np_random():
    a = np.random.randn(3, 3)
    return tf.constant(a)


print(bool(tf.reduce_all(np_random() == np_random())))


# %% random numbers in a trace
@tf.function
def tf_random():
    a = tf.random.normal((3, 3))
    return a


print(bool(tf.reduce_all(tf_random() == tf_random())))

# %% an outer variable
x = tf.Variable(1.0, dtype=tf.float32)


@tf.function
def outer_var():
    x.assign_add(1.0)
    tf.print(x)
    return x


outer_var()


# %% an inner variable
@tf.function
def inner_var():
    x = tf.Variable(1.0, dtype=tf.float32)
    x.assign_add(1.0)
    tf.print(x)
    return x


try:
    inner_var()
except ValueError as error:
    print(str(error).split("\n")[-1] if "\n" in str(error) else error)

# %% append eagerly
tensor_list = []


def append_tensor(x):
    tensor_list.append(x)
    return tensor_list


append_tensor(tf.constant(5.0))
append_tensor(tf.constant(6.0))
print(tensor_list)

# %% append in a trace
tensor_list = []


@tf.function
def append_tensor(x):
    tensor_list.append(x)
    return tensor_list


append_tensor(tf.constant(5.0))
append_tensor(tf.constant(6.0))
print(tensor_list)


# %% tracing
@tf.function(autograph=True)
def my_add(a, b):
    for i in tf.range(3):
        tf.print(i)
    c = a + b
    print("tracing")
    return c


print(my_add(a=tf.constant("hello"), b=tf.constant("world")))

# %% called again
print(my_add(a=tf.constant("good"), b=tf.constant("morning")))

# %% called with other types
print(my_add(a=tf.constant(1), b=tf.constant(2)))

# %% called with Python values
print(my_add("hello", "world"))
print(my_add("good", "morning"))

# %% loops of TensorFlow 1
graph = tf1.Graph()
with graph.as_default():
    a = tf1.placeholder(shape=[], dtype=tf1.string)
    b = tf1.placeholder(shape=[], dtype=tf1.string)
    cond = lambda i: i < tf1.constant(3)

    def body(i):
        with tf1.control_dependencies([tf1.print(i)]):
            return i + 1

    loop = tf1.while_loop(cond, body, loop_vars=[0])
    with tf1.control_dependencies([loop]):
        c = tf1.strings.join([a, b])
    print("tracing")
with tf1.Session(graph=graph) as sess:
    print(sess.run(c, feed_dict={a: "hello", b: "world"}))

# %% input_signature
x = tf.Variable(1.0, dtype=tf.float32)


@tf.function(input_signature=[tf.TensorSpec(shape=[], dtype=tf.float32)])
def add_print(a):
    x.assign_add(a)
    tf.print(x)
    return x


add_print(tf.constant(3.0))

# %% another type than the signature's
add_print(tf.constant(3))


# %% a module
class DemoModule(tf.Module):
    def __init__(self, init_value=tf.constant(0.0), name=None):
        super(DemoModule, self).__init__(name=name)
        with self.name_scope:
            self.x = tf.Variable(init_value, dtype=tf.float32, trainable=True)

    @tf.function(input_signature=[tf.TensorSpec(shape=[], dtype=tf.float32)])
    def add_print(self, a):
        with self.name_scope:
            self.x.assign_add(a)
            tf.print(self.x)
            return self.x


demo = DemoModule(init_value=tf.constant(1.0))
result = demo.add_print(tf.constant(5.0))

# %% its variables
print(demo.variables)
print(demo.trainable_variables)

# %% its submodules
demo.submodules

# %% saved_model.save
folder = tempfile.mkdtemp()
tf.saved_model.save(demo, folder + "/demo/1", signatures={"serving_default": demo.add_print})

# %% saved_model.load
demo2 = tf.saved_model.load(folder + "/demo/1")
demo2.add_print(tf.constant(5.0))

# %% the graph of a module
writer = tf.summary.create_file_writer(folder + "/demomodule")
tf.summary.trace_on(graph=True, profiler=False)
demo = DemoModule(init_value=tf.constant(0.0))
result = demo.add_print(tf.constant(5.0))
with writer.as_default():
    tf.summary.trace_export(name="demomodule", step=0)

# %% attributes of a module
my_module = tf.Module()
my_module.x = tf.Variable(0.0)


@tf.function(input_signature=[tf.TensorSpec(shape=[], dtype=tf.float32)])
def add_print(a):
    my_module.x.assign_add(a)
    tf.print(my_module.x)
    return my_module.x


my_module.add_print = add_print
print(my_module.add_print(tf.constant(1.0)).numpy())
print(my_module.variables)
tf.saved_model.save(my_module, folder + "/my_module", signatures={"serving_default": my_module.add_print})
my_module2 = tf.saved_model.load(folder + "/my_module")
my_module2.add_print(tf.constant(5.0))
