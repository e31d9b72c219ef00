use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{error, table};
use crate::errors::{Kind, raise};
use crate::guarded::Guarded;
use anticip_wire::{PROTOCOLS, PoseUpdate, SkeletonUpdate, TrackerUpdate, Update};

fn pose<'py>(py: Python<'py>, pose: &PoseUpdate) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("kind", "frame")?;
    dict.set_item("seq", pose.seq)?;
    dict.set_item("time", pose.time)?;
    dict.set_item("root", pose.root.map(|root| PyArray1::from_slice(py, &root)))?;
    let joints = &pose.joints;
    dict.set_item(
        "ids",
        PyArray1::from_vec(py, joints.iter().map(|joint| i64::from(joint.id)).collect()),
    )?;
    dict.set_item("quats", table(py, joints.iter().map(|joint| joint.rotation))?)?;
    dict.set_item("positions", table(py, joints.iter().map(|joint| joint.position))?)?;
    dict.set_item(
        "fresh",
        PyArray1::from_vec(py, joints.iter().map(|joint| joint.fresh).collect()),
    )?;
    dict.set_item("unusable", pose.unusable)?;
    Ok(dict)
}

fn skeleton<'py>(py: Python<'py>, skeleton: &SkeletonUpdate) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("kind", "skeleton")?;
    dict.set_item("names", &skeleton.names)?;
    dict.set_item("parents", &skeleton.parents)?;
    dict.set_item("offsets", table(py, skeleton.offsets.iter().copied())?)?;
    dict.set_item("rest", table(py, skeleton.rest.iter().copied())?)?;
    dict.set_item("rate", skeleton.rate)?;
    Ok(dict)
}

fn trackers<'py>(py: Python<'py>, update: &TrackerUpdate) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("kind", "trackers")?;
    dict.set_item("seq", update.seq)?;
    dict.set_item("time", update.time)?;
    let all = || update.trackers.iter();
    dict.set_item("names", all().map(|t| t.name.as_str()).collect::<Vec<_>>())?;
    let quats = all().map(|t| t.rotation.unwrap_or([f32::NAN; 4]));
    dict.set_item("quats", table(py, quats)?)?;
    let positions = all().map(|t| t.position.unwrap_or([f32::NAN; 3]));
    dict.set_item("positions", table(py, positions)?)?;
    Ok(dict)
}

#[pyfunction]
#[pyo3(signature = (datagram, /))]
pub(crate) fn recognise(datagram: &[u8]) -> Option<&'static str> {
    anticip_wire::recognise(datagram)
}

/// Decodes one sender's datagrams of any protocol.
#[pyclass(name = "Decoder", module = "pyanticip._core", frozen)]
pub(crate) struct Decoder(Guarded<Box<dyn anticip_wire::Source>>);

/// An update, stored until it is converted to a dictionary.
enum DecodedUpdate {
    Skeleton(SkeletonUpdate),
    Frame(PoseUpdate),
    Trackers(TrackerUpdate),
}

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (protocol, /))]
    fn new(protocol: &str) -> PyResult<Self> {
        let found = PROTOCOLS.iter().find(|known| known.name == protocol);
        let known = found.ok_or_else(|| {
            let names = PROTOCOLS.map(|known| known.name).join(", ");
            let message = format!("protocol: expected one of {names}, got {protocol:?}");
            raise(Kind::Value, &message)
        })?;
        Ok(Self(Guarded::new((known.open)())))
    }

    #[pyo3(signature = (datagram, /))]
    fn feed<'py>(&self, py: Python<'py>, datagram: &[u8]) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let decoded = self.0.with(py, |source| {
            let mut completed = Vec::new();
            let result = source.decode(datagram, &mut |update| {
                completed.push(match update {
                    Update::Skeleton(update) => DecodedUpdate::Skeleton(update.clone()),
                    Update::Frame(update) => DecodedUpdate::Frame(update.clone()),
                    Update::Trackers(update) => DecodedUpdate::Trackers(update.clone()),
                    Update::Late(_) => return,
                });
            });
            match result {
                Err(error) if completed.is_empty() => Err(error),
                _ => Ok(completed),
            }
        });
        let as_dict = |update: &DecodedUpdate| match update {
            DecodedUpdate::Skeleton(update) => skeleton(py, update),
            DecodedUpdate::Frame(update) => pose(py, update),
            DecodedUpdate::Trackers(update) => trackers(py, update),
        };
        decoded.map_err(error)?.iter().map(as_dict).collect()
    }
}
