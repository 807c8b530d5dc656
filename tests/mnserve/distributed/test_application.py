"""The application as Ray Serve gets it: deployments, their options, and the file of the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mnserve.distributed.application import build, options_of
from mnserve.distributed.arguments import settings_from_arguments
from mnserve.distributed.revision import revision_of
from mnserve.errors import RepositoryNotFoundError, SettingsError, StartError

schema = pytest.importorskip("ray.serve.schema", reason="ray is not installed (pip install '.[ray]')")
build_app = pytest.importorskip("ray.serve._private.build_app").build_app

PAGE = Path(__file__).parents[3] / "docs" / "serving" / "ray.md"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Folders of two models; nothing loads them here."""
    for name in ("digits-mn", "resnet"):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "model.onnx").write_bytes(b"model")
    return tmp_path


def deployments(folder: Path, **arguments: Any) -> dict[str, Any]:
    """Deployments by their names, as Ray Serve takes the application apart."""
    application = build({**arguments, "repository": str(folder)})
    built = build_app(application, name="mnserve")
    return {deployment.name: deployment for deployment in built.deployments}


def test_models_together_have_one_deployment(repository: Path) -> None:
    (one,) = deployments(repository, replicas=3, cpus=2, gpus=0.5, drain_timeout=7).values()
    assert one.num_replicas == 3
    assert one.ray_actor_options["num_cpus"] == 2
    assert one.ray_actor_options["num_gpus"] == 0.5
    assert one._deployment_config.graceful_shutdown_timeout_s > 7
    assert one.user_config == {"revision": revision_of(repository)}


def test_a_port_of_one_s_own_means_one_replica_on_a_machine(repository: Path) -> None:
    (free,) = deployments(repository).values()
    (fixed,) = deployments(repository, direct_port=9001).values()
    assert [one._replica_config.max_replicas_per_node for one in (free, fixed)] == [None, 1]


def test_replicas_scale_between_bounds_by_waiting_rows(repository: Path) -> None:
    (one,) = deployments(repository, replicas=2, max_replicas=5, target_queued_rows=16).values()
    scaling = one._deployment_config.autoscaling_config
    assert (scaling.min_replicas, scaling.max_replicas) == (2, 5)
    policy = scaling.policy.get_policy()(**scaling.policy.policy_kwargs)
    assert policy.replicas(33, 2) == 3


def test_models_apart_have_a_deployment_each(repository: Path) -> None:
    found = deployments(repository, separate=True, replicas=2)
    assert sorted(found) == ["digits-mn", "mnserve", "resnet"]
    assert found["resnet"].init_args[2] == ("resnet",)
    assert found["mnserve"].ray_actor_options["num_cpus"] < 1


def test_the_revision_tells_one_state_of_the_repository_from_another(repository: Path) -> None:
    before = revision_of(repository)
    assert revision_of(repository) == before
    (repository / "resnet" / "2").mkdir()
    (repository / "resnet" / "2" / "model.onnx").write_bytes(b"model")
    assert revision_of(repository) != before
    (one,) = deployments(repository, revision="7").values()
    assert one.user_config == {"revision": "7"}


def test_the_same_options_are_known_again(repository: Path) -> None:
    def options(**arguments: Any) -> str:
        return options_of(settings_from_arguments({"repository": str(repository), **arguments}))

    same = options()
    assert options(revision="8", address="auto", detach=True) == same
    assert options(replicas=2) != same
    assert options(max_queue_rows=9) != same
    apart = options(separate=True)
    (repository / "new" / "1").mkdir(parents=True)
    (repository / "new" / "1" / "model.onnx").write_bytes(b"model")
    assert options() == same
    assert options(separate=True) != apart


def test_a_repository_that_cannot_be_served_is_named(tmp_path: Path) -> None:
    with pytest.raises(RepositoryNotFoundError, match="nothing-here"):
        build({"repository": str(tmp_path / "nothing-here")})
    with pytest.raises(StartError, match="has no models"):
        build({"repository": str(tmp_path), "separate": True})
    (tmp_path / "mnserve" / "1").mkdir(parents=True)
    with pytest.raises(SettingsError, match="'mnserve'"):
        build({"repository": str(tmp_path), "separate": True})


def test_a_model_that_ray_cannot_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "digits#1" / "1").mkdir(parents=True)
    build({"repository": str(tmp_path)})
    with pytest.raises(SettingsError, match="rename digits#1"):
        build({"repository": str(tmp_path), "separate": True})


def test_the_file_of_the_documentation_is_one_of_ray_serve(repository: Path) -> None:
    text = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert text is not None
    config = schema.ServeDeploySchema.model_validate(yaml.safe_load(text[1]))
    (application,) = config.applications
    assert application.import_path == "mnserve.distributed.application:build"
    found = deployments(repository, **application.args)
    assert {deployment.name for deployment in application.deployments} < set(found)
    assert config.grpc_options.grpc_servicer_functions == ["mnserve.distributed.ingress.add_to_server"]
