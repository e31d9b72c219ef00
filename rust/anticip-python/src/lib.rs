//! The extension module `pyanticip._core`: thin wrappers over the pure crates.

mod errors;
mod field;
mod geometry;
mod motion;
mod prism;
mod prism_gru;
mod prism_places;
mod synth;
mod trajectory;
mod wire;

use pyo3::prelude::*;

#[pymodule(name = "_core")]
mod core_module {
    use super::*;

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        m.add("__version__", env!("CARGO_PKG_VERSION"))?;
        geometry::register(m)?;
        wire::register(m)?;
        motion::register(m)?;
        synth::register(m)?;
        prism::register(m)?;
        prism_gru::register(m)?;
        prism_places::register(m)?;
        field::register(m)?;
        trajectory::register(m)
    }
}
