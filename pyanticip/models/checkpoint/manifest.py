"""Reads and verifies a checkpoint's description, without torch.

A checkpoint is a folder: ``model.safetensors`` (all weights and the normalisation), ``model.json``
(everything else), and for a token model ``tokenizer.json``. Nothing in it is executed or unpickled; every
file's SHA-256 is in ``model.json``.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pyanticip._core import FEATURE_NAMES, FEATURES_VERSION
from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models.config import ModelConfig
from pyanticip.models.core.config import Config
from pyanticip.untrusted import parse_json, read_file
from pyanticip.vocabulary import EVENT_BINS, EVENTS, HORIZONS_MS, PARAMETERS, RATE, SCALARS

FORMAT = "anticip-motion"
VERSION = 6
"""Version of the format. Before 6 it also had graphs, which are ignored now; before 5 the options of parts
were flat, from 5 on they are nested."""
LANGUAGE_FORMAT = "anticip-language"
KINDS = {FORMAT: "motion model", LANGUAGE_FORMAT: "token model", "anticip-forecast": "forecaster"}
"""Names of the formats in error messages."""
LANGUAGE_VERSION = 2
TOKENIZER = "tokenizer.json"
WEIGHTS = "model.safetensors"
MANIFEST = "model.json"

SHIPPED = Path(__file__).parents[1] / "data" / "motion-v4"
"""The packaged checkpoint."""

Options = TypeVar("Options", bound=Config)

_MAX_MANIFEST_BYTES, _MAX_FILE_BYTES = 4 << 20, 4 << 30


@dataclass(frozen=True)
class Manifest:
    """A checkpoint's verified description.

    ``folder``: its path; ``config``: the model's configuration; ``parameters``: their number; ``training``:
    the trainer's notes; ``sha256``: by file name; ``kind``: motion, anticipatory or baseline.
    """

    folder: Path
    config: ModelConfig
    parameters: int
    training: Mapping[str, Any]
    sha256: Mapping[str, str]
    kind: str = "motion"

    @property
    def name(self) -> str:
        """Folder name and the first digits of the weights' hash, which identify a checkpoint."""
        return f"{self.folder.name}-{self.sha256[WEIGHTS][:8]}"

    def read(self, name: str) -> bytes:
        """Read one of the checkpoint's files.

        Raises:
            CheckpointError: the file is missing, or is not the one that ``model.json`` describes.
        """
        return read_verified(self.folder, name, self.sha256)


def read_verified(folder: Path, name: str, sha256: Mapping[str, str]) -> bytes:
    """Read one of a checkpoint's files and check its hash against ``model.json``.

    Raises:
        CheckpointError: the file is missing, or is not the one that ``model.json`` describes.
    """
    data = _read(folder / name, _MAX_FILE_BYTES)
    expected_hash = sha256.get(name)
    given = hashlib.sha256(data).hexdigest()
    if given != expected_hash:
        raise CheckpointError(
            f"checkpoint {folder}: {name} is damaged or not its own: "
            f"sha256 {given[:12]}, expected {str(expected_hash)[:12]}"
        )
    return data


def _read(file: Path, max_bytes: int) -> bytes:
    """Read one of a checkpoint's files of at most ``max_bytes``; errors name the checkpoint."""
    try:
        return read_file(file, max_bytes, CheckpointError, file.name)
    except CheckpointError as error:
        raise CheckpointError(f"checkpoint {error}") from None


def describe(config: ModelConfig, parameters: int, training: Mapping[str, Any]) -> dict[str, Any]:
    """The content of ``model.json`` except hashes and program versions."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "config": config.to_dict(),
        "rate": round(RATE),
        "features_version": FEATURES_VERSION,
        "features": list(FEATURE_NAMES[: config.columns]),
        "scalars": list(SCALARS),
        "parameters": list(PARAMETERS),
        "events": list(EVENTS),
        "horizons_ms": list(HORIZONS_MS),
        "event_bins": EVENT_BINS,
        "parameter_count": parameters,
        "training": dict(training),
    }


def read_description(folder: Path) -> dict[str, Any]:
    """The JSON object in ``model.json``, whatever it describes.

    Raises:
        CheckpointError: missing, too large, or not a JSON object.
    """
    where = f"checkpoint {folder}"
    file = folder / MANIFEST
    if folder.is_file():
        raise CheckpointError(f"{where}: is a file; give its folder")
    if not file.exists():
        for inside in (folder / "checkpoint", folder / "model"):  # where training runs save them
            if (inside / MANIFEST).is_file():
                raise CheckpointError(f"{where}: has no {MANIFEST}; did you mean {inside}?")
        if (folder / "checkpoints/last.ckpt").is_file() and not (folder / "report.json").is_file():
            raise CheckpointError(
                f"{where}: the run is not finished; continue it with its command and --resume"
            )
    data = parse_json(_read(file, _MAX_MANIFEST_BYTES), f"{where}: {MANIFEST}", CheckpointError)
    if not isinstance(data, dict):
        raise CheckpointError(f"{where}: {MANIFEST} does not describe a checkpoint")
    return data


def _check_format(data: Mapping[str, Any], where: str, form: str, newest: int) -> None:
    if data.get("format") != form:
        given = str(data.get("format"))
        kind = f"is of a {KINDS[given]}" if given in KINDS else f"is of format {given!r}"
        raise CheckpointError(f"{where}: {MANIFEST} {kind}, expected that of a {KINDS[form]} ({form})")
    version = data.get("version")
    if not isinstance(version, int) or version < 1:
        raise CheckpointError(f"{where}: version must be a whole number from 1, got {version!r}")
    if version > newest:
        raise CheckpointError(f"{where}: version {version} is newer than this program's {newest}: update it")


def load_description(
    folder: Path, form: str, newest: int, options: type[Options]
) -> tuple[dict[str, Any], Options, int, dict[str, str]]:
    """Read a folder's description; returns it with its configuration, number of parameters and hashes.

    Args:
        form: the expected format.
        newest: the newest supported version of the format.
        options: the class of the configuration.

    Raises:
        CheckpointError: missing, malformed, of another format or of a newer version.
    """
    where = f"checkpoint {folder}"
    data = read_description(folder)
    _check_format(data, where, form, newest)
    if not isinstance(data.get("config"), dict):
        raise CheckpointError(f"{where}: {MANIFEST} lacks a valid config")
    try:
        config = options.from_dict(data["config"])
        count, training, hashes = data["parameter_count"], data["training"], data["sha256"]
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{where}: {MANIFEST} lacks a valid {error}") from None
    except OptionError as error:
        raise CheckpointError(f"{where}: {error}") from None
    if not (
        isinstance(count, int)
        and isinstance(training, dict)
        and isinstance(hashes, dict)
        and all(isinstance(value, str) for value in (hashes.get(WEIGHTS), *hashes.values()))
    ):
        raise CheckpointError(f"{where}: {MANIFEST} lacks a valid parameter_count, training or sha256")
    return data, config, count, hashes


def read_manifest(path: str | Path | None = None) -> Manifest:
    """Read and check ``model.json`` of a checkpoint folder (``None``: the packaged one).

    Raises:
        CheckpointError: missing, malformed, from a newer version, or made for other features or outputs.
    """
    folder = SHIPPED if path is None else Path(path)
    where = f"checkpoint {folder}"
    data, config, count, hashes = load_description(folder, FORMAT, VERSION, ModelConfig)
    given = data.get("features_version")
    if given not in range(1, FEATURES_VERSION + 1):
        raise CheckpointError(
            f"{where}: made for features version {given!r}, this program computes version {FEATURES_VERSION}"
        )
    expected = describe(config, 0, {})
    for key in ("features", "scalars", "parameters", "events", "horizons_ms", "event_bins", "rate"):
        if data.get(key) != expected[key]:
            raise CheckpointError(f"{where}: {key} do not match this program's")
    if config.vocab:
        raise CheckpointError(f"{where}: a motion model has no vocabulary, got vocab={config.vocab}")
    return Manifest(folder, config, count, data["training"], hashes)


def read_language_manifest(path: str | Path) -> Manifest:
    """Read and check ``model.json`` of a token model's checkpoint folder.

    Raises:
        CheckpointError: missing, malformed, or from a newer version.
    """
    folder = Path(path)
    data, config, count, hashes = load_description(folder, LANGUAGE_FORMAT, LANGUAGE_VERSION, ModelConfig)
    kind = data.get("kind")
    if kind not in ("anticipatory", "baseline") or not config.vocab or config.kinematics:
        raise CheckpointError(f"checkpoint {folder}: {MANIFEST} does not describe a token model")
    return Manifest(folder, config, count, data["training"], hashes, kind)
