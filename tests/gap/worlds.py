"""Datasets whose truth is known: a twin with one value changed plays the robot."""

from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.gap.evidence import Options
from twinloop.generation.run import generate
from twinloop.randomization import load_randomization
from twinloop.testing.known_truth import record_known
from twinloop.twins import load_twin

OPTIONS = Options(resamples=500, generated=6, threads=1)


def write(folder, episodes):
    with make_dataset(folder, episodes[0].schema) as writer:
        for episode in episodes:
            writer.add(episode)
    return open_dataset(folder)


def record_arm(folder, truth, count=6, first=0, **how):
    """An SO-101 with other values than its twin's, through an encoder that the twin knows."""
    twin = load_twin("so101")
    quantum = float(twin.parameter("encoder_quantum_rad").nominal)
    noise = float(twin.parameter("encoder_noise_rad").nominal)
    how = {"seconds": 6.0, "rate_hz": 50.0, "noise": noise, "quantum": quantum, "top_hz": 0.8} | how
    return write(folder, [record_known(twin, truth, first + seed, **how) for seed in range(count)])


def simulate(folder, name, values, count=6, seed=1, **how):
    """Generated episodes of a twin with these values."""
    twin = load_twin(name)
    randomization = load_randomization({"twin": name, "randomization": values}, twin)
    return generate(twin, randomization, episodes=count, seed=seed, out=folder, workers=1, **how)
