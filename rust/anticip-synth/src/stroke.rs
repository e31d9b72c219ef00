//! A new stroke within a sustained sound, of a bow or a breath: an inaudibly short dip, then an accent.

use crate::control::{Line, Smoother, frame_seconds};

/// Duration of the dip, seconds.
const DIP_S: f32 = 0.004;
/// Level during the dip.
const DIP_LEVEL: f32 = 0.3;
/// Decay time of the accent, seconds.
const ACCENT_S: f32 = 0.12;

/// Level of a sustained sound: 1 between strokes.
pub(crate) struct Stroke {
    follower: Smoother,
    /// By how much the accent is louder.
    accent: f32,
    since_begin_s: f32,
    dt: f32,
}

impl Stroke {
    pub(crate) fn new(accent: f32, sample_rate: f64) -> Self {
        let mut stroke = Self {
            follower: Smoother::new(0.003, sample_rate),
            accent,
            since_begin_s: 0.0,
            dt: frame_seconds(sample_rate),
        };
        stroke.reset();
        stroke
    }

    pub(crate) fn reset(&mut self) {
        self.follower.jump(1.0);
        self.since_begin_s = 1.0;
    }

    /// Begins a stroke with the next frame.
    pub(crate) fn begin(&mut self) {
        self.since_begin_s = 0.0;
    }

    /// The level over a frame.
    pub(crate) fn frame(&mut self) -> Line {
        let goal = if self.since_begin_s < DIP_S {
            DIP_LEVEL
        } else {
            1.0 + self.accent * (1.0 - (self.since_begin_s - DIP_S) / ACCENT_S).max(0.0)
        };
        self.since_begin_s = (self.since_begin_s + self.dt).min(1.0);
        self.follower.step(goal)
    }
}
