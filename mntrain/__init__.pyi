from .artifact import load_artifact as load_artifact
from .config import ExperimentConfig as ExperimentConfig
from .config import load_experiment as load_experiment
from .errors import MnTrainError as MnTrainError
from .training.artifact_data import evaluate as evaluate
from .training.fit import fit as fit
from .training.run_folder import FitOptions as FitOptions
