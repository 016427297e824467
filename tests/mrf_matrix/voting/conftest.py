"""Two forests of car evaluation, with noise and without, fitted once."""

import pytest
from car_forests import fitted_to_car


@pytest.fixture(scope="session")
def noisy():
    return fitted_to_car()


@pytest.fixture(scope="session")
def exact():
    return fitted_to_car(epsilon=float("inf"), noise="exact", noise_state=None)
