"""Whoever stands beside a robot: sets scenes, starts trials, judges them, and has a hand on the stop button.

`trial` holds the nouns, `person` is a person as a `TrialSupervisor`, `terminal` lets one act by single keys, `scenes` says what goes
where and measures where it went, `view` draws it, and `schedule` draws which policy acts when, so that nobody knows beforehand.
"""
