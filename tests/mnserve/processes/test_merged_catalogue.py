"""The models of several engine processes become those of one server."""

from __future__ import annotations

from typing import Any

from mnserve.processes.merged_catalogue import RESTARTING, CatalogueChange, MergedCatalogue
from mnserve.processes.request_counters import RequestCounters


def model(name: str = "m", reason: str = "", number: int = 1, rows: int = 4, **fields: Any) -> dict[str, Any]:
    description = {"config": "c", "signature": {"max_batch_size": rows}}
    version = {"version": 2, "id": number, "reason": reason, "description": description}
    return {"name": name, "loaded": True, "faults": [], "versions": [version], **fields}


def shown(change: CatalogueChange) -> list[tuple[str, str, bool, dict[int, tuple[int, int]]]]:
    return [
        (item.name, version.reason, version.recovering, dict(version.places))
        for item in change.models
        for version in item.versions
    ]


def test_a_version_is_ready_where_one_process_serves_it_and_waits_for_one_that_is_started_again() -> None:
    catalogue = MergedCatalogue(RequestCounters(4))
    catalogue.begin(0, 1)
    catalogue.begin(1, 1)
    assert shown(catalogue.update(0, model(reason="it hangs"))) == [("m", "it hangs", False, {})]
    assert shown(catalogue.update(1, model(number=5))) == [("m", "", False, {1: (1, 5)})]
    assert shown(catalogue.update(0, model())) == [("m", "", False, {0: (1, 1), 1: (1, 5)})]
    assert catalogue.update(0, model()) == CatalogueChange()
    assert (catalogue.complete(0), catalogue.complete(1)) == (CatalogueChange(), CatalogueChange())
    assert shown(catalogue.lose(1)) == [("m", "", False, {0: (1, 1)})]
    assert shown(catalogue.lose(0)) == [("m", RESTARTING, True, {})]
    catalogue.begin(0, 2)
    loading = model(versions=[], faults=[[None, "it is being loaded"]])
    assert catalogue.update(0, loading) == CatalogueChange()  # it still waits
    assert catalogue.update(0, {**loading, "faults": [], "loaded": False}) == CatalogueChange()
    assert shown(catalogue.update(0, model())) == [("m", "", False, {0: (2, 1)})]
    assert shown(catalogue.everything()) == [("m", "", False, {0: (2, 1)})]


def test_requests_go_to_processes_of_one_form_while_they_change_one_after_the_other() -> None:
    catalogue = MergedCatalogue(RequestCounters(4))
    for engine in (0, 1):
        catalogue.begin(engine, 1)
        catalogue.update(engine, model())
        catalogue.complete(engine)
    (record,) = catalogue.update(0, model(number=2, rows=8)).models
    assert (record.versions[0].description["signature"], dict(record.versions[0].places)) == (
        {"max_batch_size": 8},
        {0: (1, 2)},
    )
    assert shown(catalogue.update(1, model(number=2, rows=8))) == [("m", "", False, {0: (1, 2), 1: (1, 2)})]


def test_what_nobody_names_any_more_is_gone() -> None:
    catalogue = MergedCatalogue(RequestCounters(4))
    catalogue.begin(0, 1)
    catalogue.update(0, model("a"))
    catalogue.update(0, model("b"))
    catalogue.complete(0)
    assert catalogue.update(0, {"name": "a", "gone": True}).gone == ("a",)
    catalogue.lose(0)
    catalogue.begin(0, 2)
    catalogue.update(0, model("c"))
    assert catalogue.complete(0).gone == ("b",)
    fault = model("c", versions=[], faults=[[3, "it is broken"]])
    (record,) = catalogue.update(0, fault).models
    assert (record.versions, dict(record.faults)) == ((), {3: "it is broken"})
