"""Six Feetech STS3215 servos on a serial bus, simulated behind a pseudo-terminal: what LeRobot's SO-101 arm talks to."""

import math
import os
import select
import threading
import time
import tty

MODEL = 777
BROADCAST = 0xFE
PING, READ, WRITE, SYNC_READ, SYNC_WRITE = 1, 2, 3, 0x82, 0x83
MODEL_NUMBER, MIN_LIMIT, MAX_LIMIT, OFFSET, TORQUE, GOAL, PRESENT = 3, 9, 11, 31, 40, 42, 56
TIME_CONSTANT_S = 0.03
NAMES = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")


def calibration(low=800, high=3300):
    """LeRobot's calibration file of such an arm."""
    return {
        name: {"id": k + 1, "drive_mode": 0, "homing_offset": -50, "range_min": low, "range_max": high}
        for k, name in enumerate(NAMES)
    }


class Servo:
    """A servo's registers; its position follows the goal while torque is on, and `hand(time_s)` while it is off."""

    def __init__(self, low, high, hand):
        self.memory, self.hand = bytearray(128), hand
        self.moved_s, self.position = time.monotonic(), 2048.0
        for place, value in (
            (MODEL_NUMBER, MODEL),
            (MIN_LIMIT, low),
            (MAX_LIMIT, high),
            (OFFSET, 50 | 1 << 11),
        ):
            self.set(place, value)
        self.set(GOAL, 2048)

    def get(self, place):
        return int.from_bytes(self.memory[place : place + 2], "little")

    def set(self, place, value):
        self.memory[place : place + 2] = int(value).to_bytes(2, "little")

    def move(self):
        now_s = time.monotonic()
        passed_s, self.moved_s = now_s - self.moved_s, now_s
        if self.memory[TORQUE]:
            self.position += (self.get(GOAL) - self.position) * (1.0 - math.exp(-passed_s / TIME_CONSTANT_S))
        elif self.hand is not None:
            self.position = self.hand(now_s)
        self.set(PRESENT, round(self.position))


class Bus:
    """The servos of one arm on `port`; a context."""

    def __init__(self, low=800, high=3300, hand=None):
        self.servos = {k + 1: Servo(low, high, hand) for k in range(len(NAMES))}
        self.cut = threading.Event()
        self._end = threading.Event()

    def __enter__(self):
        self._host, self._device = os.openpty()
        tty.setraw(self._host)
        tty.setraw(self._device)
        self.port = os.ttyname(self._device)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
        os.close(self._host)
        os.close(self._device)

    def _serve(self):
        seen = bytearray()
        while not self._end.is_set():
            if select.select([self._host], [], [], 0.05)[0]:
                seen += os.read(self._host, 4096)
                while len(seen) >= 4 and len(seen) >= 4 + seen[3]:
                    packet = bytes(seen[: 4 + seen[3]])
                    del seen[: len(packet)]
                    assert packet[:2] == b"\xff\xff" and packet[-1] == ~sum(packet[2:-1]) & 0xFF
                    if not self.cut.is_set():
                        self._obey(packet[2], packet[4], packet[5:-1])

    def _obey(self, number, instruction, parameters):
        if instruction == SYNC_READ:
            start, length = parameters[:2]
            for one in parameters[2:]:
                self._answer(one, self._read(one, start, length))
        elif instruction == SYNC_WRITE:
            start, length = parameters[:2]
            for k in range(2, len(parameters), length + 1):
                self.servos[parameters[k]].memory[start : start + length] = parameters[k + 1 : k + 1 + length]
        elif instruction == PING:
            for one in self.servos if number == BROADCAST else [number]:
                self._answer(one)
        elif instruction == READ:
            self._answer(number, self._read(number, *parameters))
        elif instruction == WRITE:
            self.servos[number].memory[parameters[0] : parameters[0] + len(parameters) - 1] = parameters[1:]
            self._answer(number)

    def _read(self, number, start, length):
        self.servos[number].move()
        return bytes(self.servos[number].memory[start : start + length])

    def _answer(self, number, data=b""):
        body = bytes([number, len(data) + 2, 0]) + data
        os.write(self._host, b"\xff\xff" + body + bytes([~sum(body) & 0xFF]))
