# %% a function as the initial value
import tensorflow as tf


def init_fc():
    return tf.constant([1, 2, 3])


var = tf.Variable(init_fc)
assert tf.reduce_all(var == init_fc())
var

# %% unknown shape
var = tf.Variable([[1.0], [2.0], [3.0]], shape=tf.TensorShape(None))
print(var.shape)
var.assign([[1.0, 2.0], [3.0, 4.0]])
print(var)
var.assign([1.0, 2.0, 3.0, 4.0])
print(var)

# %% names need not be unique
var1 = tf.Variable([2.0, 3.0], name="var_unique")
var2 = tf.Variable(var1, name="var_unique")
print(id(var1) == id(var2))
print((var1.name, var2.name))

# %% variables and tensors
var1 = tf.Variable([2.0, 3.0])
orig_id = id(var1)
var1.assign_add([1, 2])
print(orig_id == id(var1))
var2 = tf.add(var1, [1, 2])
print(id(var2) == id(var1))
print(isinstance(var2, tf.Tensor))

# %% captured
v = tf.Variable(0.0)
read_and_decrement = tf.function(lambda: v.assign_sub(0.1))
print(repr(read_and_decrement()))
print(repr(read_and_decrement()))


# %% created once
class M(tf.Module):
    @tf.function
    def __call__(self, x):
        if not hasattr(self, "v"):
            self.v = tf.Variable(x)
        return self.v * x


m = M()
print(repr(m(2.0)))
print(repr(m(3.0)))
print(m.v)

# %% devices
with tf.device("CPU:0"):
    a = tf.Variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    b = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    c = tf.matmul(a, b)
print(c)

# %% soft placement
tf.config.set_soft_device_placement(True)
print(tf.config.get_soft_device_placement())

# %% nested sources
w = tf.Variable(tf.ones((3, 2)), name="w")
b = tf.Variable(tf.range(1, 3, dtype=tf.float32), name="b")
x = [[1.0, 2.0, 3.0]]
with tf.GradientTape() as tape:
    y = x @ w + b
    loss = tf.reduce_mean(y**2)
dl_dw, dl_db = tape.gradient(loss, [[w], {"b": b}])
print(isinstance(dl_dw, list) and isinstance(dl_db, dict))
print(dl_dw, dl_db)

# %% several targets
x = tf.Variable(2.0)
with tf.GradientTape(persistent=True) as tape:
    y = x**2
    z = 1 / x
    w = x * [3.0, 4.0]
assert tape.gradient(y, x).numpy() == 4.0
assert tape.gradient(z, x).numpy() == -0.25
assert tape.gradient([y, z], x) == 3.75
assert tape.gradient(w, x) == 7.0
del tape

# %% what is watched
w = tf.Variable(tf.ones((3, 2)), name="w")
b = tf.Variable(tf.range(1, 3, dtype=tf.float32), name="b")
x = tf.constant([[1.0, 2.0, 3.0]])
with tf.GradientTape() as tape:
    y = x @ w + b
    assert isinstance(y, tf.Tensor)
    loss = tf.reduce_mean(y**2)
dl_dw, dl_dy, dl_dx = tape.gradient(loss, [w, y, x])
assert dl_dy is not None
assert dl_dx is None

# %% watch_accessed_variables
x0 = tf.constant(0.0)
x1 = tf.Variable(10.0)
x2 = tf.Variable(-1.0)
with tf.GradientTape(watch_accessed_variables=False) as tape:
    tape.watch(x0)
    tape.watch(x1)
    y0 = tf.math.sin(x0)
    y1 = tf.nn.softplus(x1)
    y = tf.reduce_sum(y0 + y1 + x2)
dy_dx0, dy_dx1, dy_dx2 = tape.gradient(y, [x0, x1, x2])
assert len(tape.watched_variables()) == 1
assert dy_dx2 is None
print(dy_dx0, dy_dx1)

# %% control flow
x = tf.constant(1.0)
v0 = tf.Variable(2.0)
v1 = tf.Variable(2.0)
with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    if x > 0.0:
        result = v0
    else:
        result = v1**2
g_v0, g_v1, g_x = tape.gradient(result, [v0, v1, x])
assert g_v1 is None and g_x is None
assert g_v0 is not None

# %% a variable replaced by a tensor
x = tf.Variable(2.0)
for epoch in range(2):
    with tf.GradientTape() as tape:
        y = x + 1
    print(isinstance(x, tf.Variable))
    print(tape.gradient(y, x) is not None)
    x = x + 1

# %% state stops the gradient
x0 = tf.Variable(3.0)
x1 = tf.Variable(0.0)
with tf.GradientTape() as tape:
    x1.assign_add(x0)
    y = x1**2
print(tape.gradient(y, x0))

# %% no registered gradient
image = tf.Variable([[[0.5, 0.0, 0.0]]])
delta = tf.Variable(0.1)
with tf.GradientTape() as tape:
    new_image = tf.image.adjust_contrast(image, delta)
try:
    print(tape.gradient(new_image, [image, delta]))
    assert False
except LookupError as e:
    print(f"A {type(e).__name__} is raised:\n{e}")
