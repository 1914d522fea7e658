"""How conditions read."""

from twinloop.coverage.rule import Range


def test_bounds_are_told_apart_by_as_many_digits_as_it_takes():
    assert str(Range("x", "m", low=0.49991, high=0.50007)) == "x between 0.4999 and 0.5001 m"
    assert str(Range("x", "m", low=0.25, high=0.5)) == "x between 0.25 and 0.5 m"
    assert str(Range("x", low=2.0)) == "x above 2"
