"""Writing data sets: examples in, a directory out that TFDS, Grain and arrayfeed open."""
