import sys
import warnings

import pytest
from fitproof.runner.paths import hide_folders, hide_folders_in_warnings, print_traceback


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ('File "/home/ann/lib/python3.12/site-packages/torch/x.py", line 3', 'File "site-packages/torch/x.py", line 3'),
        ('File "/opt/py/lib/python3.11/json/decoder.py"', 'File "python3.11/json/decoder.py"'),
        ("/srv/fitproof/reproduce/fitproof/runner/child.py:7: UserWarning", "fitproof/runner/child.py:7: UserWarning"),
        ("cannot open /home/ann/data.bin", "cannot open ~/data.bin"),
        ("cannot open /root", "cannot open ~"),
        ("CUDA out of memory. 3/4 of 1/2 GiB; see https://pytorch.org/docs", None),
    ],
)  # fmt: skip
def test_folders_go_and_the_code_stays_named(printed, kept):
    assert hide_folders(printed) == (printed if kept is None else kept)


def test_a_traceback_with_its_cause_names_no_folder(capsys):
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise RuntimeError(f"cannot read {sys.prefix}/lib/python3.11/site-packages/x.py") from error
    except RuntimeError as error:
        print_traceback(error)
    text = capsys.readouterr().err
    assert "RuntimeError: cannot read site-packages/x.py" in text
    assert "KeyError: 'inner'" in text
    assert "The above exception was the direct cause" in text


def test_warnings_name_no_folder(monkeypatch):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    hide_folders_in_warnings()
    text = warnings.formatwarning("old", UserWarning, "/home/ann/env/site-packages/peft/x.py", 3, "")
    assert text.startswith("site-packages/peft/x.py:3: UserWarning: old")
