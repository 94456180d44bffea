"""Train a digit classifier on MNIST with tf.distribute.MirroredStrategy."""

from strategies import Mirrored

Mirrored.main()
