"""How far a twin is from reality, dimension by dimension, each difference with unit, interval and sample size."""
