"""Models of imperfect hardware: pure, batched functions with explicit state and explicit randomness.

Every part is one small module with one shape of use::

    state = part.make_state(parameters, ...)
    state, output = part.step(parameters, state, input, dt_s, noise)     # parts that remember
    output = part.apply(parameters, input, noise)                        # parts that do not

The leading axis of every array is the environment. A parameter is a plain number, an array (N,) with one value per
environment, or an array that broadcasts against the signal: (N, channels), or (1, channels) for one value per channel.
No part draws random numbers: noise is an argument, and `noise` draws it so that an environment's noise depends on its
own seed and on nothing else in the batch. An output that is also part of the state is read-only; copy it to change it.
"""
