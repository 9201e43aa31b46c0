from __future__ import annotations

import sys

import pytest

from kqueue.base.errors import ExtraNeeded
from kqueue.spark import session as module
from kqueue.spark.errors import PipelineFailed


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(ExtraNeeded, match=r"pip install '\.\[spark\]'"):
        module.session()


def test_the_callers_settings_stand_over_ours() -> None:
    settings = module._settings("local[2]", {"spark.ui.enabled": True, "spark.sql.shuffle.partitions": 3}, quiet=True)
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.sql.shuffle.partitions"] == "3"


def test_only_a_local_spark_stays_on_this_machine() -> None:
    assert module._settings("local[*]", {}, quiet=True)["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in module._settings("spark://host:7077", {}, quiet=True)


def test_quiet_is_beside_the_callers_java_options() -> None:
    options = module._settings("local", {"spark.driver.extraJavaOptions": "-Xss4m"}, quiet=True)[
        "spark.driver.extraJavaOptions"
    ]
    assert options.startswith("-Dlog4j2.configurationFile=file:")
    assert options.endswith(" -Xss4m")
    loud = module._settings("local", {}, quiet=False)
    assert "spark.log.level" not in loud
    assert "spark.driver.extraJavaOptions" not in loud


@pytest.mark.parametrize("ending", [KeyboardInterrupt, ValueError])
def test_an_interrupt_that_ended_java_too_is_an_interrupt(
    ending: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    class WithoutJava:
        def stop(self) -> None:
            raise ConnectionRefusedError

    monkeypatch.setattr(module, "session", lambda *_args, **_settings: WithoutJava())
    with pytest.raises(KeyboardInterrupt if ending is KeyboardInterrupt else PipelineFailed), module.job_session("job"):
        raise ending
