//! The motion model's front-end: a feature row in, the filtered embedding out.

use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::features::{FEATURE_COUNT, FEATURE_COUNT_V1};
use anticip_motion::kinematics::{KINEMATICS_COUNT, MEASURE_COUNT, body_kinematics};
use pulp::Arch;

use crate::linear::{Linear, Precision};
use crate::poses::PLACE_COUNT;
use crate::smoothed::{CARRIED_COUNT, SMOOTHED_COUNT, SmoothedMeasures};
use crate::strokes::Strokes;
use crate::{ModelError, Tensors, tensor};

/// Normalised features are clipped to this many standard deviations.
const CLIP: f32 = 10.0;
/// First of the velocity columns among the kinematics.
const VELOCITY: usize = KINEMATICS_COUNT - MEASURE_COUNT - (JOINT_COUNT - 1) * 4;
/// Joints at the ends of the body: hands, toes, head.
const ENDS: [usize; 5] = [9, 13, 17, 21, 5];

/// The bones of the body that the model was trained on, and features computed from its kinematics.
#[derive(Debug, Clone)]
struct Body {
    offsets: [[f64; 3]; JOINT_COUNT],
    smoothed: SmoothedMeasures,
    strokes: Strokes,
}

/// Embeds every frame of a stream: normalisation, kinematics, projection, causal filter.
#[derive(Debug, Clone)]
pub(crate) struct Embedding {
    body: Option<Body>,
    mean: Vec<f32>,
    gain: Vec<f32>,
    front: Linear,
    filters: Vec<f32>,
    width: usize,
    inputs: Vec<f32>,
    /// The frames that the filter spans, a ring of `taps` rows of `width`; the newest can still be replaced.
    frames: Vec<f32>,
    newest: usize,
}

impl Embedding {
    /// Reads `mean`, `std`, `front.*`, `filters` and, for a model with kinematics, `kinematics.offsets`.
    ///
    /// `visible` says for each column that the model reads (those of version 1, or all) whether the projection sees
    /// it.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub(crate) fn new(
        tensors: &Tensors,
        visible: &[bool],
        width: usize,
        taps: usize,
        kinematics: bool,
    ) -> Result<Self, ModelError> {
        let filters = tensor(tensors, "filters", &[taps, width])?;
        let body = if kinematics {
            let offsets = tensor(tensors, "kinematics.offsets", &[JOINT_COUNT, 3])?;
            Some(Body {
                offsets: std::array::from_fn(|j| std::array::from_fn(|i| f64::from(offsets[3 * j + i]))),
                smoothed: SmoothedMeasures::new(taps),
                strokes: Strokes::default(),
            })
        } else {
            None
        };
        let carried = if kinematics { CARRIED_COUNT } else { 0 };
        let columns = visible.len();
        let inputs = columns + if kinematics { KINEMATICS_COUNT } else { 0 };
        if width <= carried || taps == 0 || ![FEATURE_COUNT_V1, FEATURE_COUNT].contains(&columns) {
            return Err(ModelError::Shape {
                what: "embedding".into(),
                expected: format!(
                    "over {carried} channels, frames to look at, {FEATURE_COUNT_V1} or {FEATURE_COUNT} columns"
                ),
                given: format!("{width}, {taps}, {columns}"),
            });
        }
        let std = tensor(tensors, "std", &[columns])?;
        let gain = std.iter().zip(visible);
        Ok(Self {
            body,
            mean: tensor(tensors, "mean", &[columns])?,
            gain: gain
                .map(|(std, &visible)| if visible { 1.0 / std } else { 0.0 })
                .collect(),
            front: Linear::new(tensors, "front", width - carried, inputs, Precision::Bytes)?,
            filters,
            width,
            inputs: vec![0.0; inputs],
            frames: vec![0.0; taps * width],
            newest: 0,
        })
    }

    /// Number of leading columns of a row that are read.
    pub(crate) fn columns(&self) -> usize {
        self.mean.len()
    }

    /// Number of features of the last frames for the control head.
    pub(crate) fn recent_count(&self) -> usize {
        let taps = self.filters.len() / self.width;
        if self.body.is_some() {
            taps * MEASURE_COUNT + SMOOTHED_COUNT
        } else {
            0
        }
    }

    /// Starts a new stream.
    pub(crate) fn reset(&mut self) {
        self.frames.fill(0.0);
        if let Some(body) = &mut self.body {
            body.smoothed.reset();
            body.strokes.reset();
        }
    }

    /// Computes, with this row as the newest, the filtered embedding `x`, the `recent` features for the control head
    /// (the measures, each oldest first, and the smoothed ones), and the `strokes`, unless that slice is empty. Until
    /// [`Self::advance`] the row can be replaced by another.
    pub(crate) fn run(
        &mut self,
        row: &[f32; FEATURE_COUNT],
        x: &mut [f32],
        recent: &mut [f32],
        strokes: &mut [f32],
    ) {
        let (features, extra) = self.inputs.split_at_mut(self.mean.len());
        for (i, feature) in features.iter_mut().enumerate() {
            *feature = ((row[i] - self.mean[i]) * self.gain[i]).clamp(-CLIP, CLIP);
        }
        let mut carried = [0.0; CARRIED_COUNT];
        if let Some(body) = &self.body {
            let kinematics = body_kinematics(row, &body.offsets);
            extra
                .iter_mut()
                .zip(kinematics)
                .for_each(|(slot, v)| *slot = v.clamp(-CLIP, CLIP));
            let (velocities, measures) = carried.split_at_mut(CARRIED_COUNT - MEASURE_COUNT);
            for (i, v) in velocities.iter_mut().enumerate() {
                *v = extra[VELOCITY + 3 * (ENDS[i % ENDS.len()] - 1) + i / ENDS.len()];
            }
            measures.copy_from_slice(&extra[KINEMATICS_COUNT - MEASURE_COUNT..]);
        }
        let start = self.newest * self.width;
        let frame = &mut self.frames[start..start + self.width];
        let (projected, direct) = frame.split_at_mut(self.front.outputs());
        self.front.apply(&self.inputs, projected);
        direct.copy_from_slice(&carried[..direct.len()]);
        self.filter(x);
        if let Some(body) = &mut self.body {
            let (measures, smoothed) = recent.split_at_mut(recent.len() - SMOOTHED_COUNT);
            smoothed.copy_from_slice(&body.smoothed.run(&carried));
            if !strokes.is_empty() {
                strokes.copy_from_slice(&body.strokes.run(&carried));
            }
            let taps = self.filters.len() / self.width;
            for (t, frame) in self.oldest_first().enumerate() {
                for (i, v) in frame[self.width - MEASURE_COUNT..].iter().enumerate() {
                    measures[i * taps + t] = *v;
                }
            }
        }
    }

    /// Up and the joints' positions of the newest row, for a model with kinematics.
    pub(crate) fn places(&self) -> &[f32] {
        &self.inputs[self.mean.len()..][..PLACE_COUNT]
    }

    fn filter(&self, x: &mut [f32]) {
        x.fill(0.0);
        Arch::new().dispatch(|| {
            for (frame, filter) in self.oldest_first().zip(self.filters.chunks_exact(self.width)) {
                for ((x, v), w) in x.iter_mut().zip(frame).zip(filter) {
                    *x += v * w;
                }
            }
        });
    }

    /// Commits the newest row to the past.
    pub(crate) fn advance(&mut self) {
        self.newest = (self.newest + 1) % (self.frames.len() / self.width);
        if let Some(body) = &mut self.body {
            body.smoothed.advance();
            body.strokes.advance();
        }
    }

    /// The strokes' state; empty for a model without kinematics.
    pub(crate) fn strokes(&self) -> Vec<f32> {
        self.body
            .as_ref()
            .map_or_else(Vec::new, |body| body.strokes.snapshot())
    }

    /// The embedded frames that the filter spans, before filtering, newest last.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = &[f32]> {
        let (early, late) = self.frames.split_at((self.newest + 1) * self.width);
        late.chunks_exact(self.width)
            .chain(early.chunks_exact(self.width))
    }
}
