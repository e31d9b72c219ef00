//! Output of a front end when a datagram completes a frame.

use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::features::FEATURE_COUNT;
use anticip_motion::{FrontOutput, Limb, Stages, Tempo};
use numpy::ndarray::Dimension;
use numpy::{PyArray, PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::convert::{about_unit, finite, shaped};
use super::tempo::to_tuple;
use crate::errors::{Kind, raise};

/// The grid frames completed by one datagram. Arrays are created on first access, because few are used before
/// a frame has been sent.
#[pyclass(name = "FrontOutput", module = "pyanticip._core", frozen)]
pub(crate) struct PyFrontOutput {
    pub(crate) out: FrontOutput,
    features: PyOnceLock<Py<PyArray2<f32>>>,
    poses: PyOnceLock<Py<PyArray3<f32>>>,
}

impl PyFrontOutput {
    pub(crate) fn of(out: FrontOutput) -> Self {
        Self {
            out,
            features: PyOnceLock::new(),
            poses: PyOnceLock::new(),
        }
    }
}

/// A read-only array that all callers share.
fn shared<D: Dimension>(array: Bound<'_, PyArray<f32, D>>) -> Py<PyArray<f32, D>> {
    array.readwrite().make_nonwriteable();
    array.unbind()
}

#[pymethods]
impl PyFrontOutput {
    /// A frame completed by a front end written in Python.
    #[new]
    #[pyo3(signature = (features, poses, scalars, *, seq, reset = false, t_source_ns, t_local_ns, expected_ns, late_ns,
        root = [0.0; 3], activity = 1.0, tempo = (0.0, 0.0, 0.0), limbs = [0.0; 12], filled = 0,
        valid = true, stages_ns = (0, 0, 0)))]
    #[expect(clippy::too_many_arguments, reason = "fields of a record in Python")]
    fn new(
        features: &Bound<'_, PyAny>,
        poses: &Bound<'_, PyAny>,
        scalars: [f64; 7],
        seq: u64,
        reset: bool,
        t_source_ns: i64,
        t_local_ns: i64,
        expected_ns: i64,
        late_ns: i64,
        root: [f32; 3],
        activity: f32,
        tempo: (f64, f64, f64),
        limbs: [f32; 12],
        filled: u32,
        valid: bool,
        stages_ns: (i64, i64, i64),
    ) -> PyResult<Self> {
        let rows = shaped(features, "features", &[None, Some(FEATURE_COUNT)])?;
        let poses = shaped(poses, "poses", &[None, Some(JOINT_COUNT), Some(4)])?;
        finite(&rows, "features")?;
        about_unit(&poses, "poses")?;
        finite(&root, "root")?;
        let (rows, poses) = (
            rows.as_chunks().0.to_vec(),
            poses.as_chunks().0.as_chunks().0.to_vec(),
        );
        if rows.is_empty() || rows.len() != poses.len() {
            let message = format!(
                "poses: expected one a feature row, got {} of {}",
                poses.len(),
                rows.len()
            );
            return Err(raise(Kind::Shape, &message));
        }
        let [bpm, phase, trust] = tempo.into();
        let limb = |values: [f32; 3]| Limb {
            speed: values[0],
            height: values[1],
            stroke: values[2],
        };
        let (decode, resample, scalars_ns) = stages_ns;
        let limbs = limbs.as_chunks().0;
        Ok(Self::of(FrontOutput {
            rows,
            reset,
            seq,
            t_source_ns,
            t_local_ns,
            expected_ns,
            late_ns,
            scalars,
            poses,
            root,
            activity,
            tempo: Tempo { bpm, phase, trust },
            limbs: std::array::from_fn(|i| limb(limbs[i])),
            filled,
            valid,
            stages: Stages {
                decode,
                resample,
                scalars: scalars_ns,
            },
        }))
    }

    #[getter]
    pub(crate) fn features(&self, py: Python<'_>) -> PyResult<Py<PyArray2<f32>>> {
        let rows = &self.out.rows;
        let make = || {
            let flat = PyArray1::from_slice(py, rows.as_flattened());
            Ok(shared(flat.reshape([rows.len(), FEATURE_COUNT])?))
        };
        self.features
            .get_or_try_init(py, make)
            .map(|array| array.clone_ref(py))
    }

    #[getter]
    fn poses(&self, py: Python<'_>) -> PyResult<Py<PyArray3<f32>>> {
        let poses = &self.out.poses;
        let make = || {
            let flat = PyArray1::from_slice(py, poses.as_flattened().as_flattened());
            Ok(shared(flat.reshape([poses.len(), JOINT_COUNT, 4])?))
        };
        self.poses
            .get_or_try_init(py, make)
            .map(|array| array.clone_ref(py))
    }

    #[getter]
    fn root<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, &self.out.root)
    }

    #[getter]
    fn scalars<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.out.scalars)
    }

    #[getter]
    fn reset(&self) -> bool {
        self.out.reset
    }

    #[getter]
    fn seq(&self) -> u64 {
        self.out.seq
    }

    #[getter]
    fn t_source_ns(&self) -> i64 {
        self.out.t_source_ns
    }

    #[getter]
    fn t_local_ns(&self) -> i64 {
        self.out.t_local_ns
    }

    #[getter]
    fn expected_ns(&self) -> i64 {
        self.out.expected_ns
    }

    #[getter]
    fn late_ns(&self) -> i64 {
        self.out.late_ns
    }

    #[getter]
    fn activity(&self) -> f32 {
        self.out.activity
    }

    #[getter]
    fn tempo(&self) -> (f64, f64, f64) {
        to_tuple(self.out.tempo)
    }

    #[getter]
    fn limbs(&self) -> Vec<f32> {
        let each = |limb: &Limb| [limb.speed, limb.height, limb.stroke];
        self.out.limbs.iter().flat_map(each).collect()
    }

    #[getter]
    fn filled(&self) -> u32 {
        self.out.filled
    }

    #[getter]
    fn valid(&self) -> bool {
        self.out.valid
    }

    #[getter]
    fn stages_ns(&self) -> (i64, i64, i64) {
        let stages = &self.out.stages;
        (stages.decode, stages.resample, stages.scalars)
    }
}
