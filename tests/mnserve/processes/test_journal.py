"""Changes that new processes make as well: what is in force, and no more."""

from __future__ import annotations

import logging

from mnserve.observability.log_settings import LogControl
from mnserve.processes.journal import Journal
from mnserve.protocol import service_pb2 as pb


def test_a_new_process_makes_the_changes_that_are_in_force() -> None:
    logger = logging.getLogger("mnserve.test_journal")
    logger.setLevel(logging.INFO)
    journal = Journal(LogControl(logger=logger, handlers=()))
    assert journal.entries() == []
    region = pb.SystemSharedMemoryRegisterRequest(name="r", key="/k", byte_size=8)
    for name in ("r", "s"):
        region.name = name
        journal.add("SystemSharedMemoryRegister", region.SerializeToString())
    forgotten = pb.SystemSharedMemoryUnregisterRequest(name="r")
    journal.add("SystemSharedMemoryUnregister", forgotten.SerializeToString())
    for rate, count in (("5", "7"), ("9", "")):
        traces = pb.TraceSettingRequest(model_name="m")
        traces.settings["trace_rate"].value.append(rate)
        if count:
            traces.settings["trace_count"].value.append(count)
        journal.add("TraceSetting", traces.SerializeToString())
    for level in (1, 0):
        log = pb.LogSettingsRequest()
        log.settings["log_verbose_level"].uint32_param = level
        assert journal.add("LogSettings", log.SerializeToString()) == {"log_verbose_level": level}
    entries = dict(journal.entries())
    assert pb.SystemSharedMemoryRegisterRequest.FromString(entries["SystemSharedMemoryRegister"]).name == "s"
    changed = pb.TraceSettingRequest.FromString(entries["TraceSetting"]).settings
    assert {name: list(setting.value) for name, setting in changed.items()} == {
        "trace_rate": ["9"],
        "trace_count": ["7"],
    }
    told = pb.LogSettingsRequest.FromString(entries["LogSettings"]).settings
    assert (told["log_verbose_level"].uint32_param, told["log_info"].bool_param) == (0, True)
