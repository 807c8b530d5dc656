"""Changes of settings that new processes have to make as well."""

from __future__ import annotations

from typing import Any, Final

from mnserve.observability.log_settings import LogControl, LogValue
from mnserve.protocol import service_pb2 as pb

_LOG_PARAMETERS: Final = {bool: "bool_param", int: "uint32_param", str: "string_param"}


class Journal:
    """Keeps what is in force of all changes. Its size is bounded by the models, regions and settings that there are.

    Args:
        log: Log settings of this process, which are changed along with those of the others.
    """

    def __init__(self, log: LogControl) -> None:
        self._log = log
        self._log_changed = False
        self._regions: dict[str, bytes] = {}
        self._traces: dict[str, pb.TraceSettingRequest] = {}

    def add(self, method: str, message: bytes) -> dict[str, Any]:
        """Keeps a change.

        Args:
            method: Name of the call.
            message: Its request.

        Returns:
            Changed log settings, which engine processes have as well.
        """
        if method == "SystemSharedMemoryRegister":
            self._regions[pb.SystemSharedMemoryRegisterRequest.FromString(message).name] = message
        elif method == "SystemSharedMemoryUnregister":
            name = pb.SystemSharedMemoryUnregisterRequest.FromString(message).name
            for gone in [name] if name else list(self._regions):
                self._regions.pop(gone, None)
        elif method == "TraceSetting":
            request = pb.TraceSettingRequest.FromString(message)
            kept = self._traces.setdefault(request.model_name, pb.TraceSettingRequest(model_name=request.model_name))
            for setting, values in request.settings.items():
                kept.settings[setting].CopyFrom(values)
        elif method == "LogSettings":
            changes = _log_changes(pb.LogSettingsRequest.FromString(message))
            self._log.change(changes)
            self._log_changed = True
            return changes
        return {}

    @property
    def log_changes(self) -> dict[str, LogValue]:
        """Log settings that a new process has to make; none where they are as at the start."""
        return self._log.settings() if self._log_changed else {}

    def entries(self) -> list[tuple[str, bytes]]:
        """Lists the changes that a new front end makes, each with the name of its call."""
        log = pb.LogSettingsRequest()
        for name, value in self.log_changes.items():
            setattr(log.settings[name], _LOG_PARAMETERS[type(value)], value)
        return [
            *([("LogSettings", log.SerializeToString())] if log.settings else []),
            *(("TraceSetting", request.SerializeToString()) for request in self._traces.values()),
            *(("SystemSharedMemoryRegister", message) for message in self._regions.values()),
        ]


def _log_changes(request: pb.LogSettingsRequest) -> dict[str, Any]:
    return {name: getattr(value, str(value.WhichOneof("parameter_choice"))) for name, value in request.settings.items()}
