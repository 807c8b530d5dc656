from .client.blocking import Client as Client
from .errors import MnServeError as MnServeError
from .predicting.local_model import LocalModel as LocalModel
from .predicting.predictions import ClassPredictions as ClassPredictions
from .predicting.predictions import ValuePredictions as ValuePredictions
from .server import Server as Server
from .settings import ServeSettings as ServeSettings
