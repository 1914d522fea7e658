"""Policies: the door, our own networks, and those of others behind an address and an interface map.

Importing this package registers the built-in kinds of address; what runs them is loaded when one is opened.
"""

from twinloop.policies import groot, onnx_file, openpi, python_class, torchscript, vla_eval

__all__ = ["groot", "onnx_file", "openpi", "python_class", "torchscript", "vla_eval"]
