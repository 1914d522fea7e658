"""A vla-eval model server whose policy stays where it is."""

import numpy as np
from vla_eval.model_servers.predict import PredictModelServer
from vla_eval.model_servers.serve import run_server


class Still(PredictModelServer):
    def predict(self, obs, ctx):
        return {"actions": np.asarray(obs["state"], np.float32)}


if __name__ == "__main__":
    run_server(Still)
