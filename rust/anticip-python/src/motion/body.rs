//! Bindings of the canonical body and of retargeting to and from it.

use anticip_geometry::Quat;
use anticip_motion::{
    Agreement, Distributor, Retargeter, Skeleton, canonical, guess_joints, standard, t_pose_deviation,
};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use super::clip::{Clip, Collected, Frames};
use super::convert::{doubles, unit};
use super::motion_error;
use crate::errors::{Kind, raise};

const J: usize = canonical::JOINT_COUNT;

/// Positions (T, 22, 3) and rotations (T, 22, 4) of source joints.
type Observed<'py> = (Bound<'py, PyArray3<f64>>, Bound<'py, PyArray3<f64>>);

fn skeleton(
    names: Vec<String>,
    parents: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    rest: Option<&Bound<'_, PyAny>>,
) -> PyResult<Skeleton> {
    let n = Some(names.len());
    let parents = doubles(parents, "parents", &[n])?
        .values
        .into_iter()
        .map(|parent| {
            if parent.fract() != 0.0 {
                let message = format!("parents: expected whole numbers, got {parent}");
                return Err(raise(Kind::Value, &message));
            }
            Ok(parent as i32)
        });
    let offsets = doubles(offsets, "offsets", &[n, Some(3)])?.values;
    let rest_local = match rest {
        Some(rest) => {
            let rest = doubles(rest, "rest", &[n, Some(4)])?.values;
            let unit = unit(&rest, names.len(), "rest")?;
            Some(unit.into_iter().map(Quat::to_array).collect())
        }
        None => None,
    };
    Ok(Skeleton {
        parents: parents.collect::<PyResult<_>>()?,
        offsets: offsets.as_chunks().0.to_vec(),
        names,
        rest_local,
    })
}

/// The mapping of one skeleton onto the canonical body.
#[pyclass(name = "Retargeter", module = "pyanticip._core", frozen)]
pub(crate) struct PyRetargeter {
    inner: Retargeter,
}

#[pymethods]
impl PyRetargeter {
    #[new]
    #[pyo3(signature = (names, parents, offsets, rest = None))]
    fn new(
        names: Vec<String>,
        parents: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
        rest: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let skeleton = skeleton(names, parents, offsets, rest)?;
        let inner = Retargeter::compile(&skeleton).map_err(motion_error)?;
        Ok(Self { inner })
    }

    fn apply<'py>(
        &self,
        py: Python<'py>,
        quats: &Bound<'py, PyAny>,
        root: &Bound<'py, PyAny>,
    ) -> PyResult<Frames<'py>> {
        let clip = Clip::read(quats, root, Some(self.inner.joints()))?;
        let mut retargeter = self.inner.clone();
        let out = py.detach(|| {
            let mut out = Collected::default();
            let mut pose = [Quat::IDENTITY; J];
            for (local, root) in clip.frames() {
                let hips = retargeter.apply(local, root, &mut pose);
                out.push(&pose, hips);
            }
            out
        });
        out.arrays(py, J)
    }

    fn observe<'py>(
        &self,
        py: Python<'py>,
        quats: &Bound<'py, PyAny>,
        root: &Bound<'py, PyAny>,
    ) -> PyResult<Observed<'py>> {
        let clip = Clip::read(quats, root, Some(self.inner.joints()))?;
        let frames = clip.frames().len();
        let mut retargeter = self.inner.clone();
        let mut pose = [Quat::IDENTITY; J];
        let mut places = Vec::with_capacity(frames * J * 3);
        let mut turns = Vec::with_capacity(frames * J * 4);
        for (local, root) in clip.frames() {
            retargeter.apply(local, root, &mut pose);
            places.extend(
                retargeter
                    .joint_positions(root)
                    .iter()
                    .flat_map(|p| p.unwrap_or([f64::NAN; 3])),
            );
            let turned = |q: &Option<Quat>| q.map_or([f64::NAN; 4], Quat::to_array);
            turns.extend(retargeter.joint_rotations().iter().flat_map(turned));
        }
        let places = PyArray1::from_vec(py, places).reshape([frames, J, 3])?;
        let turns = PyArray1::from_vec(py, turns).reshape([frames, J, 4])?;
        Ok((places, turns))
    }

    fn agreement(&self, quats: &Bound<'_, PyAny>) -> PyResult<(Vec<f64>, Option<String>)> {
        let joints = self.inner.joints();
        let quats = doubles(quats, "quats", &[None, Some(joints), Some(4)])?;
        let poses = unit(&quats.values, joints, "quats")?;
        let mut retargeter = self.inner.clone();
        let mut pose = [Quat::IDENTITY; J];
        let mut found = Agreement::default();
        for local in poses.chunks_exact(joints) {
            retargeter.apply(local, [0.0; 3], &mut pose);
            found.push(&mut retargeter, &pose);
        }
        let angles = found.angles().iter().map(|a| a.unwrap_or(f64::NAN)).collect();
        Ok((angles, found.disagreement().map(|d| d.to_string())))
    }

    #[getter]
    fn world(&self) -> [f64; 4] {
        self.inner.world().to_array()
    }

    #[getter]
    fn t_pose<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let turned = self
            .inner
            .t_pose()
            .map(|q| q.map_or([f64::NAN; 4], Quat::to_array));
        PyArray1::from_vec(py, turned.concat()).reshape([J, 4])
    }

    #[getter]
    fn ends(&self) -> Vec<Option<[usize; 2]>> {
        self.inner.source_ends().to_vec()
    }

    #[getter]
    fn mask<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_slice(py, self.inner.mask())
    }

    #[getter]
    fn sources(&self) -> Vec<Vec<String>> {
        let name = |&j: &usize| self.inner.names()[j].clone();
        let chain = |chain: &Vec<usize>| chain.iter().map(name).collect();
        self.inner.sources().iter().map(chain).collect()
    }
}

#[pyfunction]
#[pyo3(name = "guess_joints")]
pub(crate) fn py_guess_joints(
    names: Vec<String>,
    parents: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
) -> PyResult<Vec<Option<[usize; 2]>>> {
    let found = guess_joints(&skeleton(names, parents, offsets, None)?);
    Ok(found.map_err(motion_error)?.to_vec())
}

#[pyfunction]
#[pyo3(name = "t_pose_deviation", signature = (names, parents, offsets, pose = None))]
pub(crate) fn py_t_pose_deviation(
    names: Vec<String>,
    parents: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    pose: Option<&Bound<'_, PyAny>>,
) -> PyResult<f64> {
    let skeleton = skeleton(names, parents, offsets, pose)?;
    t_pose_deviation(&skeleton).map_err(motion_error)
}

fn standard_by_name(target: &str) -> PyResult<Skeleton> {
    standard::by_name(target).ok_or_else(|| {
        let known = r#""mocopi", "vmc", "xsens", "rokoko", "axis" or "humanoid""#;
        raise(Kind::Value, &format!("target: expected {known}, got {target:?}"))
    })
}

#[pyfunction]
#[allow(clippy::type_complexity)]
pub(crate) fn standard_skeleton<'py>(
    py: Python<'py>,
    target: &str,
) -> PyResult<(Vec<String>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray2<f64>>)> {
    let skeleton = standard_by_name(target)?;
    let n = skeleton.len();
    let parents = PyArray1::from_vec(py, skeleton.parents.iter().map(|&p| i64::from(p)).collect());
    let offsets = PyArray1::from_vec(py, skeleton.offsets.concat()).reshape([n, 3])?;
    Ok((skeleton.names, parents, offsets))
}

#[pyfunction]
pub(crate) fn expand<'py>(
    py: Python<'py>,
    target: &str,
    quats: &Bound<'py, PyAny>,
    root: &Bound<'py, PyAny>,
) -> PyResult<Frames<'py>> {
    let distributor = Distributor::compile(&standard_by_name(target)?).map_err(motion_error)?;
    let joints = distributor.joints();
    let clip = Clip::read(quats, root, Some(J))?;
    let out = py.detach(|| {
        let mut out = Collected::default();
        let mut local = vec![Quat::IDENTITY; joints];
        for (pose, root) in clip.frames() {
            let Some(pose) = pose.first_chunk() else {
                continue;
            };
            let place = distributor.apply(pose, root, &mut local);
            out.push(&local, place);
        }
        out
    });
    out.arrays(py, joints)
}
