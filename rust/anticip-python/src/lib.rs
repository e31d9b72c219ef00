//! The extension module `pyanticip._core`: thin wrappers over the pure crates.

mod controls;
mod engine;
mod errors;
mod geometry;
mod guarded;
mod kernels;
mod memory;
mod model;
mod motion;
mod step_result;
mod synth;
mod threads;
mod wire;

/// The contents of the Python module.
#[pyo3::pymodule(name = "_core")]
mod core_module {
    use anticip_controls as controls;
    use anticip_memory as memory;
    use anticip_motion::{self as motion, canonical};
    use anticip_synth as synth;
    use anticip_wire::{PROTOCOLS, mocopi, vmc, vrchat};
    use pyo3::prelude::*;
    use pyo3::types::{IntoPyDict, PyDict, PyTuple};

    #[pymodule_export]
    use crate::controls::{
        control_of_scalars, desk::PyDesk, events::PyEventRule, lead::PyLead, range::PyRange,
        range::stretched, shaping::PyShaper,
    };
    #[pymodule_export]
    use crate::engine::{PyEngine, frame_result::PyFrameResult};
    #[pymodule_export]
    use crate::geometry::{PyPoseStream, PyVectorStream, pose_scalars, vector_scalars};
    #[pymodule_export]
    use crate::kernels::{
        field::{field_backward, field_forward, field_gates},
        gru::{prism_gru, prism_gru_backward},
        places::{prism_places, prism_places_backward},
        plan::{plan_draw, plan_products, plan_spread, plan_targets},
        scan::prism_scan,
        trajectory::{encode_positions, trajectory_encode},
    };
    #[pymodule_export]
    use crate::memory::{
        following::{PyCues, PyFollower, PySpotter},
        stream::PyMemory,
        teacher::{PyCausalTwins, teacher_parameters},
    };
    #[pymodule_export]
    use crate::model::PyMotionStream;
    #[pymodule_export]
    use crate::motion::{
        body::{PyRetargeter, expand, py_guess_joints, py_t_pose_deviation, standard_skeleton},
        completion::{complete_body, solve_trackers},
        ensemble::PyEnsemble,
        features::{py_body_kinematics, py_motion_features},
        front_output::PyFrontOutput,
        live::PyLiveFront,
        resample::{PyResampler, resample},
        tempo::PyTempoTracker,
    };
    #[pymodule_export]
    use crate::step_result::PyStepResult;
    #[pymodule_export]
    use crate::synth::{PySamples, PyVoice};
    #[pymodule_export]
    use crate::wire::{
        bundle::PyBundle,
        decode::{Decoder, recognise},
        encode::{
            encode_frame, encode_mocopi_frame, encode_mocopi_skeleton, encode_native_frame,
            encode_native_skeleton, encode_natnet_frame, encode_natnet_skeleton, encode_vrchat_frame,
        },
        recording::{recording_check, recording_find, recording_frame, recording_header, recording_next},
    };

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::threads::loaded();
        let py = m.py();
        m.add("__version__", env!("CARGO_PKG_VERSION"))?;
        m.add("SCALARS", PyTuple::new(py, anticip_geometry::SCALARS)?)?;
        m.add("MOCOPI_BONES", mocopi::BONE_NAMES.to_vec())?;
        m.add("MOCOPI_PARENTS", mocopi::BONE_PARENTS.to_vec())?;
        m.add("VMC_BONES", vmc::BONE_NAMES.to_vec())?;
        m.add("VMC_PARENTS", vmc::BONE_PARENTS.to_vec())?;
        m.add(
            "VRCHAT_TRACKERS",
            vrchat::TRACKERS.map(|(_, joint)| joint).to_vec(),
        )?;
        m.add("PROTOCOLS", PROTOCOLS.map(|protocol| protocol.name).to_vec())?;
        m.add("CANONICAL_JOINTS", PyTuple::new(py, canonical::JOINTS)?)?;
        m.add("CANONICAL_PARENTS", PyTuple::new(py, canonical::PARENTS)?)?;
        let offsets = canonical::OFFSETS.map(|o| (o[0], o[1], o[2]));
        m.add("CANONICAL_OFFSETS", PyTuple::new(py, offsets)?)?;
        m.add("CANONICAL_HIPS_HEIGHT", canonical::HIPS_HEIGHT)?;
        m.add(
            "COMPARED_BONES",
            PyTuple::new(py, motion::BONES.map(|(name, ..)| name))?,
        )?;
        m.add("T_POSE_TOLERANCE", motion::T_POSE_TOLERANCE)?;
        m.add("RATE", motion::features::RATE)?;
        m.add("FEATURES_VERSION", motion::FEATURES_VERSION)?;
        m.add("FEATURE_COUNT_V1", motion::FEATURE_COUNT_V1)?;
        m.add("FEATURE_NAMES", PyTuple::new(py, motion::feature_names())?)?;
        m.add("MAX_GAP", motion::MAX_GAP)?;
        m.add("FRAME_NS", motion::FRAME_NS)?;
        m.add("VECTOR_WIDTH", anticip_model::vector_width())?;
        m.add("PARAMETERS", PyTuple::new(py, synth::PARAMETERS)?)?;
        m.add("EVENTS", PyTuple::new(py, synth::EVENTS)?)?;
        m.add("LIMBS", PyTuple::new(py, synth::LIMBS)?)?;
        m.add("VOICE_CEILING", synth::CEILING)?;
        let presets = synth::PRESETS
            .iter()
            .map(|preset| (preset.name, preset.description));
        m.add("PRESETS", presets.into_py_dict(py)?)?;
        let scales = PyDict::new(py);
        for (name, notes) in synth::SCALES {
            scales.set_item(name, PyTuple::new(py, notes)?)?;
        }
        m.add("SCALES", scales)?;
        let gestures = memory::GESTURE_FRAMES;
        m.add("GESTURE_FRAMES", (gestures.start, gestures.end - 1))?;
        m.add("KEY_SIZE", memory::KEY_SIZE)?;
        m.add("KEYS_VERSION", memory::KEYS_VERSION)?;
        m.add("TEACHER_REACH", memory::TEACHER_REACH)?;
        m.add(
            "HORIZONS_MS",
            PyTuple::new(py, controls::HORIZONS_MS.map(|ms| ms as u32))?,
        )?;
        m.add("BIN_MS", controls::BIN_MS)?;
        m.add("NEUTRAL", PyTuple::new(py, controls::NEUTRAL)?)?;
        m.add("STRETCHED", PyTuple::new(py, controls::STRETCHED)?)?;
        m.add("MAX_STILL", controls::MAX_STILL)
    }
}
