"""What is no data is refused in words, before anything is computed. The calls are in a table."""

from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
import yaml

import validation
from validation.codes import tabulate_confusion
from validation.resampling import Resamples, bootstrap_mean
from validation.selection import compare_arms

TABLES = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))
CALLS = {call: message for table in TABLES.values() for call, message in table.items()}
NAMES = {name: getattr(validation, name) for name in validation.__all__} | {
    one.__name__: one
    for one in (tabulate_confusion, Resamples, bootstrap_mean, compare_arms, np.array)
}


@pytest.mark.parametrize("call", CALLS)
def test_input_that_is_no_data_is_refused(call):
    with pytest.raises(ValueError, match=CALLS[call]):
        eval(call, NAMES | {"inf": inf, "nan": nan})
