"""The ledger of looks: what it counts, and what happens when it is cut off or cannot be written."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from annotator.calibration.ledger import hash_label_files, locate_ledgers, note_look
from tests.calibration.build import calibration, label, make_run, said, write_labels

ENTRY = {"rubric": "faults", "split": "test", "judge_sha256": "j1", "labels": ["a", "b"]}


@pytest.fixture
def file(tmp_path, rubric):
    rows = [label(f"t{n}", rubric, "alpha", split=("dev", "test")[n % 2]) for n in range(8)]
    return write_labels(tmp_path / "labels.jsonl", rows)


def judge(tmp_path, rubric, name):
    return make_run(tmp_path / name, rubric, [said(f"t{n}", "alpha") for n in range(8)], judge=name)


def lines(file):
    return [json.loads(line) for line in locate_ledgers([file])[0].read_text().splitlines()]


def test_every_look_is_noted_with_its_judge(annotate_cli, tmp_path, rubric, file):
    one, two = judge(tmp_path, rubric, "one"), judge(tmp_path, rubric, "two")
    looks = []
    made_for = [(one, []), (one, []), (two, []), (one, []), (two, ["--final"]), (one, ["--final"])]
    for run, more in made_for:
        done = annotate_cli("calibrate", "-v", run, "--labels", file, *more)
        assert done.code == 0, done.err
        made = calibration(run / "calibration.json")
        looks.append((made["look"]["split"], made["look"]["look"], made["look"]["judges"]))
        time = "First time" if looks[-1][1] == 1 else f"Time {looks[-1][1]}"
        assert f"{time} that this label set is used" in " ".join(done.out.split())
        assert ("compared with these test labels" in " ".join(done.out.split())) == (
            looks[-1] == ("test", 2, 2)
        )
    assert looks == [
        *(("dev", look, judges) for look, judges in ((1, 1), (1, 1), (2, 2), (2, 2))),
        *(("test", look, judges) for look, judges in ((1, 1), (2, 2))),
    ]
    noted = " ".join(f"{one['look']}-{one['judge']}" for one in lines(file))
    assert noted == "1-one 1-one 2-two 2-one 1-two 2-one"
    assert {one["labels_sha256"] for one in lines(file)} == {hash_label_files([file])}
    assert "2 judges were compared with these test labels" in " ".join(done.out.split())
    shown = annotate_cli("report", "-v", one, "--calibration", one / "calibration.json").out
    assert "of the test split, used 1 time before, by 2 judges in all" in " ".join(shown.split())


def test_looks_are_at_labels_not_at_a_file(calibrate, tmp_path, rubric, file):
    """Other labels under the same name were never looked at; one label more was. A copy elsewhere
    is the same labels, if both looks are noted together.
    """
    run = judge(tmp_path, rubric, "one")

    def look(labels=file, *options):
        return calibrate(run, labels, *options)[0]["look"]["look"]

    assert (look(), look()) == (1, 1)  # a repeat is no new look
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    write_labels(file, [row | {"primary": "beta"} for row in rows])
    assert look() == 1
    write_labels(file, rows[:1] + [row | {"primary": "gamma"} for row in rows[1:]])
    assert look() == 2  # one of them was in the first
    folder = write_labels(tmp_path / "elsewhere" / "copy.jsonl", rows).parent
    ledger = tmp_path / "looks.jsonl"
    assert look(write_labels(file, rows), "--ledger", ledger) == 1
    assert look(folder, "--ledger", ledger) == 1
    assert len(ledger.read_text().splitlines()) == 2
    # The ledger beside the labels is not read as labels.
    assert (look(folder), look(folder)) == (1, 1)


def test_looks_at_the_same_time_have_numbers_of_their_own(tmp_path):
    """Two that are both "look 1" would make less of how often the labels were looked at."""
    entries = [ENTRY | {"run": f"{n}"} for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        looks = list(pool.map(lambda entry: note_look([tmp_path / "l"], entry)["look"], entries))
    assert sorted(looks) == list(range(1, 41))
    assert note_look([tmp_path / "l"], ENTRY)["look"] == 41  # and all of them are kept


def test_a_line_cut_off_is_taken_out_and_said(calibrate, tmp_path, rubric, file):
    run = judge(tmp_path, rubric, "one")
    calibrate(run, file)
    ledger = locate_ledgers([file])[0]
    whole = ledger.read_text()
    ledger.write_text(whole + '{"rubric": "fau')
    made, out = calibrate(judge(tmp_path, rubric, "two"), file)
    assert "its last line was cut off while it was written, 15 bytes; taken out" in out
    assert made["look"]["look"] == 2
    assert ledger.read_text().startswith(whole)
    assert ledger.read_text().count("\n") == 2


def test_the_hash_tells_contents_and_not_names(tmp_path):
    one, two, three = (tmp_path / name for name in ("a", "b", "c"))
    one.write_text("x")
    two.write_text("x")
    three.write_text("y")
    assert hash_label_files([one]) == hash_label_files([two]) != hash_label_files([three])
    assert hash_label_files([one, three]) != hash_label_files([three, one])


def test_a_look_at_several_files_is_one_at_each(tmp_path):
    """A top-up or the dev sheet beside the test sheet is no new test set."""
    first, second = locate_ledgers([tmp_path / "b.csv", tmp_path / "a.csv"])
    assert (first.name, second.name) == ("a.csv.looks.jsonl", "b.csv.looks.jsonl")
    assert note_look([second], ENTRY)["look"] == 1
    assert note_look([first, second], ENTRY | {"judge_sha256": "j2"})["look"] == 2
    third = note_look([second, first], ENTRY | {"judge_sha256": "j3"})
    assert (third["look"], third["judges"]) == (3, 3)
    assert note_look([first], ENTRY)["look"] == 3  # it has not seen the first look


def test_what_is_counted_together(tmp_path):
    """Looks at the same rubric and split, and at any of the same labels."""
    for changes, look in [
        ({}, 1),
        ({}, 1),
        ({"rubric": "other"}, 1),
        ({"split": "dev"}, 1),
        ({"labels": ["b", "c"]}, 2),
        ({"labels": ["d"]}, 1),
        ({"rubric_sha256": "other words"}, 3),
        ({"run": "once more"}, 4),
        ({"judge_sha256": "j2"}, 5),
        ({}, 5),
    ]:
        assert note_look([tmp_path / "l"], ENTRY | changes)["look"] == look, changes


def test_a_ledger_that_cannot_be_written(annotate_cli, calibrate, tmp_path, rubric, file):
    """Looks are noted beside the run then; those noted beside the labels still count."""
    (tmp_path / "people").mkdir()
    file = shutil.copy(file, tmp_path / "people" / file.name)
    run, ledger = judge(tmp_path, rubric, "one"), locate_ledgers([file])[0]
    calibrate(judge(tmp_path, rubric, "two"), file)
    before = ledger.read_text()
    ledger.parent.chmod(0o555)  # root could write there
    made, _ = calibrate(run, file)
    ledger.parent.chmod(0o755)
    assert (made["look"]["look"], made["look"]["judges"]) == (2, 2)
    assert ledger.read_text() == before
    assert len((run / ledger.name).read_text().splitlines()) == 1
    ledger.unlink()
    ledger.mkdir()
    (run / f".{ledger.name}.lock").mkdir()
    made, out = calibrate(run, file)
    assert "This look was not noted" in out
    assert made["look"] is None
    assert annotate_cli("calibrate", "-v", run, "--labels", file, "--ledger", ledger).code == 2
