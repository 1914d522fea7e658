"""How far an identification is: seconds simulated so far, beside those that such searches usually take."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twinloop.episode import Episode

OnProgress = Callable[[int, int], None]
REPLAYS = 12.0
"""How often a search replays its windows, per parameter: 8 to 14 on arms and pendulums."""
_NEARLY = 0.95


class Meter:
    """Counts simulated seconds and reports them with the expected total, which grows where a search takes longer than usual."""

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        self._on_progress = on_progress
        self.done_s = self.expected_s = 0.0

    def expect(self, episodes: Sequence[Episode], parameters: Sequence[str], seconds: float) -> None:
        """Add a fit of `parameters` to windows of `seconds`, and one replay of everything."""
        available_s = sum(float(episode.time_s[-1] - episode.time_s[0]) for episode in episodes)
        self.expected_s += REPLAYS * len(parameters) * min(seconds, available_s) + available_s

    def count(self, simulated_s: float) -> None:
        """Add what has been simulated."""
        self.done_s += simulated_s
        if self._on_progress is not None:
            self._on_progress(round(self.done_s), round(max(self.expected_s, self.done_s / _NEARLY)))
