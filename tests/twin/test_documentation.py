"""The config in docs/twins.md loads, and every picture it shows is there and small."""

import re
from pathlib import Path

import yaml

from twinloop.randomize import load_generate_config, load_randomization

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "twins.md").read_text()


def test_the_config_example_loads():
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    values = yaml.safe_load(block)
    assert load_generate_config(values).episodes == 204_800
    assert len(load_randomization(values).names) == 9


def test_every_picture_is_there_and_small():
    pictures = re.findall(r"!\[[^]]*\]\((.*?)\)", TEXT)
    assert len(pictures) == 10
    assert all((DOCS / picture).stat().st_size < 80_000 for picture in pictures)
