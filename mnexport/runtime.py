"""ONNX Runtime, its quantisation and conversion to float16, without reports of usage; imported from here alone.

From version 1.29 on it writes an identity of the device under the user's cache folder while it is imported, and sends
names of files and graphs to its maker. A variable switches that off, and only if it is set before the import.
"""

import os

# A user who wants the reports sets 0.
if not os.environ.get("ORT_DISABLE_TELEMETRY"):
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime as onnxruntime
from onnxruntime import quantization as quantization
from onnxruntime.quantization import quant_utils as quant_utils
from onnxruntime.transformers.float16 import convert_float_to_float16 as convert_float_to_float16
