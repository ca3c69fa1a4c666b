"""phoneproof: from a float model and real data to quantized builds for phones, with evidence."""

__version__ = "0.1.0"
