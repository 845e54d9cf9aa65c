import pytest

from tuner.vision.image_settings import size_limits
from tuner.vision.settings import check_settings


@pytest.mark.parametrize("key", ["crop_padding", "cutout", "test_time_shift"])
def test_nothing_is_larger_than_the_images_allow(key):
    most, _ = size_limits(8)[key]
    assert check_settings({key: most}) == []
    (fault,) = check_settings({key: most + 1})
    rule = "half the image size" if most == 4 else "the image size"
    assert str(fault) == (
        f"{key}: must be at most {rule} of dataset 'digits', {most}, got {most + 1}"
    )


def test_alternating_flips_need_flips():
    (fault,) = check_settings({"alternating_flip": True})
    assert str(fault) == "alternating_flip: needs `flip`, got True"
    assert [f.key for f in check_settings({"alternating_flip": True, "flip": "x"})] == ["flip"]


def test_a_fill_is_one_of_two():
    assert check_settings({"crop_padding": 1, "crop_fill": "reflect"}) == []
    (fault,) = check_settings({"crop_fill": "white"})
    assert fault.key == "crop_fill"
