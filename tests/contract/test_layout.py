"""File names that the exporter writes and the server looks for; the server may not import the exporter."""

from mnexport.repository import layout
from mnserve.engines import optional_outputs as core_first
from mnserve.models import opened_model
from mnserve.repository import reader as repository


def test_the_server_looks_for_what_the_exporter_writes() -> None:
    assert repository.CONFIG_NAME == layout.CONFIG_NAME
    assert repository.EXPORT_NAME == layout.RECORD_NAME
    assert repository.MODEL_NAME == layout.MODEL_NAME
    assert core_first.CORE_NAME == layout.CORE_NAME
    assert core_first.CPU_NAME == layout.CPU_NAME
    assert opened_model.NEIGHBORS_NAME == layout.NEIGHBORS_NAME
