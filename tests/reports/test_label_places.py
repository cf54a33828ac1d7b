"""Labels of points cover neither each other nor a point, where there is room."""

import itertools

import numpy as np
import pytest

from fedrec_auditor.reports.drawing import label_places

WITHIN = (0.0, 0.0, 150.0, 120.0)


def apart(one, other):
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.parametrize("spread", [0.0, 2.0, 20.0])
def test_five_labels_cover_nothing(spread):
    rng = np.random.default_rng(3)
    for _ in range(50):
        middle = rng.uniform((30.0, 30.0), (120.0, 90.0))
        near = middle + spread * rng.normal(size=(5, 2))
        points = list(map(tuple, near.clip(0.0, WITHIN[2:]).tolist()))
        boxes = label_places(points, ["0.0625", "0.25", "1", "4", "16"], 10.5, WITHIN)
        assert all(apart(one, other) for one, other in itertools.combinations(boxes, 2))
        dots = [(x - 4.0, y - 4.0, x + 4.0, y + 4.0) for x, y in points]
        assert all(apart(box, dot) for box in boxes for dot in dots)
        assert all(WITHIN[0] <= box[0] and box[2] <= WITHIN[2] for box in boxes)


def test_a_line_is_left_free_where_that_is_near():
    (box,) = label_places([(50.0, 50.0)], ["1"], 10.0, WITHIN, lines=[(0.0, 30.0, 150.0, 50.0)])
    assert box[1] >= 49.0
