"""The solver and its intervals against linear problems whose answers are known."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from twinloop.identification.identifiable import find_confusions, status_of
from twinloop.identification.posterior import make_posterior, memory_rows
from twinloop.identification.predict import Window
from twinloop.identification.problem import Noise, Problem
from twinloop.identification.scale import Scale
from twinloop.identification.slopes import corrected_slopes, linearize, measured_slopes
from twinloop.identification.solve import solve, solve_from, solve_from_many
from twinloop.twins import Parameter

ROWS, WINDOWS = 50, 12


class LinearWorld:
    """Readings that are a matrix times the parameters plus noise: every answer is known."""

    def __init__(self, seed, truth, noise=0.01, design=None, memory=0.0, outliers=0.0):
        rng = np.random.default_rng(seed)
        self.channels = (SimpleNamespace(name="reading"),)
        self.handles = (SimpleNamespace(label="start", speed=False),)
        self.recordings = [SimpleNamespace(time_s=np.arange(ROWS) * 0.01) for _ in range(WINDOWS)]
        self.windows = tuple(Window(i, 0, ROWS) for i in range(WINDOWS))
        rows = ROWS * WINDOWS
        self.design = rng.standard_normal((rows, len(truth))) if design is None else design(rng, rows)
        white = rng.standard_normal(rows)
        scatter = white.copy()
        for row in range(1, rows):
            scatter[row] = memory * scatter[row - 1] + np.sqrt(1 - memory**2) * white[row]
        scatter[rng.random(rows) < outliers] += 30.0
        self.readings = self.design @ np.asarray(truth) + noise * scatter
        self.names = [f"p{i}" for i in range(len(truth))]

    def residuals(self, values, windows, offsets=None):
        theta = np.stack([values[name] for name in self.names], axis=1)
        made = (theta @ self.design.T - self.readings)[:, :, None]
        return np.concatenate(
            [made[:, w.recording * ROWS : w.recording * ROWS + len(w)] for w in windows], axis=1
        )

    def problem(self, noise=0.01, bounds=(-1.0, 1.0)):
        scales = tuple(Scale(Parameter(name, 0.0, bounds), *bounds) for name in self.names)
        sigma = np.array([noise])
        return Problem(
            self, scales, self.windows, Noise(sigma, 10 * sigma), np.zeros(0), np.full(len(scales), 0.5)
        )


def fit(world, noise=0.01):
    problem = world.problem(noise)
    solution = solve(problem, np.full(len(world.names), 0.5))
    return solution, make_posterior(solution, linearize(solution.problem, solution, central=True))


def test_a_linear_problem_is_solved_exactly():
    truth = (0.3, -0.5, 0.05)
    solution, _ = fit(LinearWorld(0, truth, noise=1e-9), noise=1e-6)
    np.testing.assert_allclose(2 * solution.place - 1, truth, atol=1e-6)
    assert solution.converged


def test_outliers_do_not_carry_the_fit_away():
    truth = (0.3, -0.5, 0.05)
    solution, _ = fit(LinearWorld(1, truth, noise=0.01, outliers=0.1))
    np.testing.assert_allclose(2 * solution.place - 1, truth, atol=0.005)


@pytest.mark.parametrize(
    ("memory", "outliers"), [pytest.param(0.0, 0.0, marks=pytest.mark.slow), (0.9, 0.0), (0.0, 0.03)]
)
def test_intervals_cover_the_truth(memory, outliers):
    truth = (0.3, -0.5, 0.05)

    def slow(rng, rows):
        return np.repeat(rng.standard_normal((rows // 10, 3)), 10, axis=0)

    hits = []
    for seed in range(150):
        world = LinearWorld(seed, truth, memory=memory, outliers=outliers, design=slow if memory else None)
        solution, posterior = fit(world)
        hits.append(np.abs(2 * solution.place - 1 - np.array(truth)) <= 2 * posterior.half_width())
    assert 0.90 <= np.mean(hits) <= 0.99, np.mean(hits, axis=0)


def test_parameters_that_only_add_up_are_called_so():
    def same(rng, rows):
        columns = rng.standard_normal((rows, 3))
        columns[:, 1] = columns[:, 0]
        return columns

    world = LinearWorld(2, (0.2, 0.1, -0.4), design=same)
    solution, posterior = fit(world)
    scales = solution.problem.scales
    assert status_of(scales, posterior) == ("not identifiable", "not identifiable", "identifiable")
    (confusion,) = find_confusions(scales, posterior)
    assert confusion.names == ("p0", "p1")
    assert str(confusion) in ("p0 - p1", "p1 - p0")


def test_a_parameter_that_changes_nothing_is_not_identifiable_and_confused_with_nothing():
    def silent(rng, rows):
        columns = rng.standard_normal((rows, 2))
        columns[:, 1] = 0.0
        return columns

    solution, posterior = fit(LinearWorld(3, (0.2, 0.9), design=silent))
    assert status_of(solution.problem.scales, posterior) == ("identifiable", "not identifiable")
    assert find_confusions(solution.problem.scales, posterior) == ()
    assert posterior.deviation[1] == pytest.approx(1 / np.sqrt(12), rel=0.05), "what is left is the prior"


def test_samples_have_the_posteriors_mean_and_covariance_and_stay_inside():
    _, posterior = fit(LinearWorld(4, (0.2, -0.1)))
    drawn = posterior.samples(20_000, seed=1)
    np.testing.assert_allclose(drawn.mean(axis=0), posterior.mean, atol=4 * posterior.deviation.max() / 141)
    np.testing.assert_allclose(np.cov(drawn.T), posterior.covariance, rtol=0.1, atol=1e-9)
    assert drawn.min() >= 0.0 and drawn.max() <= 1.0


def test_memory_of_a_first_order_process():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(20_000)
    for memory in (0.0, 0.8, 0.95):
        series = noise.copy()
        for row in range(1, len(series)):
            series[row] += memory * series[row - 1]
        assert memory_rows(series[:, None]) == pytest.approx((1 + memory) / (1 - memory), rel=0.3, abs=1)


class BentWorld(LinearWorld):
    """Readings that bend with the parameters and with where each window starts."""

    def __init__(self, seed, truth):
        super().__init__(seed, truth, noise=0.0)
        self.calls = 0
        rng = np.random.default_rng(seed + 100)
        self.starts = rng.normal(0.0, 0.05, WINDOWS)
        self.readings = np.zeros(ROWS * WINDOWS)
        exact = self._predicted(np.array([truth]), np.repeat(self.starts[None], 1, axis=0))[0]
        self.readings = exact + 0.001 * rng.standard_normal(len(exact))

    def _predicted(self, theta, starts):
        bent = np.exp(2.5 * theta @ self.design.T / np.sqrt(theta.shape[1]))
        decay = np.tile(np.exp(-np.arange(ROWS) / 15.0), WINDOWS)
        return bent + np.repeat(starts, ROWS, axis=1) * decay * (1.0 + 0.2 * theta[:, :1])

    def residuals(self, values, windows, offsets=None):
        theta = np.stack([values[name] for name in self.names], axis=1)
        self.calls += len(theta)
        starts = np.zeros((len(theta), WINDOWS)) if offsets is None else offsets[:, :, 0]
        return (self._predicted(theta, starts) - self.readings)[:, :, None]


def bent_problem(world):
    return replace(world.problem(0.001), start_deviation=np.array([0.1]))


def test_corrected_slopes_find_the_same_place_with_fewer_simulations(monkeypatch):
    truth = (0.3, -0.5, 0.05, 0.2, -0.1, 0.4)
    found, calls = {}, {}
    for trusted in (0.5, np.inf):
        monkeypatch.setattr("twinloop.identification.solve._TRUSTED", trusted)
        world = BentWorld(5, truth)
        found[trusted] = solve(bent_problem(world), np.full(len(truth), 0.5))
        calls[trusted] = world.calls
    np.testing.assert_allclose(2 * found[0.5].place - 1, truth, atol=0.002)
    np.testing.assert_allclose(found[0.5].place, found[np.inf].place, atol=2e-4)
    np.testing.assert_allclose(found[0.5].offsets[:, 0], world.starts, atol=0.005)
    assert calls[0.5] < 0.7 * calls[np.inf]


class SaturatingWorld(BentWorld):
    """Windows whose starts saturate: a full Newton step from afar overshoots, and the next overshoots more."""

    def _predicted(self, theta, starts):
        return super()._predicted(theta, np.arctan(20.0 * (starts - self.starts)) / 20.0)


def test_starts_are_found_where_a_full_step_overshoots():
    world = SaturatingWorld(5, (0.3, -0.5))
    world.starts = 0.2 * np.sign(world.starts)
    solution = solve(bent_problem(world), np.full(2, 0.5))
    np.testing.assert_allclose(2 * solution.place - 1, (0.3, -0.5), atol=0.002)
    np.testing.assert_allclose(solution.offsets[:, 0], world.starts, atol=0.02)


def test_a_correction_explains_the_step_and_leaves_other_directions_alone():
    world = BentWorld(6, (0.3, -0.5, 0.05))
    problem = bent_problem(world)
    before = solve(problem, np.array([0.5, 0.5, 0.5]), endings=())
    after = solve(problem, np.array([0.55, 0.48, 0.5]), endings=())
    slopes = measured_slopes(problem, before)
    better = corrected_slopes(problem, slopes, before, after, np.full(3, 0.1))
    move = np.append(after.place - before.place, 0.0)
    np.testing.assert_allclose(better @ move, after.residual - before.residual, atol=1e-12)
    across = np.array([0.02, 0.05, 0.3, 0.0])
    np.testing.assert_allclose(better @ across, slopes @ across, atol=1e-12)


class FoldedWorld(LinearWorld):
    """Readings that depend on the first parameter's size alone: plus and minus fit alike."""

    def residuals(self, values, windows, offsets=None):
        return super().residuals(values | {"p0": np.abs(values["p0"])}, windows, offsets)


def test_two_solutions_that_fit_alike_are_both_named_and_the_interval_reaches_both():
    solution = solve_from_many(FoldedWorld(3, (0.4, -0.2)).problem(), np.full(2, 0.5))
    assert abs(2 * solution.place[0] - 1) == pytest.approx(0.4, abs=0.01)
    (rival,) = solution.rivals
    assert rival[0] == pytest.approx(1.0 - solution.place[0], abs=0.01)
    posterior = make_posterior(solution, linearize(solution.problem, solution, central=True))
    assert posterior.half_width()[0] > abs(rival[0] - solution.place[0])
    assert posterior.half_width()[1] < 0.01, "the other parameter is as certain as before"


def test_of_two_solutions_that_fit_alike_the_nearer_to_nominal_is_taken():
    problem = FoldedWorld(3, (0.4, -0.2)).problem()
    for nominal in (0.4, 0.6):
        near = replace(problem, center=np.array([nominal, 0.5]))
        solution = solve_from(near, [np.array([0.3, 0.4]), np.array([0.7, 0.4])])
        assert solution.place[0] == pytest.approx(0.3 if nominal < 0.5 else 0.7, abs=0.01)
        assert len(solution.rivals) == 1


def test_one_solution_has_no_rival():
    assert solve_from_many(LinearWorld(3, (0.4, -0.2)).problem(), np.full(2, 0.5)).rivals == ()


class JointWorld(LinearWorld):
    """Two joints that hardly feel each other: channel k reads mostly parameter k."""

    def __init__(self, coupling):
        super().__init__(4, (0.4, -0.3))
        self.names = ["pan_friction_nm", "lift_friction_nm"]
        self.channels = [SimpleNamespace(name="pan"), SimpleNamespace(name="lift")]
        self.mixing = np.array([[1.0, coupling], [coupling, 1.0]])
        rng = np.random.default_rng(5)
        exact = (np.array([0.4, -0.3]) @ self.mixing) * self.design
        self.both = exact + 0.01 * rng.standard_normal(exact.shape)

    def residuals(self, values, windows, offsets=None):
        theta = np.stack([values[name] for name in self.names], axis=1)
        made = (theta @ self.mixing)[:, None, :] * self.design - self.both
        return np.concatenate([made[:, w.recording * ROWS : w.recording * ROWS + len(w)] for w in windows], 1)

    def problem(self):
        sigma = np.full(2, 0.01)
        return replace(super().problem(), noise=Noise(sigma, 10 * sigma))


@pytest.mark.parametrize("coupling", [0.0, 0.1, 0.6])
def test_slopes_measured_together_lead_to_the_same_place_even_if_joints_feel_each_other(coupling):
    problem = JointWorld(coupling).problem()
    solution = solve(problem, np.full(2, 0.5))
    np.testing.assert_allclose(2 * solution.place - 1, (0.4, -0.3), atol=0.005)
    grouped = measured_slopes(problem, solution, grouped=True)
    exact = measured_slopes(problem, solution)
    for joint in range(2):
        own = (slice(None), joint, joint)
        assert np.all(np.abs(grouped[own] / exact[own] - 1.0) <= 1.5 * coupling + 1e-6)
        assert not grouped[:, 1 - joint, joint].any(), "nothing is said of the other joint"
