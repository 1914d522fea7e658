"""What answers at a policy's address, in the policy's own words: a file, a class, or a server."""

from twinloop.policies.backends import groot, onnx_file, openpi, python_class, torchscript, vla_eval

__all__ = ["groot", "onnx_file", "openpi", "python_class", "torchscript", "vla_eval"]
