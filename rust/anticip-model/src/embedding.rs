//! The motion model's front-end for a stream: a feature row in, the filtered embedding out.

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
/// First of the velocity columns among the kinematics, and the joints whose velocities are carried.
const VELOCITY: usize = KINEMATICS_COUNT - MEASURE_COUNT - (JOINT_COUNT - 1) * 4;
const ENDS: [usize; 5] = [9, 13, 17, 21, 5];

/// Where the joints are, measured on the body that the model was trained on, and what is made of it.
#[derive(Debug, Clone)]
struct Body {
    offsets: [[f64; 3]; JOINT_COUNT],
    smoothed: SmoothedMeasures,
    strokes: Strokes,
}

/// Normalise, add the kinematics, project, filter: the model's embedding of every frame of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Embedding {
    body: Option<Body>,
    mean: Vec<f32>,
    gain: Vec<f32>,
    front: Linear,
    filters: Vec<f32>,
    width: usize,
    seen: Vec<f32>,
    /// The frames that the filter spans, a ring of `taps` rows of `width`; the newest is still open.
    frames: Vec<f32>,
    newest: usize,
}

impl Embedding {
    /// Reads `mean`, `std`, `front.*`, `filters` and, where the model has kinematics, `kinematics.offsets`.
    ///
    /// `visible` has one entry for every column that the model reads, those of version 1 or all: whether the
    /// projection sees it.
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
                .map(|(std, &seen)| if seen { 1.0 / std } else { 0.0 })
                .collect(),
            front: Linear::new(tensors, "front", width - carried, inputs, Precision::Bytes)?,
            filters,
            width,
            seen: vec![0.0; inputs],
            frames: vec![0.0; taps * width],
            newest: 0,
        })
    }

    /// How many columns of a row it reads, the first ones.
    pub(crate) fn columns(&self) -> usize {
        self.mean.len()
    }

    /// How many numbers of the last frames the control head is told.
    pub(crate) fn recent_count(&self) -> usize {
        let taps = self.filters.len() / self.width;
        if self.body.is_some() {
            taps * MEASURE_COUNT + SMOOTHED_COUNT
        } else {
            0
        }
    }

    /// Begin a new stream.
    pub(crate) fn reset(&mut self) {
        self.frames.fill(0.0);
        if let Some(body) = &mut self.body {
            body.smoothed.reset();
            body.strokes.reset();
        }
    }

    /// What holds with this row as the newest: the filtered embedding, and what the control head is told, the measures
    /// (oldest first within each) and the smoothed ones, and how the strokes stand, where there is room for it. Until
    /// [`Self::advance`] the row can be replaced by another.
    pub(crate) fn look(
        &mut self,
        row: &[f32; FEATURE_COUNT],
        x: &mut [f32],
        recent: &mut [f32],
        strokes: &mut [f32],
    ) {
        let (features, extra) = self.seen.split_at_mut(self.mean.len());
        for (i, seen) in features.iter_mut().enumerate() {
            *seen = ((row[i] - self.mean[i]) * self.gain[i]).clamp(-CLIP, CLIP);
        }
        let mut carried = [0.0; CARRIED_COUNT];
        if let Some(body) = &self.body {
            let kinematics = body_kinematics(row, &body.offsets);
            extra
                .iter_mut()
                .zip(kinematics)
                .for_each(|(seen, v)| *seen = v.clamp(-CLIP, CLIP));
            let (velocities, measures) = carried.split_at_mut(CARRIED_COUNT - MEASURE_COUNT);
            for (i, v) in velocities.iter_mut().enumerate() {
                *v = extra[VELOCITY + 3 * (ENDS[i % ENDS.len()] - 1) + i / ENDS.len()];
            }
            measures.copy_from_slice(&extra[KINEMATICS_COUNT - MEASURE_COUNT..]);
        }
        let start = self.newest * self.width;
        let frame = &mut self.frames[start..start + self.width];
        let (projected, direct) = frame.split_at_mut(self.front.outputs());
        self.front.apply(&self.seen, projected);
        direct.copy_from_slice(&carried[..direct.len()]);
        self.filter(x);
        if let Some(body) = &mut self.body {
            let (measures, smoothed) = recent.split_at_mut(recent.len() - SMOOTHED_COUNT);
            smoothed.copy_from_slice(&body.smoothed.look(&carried));
            if !strokes.is_empty() {
                strokes.copy_from_slice(&body.strokes.look(&carried));
            }
            let taps = self.filters.len() / self.width;
            for (t, frame) in self.oldest_first().enumerate() {
                for (i, v) in frame[self.width - MEASURE_COUNT..].iter().enumerate() {
                    measures[i * taps + t] = *v;
                }
            }
        }
    }

    /// Up, and where the joints are, of the row that was last looked at, of a model with kinematics.
    pub(crate) fn places(&self) -> &[f32] {
        &self.seen[self.mean.len()..][..PLACE_COUNT]
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

    /// The row that was last looked at is part of the past.
    pub(crate) fn advance(&mut self) {
        self.newest = (self.newest + 1) % (self.frames.len() / self.width);
        if let Some(body) = &mut self.body {
            body.smoothed.advance();
            body.strokes.advance();
        }
    }

    /// Everything that the strokes' next numbers depend on.
    pub(crate) fn strokes(&self) -> Vec<f32> {
        self.body
            .as_ref()
            .map_or_else(Vec::new, |body| body.strokes.snapshot())
    }

    /// The embedded frames that the filter spans, before it, with the newest one at the end.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = &[f32]> {
        let (early, late) = self.frames.split_at((self.newest + 1) * self.width);
        late.chunks_exact(self.width)
            .chain(early.chunks_exact(self.width))
    }
}
