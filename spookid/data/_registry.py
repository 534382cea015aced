"""Which measured data spookid knows: where each file comes from, what it hashes to, and who is to be cited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class File:
    """One file of a data set."""

    name: str
    """File name in the data set's folder."""
    source: str
    """Path of the file, or of the file that it is converted from, in the source repository."""
    sha256: str
    """SHA-256 of the file that spookid reads, 64 hexadecimal digits."""
    source_format: Literal["text", "pickle", "matlab", "topics"] = "text"
    """``"text"`` is read as published, a Python pickle converted to an npz without executing it. The others, MATLAB
    cells and a table of interleaved ROS topics, are read only as an npz that someone converted from the source."""
    arrays: tuple[str, ...] = ()
    """Names of the arrays in the npz, in the order of the archive; empty if it has those of its data set."""
    arrays_sha256: str = ""
    """Digest of the arrays (``_conversion.digest``) of a file that spookid converts."""


@dataclass(frozen=True)
class Dataset:
    """Measurements of one device, with their origin."""

    name: str
    """Name of the data set and of its folder."""
    title: str
    """One line on the device and what was measured."""
    repository: str
    """Source repository on GitHub, ``owner/name``."""
    commit: str
    """Commit of the source repository, 40 hexadecimal digits."""
    licence: str
    """Licence of the source repository, SPDX identifier."""
    citation: str
    """What to cite when the data are used."""
    files: tuple[File, ...]
    """The files, in the order of their names."""
    arrays: tuple[str, ...] = ()
    """Names of the arrays in each npz, in the order of the archive; empty if there is no npz."""

    def url(self, file: File) -> str:
        """Address of the source of `file` at the registered commit."""
        return f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{file.source}"

    def contents(self, file: File) -> tuple[str, ...]:
        """Names of the arrays in `file`, in the order of the archive."""
        return file.arrays or self.arrays


def _swing(number: str, sha256: str) -> File:
    name = f"pendulum_free_swing_data_{number}.txt"
    return File(name, f"software/modelling/experiment/damping_coefficient/{name}", sha256)


def _rollout(name: str, folder: str, stamp: str, sha256: str, arrays_sha256: str) -> File:
    source = f"Pyrado/data/perma/evaluation/{folder}/rollout_real_{stamp}.pkl"
    return File(f"{name}.npz", source, sha256, source_format="pickle", arrays_sha256=arrays_sha256)


def _cells(name: str, folder: str, sha256: str) -> File:
    source = f"ParameterEstimation/{folder}/{folder}DataForParameterEstimation.mat"
    return File(f"{name}.npz", source, sha256, source_format="matlab")


def _topics(name: str, table: str, sha256: str, arrays: tuple[str, ...]) -> File:
    return File(f"{name}.npz", f"furuta_pendulum_model/data/{table}.csv", sha256, "topics", arrays)


_PENDULUM = Dataset(
    name="pendulum-free-swing",
    title="Three releases of a small rod pendulum on an incremental encoder",
    repository="jensen-benard/rotary-inverted-pendulum",
    commit="1f3bb8046d5af4cc32c2965cad34336f1e13e43a",
    licence="MIT",
    citation="jensen-benard, Rotary Inverted Pendulum, 2025, https://github.com/jensen-benard/rotary-inverted-pendulum",
    files=(
        _swing("01", "f84a210cfcd3d867508327d22425b202669eae392c2ada9806619459ac443eab"),
        _swing("02", "83adaa784f88743be1a8e39abe1826bfdcd3153d812c9b03ddf7afeaf53053a8"),
        _swing("03", "e62f2830086c751d0a1a01d7ad39c977c2e62a774612d444d54027c0cbd29838"),
    ),
)

# The source spells it "chrip".
_CHIRP_NEG, _CHIRP_POS = "qq_chrip_10to0Hz_-1.5V_250Hz_10s", "qq_chrip_10to0Hz_+1.5V_250Hz_10s"
_SWINGUP_250, _SWINGUP_500 = "qq-su_ectrl_250Hz_5.5s", "qq-su_ectrl_500Hz_5s"

_QUBE = Dataset(
    name="furuta-qube-swingup",
    title="Swing-ups and voltage chirps of a Quanser Qube, a Furuta pendulum",
    repository="fdamken/SimuRLacra",
    commit="7c48d66684a6b0b2cbdc5f00cc47bdc84a8cebbd",
    licence="BSD-3-Clause",
    citation=(
        "F. Muratore, SimuRLacra - A Framework for Reinforcement Learning from Randomized Simulations, 2020, "
        "https://github.com/famura/SimuRLacra"
    ),
    files=(
        _rollout(
            "chirp_neg_1",
            _CHIRP_NEG,
            "2021-04-14_18-56-57",
            "c9a57cd63c504c27bad4bfaaaa3f543d1d511c7d9e719126763b0300aeba557c",
            "c73819425dc1e6294a5fcc4ed6ee28ad4f8343fbc8a025f0d4ec29ed4f7aac66",
        ),
        _rollout(
            "chirp_neg_2",
            _CHIRP_NEG,
            "2021-04-14_18-57-37",
            "2dd4f64f0b93f1a6ef88b089cdbdaaf32c552d1183533aec115569387b217701",
            "863b714a2336a180513178a94e844daac1e9415c8d3fd62895d4277729751ffc",
        ),
        _rollout(
            "chirp_pos_1",
            _CHIRP_POS,
            "2021-04-14_18-52-33",
            "0f156a11d154d145f70d44afc03f69f32043b878fbb0c6ee7dec2316989483ac",
            "2a034d772fef72238ad8b7a37a5db57b78ce5dbb2972360135e4d6e5508bddfd",
        ),
        _rollout(
            "chirp_pos_2",
            _CHIRP_POS,
            "2021-04-14_18-53-40",
            "d362556e00c4a444d9b92ef0ba9c21d79568b71df5035dfdf907fba8c663f8f4",
            "165e3e3e3808a01d751527c2819c6028e7f5a1d3119a786225ad20ab4c52ea52",
        ),
        _rollout(
            "swingup_250hz_1",
            _SWINGUP_250,
            "2021-05-25_17-11-26",
            "a44fa8c2f896780479c8ac6494697296f529c6debc5dcb1d834099cc9c72d0ff",
            "d60076ffc2641d483b9ebf04dfefa95f980c5aff115cc2706edb917bb3d8a2c1",
        ),
        _rollout(
            "swingup_250hz_2",
            _SWINGUP_250,
            "2021-05-25_17-21-46",
            "2b2c235cb95f0edddb460b3e1ee623b8d93f9409a37459fcf087b99b69b1a5d5",
            "488163ba8f4ae4efc9d7d2eedd885bc542ddc0b2fd6478db5f7f38dd25f7942c",
        ),
        _rollout(
            "swingup_500hz_1",
            _SWINGUP_500,
            "2021-06-11_12-09-08",
            "c7a7727fb25bfd19cc64c92da11b8a79419f12a3fd2810809abc9c32380e6ad7",
            "5b10528a3d7082da2ca655b247848b09aecf224a819c528554671c83d8ba50dd",
        ),
        _rollout(
            "swingup_500hz_2",
            _SWINGUP_500,
            "2021-06-11_12-10-11",
            "5ee114e7b37194adf06c4ddf5d6f73b24c23de9a1fc93ea19a0a3fadb5161936",
            "41e8600bc7da3c7ef16852892cae96e5af0710baf916819dffa89a07952be5d3",
        ),
        _rollout(
            "swingup_500hz_3",
            _SWINGUP_500,
            "2021-06-11_12-10-51",
            "e94a049e64c4a3738a9b8a80f51fd7576d554caf6377189a04b1b4b3306b7176",
            "22f39e4bc8ae99d62b304e5fb55090c606f151b8d3fc16a0b58fbd20eb2945ff",
        ),
    ),
    arrays=("t", "theta", "alpha", "theta_dot", "alpha_dot", "u_cmd", "u_applied"),
)

_MULTIARM = Dataset(
    name="multiarm-pendulum",
    title="Free swing of a single and a double pendulum on a locked cart",
    repository="dynamicslab/MultiArm-Pendulum",
    commit="e99a7e13fe2adc8fc647321a156b6cb59a48a698",
    licence="MIT",
    citation="K. Kaheman et al., The Experimental Multi-Arm Pendulum on a Cart, 2022, https://arxiv.org/abs/2205.06231",
    files=(
        _cells("double", "DoublePendulum", "481eb4b66e502468f0ceccbd381500a3708e618ae01458dd806ccee6653da9ff"),
        _cells("single", "SinglePendulum", "8bf41ef96ee63ca280263cc1c739ab490ffbea009385242b8eae1d5f8fe7ae54"),
    ),
    arrays=("t", "theta", "omega", "n_id"),
)

_STATES = ("t", "t_recv", "q0", "q0_dot", "q1", "q1_dot")
_DRIVEN = (*_STATES, "t_u", "u")

_ODRIVE = Dataset(
    name="furuta-odrive",
    title="Furuta pendulum with a gimbal motor on an ODrive: release, pulses, sines and steps",
    repository="macstepien/furuta_pendulum",
    commit="fe7ce60fd566dc2e865f5791b81a0916bf8ed395",
    licence="GPL-3.0-only",
    citation="macstepien, Furuta Pendulum, https://github.com/macstepien/furuta_pendulum",
    files=(
        _topics(
            "pulses_torque_units",
            "hardware_signal_response",
            "d4b671bf56f0f82e946e0af951402b483ff493e608c51ff232d84c7fb05bd411",
            _DRIVEN,
        ),
        _topics(
            "release_2024",
            "hardware_pure_joint1_oscillations",
            "2a4ddb63622c2b6c9996ebc82b9aab327a277c70d866a44ff1ca5577dfa4f48b",
            _STATES,
        ),
        _topics(
            "sine_1V",
            "hardware_sin_response_1V_1s",
            "962bae6b5dd66c3edde4fdca8f8e83f021b99b3c6c136ffebecb8ab273f85752",
            _DRIVEN,
        ),
        _topics(
            "sine_4V",
            "hardware_sin_response_4V_1s",
            "2653634118ff2d215f0cf8ab536877e13c6d9fb496486a9abedb478b25981a8f",
            _DRIVEN,
        ),
        _topics(
            "step_2V",
            "hardware_step_response_2V",
            "1f0c47ac56144391f319cfaa5eb02c16080f8a2d87bbd20bcb96792ef554c9cc",
            _DRIVEN,
        ),
        _topics(
            "step_5V",
            "hardware_step_response_5V",
            "ef9268736872a93a533c9df195f2f965d560cf4fd3acbf49df0bd40cd95678ee",
            _DRIVEN,
        ),
    ),
)

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in (_PENDULUM, _QUBE, _MULTIARM, _ODRIVE)}
"""Every registered data set by name."""
