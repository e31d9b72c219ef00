//! Bindings of `anticip-synth`.

use std::path::PathBuf;
use std::sync::Arc;

use anticip_synth::{Harmony, SCALES, Samples, Settings, SynthError, Voice};
use numpy::ndarray::{Array2, Ix1};
use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;

use crate::errors::{Kind, raise};
use crate::guarded::Guarded;
use crate::motion::convert::exact;

/// Maximum number of stereo samples per call (ten minutes at 192 kHz).
const MAX_SAMPLES: usize = 600 * 192_000;

fn synth_error(error: SynthError) -> PyErr {
    let kind = if matches!(error, SynthError::Block(_)) {
        Kind::Shape
    } else {
        Kind::Value
    };
    raise(kind, &error.to_string())
}

/// The sounds of a folder, for [`PyVoice`].
#[pyclass(name = "Samples", module = "pyanticip._core", frozen)]
pub(crate) struct PySamples(Arc<Samples>);

#[pymethods]
impl PySamples {
    #[new]
    #[pyo3(signature = (folder, sample_rate=48_000.0))]
    fn new(py: Python<'_>, folder: PathBuf, sample_rate: f64) -> PyResult<Self> {
        let result = py.detach(|| Samples::read(&folder, sample_rate));
        Ok(Self(Arc::new(result.map_err(synth_error)?)))
    }

    #[staticmethod]
    fn any(py: Python<'_>, folder: PathBuf) -> bool {
        py.detach(|| Samples::any(&folder))
    }

    #[getter]
    fn summary(&self) -> &str {
        self.0.summary()
    }
}

/// The built-in voice: sound parameters in, stereo samples out.
///
/// A thread that sets a parameter while another renders waits for the end of that block.
#[pyclass(name = "Voice", module = "pyanticip._core", frozen)]
pub(crate) struct PyVoice(Guarded<Voice>);

#[pymethods]
impl PyVoice {
    #[new]
    #[pyo3(signature = (sample_rate=48_000.0, *, seed=0, preset=None, tonic=38.0, scale=None, just=false, a4=440.0,
        chords=vec![], samples=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords, each with its default")]
    fn new(
        sample_rate: f64,
        seed: u64,
        preset: Option<String>,
        tonic: f32,
        scale: Option<Vec<f32>>,
        just: bool,
        a4: f32,
        chords: Vec<[f32; 3]>,
        samples: Option<&PySamples>,
    ) -> PyResult<Self> {
        let scale = scale.as_deref().unwrap_or(SCALES[0].1);
        let settings = Settings {
            seed,
            preset,
            harmony: Harmony::new(tonic, scale, just, a4, &chords).map_err(synth_error)?,
            samples: samples.map(|samples| samples.0.clone()),
        };
        let voice = Voice::with(sample_rate, &settings).map_err(synth_error)?;
        Ok(Self(Guarded::new(voice)))
    }

    fn preset(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.0.with(py, |voice| voice.preset(name)).map_err(synth_error)
    }

    fn set(&self, py: Python<'_>, index: usize, value: f32) -> PyResult<()> {
        self.0
            .with(py, |voice| voice.set(index, value))
            .map_err(synth_error)
    }

    fn params(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let values = exact::<f32, Ix1>(values, "8 parameters of float32")?;
        let values = values.as_array();
        if values.len() != 8 {
            let message = format!("params: expected 8 values, got {}", values.len());
            return Err(raise(Kind::Shape, &message));
        }
        let values = core::array::from_fn(|i| values[i]);
        self.0.with(py, |voice| voice.params(&values));
        Ok(())
    }

    #[pyo3(signature = (index, strength, seconds=0.0))]
    fn event(&self, py: Python<'_>, index: usize, strength: f32, seconds: f64) -> PyResult<()> {
        let result = self.0.with(py, |voice| voice.event(index, strength, seconds));
        result.map_err(synth_error)
    }

    fn gain(&self, py: Python<'_>, value: f32) {
        self.0.with(py, |voice| voice.gain(value));
    }

    fn fade(&self, py: Python<'_>, value: f32, seconds: f64) -> PyResult<()> {
        self.0
            .with(py, |voice| voice.fade(value, seconds))
            .map_err(synth_error)
    }

    fn tempo(&self, py: Python<'_>, bpm: f32, phase: f32) {
        self.0.with(py, |voice| voice.tempo(bpm, phase));
    }

    #[pyo3(signature = (index, speed, height, stroke=0.0))]
    fn limb(&self, py: Python<'_>, index: usize, speed: f32, height: f32, stroke: f32) -> PyResult<()> {
        let result = self.0.with(py, |voice| voice.limb(index, speed, height, stroke));
        result.map_err(synth_error)
    }

    fn render<'py>(&self, py: Python<'py>, samples: usize) -> PyResult<Bound<'py, PyArray2<f32>>> {
        if samples > MAX_SAMPLES {
            let message = format!("samples: expected at most {MAX_SAMPLES}, got {samples}");
            return Err(raise(Kind::Value, &message));
        }
        let rendered = self.0.detached(py, |voice| {
            let mut block = vec![0.0; 2 * samples];
            voice.render(&mut block).map(|()| block)
        });
        let array = Array2::from_shape_vec((samples, 2), rendered.map_err(synth_error)?)
            .map_err(|err| raise(Kind::Shape, &err.to_string()))?;
        Ok(array.into_pyarray(py))
    }

    #[getter]
    fn latency(&self, py: Python<'_>) -> usize {
        self.0.with(py, |voice| voice.latency())
    }

    #[getter]
    fn sample_rate(&self, py: Python<'_>) -> f64 {
        self.0.with(py, |voice| voice.sample_rate())
    }

    #[getter]
    fn has_samples(&self, py: Python<'_>) -> bool {
        self.0.with(py, |voice| voice.has_samples())
    }

    #[getter]
    fn position(&self, py: Python<'_>) -> u64 {
        self.0.with(py, |voice| voice.position())
    }

    #[getter]
    fn ignored(&self, py: Python<'_>) -> u64 {
        self.0.with(py, |voice| voice.ignored())
    }
}
