"""A small classifier trained with NumPy, saved as real training checkpoints: the demo's models.

Adam with a cosine learning-rate schedule on two interleaved spirals. A checkpoint holds all that training
needs to resume: weights, both moments of the optimiser, step, schedule, random state, configuration.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

Array = NDArray[np.float32]
Params = dict[str, Array]


@dataclass(frozen=True)
class Config:
    """What to train."""

    hidden: int = 768
    epochs: int = 3
    batches: int = 12
    batch_size: int = 128
    learning_rate: float = 3e-3
    seed: int = 7


class Trainer:
    """Weights, optimiser and data of one run."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.random = np.random.default_rng(config.seed)
        self.step = 0
        sizes = [2, config.hidden, config.hidden, 2]
        self.weights: Params = {}
        for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
            spread = math.sqrt(2 / fan_in)
            self.weights[f"layers.{i}.weight"] = self._normal(fan_in, fan_out) * np.float32(spread)
            self.weights[f"layers.{i}.bias"] = np.zeros(fan_out, np.float32)
        self.first = {name: np.zeros_like(value) for name, value in self.weights.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.weights.items()}

    def run(self, folder: Path) -> Iterator[tuple[Path, dict[str, float]]]:
        """Trains; after every epoch yields the checkpoint's folder and its metrics."""
        for epoch in range(1, self.config.epochs + 1):
            results = [self._train_batch() for _ in range(self.config.batches)]
            loss, accuracy = np.mean(results, axis=0)
            metrics = {"epoch": epoch, "loss": round(float(loss), 4), "accuracy": round(float(accuracy), 4)}
            yield self.save(folder / f"checkpoint-{self.step}", metrics), metrics

    def save(self, folder: Path, metrics: dict[str, float]) -> Path:
        """Writes a checkpoint that training could resume from."""
        folder.mkdir(parents=True)
        save_file(self.weights, folder / "model.safetensors", metadata={"format": "np"})
        moments = {f"exp_avg.{name}": value for name, value in self.first.items()}
        moments |= {f"exp_avg_sq.{name}": value for name, value in self.second.items()}
        save_file(moments, folder / "optimizer.safetensors")
        state = {
            "step": self.step,
            "metrics": metrics,
            "lr_scheduler": {"type": "cosine", "last_lr": self._rate(), "total_steps": self._total_steps()},
            "rng_state": self.random.bit_generator.state,
        }
        (folder / "trainer_state.json").write_text(json.dumps(state, indent=2, sort_keys=True))
        architecture = {"architectures": ["SpiralClassifier"], **asdict(self.config)}
        (folder / "config.json").write_text(json.dumps(architecture, indent=2, sort_keys=True))
        return folder

    def _train_batch(self) -> tuple[float, float]:
        points, labels = self._spirals(self.config.batch_size)
        activations = [points]
        for i in range(3):
            z = activations[-1] @ self.weights[f"layers.{i}.weight"] + self.weights[f"layers.{i}.bias"]
            activations.append(np.maximum(z, 0) if i < 2 else z)
        scores = activations[-1] - activations[-1].max(axis=1, keepdims=True)
        chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss = float(-np.log(chances[rows, labels] + 1e-9).mean())
        accuracy = float((chances.argmax(axis=1) == labels).mean())
        chances[rows, labels] -= 1
        self._update(self._gradients(activations, chances / np.float32(len(labels))))
        return loss, accuracy

    def _gradients(self, activations: list[Array], slope: Array) -> Params:
        gradients: Params = {}
        for i in (2, 1, 0):
            gradients[f"layers.{i}.weight"] = activations[i].T @ slope
            gradients[f"layers.{i}.bias"] = slope.sum(axis=0)
            slope = (slope @ self.weights[f"layers.{i}.weight"].T) * (activations[i] > 0)
        return gradients

    def _update(self, gradients: Params) -> None:
        self.step += 1
        rate = np.float32(self._rate())
        for name, gradient in gradients.items():
            self.first[name] = np.float32(0.9) * self.first[name] + np.float32(0.1) * gradient
            self.second[name] = np.float32(0.999) * self.second[name] + np.float32(0.001) * gradient**2
            mean = self.first[name] / np.float32(1 - 0.9**self.step)
            variance = self.second[name] / np.float32(1 - 0.999**self.step)
            self.weights[name] = self.weights[name] - rate * mean / (np.sqrt(variance) + np.float32(1e-8))

    def _rate(self) -> float:
        return 0.5 * self.config.learning_rate * (1 + math.cos(math.pi * self.step / self._total_steps()))

    def _total_steps(self) -> int:
        return self.config.epochs * self.config.batches

    def _normal(self, *shape: int) -> Array:
        return self.random.standard_normal(shape, dtype=np.float32)

    def _spirals(self, count: int) -> tuple[Array, NDArray[np.int64]]:
        labels = self.random.integers(0, 2, count)
        radius = self.random.random(count, dtype=np.float32)
        angle = 6 * radius + np.pi * labels.astype(np.float32)
        points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        return (points + 0.02 * self._normal(count, 2)).astype(np.float32), labels
