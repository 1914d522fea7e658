"""The tiny dataset and policy of the learning tests."""

from tests.learning.conftest import panda_data as panda_data
from tests.learning.conftest import tiny_policy as tiny_policy
