use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{error, rows, triple};
use crate::errors::{Kind, raise};
use anticip_wire::{
    Joint, MAX_JOINTS, PoseUpdate, SkeletonUpdate, Tracker, WireError, axis, mocopi, native, natnet, rokoko,
    vmc, vrchat, xsens,
};

const IDENTITY: [f32; 4] = [1.0, 0.0, 0.0, 0.0];

/// A skeleton from these lists; the encoders check that they fit.
fn skeleton(
    names: Vec<String>,
    parents: Vec<i32>,
    offsets: &Bound<'_, PyAny>,
    rest: Option<&Bound<'_, PyAny>>,
    rate: Option<f64>,
) -> PyResult<SkeletonUpdate> {
    let offsets = rows::<3>(offsets, "offsets")?;
    let rest = match rest {
        Some(rest) => rows::<4>(rest, "rest")?,
        None => vec![IDENTITY; parents.len()],
    };
    Ok(SkeletonUpdate {
        names,
        parents,
        offsets,
        rest,
        rate,
    })
}

/// A pose from these lists.
fn pose(
    quats: &Bound<'_, PyAny>,
    positions: &Bound<'_, PyAny>,
    ids: Option<Vec<u16>>,
) -> PyResult<PoseUpdate> {
    let quats = rows::<4>(quats, "quats")?;
    let positions = rows::<3>(positions, "positions")?;
    let ids = ids.unwrap_or_else(|| (0..quats.len().min(MAX_JOINTS + 1) as u16).collect());
    if positions.len() != quats.len() || ids.len() != quats.len() {
        let (q, p, i) = (quats.len(), positions.len(), ids.len());
        let message = format!(
            "expected as many positions and ids as quats, at most {MAX_JOINTS}: got {q} quats, {p} positions, {i} ids"
        );
        return Err(raise(Kind::Shape, &message));
    }
    let joints = ids.into_iter().zip(quats).zip(positions);
    let joints = joints.map(|((id, rotation), position)| Joint::new(id, rotation, position));
    Ok(PoseUpdate {
        joints: joints.collect(),
        ..PoseUpdate::default()
    })
}

/// The datagram that an encoder writes.
fn datagram(
    py: Python<'_>,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>,
) -> PyResult<Bound<'_, PyBytes>> {
    let mut out = Vec::new();
    encode(&mut out).map_err(error)?;
    Ok(PyBytes::new(py, &out))
}

#[pyfunction]
pub(crate) fn encode_mocopi_skeleton<'py>(
    py: Python<'py>,
    parents: Vec<i32>,
    offsets: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let skeleton = skeleton(Vec::new(), parents, offsets, None, None)?;
    datagram(py, |out| mocopi::encode_skeleton(&skeleton, out))
}

#[pyfunction]
#[pyo3(signature = (seq, quats, positions, *, stream_time = 0.0, unix_time = None))]
pub(crate) fn encode_mocopi_frame<'py>(
    py: Python<'py>,
    seq: u32,
    quats: &Bound<'py, PyAny>,
    positions: &Bound<'py, PyAny>,
    stream_time: f32,
    unix_time: Option<f64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let pose = PoseUpdate {
        seq: Some(seq),
        ..pose(quats, positions, None)?
    };
    let time = stream_time.to_bits();
    datagram(py, |out| mocopi::encode_frame(&pose, time, unix_time, out))
}

#[pyfunction]
#[pyo3(signature = (protocol, seq, time, quats, positions, *, ids = None, rate = 60.0))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub(crate) fn encode_frame<'py>(
    py: Python<'py>,
    protocol: &str,
    seq: u32,
    time: f64,
    quats: &Bound<'py, PyAny>,
    positions: &Bound<'py, PyAny>,
    ids: Option<Vec<u16>>,
    rate: f64,
) -> PyResult<Bound<'py, PyBytes>> {
    let pose = PoseUpdate {
        seq: Some(seq),
        time: Some(time),
        ..pose(quats, positions, ids)?
    };
    match protocol {
        "vmc" => datagram(py, |out| vmc::encode_frame(&pose, out)),
        "xsens" => datagram(py, |out| xsens::encode_frame(&pose, out)),
        "rokoko" => datagram(py, |out| rokoko::encode_frame(&pose, rate, out)),
        "axis" => datagram(py, |out| axis::encode_frame(&pose, out)),
        other => {
            let message = format!("protocol: expected vmc, xsens, rokoko or axis, got {other:?}");
            Err(raise(Kind::Value, &message))
        }
    }
}

#[pyfunction]
pub(crate) fn encode_natnet_skeleton<'py>(
    py: Python<'py>,
    names: Vec<String>,
    parents: Vec<i32>,
    offsets: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let skeleton = skeleton(names, parents, offsets, None, None)?;
    datagram(py, |out| natnet::encode_skeleton(&skeleton, out))
}

#[pyfunction]
pub(crate) fn encode_natnet_frame<'py>(
    py: Python<'py>,
    seq: u32,
    time: f64,
    quats: &Bound<'py, PyAny>,
    positions: &Bound<'py, PyAny>,
    parents: Vec<i32>,
) -> PyResult<Bound<'py, PyBytes>> {
    let pose = PoseUpdate {
        seq: Some(seq),
        time: Some(time),
        ..pose(quats, positions, None)?
    };
    datagram(py, |out| natnet::encode_frame(&pose, &parents, out))
}

#[pyfunction]
pub(crate) fn encode_vrchat_frame<'py>(
    py: Python<'py>,
    quats: &Bound<'py, PyAny>,
    positions: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let update = pose(quats, positions, None)?
        .joints
        .into_iter()
        .map(|joint| Tracker {
            name: String::new(),
            rotation: Some(joint.rotation),
            position: Some(joint.position),
        });
    datagram(py, |out| vrchat::encode_frame(&update.collect::<Vec<_>>(), out))
}

#[pyfunction]
#[pyo3(signature = (names, parents, offsets, rest = None, *, rate = None))]
pub(crate) fn encode_native_skeleton<'py>(
    py: Python<'py>,
    names: Vec<String>,
    parents: Vec<i32>,
    offsets: &Bound<'py, PyAny>,
    rest: Option<&Bound<'py, PyAny>>,
    rate: Option<f64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let skeleton = skeleton(names, parents, offsets, rest, rate)?;
    datagram(py, |out| native::encode_skeleton(&skeleton, out))
}

#[pyfunction]
#[pyo3(signature = (seq, time, quats, root = None))]
pub(crate) fn encode_native_frame<'py>(
    py: Python<'py>,
    seq: u32,
    time: f64,
    quats: &Bound<'py, PyAny>,
    root: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let quats = rows::<4>(quats, "quats")?;
    let root = root.map(|root| triple(root, "root")).transpose()?;
    datagram(py, |out| native::encode_frame(seq, time, &quats, root, out))
}
