"""Train a digit classifier on MNIST with tf.distribute.MultiWorkerMirroredStrategy."""

from strategies import MultiWorkerMirrored

MultiWorkerMirrored.main()
