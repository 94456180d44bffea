"""Train a digit classifier on MNIST with tf.distribute.ParameterServerStrategy."""

from strategies import ParameterServers

ParameterServers.main()
