//! Clips in and out: rotations and root positions of all frames.

use anticip_geometry::Quat;
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use super::convert::{doubles, unit};

/// Rotations (T, J, 4) and root (T, 3).
pub(super) type Frames<'py> = (Bound<'py, PyArray3<f32>>, Bound<'py, PyArray2<f32>>);

/// A clip from Python: unit rotations of all joints, and the root, of each frame.
pub(super) struct Clip {
    pub(super) joints: usize,
    poses: Vec<Quat>,
    roots: Vec<[f64; 3]>,
}

impl Clip {
    /// Reads `quats` (T, J, 4), with J equal to `joints` if that is known, and `root` (T, 3).
    pub(super) fn read(
        quats: &Bound<'_, PyAny>,
        root: &Bound<'_, PyAny>,
        joints: Option<usize>,
    ) -> PyResult<Self> {
        let quats = doubles(quats, "quats", &[None, joints, Some(4)])?;
        let (frames, joints) = (quats.shape[0], quats.shape[1]);
        let root = doubles(root, "root", &[Some(frames), Some(3)])?.values;
        Ok(Self {
            joints,
            poses: unit(&quats.values, joints, "quats")?,
            roots: root.as_chunks().0.to_vec(),
        })
    }

    /// Rotations and root of each frame.
    pub(super) fn frames(&self) -> impl ExactSizeIterator<Item = (&[Quat], [f64; 3])> {
        let roots = self.roots.iter().enumerate();
        roots.map(|(i, root)| (&self.poses[i * self.joints..][..self.joints], *root))
    }
}

/// Frames for Python, in single precision.
#[derive(Default)]
pub(super) struct Collected {
    quats: Vec<f32>,
    root: Vec<f32>,
}

impl Collected {
    pub(super) fn push(&mut self, rotations: &[Quat], root: [f64; 3]) {
        let values = rotations.iter().flat_map(|q| q.to_array());
        self.quats.extend(values.map(|v| v as f32));
        self.root.extend(root.map(|v| v as f32));
    }

    pub(super) fn arrays(self, py: Python<'_>, joints: usize) -> PyResult<Frames<'_>> {
        let frames = self.root.len() / 3;
        let quats = PyArray1::from_vec(py, self.quats).reshape([frames, joints, 4])?;
        let root = PyArray1::from_vec(py, self.root).reshape([frames, 3])?;
        Ok((quats, root))
    }
}
