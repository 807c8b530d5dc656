"""File names that the exporter writes and the server looks for; the server may not import the exporter."""

from mnexport import layout
from mnserve import local_model, repository
from mnserve.engines import core_first


def test_the_server_looks_for_what_the_exporter_writes() -> None:
    assert repository.CONFIG_NAME == layout.CONFIG_NAME
    assert repository.EXPORT_NAME == layout.RECORD_NAME
    assert repository.MODEL_NAME == layout.MODEL_NAME
    assert core_first.CORE_NAME == layout.CORE_NAME
    assert core_first.CPU_NAME == layout.CPU_NAME
    assert local_model.NEIGHBOURS_NAME == layout.NEIGHBOURS_NAME
