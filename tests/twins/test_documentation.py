"""The config in docs/how-to/twins.md loads, and every image it shows is there and small."""

import re
from pathlib import Path

import yaml

from twinloop.randomization import load_generate_config, load_randomization

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "how-to/twins.md").read_text()


def test_the_config_example_loads():
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    values = yaml.safe_load(block)
    assert load_generate_config(values).episodes == 204_800
    assert len(load_randomization(values).names) == 9


def test_every_image_is_there_and_small():
    images = re.findall(r"!\[[^]]*\]\((.*?)\)", TEXT)
    drawn = [image for image in images if "/twins/" in image]
    assert len(drawn) == 11
    assert all((DOCS / "how-to" / image).stat().st_size < 80_000 for image in drawn)
