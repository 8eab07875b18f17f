"""`spark-pipeline.yml`: Spark's fields, kafkaraw's settings, and errors with their lines."""

from __future__ import annotations

import pytest

from kafkaraw.pipelines.model import PipelineError, PipelineErrors
from kafkaraw.pipelines.specification import read_specification

FILES = {"transformations/a.py": "", "transformations/deep/b.sql": "", "transformations/__pycache__/a.pyc": ""}
LIBRARIES = "libraries: [{glob: {include: transformations/**}}]\n"


def test_fields_files_and_defaults(write):
    folder = write(FILES)
    given = read_specification(folder)
    assert (given.name, given.storage, given.catalog, given.database) == ("sales", str(folder / "storage"), None, None)
    assert [str(each.relative_to(folder)) for each in given.files] == [
        "transformations/a.py",
        "transformations/deep/b.sql",
    ]
    settings = given.settings
    assert (settings.dead_letter_topic, settings.replay_topic) == ("sales.dead-letters", "sales.replays")
    assert (settings.group_prefix, settings.trigger_interval) == ("sales", "1 second")


def test_settings_of_kafkaraw_and_of_spark_are_separated(write):
    text = f"""\
        name: sales
        storage: file:///tmp/my%20storage
        catalog: lake
        schema: sales
        configuration:
          kafkaraw.kafka.bootstrap.servers: ${{env:SERVERS}}
          kafkaraw.schema.registry.url: http://localhost:8081
          kafkaraw.dead.letter.topic: bad
          kafkaraw.trigger.interval: 5 seconds
          spark.sql.shuffle.partitions: "2"
        {LIBRARIES}"""
    given = read_specification(write(FILES, text), environment={"SERVERS": "localhost:9092"})
    assert (given.storage, given.catalog, given.database) == ("/tmp/my storage", "lake", "sales")
    assert given.settings.kafka == {"kafka.bootstrap.servers": "localhost:9092"}
    assert given.settings.registry == {"schema.registry.url": "http://localhost:8081"}
    assert given.settings.spark == {"spark.sql.shuffle.partitions": "2"}
    assert (given.settings.dead_letter_topic, given.settings.trigger_interval) == ("bad", "5 seconds")


@pytest.mark.parametrize("place", ["", "spark-pipeline.yml", "transformations", "transformations/deep"])
def test_specification_is_found_from_its_folder_file_and_from_below(write, place):
    folder = write(FILES)
    assert read_specification(folder / place).path == folder / "spark-pipeline.yml"


def test_uri_of_another_file_system_is_kept(write):
    folder = write(FILES, f"name: a\nstorage: s3a://bucket/path\n{LIBRARIES}")
    assert read_specification(folder).storage == "s3a://bucket/path"


def test_problems_are_reported_together_with_their_lines(write):
    text = f"""\
        name: sales
        stroage: here
        configuration:
          kafkaraw.ded.letter.topic: bad
          kafkaraw.kafka.bootstrap.servers: ${{env:NO_SUCH}}
          spark.sql.shuffle.partitions: 2
          kafkaraw.trigger.interval: often
        {LIBRARIES}"""
    with pytest.raises(PipelineErrors) as caught:
        read_specification(write(FILES, text), environment={})
    assert str(caught.value).splitlines() == [
        "pipeline 'sales' has 6 problems:",
        "  spark-pipeline.yml: the field 'storage' is missing",
        "  spark-pipeline.yml:2: unknown field 'stroage'; did you mean 'storage'?; fields are name, storage, catalog, "
        "database, schema, configuration, libraries, and settings of kafkaraw are entries of configuration, such as "
        "kafkaraw.kafka.bootstrap.servers",
        "  spark-pipeline.yml:4: configuration: unknown setting 'kafkaraw.ded.letter.topic'; did you mean "
        "'kafkaraw.dead.letter.topic'?",
        "  spark-pipeline.yml:5: ${env:NO_SUCH}: the environment variable 'NO_SUCH' is not set",
        "  spark-pipeline.yml:6: configuration: spark.sql.shuffle.partitions: the value must be a text, such as "
        'spark.sql.shuffle.partitions: "2"',
        "  spark-pipeline.yml:7: configuration: kafkaraw.trigger.interval: 'often' is no interval, such as "
        '"10 seconds" or "5 minutes"',
    ]


@pytest.mark.parametrize(
    ("libraries", "message"),
    [
        ("", "spark-pipeline.yml: the field 'libraries' is missing"),
        ("libraries: [{glob: {include: '*/a.py'}}]", "spark-pipeline.yml:3: libraries: '*/a.py' must be the path of"),
        ("libraries: [{glob: {include: other/**}}]", "spark-pipeline.yml:3: libraries: 'other/**' matches no file"),
        ("libraries: [{glob: a.py}]", "spark-pipeline.yml:3: libraries: an entry must have the form"),
        ("libraries: a.py", "spark-pipeline.yml:3: libraries: must be a list"),
        ("configuration: [1]\n" + LIBRARIES, "spark-pipeline.yml:3: configuration: must be entries NAME: VALUE"),
        ("libraries: [{glob: {include: notes/**}}]", "libraries: notes/a.txt is neither .py nor .sql: move it out"),
        ("  bad indent: [", "spark-pipeline.yml:3: is not valid YAML: "),
    ],
)
def test_problem_of_a_field_names_its_line(write, libraries, message):
    folder = write({**FILES, "notes/a.txt": ""}, f"name: sales\nstorage: storage\n{libraries}")
    with pytest.raises(PipelineError) as caught:
        read_specification(folder)
    assert message in str(caught.value)


def test_missing_specification_names_the_command_that_makes_one(tmp_path):
    with pytest.raises(PipelineError, match=r"has no spark-pipeline.yml.*kafkaraw pipelines init"):
        read_specification(tmp_path)
    with pytest.raises(PipelineError, match="does not exist"):
        read_specification(tmp_path / "nothing")
    (tmp_path / "a.py").touch()
    with pytest.raises(PipelineError, match="is no specification"):
        read_specification(tmp_path / "a.py")


def test_empty_specification_is_an_error(write):
    with pytest.raises(PipelineError, match=r"spark-pipeline.yml: must have fields, at least `name` and `storage`"):
        read_specification(write({}, ""))


def test_storage_and_entries_of_the_configuration_can_be_replaced(write, tmp_path):
    text = f"""\
        name: sales
        storage: s3a://bucket/path
        configuration:
          kafkaraw.kafka.bootstrap.servers: ${{env:SERVERS}}
          kafkaraw.group.prefix: g
        {LIBRARIES}"""
    folder = write(FILES, text)
    servers = {"kafkaraw.kafka.bootstrap.servers": "localhost:9093"}
    given = read_specification(folder, storage=tmp_path / "s", configuration=servers, environment={})
    assert given.storage == str(tmp_path / "s")
    assert given.settings.kafka == {"kafka.bootstrap.servers": "localhost:9093"}
    assert given.settings.group_prefix == "g"
    with pytest.raises(PipelineError, match="unknown setting 'kafkaraw\\.x'"):
        read_specification(folder, configuration={**servers, "kafkaraw.x": "1"}, environment={})
