"""The safety envelope between any policy and any robot.

`file` is what `safety.yaml` holds, `limits` checks it against robot and twin, `motion` is the trajectory that can always still stop,
`workspace` and `contact` look through the twin, `latch` remembers stops, and `envelope` is what wraps a robot.
"""
