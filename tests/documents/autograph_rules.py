# %% numpy's numbers are drawn while tracing
import tempfile

import numpy as np
import tensorflow as tf

tf.random.set_seed(1)
np.random.seed(1)


@tf.function
def np_random():
    a = np.random.randn(3, 3)
    tf.print(a)


@tf.function
def tf_random():
    a = tf.random.normal((3, 3))
    return a


np_random()
np_random()

# %% TensorFlow's each time the function runs
print(np.array_equal(tf_random(), tf_random()))

# %% a variable from outside
x = tf.Variable(1.0, dtype=tf.float32)


@tf.function
def outer_var():
    x.assign_add(1.0)
    tf.print(x)
    return x


outer_var()
outer_var()


# %% a variable made inside
@tf.function
def inner_var():
    x = tf.Variable(1.0, dtype=tf.float32)
    x.assign_add(1.0)
    tf.print(x)
    return x


try:
    inner_var()
    inner_var()
except ValueError:
    print("ValueError")

# %% a list from outside, eagerly
tensor_list = []


def append_tensor(x):
    tensor_list.append(x)
    return tensor_list


append_tensor(tf.constant(5.0))
append_tensor(tf.constant(6.0))
print(tensor_list)

# %% its elements
for value in tensor_list:
    print(value.numpy())
    print(value)

# %% a list from outside, traced
tensor_list = []


@tf.function
def append_traced(x):
    tensor_list.append(x)
    return tensor_list


append_traced(tf.constant(5.0))
append_traced(tf.constant(6.0))
print(tensor_list)
len(tensor_list)


# %% what is printed when
@tf.function(autograph=True)
def myadd(a, b):
    for i in tf.range(3):
        tf.print(i)
    c = a + b
    print("tracing")
    return c


res = myadd(tf.constant("hello"), tf.constant("world"))
res.numpy().decode("utf-8")

# %% again, with other values
myadd(tf.constant("good"), tf.constant("morning"))

# %% another type
myadd(tf.constant(1), tf.constant(2))

# %% Python's strings
myadd("hello", "world")
myadd("good", "morning")

# %% an input signature
x = tf.Variable(6.0, dtype=tf.float32)


@tf.function(input_signature=[tf.TensorSpec(shape=[], dtype=tf.float32)])
def add_print(a):
    x.assign_add(a)
    tf.print(x)
    return x


add_print(tf.constant(3.0))

# %% an argument of another type
try:
    add_print(tf.constant(3))
except TypeError:
    print("TypeError")


# %% a module
class DemoModule(tf.Module):
    def __init__(self, init_value=tf.constant(0.0), name=None):  # noqa: B008 - as the document has it
        super().__init__(name=name)
        with self.name_scope:
            self.x = tf.Variable(init_value, dtype=tf.float32, trainable=True)

    @tf.function(input_signature=[tf.TensorSpec(shape=[], dtype=tf.float32)])
    def addprint(self, a):
        with self.name_scope:
            self.x.assign_add(a)
            tf.print(self.x)
            return self.x


demo = DemoModule(init_value=tf.constant(1.0))
result = demo.addprint(tf.constant(5.0))
result.numpy()

# %% its variables and submodules
print(demo.variables)
print(demo.trainable_variables)
demo.submodules

# %% saved and loaded
folder = tempfile.mkdtemp()
tf.saved_model.save(demo, folder + "/demo/1", signatures={"serving_default": demo.addprint})
demo2 = tf.saved_model.load(folder + "/demo/1")
demo2.addprint(tf.constant(10.0))

# %% its variable
demo2.x

# %% attributes of a module
mymodule = tf.Module()
mymodule.x = tf.Variable(0.0)


@tf.function(input_signature=[tf.TensorSpec(shape=[], dtype=tf.float32)])
def addprint(a):
    mymodule.x.assign_add(a)
    tf.print(mymodule.x)
    return mymodule.x


mymodule.addprint = addprint
mymodule.addprint(tf.constant(1.0)).numpy()

# %% their variables
print(mymodule.variables)

# %% saved and loaded, too
tf.saved_model.save(mymodule, folder + "/mymodule", signatures={"serving_default": mymodule.addprint})
mymodule2 = tf.saved_model.load(folder + "/mymodule")
mymodule2.addprint(tf.constant(5.0))
