"""What every test may rely on."""

import signal


def pytest_configure() -> None:
    """Ctrl-C works, also where the tests run as a background job, which starts with it switched off."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
