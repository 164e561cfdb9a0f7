# %% restored when it is made
import tempfile

import tensorflow as tf

folder = tempfile.mkdtemp()


class MyModule(tf.Module):
    def assign(self, init=tf.constant([1.0, 2.0, 3.0]), name=None):  # noqa: B008 - as the document has it
        with self.name_scope:
            self.w = tf.Variable(init)

    def operate(self, value):
        self.w.assign_add(value)


m = MyModule(name="test")
m.assign()
m.operate([1.0, 1.0, 1.0])
m.w

# %% saved
ckpt = tf.train.Checkpoint(module=m)
ckpt.save(folder + "/ckpt.save.test").rpartition("/")[2]

# %% not there yet
module = MyModule(name="test")
print(hasattr(module, "w"))
ckpt = tf.train.Checkpoint(module=module)
status = ckpt.restore(tf.train.latest_checkpoint(folder))
print(hasattr(module, "w"))

# %% there
module.assign(tf.constant([1.0, 1.0, 1.0]))
module.w


# %% names of a module
class Dense(tf.Module):
    def __init__(self, input_features, output_features, name=None):
        super().__init__(name=name)
        with self.name_scope:
            self.w = tf.Variable(tf.ones([input_features, output_features]), name="w")
            self.b = tf.Variable(tf.zeros([output_features]), name="b")

    @tf.Module.with_name_scope
    def __call__(self, x):
        self.test = tf.Variable([2.0, 3.0], name="ahaha")
        y = tf.matmul(x, self.w) + self.b
        return tf.nn.relu(y)


d = Dense(input_features=5, output_features=3)
d(tf.ones([6, 5]))

# %% of its variables and scope
print(d.variables[0].name)
print(d.name_scope.name)
print(d.name)
d.test


# %% concrete functions
@tf.function
def add(x, y):
    return tf.add(x, y)


add(tf.ones((2, 3)), tf.ones((3,)))

# %% one for each kind of arguments
add(tf.ones((2, 6)), tf.ones((6,)))
print(len(add._list_all_concrete_functions_for_serialization()))
add(3, 5)
add(6, 9)

# %% their signatures
functions = add._list_all_concrete_functions_for_serialization()
print([f.structured_input_signature for f in functions])
functions[3]()

# %% found again
a = add.get_concrete_function(tf.TensorSpec(shape=[2, 6], dtype=tf.float32), tf.TensorSpec(shape=[6], dtype=tf.float32))
len(add._list_all_concrete_functions_for_serialization())

# %% a variable made on the first call
v = None


def f(x):
    global v
    if v is None:
        v = tf.Variable(x)
    return v


f = tf.function(f)
print(f._list_all_concrete_functions_for_serialization())
print(f(tf.constant([2.0, 3.0, 4.0])))
print(f(tf.constant([2.0, 3.0])))

# %% a module that builds itself
class Built(tf.Module):
    def __init__(self, name, units=10):
        super().__init__(name=name)
        self.w = None
        self.b = None
        self.units = units

    @tf.Module.with_name_scope
    def build(self, input_shape):
        if self.w is None:
            self.w = tf.Variable(tf.random.normal([input_shape[-1], self.units]))
        if self.b is None:
            self.b = tf.Variable(tf.random.normal([self.units]))

    def call(self, input):
        return tf.matmul(input, self.w) + self.b

    @tf.function
    def __call__(self, input):
        self.build(input.shape)
        return self.call(input)


m = Built("testModule")
input = tf.random.normal([5, 3])
print(m(input).shape)
m.__call__._list_all_concrete_functions_for_serialization()[0].structured_input_signature


# %% lists as arguments
@tf.function
def f(x):
    print(x)
    return x[-1] + 100


x = [1.0, 2.0]
print(f(x))
print(f.get_concrete_function(x)())
f._list_all_concrete_functions_for_serialization()[0].structured_input_signature

# %% a list changed while tracing
l = []  # noqa: E741 - as the document has it


@tf.function
def f(a):
    for _ in range(a):
        l.append(0)
        tf.print(a)


f(3)
print(l)
f(3)
print(l)


# %% objects as arguments
class Person:
    def __init__(self, age):
        self.age = age


@tf.function
def f(year, p):
    print(year)
    return p.age + year


p = Person(100)
print(f(1, p))
print(f(2, p))
print(f(2, p))


# %% shapes in a loop
@tf.function
def concat_with_padding():
    x = tf.zeros([5, 10])
    tf.print(x.shape)
    x = x[:4]
    tf.print(x.shape)
    for i in tf.range(4):
        x = tf.concat([x[:i], tf.ones([1, 10])], axis=0)
        tf.print(x.shape)
        x.set_shape([4, 10])
        tf.print(x.shape)
    return x


concat_with_padding()

# %% a TensorArray
x = tf.TensorArray(dtype=tf.float32, size=3, infer_shape=False, clear_after_read=False)
a = tf.reshape(tf.range(12.0), [3, 2, 2])
x.unstack(a)
x.read(0)

# %% stacked and gathered
print(x.stack().shape)
x.gather([1, 2])

# %% scattered
y = x.scatter([2, 1, 0], a)
y.read(0)

# %% split
a = tf.reshape(tf.range(30.0), [5, 6])
x.split(a, [1, 2, 2])
print(x.read(0))
x.read(1)

# %% gradients of gradients
x = tf.constant(3.0)
with tf.GradientTape(persistent=True) as t:
    t.watch(x)
    y = x * x
    z = y * y
dz_dx = t.gradient(z, x)
dy_dx = t.gradient(y, x)
del t
dz_dx
