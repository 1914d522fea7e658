"""A participant of somebody else on loopback, and configs of robots on its topics."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from tests.robots.ros2.domains import free_domain

JOINTS = ("shoulder", "elbow")


class Other:
    """A participant in a process of its own."""

    def __init__(self, domain, *words):
        script = Path(__file__).with_name("participant.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(domain), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "CYCLONEDDS_URI"},
        )
        self.lock = threading.Lock()
        assert self.answer() == "ready"

    def send(self, *words):
        """Ask without waiting for the answer."""
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, *words):
        with self.lock:
            self.send(*words)
            return self.answer()

    def publish(self, topic, kind, body, reliable=True):
        return self.ask("publish", topic, kind, body.hex(), reliable)

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def domain():
    """A domain that no other test of this machine is in."""
    with free_domain() as number:
        yield number


@pytest.fixture(scope="module")
def participant(domain):
    made = Other(domain)
    yield made
    made.end()


@pytest.fixture
def native(domain):
    """A participant whose messages Cyclone DDS itself encodes and decodes, by IDL types of its own."""
    made = Other(domain, "native")
    yield made
    made.end()


@pytest.fixture
def other(participant):
    """A participant that is on no topic at the start and at the end of a test."""
    yield participant
    participant.ask("forget")


@pytest.fixture
def write_config(tmp_path, domain):
    """A function that writes the config of a two-joint arm on loopback, with changes, and returns its address."""

    def write(**changes):
        content = {
            "serial": "arm-7",
            "rate_hz": 50,
            "joints": {name: {"low": -2.0, "high": 2.0, "speed_per_s": 3.0} for name in JOINTS},
            "command": {"topic": "/arm/joint_trajectory"},
            "state": {"max_age_s": 20.0},  # tests share their machine
            "domain_id": domain,
            "interface": "127.0.0.1",
            "connect_s": 30.0,
        }
        file = tmp_path / "arm.yaml"
        file.write_text(yaml.safe_dump(content | changes, sort_keys=False))
        return f"ros2:{file}"

    return write
