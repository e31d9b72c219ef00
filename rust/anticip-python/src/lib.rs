//! The extension module `pyanticip._core`: thin wrappers over the pure crates.

mod controls;
mod engine;
mod errors;
mod geometry;
mod kernels;
mod memory;
mod model;
mod motion;
mod shared;
mod step_result;
mod synth;
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
        m.add_class::<step_result::PyStepResult>()?;
        model::register(m)?;
        synth::register(m)?;
        kernels::register(m)?;
        memory::register(m)?;
        controls::register(m)?;
        engine::register(m)
    }
}
